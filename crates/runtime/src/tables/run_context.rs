//! The surroundings of a function that runs.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;

use anyhow::anyhow;

use millstream_kernels::DeferredCompletion;
use millstream_types::DeviceId;

use crate::sync::thread_local;
use crate::tables::functions::OnComplete;

thread_local! {
    /// The scratch memory of this thread, while no function has it.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The device of the host, for functions whose stream has no other.
static HOST: DeviceId = DeviceId::cpu(0);

/// The device and the native stream of a call.
#[derive(Clone, Copy)]
pub struct CallSite<'a> {
    pub(crate) device: &'a DeviceId,
    pub(crate) native: &'a dyn Any,
}

impl CallSite<'_> {
    /// A call on the host.
    pub const HOST: CallSite<'static> = CallSite { device: &HOST, native: &() };
}

/// The surroundings of a function that runs: the device and the native stream of its call, and
/// scratch memory of its worker. MXNet's `RunContext`. `DependencyEngine::push_with` and
/// `DependencyEngine::operator_with` give it to their functions.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let engine = machine.dependency_engine()?;
/// # let a = engine.var()?;
/// let step = |context: &mut RunContext<'_>| {
///     let scratch = context.scratch(1 << 10)?;
///     scratch.fill(1);
///     anyhow::Ok(())
/// };
/// engine.push_with(step).writes(&[&a]).spawn()?;
/// engine.wait_for(&a)?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub struct RunContext<'a> {
    site: CallSite<'a>,
    completion: Option<&'a dyn DeferredCompletion>,
    /// The thread's scratch memory, once the function has used it.
    scratch: Option<Vec<u8>>,
    /// It stays on its thread, whose scratch memory it has.
    stays: PhantomData<Cell<()>>,
}

impl<'a> RunContext<'a> {
    pub(crate) const fn new(
        site: CallSite<'a>,
        completion: Option<&'a dyn DeferredCompletion>,
    ) -> RunContext<'a> {
        RunContext { site, completion, scratch: None, stays: PhantomData }
    }

    /// Returns the device of the stream that the function was pushed to: of a copy the one that its
    /// [`Prop`](crate::Prop) names, the host for most others.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DeviceId;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// engine.push_with(|context| assert_eq!(*context.device(), DeviceId::cpu(0))).spawn()?;
    /// engine.wait_all()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub const fn device(&self) -> &DeviceId {
        self.site.device
    }

    /// Returns the native stream of the call, if it is a `T`: on a CUDA device
    /// `millstream_ep::cuda::NativeStream`. The call completes once the work that the function has
    /// launched there has completed.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// // The host has no native streams.
    /// engine.push_with(|context| assert!(context.native::<u64>().is_none())).spawn()?;
    /// engine.wait_all()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn native<T: Any>(&self) -> Option<&'a T> {
        self.site.native.downcast_ref()
    }

    /// Returns scratch memory of the worker, of this many bytes. Its content is unspecified:
    /// another function has left it. The worker keeps the memory for later functions, so a function
    /// that runs often allocates nothing.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// let step = |context: &mut RunContext<'_>| {
    ///     assert_eq!(context.scratch(100)?.len(), 100);
    ///     anyhow::Ok(())
    /// };
    /// engine.push_with(step).spawn()?;
    /// engine.wait_all()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn scratch(&mut self, bytes: usize) -> anyhow::Result<&mut [u8]> {
        let take = || SCRATCH.with(|scratch| std::mem::take(&mut *scratch.borrow_mut()));
        let scratch = self.scratch.get_or_insert_with(take);
        if scratch.len() < bytes {
            scratch.try_reserve_exact(bytes - scratch.len())?;
            scratch.resize(bytes, 0);
        }
        Ok(&mut scratch[..bytes])
    }

    /// Makes the push complete later: when the returned value is completed, from any thread,
    /// instead of with the function.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let start = |context: &mut RunContext<'_>| {
    ///     let done = context.complete_later()?;
    ///     std::thread::spawn(|| done.complete());
    ///     anyhow::Ok(())
    /// };
    /// engine.push_with(start).writes(&[&a]).spawn()?;
    /// engine.wait_for(&a)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// It was called before.
    pub fn complete_later(&mut self) -> anyhow::Result<OnComplete> {
        let token = self.completion.and_then(DeferredCompletion::take_token);
        token.map(OnComplete::new).ok_or_else(|| {
            anyhow!("the completion of this function was taken before, or its stream has none")
        })
    }
}

impl Drop for RunContext<'_> {
    fn drop(&mut self) {
        if let Some(taken) = self.scratch.take() {
            SCRATCH.with(|scratch| *scratch.borrow_mut() = taken);
        }
    }
}

impl fmt::Debug for RunContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext").field("device", self.site.device).finish_non_exhaustive()
    }
}
