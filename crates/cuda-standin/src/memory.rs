//! Allocations: device memory under addresses that no host has, and pinned host memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first address of device memory. A host that follows it faults at once: processors of today
/// have at most 57 bits of addresses.
const FIRST: u64 = 1 << 60;

/// How allocations are aligned, as a real driver's usually are.
const ALIGN: u64 = 512;

/// Between two allocations lies memory that nobody has.
const GAP: u64 = 1 << 16;

/// What a piece of memory is to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A device's.
    Device(u32),
    /// The host's, known to the driver.
    Pinned,
}

/// One allocation.
pub(crate) struct Block {
    pub(crate) kind: Kind,
    /// As it is called in the list of calls.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// The pool that it came from.
    pub(crate) pool: Option<u64>,
    /// Whether the stream has got to its allocation.
    pub(crate) is_there: bool,
    host: Arc<HostBlock>,
}

impl Block {
    /// Returns how many commands use the block and have not completed.
    pub(crate) fn users(&self) -> usize {
        Arc::strong_count(&self.host) - 1
    }
}

/// The bytes of an allocation, on the host.
struct HostBlock(*mut u8, Layout);

// SAFETY: the block is owned by this value alone, which frees it once and never looks into it.
unsafe impl Send for HostBlock {}
// SAFETY: as above; a shared reference gives the address alone.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    fn new(bytes: u64) -> Option<HostBlock> {
        let size = usize::try_from(bytes).ok()?.max(1);
        let layout = Layout::from_size_align(size, ALIGN as usize).ok()?;
        // SAFETY: the size is not zero.
        let block = unsafe { alloc_zeroed(layout) };
        // Not `then_some`: that would make the value, and free what was never given.
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
pub(crate) struct Memory {
    /// By first address, as the driver's caller knows it.
    blocks: BTreeMap<u64, Block>,
    next: u64,
    made: [u64; 2],
}

/// A range of bytes that a command uses. The bytes stay allocated until the range is dropped, even
/// if [`Memory`] is dropped before.
pub(crate) struct Range {
    /// The address of the first byte on the host.
    pub(crate) host: usize,
    /// The allocation; none for a range without bytes.
    _allocation: Option<Arc<HostBlock>>,
}

impl Range {
    /// A range at `host` whose bytes belong to no allocation of the driver's.
    pub(crate) const fn unowned(host: usize) -> Range {
        Range { host, _allocation: None }
    }
}

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory { blocks: BTreeMap::new(), next: FIRST, made: [0; 2] }
    }

    /// Allocates; none if there is no memory.
    pub(crate) fn allocate(&mut self, kind: Kind, bytes: u64, limit: u64) -> Option<u64> {
        let room = limit.checked_sub(self.in_use(kind))?;
        let host = HostBlock::new(bytes).filter(|_| bytes <= room)?;
        let (base, count, letter) = match kind {
            Kind::Device(_) => {
                let base = self.next;
                self.next = (base + bytes + GAP).next_multiple_of(ALIGN);
                (base, &mut self.made[0], 'm')
            }
            Kind::Pinned => (host.0 as u64, &mut self.made[1], 'h'),
        };
        let (name, host) = (format!("{letter}{count}"), Arc::new(host));
        *count += 1;
        self.blocks.insert(base, Block { kind, name, bytes, pool: None, is_there: true, host });
        Some(base)
    }

    /// Counts names from zero again.
    pub(crate) fn rename(&mut self) {
        self.made = [0; 2];
    }

    pub(crate) fn in_use(&self, kind: Kind) -> u64 {
        self.blocks.values().filter(|b| b.kind == kind).map(|b| b.bytes).sum()
    }

    /// How many came from a pool.
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
        self.blocks.remove(&base)
    }

    /// The allocation that an address lies in, with its first address.
    pub(crate) fn around(&self, address: u64) -> Option<(u64, &Block)> {
        let (&base, block) = self.blocks.range(..=address).next_back()?;
        (address - base < block.bytes.max(1)).then_some((base, block))
    }

    /// Whether an address is of the kind that devices have.
    pub(crate) fn is_device_address(address: u64) -> bool {
        address >= FIRST
    }

    /// A range that lies within one allocation.
    ///
    /// # Errors
    /// It does not, and how.
    pub(crate) fn range(&self, address: u64, bytes: u64) -> Result<Range, String> {
        let Some((base, block)) = self.around(address) else {
            return Err(format!("{address:#x} lies in no allocation"));
        };
        if !block.is_there {
            return Err(format!(
                "{} is used before its stream has got to its allocation",
                block.name
            ));
        }
        let within = address - base;
        if within.checked_add(bytes).is_none_or(|end| end > block.bytes) {
            let (name, all) = (&block.name, block.bytes);
            return Err(format!("{bytes} bytes from {name}+{within} on pass its end at {all}"));
        }
        let host = block.host.0 as usize + within as usize;
        Ok(Range { host, _allocation: Some(block.host.clone()) })
    }

    /// How an address is written in the list of calls.
    pub(crate) fn name(&self, address: u64) -> String {
        match self.around(address) {
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
        let mut memory = Memory::new();
        let a = memory.allocate(Kind::Device(0), 100, 1 << 20).unwrap();
        let b = memory.allocate(Kind::Device(0), 0, 1 << 20).unwrap();
        assert!(b > a + 100 && a.is_multiple_of(ALIGN) && b.is_multiple_of(ALIGN));
        assert!(memory.range(a, 100).is_ok() && memory.range(a + 99, 1).is_ok());
        assert!(memory.range(a, 101).is_err() && memory.range(a + 100, 1).is_err());
        assert!(memory.range(a - 1, 1).is_err());
        assert_eq!(memory.name(a + 7), "m0+7");
        assert!(memory.free(a).is_some() && memory.range(a, 1).is_err());
    }

    #[test]
    fn the_limit_holds_for_each_kind() {
        let mut memory = Memory::new();
        assert!(memory.allocate(Kind::Device(0), 60, 100).is_some());
        assert!(memory.allocate(Kind::Device(0), 41, 100).is_none());
        assert!(memory.allocate(Kind::Device(1), 41, 100).is_some());
        assert!(memory.allocate(Kind::Pinned, 100, 100).is_some());
    }
}
