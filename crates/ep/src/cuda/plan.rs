//! Work that is planned: its launches are noted, to be made later, and often.
//!
//! # Rules
//! 1. While a stream plans, work launches nothing. Its kernels and matrix products are noted.
//! 2. All else that work can ask of a stream is refused, so a plan has all that its work does. Work
//!    returns the error of a refusal.
//! 3. The kernels of a plan are those of its device: other devices launch them by their work.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use anyhow::ensure;

use crate::cuda::blas::Gemm;
use crate::cuda::device::DeviceState;
use crate::cuda::native_stream::{Kernel, NativeStream};

/// A launch of a kernel that takes one argument block: all that is chosen before it.
#[derive(Clone, Debug)]
pub struct KernelLaunch {
    /// The kernel.
    pub kernel: Kernel,
    /// The number of blocks.
    pub grid: [u32; 3],
    /// The number of threads of a block.
    pub block: [u32; 3],
    /// The bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// The argument block.
    pub arguments: Vec<u64>,
}

/// A launch that was noted instead of made.
#[derive(Clone, Debug)]
pub enum PlannedLaunch {
    /// That of a kernel.
    Kernel(KernelLaunch),
    /// That of matrix products.
    Gemm(Gemm),
    /// None: the launches need memory at this address that kernels of the device can access.
    Access(*mut u8),
}

// SAFETY: descriptions with addresses. Only a launch accesses the memory behind them, as its caller
// guarantees.
unsafe impl Send for PlannedLaunch {}
// SAFETY: as above.
unsafe impl Sync for PlannedLaunch {}

/// The launches of work on a device.
pub struct WorkPlan {
    device: Arc<DeviceState>,
    /// In their order.
    pub launches: Vec<PlannedLaunch>,
}

impl NativeStream {
    /// Calls `work`, and returns the launches that it would make on a stream of this device.
    /// Nothing runs, so `work` may name memory that does not exist.
    ///
    /// # Errors
    /// `work` fails, or asks for more than launches: for scratch memory, flags for errors, copies,
    /// or functions of the host.
    pub fn plan(&self, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<WorkPlan> {
        /// Ends the planning, also where the work panics.
        struct Planning<'a>(&'a NativeStream);
        impl Drop for Planning<'_> {
            fn drop(&mut self) {
                self.0.is_planning.store(false, Ordering::Relaxed);
            }
        }
        self.take_planned();
        // Relaxed: work is planned on the thread that uses the stream.
        self.is_planning.store(true, Ordering::Relaxed);
        let planning = Planning(self);
        work()?;
        drop(planning);
        Ok(WorkPlan { device: self.device_state().clone(), launches: self.take_planned() })
    }

    /// Returns whether the stream belongs to the device of a plan.
    pub fn has_device_of(&self, plan: &WorkPlan) -> bool {
        Arc::ptr_eq(self.device_state(), &plan.device)
    }

    fn take_planned(&self) -> Vec<PlannedLaunch> {
        std::mem::take(&mut *self.planned.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the stream plans its work instead of running it.
    pub(super) fn is_planning(&self) -> bool {
        // Relaxed: as in `plan`.
        !self.only_compiles() && self.is_planning.load(Ordering::Relaxed)
    }

    /// Notes a launch of planned work.
    pub(super) fn note_planned(&self, launch: PlannedLaunch) {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner).push(launch);
    }

    /// Refuses an action of planned work.
    pub(super) fn refuse_in_plan(&self, action: &str) -> anyhow::Result<()> {
        ensure!(!self.is_planning(), "a planned call cannot {action}");
        Ok(())
    }
}
