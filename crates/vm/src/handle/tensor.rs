//! Tensors.
//!
//! Long because its items have examples.

use std::sync::{Arc, Weak};
use std::time::Duration;

use millstream_instructions::builder::SectionId;
use millstream_instructions::{Outcome, Protection, TensorRef};
use millstream_runtime::engine::leases::Lease;
use millstream_runtime::engine::{Engine, MadeTensor};
use millstream_runtime::scope::origin;
use millstream_types::{
    DeviceId, Error, Origin, Result, StreamId, StreamKey, TensorId, TensorSpec,
};

use crate::handle::lowering::{self, Submitter};
use crate::handle::machine::Machine;

use super::global::Global;
use super::leaf::LeafSlot;
use super::request::{self, Ended, Request, Verb};
use super::{Completion, Section, Stream, counts};

/// A tensor of a list that is being recorded, and the number of the recording.
pub(crate) type OfRecording = (TensorRef, u64);

/// Where a tensor's slot comes from.
#[allow(clippy::large_enum_variant, reason = "large in models alone, whose locks are")]
enum Slot {
    Made(TensorRef),
    /// A list that is being recorded has it.
    Recorded(OfRecording),
    /// The ranks of a mesh hold it, each a part.
    Global(Global),
}

struct TensorInner {
    slot: Slot,
    spec: Arc<TensorSpec>,
    device: DeviceId,
    made_on: Stream,
    origin: Origin,
    leaf: LeafSlot,
}

impl Drop for TensorInner {
    fn drop(&mut self) {
        let tensor = match &self.slot {
            Slot::Made(tensor) => *tensor,
            Slot::Recorded(tensor) => {
                return request::ended(&self.made_on.machine, Ended::Recorded(*tensor));
            }
            // Its part is a tensor of its own.
            Slot::Global(_) => return,
        };
        request::ended(&self.made_on.machine, Ended::Made(tensor));
        self.made_on.machine.shared.drop_tensor(tensor, &self.origin);
    }
}

/// A slot that no tensor has.
const RELEASED: TensorRef = TensorRef { id: TensorId(u32::MAX), generation: u32::MAX };

/// A reference to a tensor that does not keep it.
pub(crate) type WeakTensor = Weak<dyn Send + Sync>;

/// A tensor. Clones are the same tensor; it is released when the last is dropped.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let y = (x.matmul(&x)? * 2.0)?.relu()?; // nothing waits
/// assert_eq!(y.to_vec::<f32>()?, [14.0, 20.0, 30.0, 44.0]); // reading waits
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors of methods
/// A method of an op returns an error if the op refuses its operands or arguments, if an operand
/// was released or is held, or if the memory is used up. A kernel that fails later is the error of
/// a read of its results.
pub struct Tensor(Arc<TensorInner>);

impl Clone for Tensor {
    #[inline]
    fn clone(&self) -> Tensor {
        counts::count(self, 1);
        Tensor(self.0.clone())
    }
}

impl Drop for Tensor {
    #[inline]
    fn drop(&mut self) {
        counts::count(self, -1);
    }
}

impl Tensor {
    pub(crate) fn new(made: MadeTensor, made_on: Stream, origin: Origin) -> Tensor {
        let MadeTensor { tensor, spec, device } = made;
        Tensor::of(Slot::Made(tensor), spec, device, made_on, origin)
    }

    #[inline]
    fn of(
        slot: Slot,
        spec: Arc<TensorSpec>,
        device: DeviceId,
        made_on: Stream,
        origin: Origin,
    ) -> Tensor {
        let leaf = LeafSlot::default();
        Tensor(Arc::new(TensorInner { slot, spec, device, made_on, origin, leaf }))
    }

    /// Returns a tensor of a function that is being recorded.
    pub(crate) fn of_function(
        tensor: OfRecording,
        made_on: &Stream,
        spec: TensorSpec,
        device: DeviceId,
        origin: Origin,
    ) -> Tensor {
        Tensor::of(Slot::Recorded(tensor), Arc::new(spec), device, made_on.clone(), origin)
    }

    /// Returns a tensor that the ranks of a mesh hold.
    pub(crate) fn of_mesh(
        global: Global,
        spec: Arc<TensorSpec>,
        made_on: Stream,
        origin: Origin,
    ) -> Tensor {
        let own = global.local.as_ref().map(Tensor::device);
        let device = own.unwrap_or(&made_on.key().device).clone();
        Tensor::of(Slot::Global(global), spec, device, made_on, origin)
    }

    /// Returns what this rank knows of a tensor that the ranks of a mesh hold, if it is one.
    #[inline]
    pub(crate) fn global(&self) -> Option<&Global> {
        match &self.0.slot {
            Slot::Global(global) => Some(global),
            Slot::Made(_) | Slot::Recorded(_) => None,
        }
    }

    /// Returns the tensor of a function that is being recorded, if this is one.
    pub(crate) fn recorded(&self) -> Option<OfRecording> {
        match &self.0.slot {
            Slot::Made(_) | Slot::Global(_) => None,
            Slot::Recorded(tensor) => Some(*tensor),
        }
    }

    /// Whether both are handles of one tensor.
    pub(crate) fn is_same(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the tensor's slot.
    ///
    /// # Errors
    /// The tensor belongs to a function that is being recorded, or the ranks of a mesh hold it.
    #[inline]
    pub(crate) fn resolved(&self) -> Result<TensorRef> {
        self.slot().ok_or_else(|| self.without_slot())
    }

    /// Returns the tensor's slot; none if a list that is being recorded has it, or a mesh.
    #[inline]
    pub(crate) fn slot(&self) -> Option<TensorRef> {
        match &self.0.slot {
            Slot::Made(tensor) => Some(*tensor),
            Slot::Recorded(_) | Slot::Global(_) => None,
        }
    }

    #[cold]
    fn without_slot(&self) -> Error {
        match &self.0.slot {
            Slot::Global(global) => global.unsupported(&self.0.spec),
            Slot::Made(_) | Slot::Recorded(_) => not_made(),
        }
    }

    /// Returns the place of the tensor's gradient, if it has one.
    pub(crate) fn leaf_slot(&self) -> &LeafSlot {
        &self.0.leaf
    }

    /// Returns what tells this tensor from all others for as long as a [`WeakTensor`] exists.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Returns how many handles there are of the tensor; none if it may be known otherwise: a
    /// [`WeakTensor`] exists, or it is one with a gradient.
    pub(crate) fn holders(&self) -> Option<usize> {
        let is_known = Arc::weak_count(&self.0) > 0 || self.0.leaf.get().is_some();
        (!is_known).then(|| Arc::strong_count(&self.0))
    }

    /// Sets the stream of later calls, if nobody else has the tensor.
    pub(crate) fn set_made_on(&mut self, stream: Stream) {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.made_on = stream;
        }
    }

    /// Returns how many handles there are of the tensor.
    pub(crate) fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    pub(crate) fn weak(&self) -> WeakTensor {
        Arc::<TensorInner>::downgrade(&self.0)
    }

    /// Returns the number of the storage; none for a tensor of a function that is being recorded.
    pub(crate) fn storage_number(&self) -> Option<u64> {
        if let Some(global) = self.global() {
            return global.local.as_ref()?.storage_number();
        }
        let tensor = self.resolved().ok()?;
        let engine = self.0.made_on.machine.shared.lock().ok()?;
        engine.builder.storage_number(tensor).ok()
    }

    /// Returns the place that made the tensor.
    pub(crate) fn made_at(&self) -> &Origin {
        &self.0.origin
    }

    pub(crate) fn made_on(&self) -> &Stream {
        &self.0.made_on
    }

    /// Returns the machine.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DType;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = Tensor::zeros(3, DType::F32, x.machine())?; // on the same machine
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn machine(&self) -> &Machine {
        &self.0.made_on.machine
    }

    /// Returns the tensor's slot, for prepared calls. A tensor of a function that is being recorded
    /// has the slot of a released one.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.tensor_ref(), x.clone().tensor_ref()); // one tensor
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn tensor_ref(&self) -> TensorRef {
        self.slot().unwrap_or(RELEASED)
    }

    /// Returns dtype, shape and layout.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.spec().to_string(), "f32[2,2]");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn spec(&self) -> &TensorSpec {
        &self.0.spec
    }

    /// Returns the spec, to be shared.
    pub(crate) fn shared_spec(&self) -> &Arc<TensorSpec> {
        &self.0.spec
    }

    /// Returns the device whose memory the tensor lies in.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DeviceId;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.device(), &DeviceId::cpu(0));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn device(&self) -> &DeviceId {
        &self.0.device
    }

    /// Ends the tensor now, while handles still exist; using one is an error from now on.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.release()?;
    /// assert!(x.relu().is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// It was released before, or a critical section holds it.
    #[track_caller]
    pub fn release(&self) -> Result<()> {
        self.release_within(None)
    }

    /// Ends the tensor as [`Tensor::release`] does, perhaps from within a section.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let section = machine.critical_section(&[&x])?;
    /// x.release_within(Some(&section))?;
    /// section.end()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::release`].
    #[track_caller]
    pub fn release_within(&self, section: Option<&Section>) -> Result<()> {
        let origin = origin::caller();
        if let Some(global) = self.global() {
            return global.local.as_ref().map_or(Ok(()), |local| local.release_within(section));
        }
        let verb = Verb::Release { tensor: self };
        let release = Request { verb, is_within: section.is_some(), origin: &origin };
        let machine = &self.0.made_on.machine;
        request::submit(release, |_| machine.release_now(self, section, &origin).map(Some))?;
        Ok(())
    }

    /// Makes a tensor of another dtype, shape or layout on the same storage. It costs no kernel.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, Layout, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let column = Layout::strided(&[2], &[2], 1)?;
    /// let y = x.view_storage(TensorSpec::new(DType::F32, column)?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor was released, or the view reaches past the storage.
    #[track_caller]
    pub fn view_storage(&self, spec: TensorSpec) -> Result<Tensor> {
        self.view_at(spec, origin::caller())
    }

    pub(crate) fn view_at(&self, spec: TensorSpec, origin: Origin) -> Result<Tensor> {
        let machine = &self.0.made_on.machine;
        let view = Request::new(Verb::View { of: self, spec: &spec }, &origin);
        request::submit(view, |_| machine.view_now(self, &spec, &origin))
    }

    /// Blocks until the tensor's last write so far has completed; waits neither for reads of it nor
    /// for later instructions of its stream. A pool has no order, so on a pool this waits for
    /// everything submitted before the write.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = x.relu()?;
    /// y.synchronize()?; // computed, and its failure told
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The failure that poisoned the tensor, or it was released.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        let origin = origin::caller();
        self.completion().and_then(|done| done.wait_at(None, origin))
    }

    /// Blocks as [`Tensor::synchronize`] does, for no longer than `timeout`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.relu()?.synchronize_for(std::time::Duration::from_secs(60))?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Timeout`](millstream_types::Error::Timeout), or as [`Tensor::synchronize`].
    #[track_caller]
    pub fn synchronize_for(&self, timeout: Duration) -> Result<()> {
        let origin = origin::caller();
        self.completion().and_then(|done| done.wait_at(Some(timeout), origin))
    }

    /// Returns a completion of the tensor's last write so far, to be awaited as a future or later.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let done = x.relu()?.completion()?;
    /// done.wait()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor was released. Asked from within the machine's own work, or an earlier emission
    /// panicked.
    #[track_caller]
    pub fn completion(&self) -> Result<Completion> {
        let (machine, origin) = (&self.0.made_on.machine, origin::caller());
        let at = |e: millstream_types::Error| e.at(&origin);
        if let Some(global) = self.global() {
            return global.own(&self.0.spec).map_err(at)?.completion();
        }
        millstream_runtime::scope::reentrancy::check(machine.shared.tables.machine, "waiting")
            .map_err(at)?;
        let tensor = self.resolved().map_err(at)?;
        let mut engine = machine.shared.lock().map_err(at)?;
        let last = engine.builder.last_write(tensor).map_err(at)?;
        engine.builder.watch(tensor).map_err(at)?;
        let storage = engine.router.slot(tensor.id).map(|slot| slot.storage);
        drop(engine);
        Ok(Completion::of_storage(machine.clone(), last, storage))
    }

    /// Reads the elements back as bytes, in row-major order without gaps. Blocks.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.i(0)?.read()?, [1.0f32.to_ne_bytes(), 2.0f32.to_ne_bytes()].concat());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The failure that poisoned the tensor, or it was released.
    #[track_caller]
    pub fn read(&self) -> Result<Vec<u8>> {
        self.read_at(None, origin::caller())
    }

    /// Reads the elements back as [`Tensor::read`] does, perhaps from within a section.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let section = machine.critical_section(&[&x])?;
    /// assert_eq!(x.read_within(Some(&section))?.len(), 16);
    /// section.end()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::read`].
    #[track_caller]
    pub fn read_within(&self, section: Option<&Section>) -> Result<Vec<u8>> {
        self.read_at(section, origin::caller())
    }

    pub(crate) fn read_at(&self, section: Option<&Section>, origin: Origin) -> Result<Vec<u8>> {
        if let Some(global) = self.global() {
            let whole = global.whole(&self.0.spec).map_err(|e| e.at(&origin))?;
            return whole.read_at(section, origin);
        }
        let verb = Verb::Read { tensor: self };
        let read = Request { verb, is_within: section.is_some(), origin: &origin };
        request::submit(read, |_| self.read_now(section, &origin).map_err(|e| e.at(&origin)))
    }

    fn read_now(&self, section: Option<&Section>, origin: &Origin) -> Result<Vec<u8>> {
        let machine = &self.0.made_on.machine;
        millstream_runtime::scope::reentrancy::check(machine.shared.tables.machine, "reading")?;
        let held = section;
        let section = machine.own_section(section)?;
        let protection = machine.shared.protection;
        if protection == Protection::default() && self.0.device.is_host() {
            return self.read_by(section, origin, |e, tensor| read_stream(e, machine, tensor));
        }
        let submitter = Submitter { machine, section: held, origin: origin.clone() };
        if protection == Protection::default()
            && let Some((staged, stream)) = submitter.stage_read(self)?
        {
            return staged.read_by(None, origin, |_, _| Ok((stream.id, None)));
        }
        let stream = submitter.read_stream(self)?;
        if !protection.waits() {
            // The machine chose the reading stream, so it orders that stream as well.
            let tensor = self.resolved()?;
            let last = machine.shared.lock()?.builder.last_write(tensor)?;
            machine.wait_for_all(&[last], None)?;
        }
        self.read_by(section, origin, |_, _| Ok((stream.id, None)))
    }

    /// Reads the tensor on the stream that `choose` names under the lock. Its lease, if it has one,
    /// is kept until the read is over.
    fn read_by(
        &self,
        section: Option<SectionId>,
        origin: &Origin,
        choose: impl Fn(&mut Engine, TensorRef) -> Result<(StreamId, Option<Arc<Lease>>)>,
    ) -> Result<Vec<u8>> {
        let machine = &self.0.made_on.machine;
        let host = &machine.shared.tables.host;
        let tensor = self.resolved()?;
        let read = host.add_read();
        let emitted = machine.shared.emit(origin, |e| {
            let (stream, lease) = choose(e, tensor)?;
            e.open(stream)?;
            let Engine { builder, router, .. } = e;
            let at = builder.sync_read(router, stream, tensor, read, section, origin)?;
            Ok(Outcome::Done((at, lease)))
        });
        let waited = emitted.and_then(|(point, _lease)| {
            machine.shared.wait_point(point, None)?;
            Ok(point)
        });
        let result = host.take_read(read);
        let point = waited?;
        machine.shared.observe(point, origin)?;
        result.unwrap_or_else(|| {
            let message = "a read completed without a result".to_owned();
            machine.known(None)?;
            Err(Error::Internal { message })
        })
    }
}

#[cold]
fn not_made() -> Error {
    let message = "it belongs to a function that is being recorded, and has no elements before a \
                   launch"
        .to_owned();
    Error::Invalid { what: "tensor", message }
}

/// Returns the stream that reads a tensor in host memory, as [`Submitter::read_stream`] does,
/// and its lease.
fn read_stream(
    engine: &mut Engine,
    machine: &Machine,
    tensor: TensorRef,
) -> Result<(StreamId, Option<Arc<Lease>>)> {
    let Engine { builder, leases, .. } = engine;
    let last = builder.last_write(tensor)?;
    let decl = builder.streams().nth(last.stream.index()).filter(|_| last.seq > 0);
    let id = match decl.filter(|decl| lowering::reads_host(&decl.key)) {
        Some(_) => last.stream,
        None => {
            let key = StreamKey::compute(DeviceId::cpu(0), 0);
            builder.known_id(&key).map_or_else(|| builder.stream(&key), Ok)?
        }
    };
    Ok((id, leases.of(&machine.shared, id)))
}
