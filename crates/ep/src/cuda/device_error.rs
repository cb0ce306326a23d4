//! Errors that a kernel reports from the device: it sets a flag that the host reads after the
//! kernel has completed.
//!
//! # Rules
//! 1. A flag is zero when it is assigned to a launch. It becomes free again after the host has read
//!    it, which is after all work launched with it has completed. So no two launches share a flag.
//! 2. The flags are words of pinned memory, which devices access under the host's own address. A
//!    kernel stores only one value, so concurrent stores of its threads do not conflict.
//! 3. A stream keeps its flags until it, and the graphs with its work, are dropped. A launch that
//!    does not fail costs the host one read.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::cuda::driver::{Context, DriverResult, PinnedBlock};

/// The number of flags in a block of pinned memory.
const FLAGS_PER_BLOCK: usize = 512;

/// A flag, and the error that it reports if it is set.
pub(super) struct DeviceError {
    flag: Flag,
    error: anyhow::Error,
}

/// The address of a flag, in a block of `DeviceErrors`.
struct Flag(NonNull<u64>);

// SAFETY: one `DeviceError` at a time uses the address. The flag's block lives as long as the
// stream's `DeviceErrors`, which are leaked if the stream is dropped with pending work.
unsafe impl Send for Flag {}

/// The flags of a stream.
#[derive(Default)]
pub(super) struct DeviceErrors {
    blocks: Vec<PinnedBlock>,
    free: Vec<Flag>,
    /// The errors of the work that is being launched.
    launching: Vec<DeviceError>,
}

impl DeviceErrors {
    /// Assigns a flag to the work that is being launched: set, it reports `error`.
    ///
    /// # Errors
    /// The driver has no pinned memory.
    pub(super) fn add(
        &mut self,
        context: &Arc<Context>,
        error: anyhow::Error,
    ) -> DriverResult<NonNull<u64>> {
        let flag = match self.free.pop() {
            Some(flag) => flag,
            None => self.grow(context)?,
        };
        let address = flag.0;
        self.launching.push(DeviceError { flag, error });
        Ok(address)
    }

    /// Adds a block. Returns its first flag; the others are free.
    fn grow(&mut self, context: &Arc<Context>) -> DriverResult<Flag> {
        let block = PinnedBlock::new(context.clone(), FLAGS_PER_BLOCK * size_of::<u64>())?;
        let first = block.base().cast::<u64>();
        // SAFETY: the block holds FLAGS_PER_BLOCK words, the driver aligns it to more than a word,
        // and no other code has its address yet.
        unsafe { first.write_bytes(0, FLAGS_PER_BLOCK) };
        // SAFETY: as above.
        self.free.extend((1..FLAGS_PER_BLOCK).map(|k| Flag(unsafe { first.add(k) })));
        self.blocks.push(block);
        Ok(Flag(first))
    }

    /// Makes at least `count` flags free, on a stream whose work has needed flags before.
    ///
    /// # Errors
    /// The driver has no pinned memory.
    pub(super) fn reserve(&mut self, context: &Arc<Context>, count: usize) -> DriverResult<()> {
        while !self.blocks.is_empty() && self.free.len() < count {
            let first = self.grow(context)?;
            self.free.push(first);
        }
        Ok(())
    }

    /// Returns whether no flag is free.
    pub(super) fn is_used_up(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns the message of an error whose flag is set, and resets the flag. All work launched
    /// with it must have completed. The flag stays assigned.
    pub(super) fn take_set(&mut self, error: &DeviceError) -> Option<String> {
        Self::take_flag(&error.flag).then(|| format!("{:#}", error.error))
    }

    /// Returns whether a flag is set, and resets it. All work launched with it must have completed.
    fn take_flag(flag: &Flag) -> bool {
        // SAFETY: the flag is in a block of the value that has assigned it. All work launched with
        // it has completed, so no device writes it any more. The read is volatile because a device
        // has written.
        let is_set = unsafe { flag.0.read_volatile() } != 0;
        if is_set {
            // SAFETY: as above.
            unsafe { flag.0.write_volatile(0) };
        }
        is_set
    }

    /// Takes back the flag of an error. All work launched with it must have completed.
    pub(super) fn release(&mut self, error: DeviceError) {
        self.take_set(&error);
        self.free.push(error.flag);
    }

    /// Takes the errors of the work that was launched since the last call.
    pub(super) fn take_launched(&mut self) -> Vec<DeviceError> {
        std::mem::take(&mut self.launching)
    }

    /// Returns the first error whose flag is set. All work launched with `errors` must have
    /// completed. The flags become free again.
    pub(super) fn check(&mut self, errors: Vec<DeviceError>) -> anyhow::Result<()> {
        let mut result = Ok(());
        for DeviceError { flag, error } in errors {
            if Self::take_flag(&flag) {
                result = result.and(Err(error));
            }
            self.free.push(flag);
        }
        result
    }
}
