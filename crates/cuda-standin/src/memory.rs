//! Allocations: device memory under addresses that no host has, and pinned host memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// The first address of device memory. A host that dereferences it faults at once: today's
/// processors have at most 57 address bits.
const FIRST: u64 = 1 << 60;

/// The alignment of allocations, as usual for a real driver.
const ALIGN: u64 = 512;

/// The unallocated bytes between two allocations.
const GAP: u64 = 1 << 16;

/// The kind of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemoryKind {
    /// Memory of a device.
    Device(u32),
    /// Pinned memory of the host.
    Pinned,
}

/// One allocation.
pub(crate) struct Block {
    pub(crate) kind: MemoryKind,
    /// The name in the list of calls.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// The memory pool. None for a plain allocation.
    pub(crate) pool: Option<u64>,
    /// Whether the stream has reached the allocation.
    pub(crate) is_available: bool,
    host: Arc<HostBlock>,
}

impl Block {
    /// Returns the number of uncompleted commands that use the block.
    pub(crate) fn users(&self) -> usize {
        Arc::strong_count(&self.host) - 1
    }
}

/// The bytes of an allocation, on the host.
struct HostBlock(*mut u8, Layout);

// SAFETY: this value alone owns the block, frees it once, and never accesses its bytes.
unsafe impl Send for HostBlock {}
// SAFETY: as above; a shared reference exposes only the address.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    fn new(bytes: u64) -> Option<HostBlock> {
        let size = usize::try_from(bytes).ok()?.max(1);
        let layout = Layout::from_size_align(size, ALIGN as usize).ok()?;
        // SAFETY: the size is not zero.
        let block = unsafe { alloc_zeroed(layout) };
        // Not `then_some`: it would construct the value, whose drop would free a null block.
        (!block.is_null()).then(|| HostBlock(block, layout))
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        // SAFETY: the block came from the same allocator with the same layout, and is freed once.
        unsafe { dealloc(self.0, self.1) };
    }
}

/// All allocations.
#[derive(Default)]
pub(crate) struct Memory {
    /// By the first address that the caller of the driver sees.
    blocks: BTreeMap<u64, Block>,
    /// The sum of their bytes, by kind.
    in_use: BTreeMap<MemoryKind, u64>,
    /// The next address of device memory, counted from [`FIRST`].
    next: u64,
    /// The number of names given to device memory and to pinned memory.
    named: [u64; 2],
}

/// A range of bytes that a command uses. The bytes stay allocated until the range is dropped, even
/// if [`Memory`] is dropped before.
pub(crate) struct Range {
    /// The address of the first byte on the host.
    pub(crate) host: usize,
    /// The allocation. None for a range without bytes.
    allocation: Option<Arc<HostBlock>>,
}

/// A range of bytes that does not keep them allocated.
#[derive(Clone)]
pub(crate) struct WeakRange {
    host: usize,
    allocation: Option<Weak<HostBlock>>,
}

impl WeakRange {
    /// Returns the range; none if its bytes were freed.
    pub(crate) fn upgrade(&self) -> Option<Range> {
        let WeakRange { host, allocation } = self;
        let allocation = match allocation {
            Some(allocation) => Some(allocation.upgrade()?),
            None => None,
        };
        Some(Range { host: *host, allocation })
    }
}

impl Range {
    /// Returns the same range without a hold on its bytes.
    pub(crate) fn downgrade(&self) -> WeakRange {
        WeakRange { host: self.host, allocation: self.allocation.as_ref().map(Arc::downgrade) }
    }

    /// Creates a range at `host` whose bytes belong to no allocation of the driver.
    pub(crate) const fn unowned(host: usize) -> Range {
        Range { host, allocation: None }
    }
}

impl Memory {
    /// Allocates a block and returns its first address. None if the limit would be exceeded, or the
    /// host is out of memory.
    pub(crate) fn allocate(&mut self, kind: MemoryKind, bytes: u64, limit: u64) -> Option<u64> {
        let room = limit.checked_sub(self.in_use(kind))?;
        let host = HostBlock::new(bytes).filter(|_| bytes <= room)?;
        let (base, count, letter) = match kind {
            MemoryKind::Device(_) => {
                let at = self.next;
                self.next = (at + bytes + GAP).next_multiple_of(ALIGN);
                (FIRST + at, &mut self.named[0], 'm')
            }
            MemoryKind::Pinned => (host.0 as u64, &mut self.named[1], 'h'),
        };
        let (name, host) = (format!("{letter}{count}"), Arc::new(host));
        *count += 1;
        *self.in_use.entry(kind).or_default() += bytes;
        self.blocks.insert(base, Block { kind, name, bytes, pool: None, is_available: true, host });
        Some(base)
    }

    /// Restarts names at zero.
    pub(crate) fn reset_names(&mut self) {
        self.named = [0; 2];
    }

    pub(crate) fn in_use(&self, kind: MemoryKind) -> u64 {
        self.in_use.get(&kind).copied().unwrap_or(0)
    }

    /// Returns the number of allocations from a memory pool.
    pub(crate) fn of_pool(&self, pool: u64) -> usize {
        self.blocks.values().filter(|b| b.pool == Some(pool)).count()
    }

    pub(crate) fn get(&self, base: u64) -> Option<&Block> {
        self.blocks.get(&base)
    }

    pub(crate) fn get_mut(&mut self, base: u64) -> Option<&mut Block> {
        self.blocks.get_mut(&base)
    }

    pub(crate) fn free(&mut self, base: u64) -> Option<Block> {
        let block = self.blocks.remove(&base)?;
        *self.in_use.entry(block.kind).or_default() -= block.bytes;
        Some(block)
    }

    /// Returns the allocation of an address, with its first address.
    pub(crate) fn find(&self, address: u64) -> Option<(u64, &Block)> {
        let (&base, block) = self.blocks.range(..=address).next_back()?;
        (address - base < block.bytes.max(1)).then_some((base, block))
    }

    /// Returns whether an address has the form of a device address.
    pub(crate) fn is_device_address(address: u64) -> bool {
        address >= FIRST
    }

    /// Returns the range of `bytes` bytes from `address` on.
    ///
    /// # Errors
    /// The range is not within one available allocation. The error says how.
    pub(crate) fn range(&self, address: u64, bytes: u64) -> Result<Range, String> {
        let Some((base, block)) = self.find(address) else {
            return Err(format!("{address:#x} is in no allocation"));
        };
        if !block.is_available {
            let name = &block.name;
            return Err(format!("{name} is used before its stream has reached its allocation"));
        }
        let offset = address - base;
        if offset.checked_add(bytes).is_none_or(|end| end > block.bytes) {
            let (name, all) = (&block.name, block.bytes);
            return Err(format!("{bytes} bytes from {name}+{offset} on exceed its {all} bytes"));
        }
        let host = block.host.0 as usize + offset as usize;
        Ok(Range { host, allocation: Some(block.host.clone()) })
    }

    /// Returns the name of an address in the list of calls.
    pub(crate) fn name(&self, address: u64) -> String {
        match self.find(address) {
            Some((base, block)) if address == base => block.name.clone(),
            Some((base, block)) => format!("{}+{}", block.name, address - base),
            None if address == 0 => "0".to_owned(),
            None => "?".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_with_their_allocation() {
        let mut memory = Memory::default();
        let a = memory.allocate(MemoryKind::Device(0), 100, 1 << 20).unwrap();
        let b = memory.allocate(MemoryKind::Device(0), 0, 1 << 20).unwrap();
        assert!(b > a + 100 && a.is_multiple_of(ALIGN) && b.is_multiple_of(ALIGN));
        assert!(memory.range(a, 100).is_ok() && memory.range(a + 99, 1).is_ok());
        assert!(memory.range(a, 101).is_err() && memory.range(a + 100, 1).is_err());
        assert!(memory.range(a - 1, 1).is_err());
        assert_eq!(memory.name(a + 7), "m0+7");
        assert!(memory.free(a).is_some() && memory.range(a, 1).is_err());
    }

    #[test]
    fn the_limit_holds_for_each_kind() {
        let mut memory = Memory::default();
        assert!(memory.allocate(MemoryKind::Device(0), 60, 100).is_some());
        assert!(memory.allocate(MemoryKind::Device(0), 41, 100).is_none());
        assert!(memory.allocate(MemoryKind::Device(1), 41, 100).is_some());
        assert!(memory.allocate(MemoryKind::Pinned, 100, 100).is_some());
    }
}
