//! Host functions: callbacks on tensors' memory, reads, and the threads that run them.
//!
//! Long because its items have examples.

use std::sync::{Arc, PoisonError};

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use millstream_kernels::{Kernel, KernelCtx, RawTensor};
use millstream_types::{Access, Attrs, CallbackId, Error, ReadId, Result, TensorSpec, catch_unit};

use crate::scope::reentrancy;
use crate::sync::{AtomicU32, Builder, Condvar, Mutex, Ordering};

/// A tensor's memory, lent to a callback while it runs.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::Access;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// x.access(Access::Read, |blob: &mut Blob<'_>| {
///     println!("{}: {:?}", blob.spec(), blob.to_bytes()?);
///     Ok(())
/// })?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub struct Blob<'a> {
    raw: RawTensor<'a>,
    spec: &'a TensorSpec,
    access: Access,
    copy: &'a Arc<dyn Kernel>,
}

impl<'a> Blob<'a> {
    /// # Safety
    /// As [`KernelCtx::new`] asks for `raw`, which is used as `access` says.
    pub(crate) unsafe fn new(
        raw: RawTensor<'a>,
        spec: &'a TensorSpec,
        access: Access,
        copy: &'a Arc<dyn Kernel>,
    ) -> Blob<'a> {
        Blob { raw, spec, access, copy }
    }

    /// Returns dtype, shape and layout.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Access;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.access(Access::Read, |blob| {
    ///     assert_eq!(blob.spec().to_string(), "f32[2,2]");
    ///     Ok(())
    /// })?.wait()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub const fn spec(&self) -> &TensorSpec {
        self.spec
    }

    /// Returns the address of the first element.
    #[doc(hidden)]
    pub fn address(&self) -> usize {
        self.raw.data.addr()
    }

    /// Returns the elements as bytes, in row-major order without gaps.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Access;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.access(Access::Read, |blob| {
    ///     assert_eq!(blob.to_bytes()?.len(), 16);
    ///     Ok(())
    /// })?.wait()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The callback asked to write only, or there is no memory for the copy.
    pub fn to_bytes(&self) -> anyhow::Result<Vec<u8>> {
        anyhow::ensure!(self.access.reads(), "the callback asked for the tensor to write it only");
        // SAFETY: the blob's own promise covers the tensor.
        unsafe { copy_out(self.raw, self.copy) }
    }

    /// Overwrites the elements with `bytes`, in row-major order without gaps.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Access;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.access(Access::Write, |blob| blob.write_bytes(&[0; 16]))?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0; 4]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The callback asked to read only, or there are more or fewer bytes than elements.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        anyhow::ensure!(self.access.writes(), "the callback asked for the tensor to read it only");
        let wanted = self.raw.numel() * self.raw.dtype.size();
        anyhow::ensure!(bytes.len() == wanted, "{} bytes given, {wanted} expected", bytes.len());
        // Elements are read from aligned memory.
        let mut aligned = aligned(wanted)?;
        let target = aligned.as_mut_ptr().cast::<u8>();
        // SAFETY: both are valid for `wanted` bytes, and the target is new.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, wanted) };
        let strides = millstream_types::layout::contiguous_strides(self.raw.shape)?;
        let dense = RawTensor { data: target, strides: &strides, ..self.raw };
        // SAFETY: `dense` is new memory of the same shape; the blob's promise covers the other.
        unsafe { run_copy(self.copy, dense, self.raw) }
    }

    /// Zeroes the elements and lets `fill` overwrite their bytes in place, without a copy.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Access;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.access(Access::Write, |blob| {
    ///     blob.fill_with(|bytes| {
    ///         bytes[..4].copy_from_slice(&7.0f32.to_ne_bytes());
    ///         Ok(())
    ///     })
    /// })?;
    /// assert_eq!(x.to_vec::<f32>()?, [7.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The callback asked to read only, the tensor is not contiguous, or `fill` fails.
    pub fn fill_with(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        anyhow::ensure!(self.access.writes(), "the callback asked for the tensor to read it only");
        anyhow::ensure!(self.spec.layout.is_contiguous(), "{} is not contiguous", self.spec);
        let bytes = self.raw.numel() * self.raw.dtype.size();
        if bytes == 0 {
            return fill(&mut []);
        }
        // SAFETY: the blob's promise covers the tensor's elements, which lie without gaps from
        // `data` on. They are written before they are lent out, and no other use of the storage is
        // under way: a write comes after all earlier uses and before all later ones.
        let memory = unsafe {
            std::ptr::write_bytes(self.raw.data, 0, bytes);
            std::slice::from_raw_parts_mut(self.raw.data, bytes)
        };
        fill(memory)
    }
}

/// Returns memory aligned for every dtype.
fn aligned(bytes: usize) -> anyhow::Result<Vec<u64>> {
    let mut memory: Vec<u64> = Vec::new();
    memory.try_reserve_exact(bytes.div_ceil(8))?;
    memory.resize(bytes.div_ceil(8), 0);
    Ok(memory)
}

/// # Safety
/// As [`KernelCtx::new`] asks for both.
unsafe fn run_copy(copy: &Arc<dyn Kernel>, from: RawTensor, to: RawTensor) -> anyhow::Result<()> {
    let operands = Pair(from, to);
    let attrs = Attrs::new();
    // SAFETY: the caller's promise.
    let ctx = unsafe { KernelCtx::new(&operands, &attrs, (std::ptr::null_mut(), 0), None, &()) };
    copy.run(&ctx)
}

struct Pair<'a>(RawTensor<'a>, RawTensor<'a>);

impl millstream_kernels::Operands for Pair<'_> {
    fn len(&self) -> usize {
        2
    }
    fn get(&self, index: usize) -> RawTensor<'_> {
        if index == 0 { self.0 } else { self.1 }
    }
}

/// Returns the elements of a tensor in host memory, in row-major order without gaps.
///
/// # Safety
/// As [`KernelCtx::new`] asks for `from`, which is read.
pub(crate) unsafe fn copy_out(from: RawTensor, copy: &Arc<dyn Kernel>) -> anyhow::Result<Vec<u8>> {
    let bytes = from.numel() * from.dtype.size();
    let mut out = Vec::new();
    out.try_reserve_exact(bytes)?;
    if bytes == 0 {
        return Ok(out);
    }
    if from.is_contiguous() {
        // SAFETY: the caller's promise: the tensor's elements are these bytes.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(from.data, bytes) });
        return Ok(out);
    }
    let mut memory = aligned(bytes)?;
    let strides = millstream_types::layout::contiguous_strides(from.shape)?;
    let dense = RawTensor { data: memory.as_mut_ptr().cast(), strides: &strides, ..from };
    // SAFETY: the caller's promise for `from`; `dense` is new memory of the same shape.
    unsafe { run_copy(copy, from, dense)? };
    // SAFETY: the memory holds at least `bytes` bytes, all of them written.
    out.extend_from_slice(unsafe { std::slice::from_raw_parts(memory.as_ptr().cast(), bytes) });
    Ok(out)
}

/// A callback on a tensor's memory.
pub(crate) type Callback = Box<dyn FnOnce(&mut Blob<'_>) -> anyhow::Result<()> + Send>;

/// A callback that is called at each launch of an executable.
pub type SharedCallback = Arc<dyn Fn(&mut Blob<'_>) -> anyhow::Result<()> + Send + Sync>;

/// Pending callbacks and reads, by id.
#[derive(Default)]
pub struct HostTable {
    callbacks: Mutex<FxHashMap<CallbackId, Callback>>,
    reads: Mutex<FxHashMap<ReadId, Option<Result<Vec<u8>>>>>,
    next: AtomicU32,
}

impl HostTable {
    fn next(&self) -> u32 {
        // Relaxed: only uniqueness is wanted.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub fn add_callback(&self, callback: Callback) -> CallbackId {
        let id = CallbackId(self.next());
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner).insert(id, callback);
        id
    }

    /// Takes a callback out, to run or drop it.
    pub fn take_callback(&self, id: CallbackId) -> Option<Callback> {
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }

    pub fn add_read(&self) -> ReadId {
        let id = ReadId(self.next());
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).insert(id, None);
        id
    }

    pub(crate) fn finish_read(&self, id: ReadId, result: Result<Vec<u8>>) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        // The read was removed if its waiter has given up.
        if let Some(slot) = reads.get_mut(&id) {
            *slot = Some(result);
        }
    }

    /// Takes a read out; none if it has not finished.
    pub fn take_read(&self, id: ReadId) -> Option<Result<Vec<u8>>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).remove(&id).flatten()
    }

    /// Returns how many callbacks have not been run or dropped.
    pub fn callbacks(&self) -> usize {
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

type HostFunction = Box<dyn FnOnce() + Send>;

/// Threads for host functions, started when all others are busy. Drivers without threads have none
/// here: they run the queued functions themselves.
#[derive(Default)]
pub struct HostWorkers {
    state: Arc<(Mutex<HostState>, Condvar)>,
    machine: u64,
    kept: bool,
}

#[derive(Default)]
struct HostState {
    queue: VecDeque<HostFunction>,
    idle: usize,
    threads: usize,
    stop: bool,
}

/// More would mean that callbacks wait for one another in a chain this long.
const MAX_THREADS: usize = 64;

impl HostWorkers {
    pub fn new(machine: u64, kept: bool) -> HostWorkers {
        HostWorkers { state: Arc::default(), machine, kept }
    }

    /// Returns whether functions run on threads of their own.
    #[inline]
    pub(crate) const fn has_threads(&self) -> bool {
        !self.kept
    }

    /// Returns how many functions are queued for the driver.
    pub(crate) fn waiting(&self) -> usize {
        if !self.kept {
            return 0;
        }
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner).queue.len()
    }

    /// Runs one of the queued functions, counted from the oldest, on this thread.
    pub(crate) fn run_waiting(&self, number: usize) {
        let function = {
            let mut state = self.state.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.queue.remove(number)
        };
        if let Some(function) = function {
            reentrancy::enter(self.machine, function);
        }
    }

    /// Runs `function` on a thread of its own, which it may block.
    ///
    /// # Errors
    /// No thread can be started, and there is none to wait for. The function is dropped.
    pub(crate) fn run(&self, function: HostFunction) -> Result<()> {
        let (lock, wake) = &*self.state;
        let mut state = lock.lock().unwrap_or_else(PoisonError::into_inner);
        state.queue.push_back(function);
        if self.kept {
            return Ok(());
        }
        if state.idle >= state.queue.len() || state.threads >= MAX_THREADS {
            wake.notify_one();
            return Ok(());
        }
        let (shared, machine) = (self.state.clone(), self.machine);
        let name = format!("millstream-host-{}", state.threads);
        let spawned = Builder::new().name(name).spawn(move || work(&shared, machine));
        match spawned {
            Ok(_) => state.threads += 1,
            Err(_) if state.threads > 0 => wake.notify_one(),
            Err(error) => {
                let refused = state.queue.pop_back();
                drop(state);
                let _ = catch_unit(|| drop(refused));
                let message = format!("no thread for a host function: {error}");
                return Err(Error::Internal { message });
            }
        }
        Ok(())
    }

    /// Runs `function`, which no instruction waits for: on a thread of its own, or here if the
    /// driver has none.
    pub(crate) fn run_apart(&self, function: HostFunction) {
        if self.kept {
            return reentrancy::enter(self.machine, function);
        }
        // Without any thread it is dropped, which is the only refusal.
        let _ = self.run(function);
    }

    /// Returns whether no function runs or is queued.
    pub(crate) fn are_idle(&self) -> bool {
        let state = self.state.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.queue.is_empty() && state.idle == state.threads
    }

    /// Returns how many threads there are.
    pub fn threads(&self) -> usize {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner).threads
    }
}

impl Drop for HostWorkers {
    /// Threads end once they are idle; a thread that hangs in a callback is left to it.
    fn drop(&mut self) {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.state.1.notify_all();
    }
}

fn work(shared: &(Mutex<HostState>, Condvar), machine: u64) {
    reentrancy::mark_thread(machine);
    let (lock, wake) = shared;
    let mut state = lock.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(function) = state.queue.pop_front() {
            drop(state);
            // A function reports its own panics; one that does not must not end the thread.
            let _ = catch_unit(function);
            state = lock.lock().unwrap_or_else(PoisonError::into_inner);
        } else if state.stop {
            state.threads -= 1;
            return;
        } else {
            state.idle += 1;
            state = wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}
