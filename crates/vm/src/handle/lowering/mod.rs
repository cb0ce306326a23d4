//! Lowers transfers, host reads and composite ops to calls: which copies move a tensor, through
//! which memory, on which streams.
//!
//! # Transfers
//! Copies between memories are dense, as copy engines move bytes. A tensor with gaps is first made
//! dense in its own memory; a target with gaps gets its elements from a dense tensor beside it.
//!
//! | from | to | way |
//! |---|---|---|
//! | one memory | the same, or the host's pinned and unpinned | `copy` on the stream given |
//! | host | device | `copy` on the device's host-to-device stream |
//! | device | host | `copy` on the device's device-to-host stream |
//! | device | another device that copies from it | `copy` on the latter's host-to-device stream |
//! | device | any other | both, through host memory, pinned where there is some |

mod composite;

use millstream_comm::Communicator;
use millstream_ep::Capabilities;
use millstream_stream_policy::PolicyTable;
use millstream_types::{Attrs, DeviceId, Error, Origin, Result, StreamKey, StreamType, TensorSpec};

use crate::handle::machine::Machine;
use crate::handle::{Section, Stream, Tensor};

pub(crate) use composite::InnerCalls;

/// Reads of at most this many bytes go through a staging buffer in pinned memory.
const STAGED: usize = 64 << 10;

/// Submits the calls of a lowering to a machine.
pub(crate) struct Submitter<'a> {
    pub(crate) machine: &'a Machine,
    /// The section that calls belong to.
    pub(crate) section: Option<&'a Section>,
    /// The origin of the calls.
    pub(crate) origin: Origin,
}

impl Submitter<'_> {
    /// Makes a dense tensor of unspecified content in the memory of `stream`.
    fn empty(&self, stream: &Stream, like: &TensorSpec) -> Result<Tensor> {
        let spec = TensorSpec::contiguous(like.dtype, like.shape())?;
        let bytes = spec.span_bytes() as u64;
        self.machine.empty_at(stream, spec, bytes, self.origin.clone())
    }

    /// Calls an op that writes only to `out`, or in place. Returns its results.
    fn call(
        &self,
        op: &str,
        inputs: &[&Tensor],
        attrs: &Attrs,
        out: Option<&Tensor>,
        stream: &Stream,
    ) -> Result<Vec<Tensor>> {
        let mut call = self.machine.call(op, inputs).attrs(attrs).origin(self.origin.clone());
        if let Some(out) = out {
            call = call.out(&[out]);
        }
        if let Some(section) = self.section {
            call = call.within(section);
        }
        call.on(stream)
    }

    fn copy(&self, tensor: &Tensor, target: &Tensor, stream: &Stream) -> Result<()> {
        self.call("copy", &[tensor], &Attrs::new(), Some(target), stream).map(drop)
    }

    /// Returns a stream that runs ops on a tensor's memory: the tensor's own stream, if that does.
    pub(crate) fn compute_stream(&self, tensor: &Tensor) -> Result<Stream> {
        let (memory, made_on) = (tensor.device(), tensor.made_on());
        match computes_in(&made_on.key, memory) {
            true => Ok(made_on.clone()),
            false => self.machine.stream(&StreamKey::compute(compute_device(memory), 0)),
        }
    }

    /// Returns a stream that makes tensors in host memory for copies from `device`, in pinned
    /// memory where available.
    pub(crate) fn staging(&self, device: &DeviceId) -> Result<Stream> {
        self.machine.stream(&staging_key(self.machine.policies(), device))
    }

    /// Makes a dense, row-major copy of a tensor in the memory of `stream`.
    ///
    /// # Errors
    /// The tensor was released, or the memory is used up.
    pub(crate) fn copy_to(&self, tensor: &Tensor, stream: &Stream) -> Result<Tensor> {
        let target = self.empty(stream, tensor.spec())?;
        self.transfer(tensor, &target, stream)?;
        Ok(target)
    }

    /// Sets the elements of `target`, of the same dtype and shape, to those of `tensor`. Both may
    /// be views, also of one storage: `tensor` counts as read in full before `target` is written.
    ///
    /// # Errors
    /// A tensor was released, the two differ in dtype or shape, elements of `target` overlap, or
    /// memory is used up.
    pub(crate) fn copy_into(&self, tensor: &Tensor, target: &Tensor) -> Result<()> {
        let (own, given) = (tensor.spec(), target.spec());
        if own.dtype != given.dtype || own.shape() != given.shape() {
            let message = format!("{} is to be copied into {}", own.brief(), given.brief());
            return Err(Error::Invalid { what: "copy", message });
        }
        let made_on = self.compute_stream(target)?;
        let is_near = is_near(tensor.device(), target.device());
        if !is_near && given.layout.is_contiguous() {
            return self.transfer(tensor, target, &made_on);
        }
        let near = if is_near { tensor.clone() } else { self.copy_to(tensor, &made_on)? };
        self.call("copy_", &[target, &near], &Attrs::new(), None, &made_on).map(drop)
    }

    /// Copies `tensor` into `target`, which is dense, of the same shape and made on `stream`.
    fn transfer(&self, tensor: &Tensor, target: &Tensor, stream: &Stream) -> Result<()> {
        let (from, to) = (tensor.device(), target.device());
        if is_near(from, to) {
            return self.copy(tensor, target, stream);
        }
        if !from.is_host() && !to.is_host() {
            let direct = self.machine.stream(&to_device(to))?;
            if !self.machine.shared.lock()?.builder.copies_from(direct.id, from) {
                let staged = self.copy_to(tensor, &self.staging(from)?)?;
                return self.transfer(&staged, target, stream);
            }
        }
        let dense = match tensor.spec().layout.is_contiguous() {
            true => tensor.clone(),
            false => self.copy_to(tensor, &self.compute_stream(tensor)?)?,
        };
        if !to.is_host() {
            return self.copy_to_device(&dense, target).map(drop);
        }
        let copies = StreamKey::new(from.clone(), StreamType::DEVICE2HOST, 0);
        self.copy(&dense, target, &self.machine.stream(&copies)?)
    }

    /// Copies `tensor` into `target` in a device's memory, in one step on the stream returned.
    pub(crate) fn copy_to_device(&self, tensor: &Tensor, target: &Tensor) -> Result<Stream> {
        let copies = self.machine.stream(&to_device(target.device()))?;
        self.copy(tensor, target, &copies)?;
        Ok(copies)
    }

    /// Returns the tensor that the host reads in place of `tensor`, and the stream that reads it,
    /// if `tensor` has to be copied first: a small tensor of a device goes to pinned memory, where
    /// available, as a read of other memory would have to. A tensor that the host cannot read in
    /// place is copied in any case.
    ///
    /// # Errors
    /// The tensor was released, or the memory is used up.
    pub(crate) fn stage_read(&self, tensor: &Tensor) -> Result<Option<(Tensor, Stream)>> {
        let (spec, device) = (tensor.spec(), tensor.device());
        if device.is_host() {
            return Ok(None);
        }
        let bytes = TensorSpec::contiguous(spec.dtype, spec.shape())?.span_bytes();
        let devices = self.machine.policies().devices();
        let is_small = bytes <= STAGED && devices.probe(&DeviceId::pinned(0)).is_ok();
        if !is_small && devices.capabilities(device).is_ok_and(|can| can.host_memory) {
            return Ok(None);
        }
        let target = self.empty(&self.staging(device)?, spec)?;
        let copies = StreamKey::new(device.clone(), StreamType::DEVICE2HOST, 0);
        let copies = self.machine.stream(&copies)?;
        self.copy(tensor, &target, &copies)?;
        Ok(Some((target, copies)))
    }

    /// Returns the stream that reads a tensor in place for the host: for host memory that of its
    /// last write, where a read needs no wait.
    ///
    /// # Errors
    /// The tensor was released.
    pub(crate) fn read_stream(&self, tensor: &Tensor) -> Result<Stream> {
        let (machine, device) = (self.machine, tensor.device());
        if !device.is_host() {
            return machine.stream(&StreamKey::new(device.clone(), StreamType::DEVICE2HOST, 0));
        }
        let written = machine.owns(tensor)?;
        let mut engine = machine.shared.lock()?;
        let last = engine.builder.last_write(written)?;
        let own = if last.seq == 0 { None } else { machine.handle(&mut engine, last.stream) };
        drop(engine);
        match own.filter(|stream| reads_host(&stream.key)) {
            Some(stream) => Ok(stream),
            None => machine.stream(&StreamKey::compute(HOST, 0)),
        }
    }

    /// Makes a collective on a stream in another way than as a call: on the host, or on dense
    /// copies of strided operands on a device that the communicator reaches. Returns none if it can
    /// be made as a call.
    ///
    /// # Errors
    /// A call or a copy is refused.
    pub(crate) fn collective(
        &self,
        stream: &Stream,
        op: &str,
        inputs: &[&Tensor],
        attrs: &Attrs,
    ) -> Result<Option<Vec<Tensor>>> {
        let (communicator, device) = (&**self.machine.communicator(), &stream.key.device);
        if runs_on_host(self.machine.policies(), communicator, device) {
            let host = self.machine.stream(&StreamKey::new(HOST, StreamType::CCL, 0))?;
            return self.on_copies(&host, op, inputs, attrs, |_| true).map(Some);
        }
        let is_strided = |input: &Tensor| !input.spec().layout.is_contiguous();
        match communicator.reaches(device.kind()) && inputs.iter().any(|input| is_strided(input)) {
            true => self.on_copies(stream, op, inputs, attrs, is_strided).map(Some),
            false => Ok(None),
        }
    }

    /// Runs a collective on copies of its operands in the memory of a stream, and copies back the
    /// elements that it changed in place. Each of the three is a call like any other: the builder
    /// finds their waits, and only data flow carries their failures. No worker waits for the other
    /// ranks.
    ///
    /// # Errors
    /// A call or a copy is refused.
    fn on_copies(
        &self,
        stream: &Stream,
        op: &str,
        inputs: &[&Tensor],
        attrs: &Attrs,
        is_copied: impl Fn(&Tensor) -> bool,
    ) -> Result<Vec<Tensor>> {
        let copy = |&input: &&Tensor| match is_copied(input) {
            true => self.copy_to(input, stream),
            false => Ok(input.clone()),
        };
        let copies = inputs.iter().map(copy).collect::<Result<Vec<Tensor>>>()?;
        let operands: Vec<&Tensor> = copies.iter().collect();
        let mut results = self.call(op, &operands, attrs, None, stream)?;
        let is_same = |a: &Tensor, b: &Tensor| a.tensor_ref() == b.tensor_ref();
        for result in &mut results {
            // The results of a collective are the operands that it has changed.
            if let Some(k) = copies.iter().position(|copy| is_same(copy, result)) {
                if !is_same(result, inputs[k]) {
                    self.copy_into(result, inputs[k])?;
                }
                *result = inputs[k].clone();
            }
        }
        Ok(results)
    }
}

/// The device that computes on host memory.
const HOST: DeviceId = DeviceId::cpu(0);

/// Returns whether a copy engine has nothing to do between two memories.
fn is_near(from: &DeviceId, to: &DeviceId) -> bool {
    from == to || (from.is_host() && to.is_host())
}

/// Returns the device that computes on this memory.
///
/// ```
/// # use millstream_types::DeviceId;
/// # use millstream_vm::lowering::compute_device;
/// assert_eq!(compute_device(&DeviceId::pinned(0)), DeviceId::cpu(0));
/// assert_eq!(compute_device(&DeviceId::cuda(1)), DeviceId::cuda(1));
/// ```
pub fn compute_device(memory: &DeviceId) -> DeviceId {
    if memory.is_host() { HOST } else { memory.clone() }
}

/// Returns whether a stream is one of those that run the ops of tensors in `memory`.
#[inline]
pub(crate) fn computes_in(stream: &StreamKey, memory: &DeviceId) -> bool {
    let device = if memory.is_host() { &HOST } else { memory };
    stream.device == *device && stream.ty == StreamType::COMPUTE
}

/// Returns the key of the stream of [`Submitter::staging`].
pub(crate) fn staging_key(policies: &PolicyTable, device: &DeviceId) -> StreamKey {
    let (pinned, devices) = (DeviceId::pinned(0), policies.devices());
    // A probe of an unknown device searches for the nearest name, which takes longer than the first
    // question.
    match devices.serves(&pinned) && devices.probe(&pinned).is_ok() {
        true => StreamKey::new(device.clone(), StreamType::PINNED_COMPUTE, 0),
        false => StreamKey::compute(HOST, 0),
    }
}

/// The stream of the copies into a device's memory.
fn to_device(device: &DeviceId) -> StreamKey {
    StreamKey::new(device.clone(), StreamType::HOST2DEVICE, 0)
}

/// Returns whether a stream reads host memory for the host.
pub(crate) fn reads_host(stream: &StreamKey) -> bool {
    stream.ty == StreamType::COMPUTE && stream.device.kind() == "cpu"
}

/// Returns whether a collective on a stream of `device` has to run on the host, since neither the
/// communicator nor the host reaches the memory of the device.
///
/// ```
/// # use millstream_types::DeviceId;
/// # use millstream_vm::{Machine, MachineConfig, lowering::*};
/// let machine = Machine::new(MachineConfig::default())?;
/// let alone = millstream_comm::SingleRank;
/// assert!(!runs_on_host(machine.policies(), &alone, &DeviceId::cpu(0)));
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub fn runs_on_host(
    policies: &PolicyTable,
    communicator: &dyn Communicator,
    device: &DeviceId,
) -> bool {
    let is_unreachable = |can: Capabilities| !can.host_memory;
    !communicator.reaches(device.kind())
        && policies.devices().capabilities(device).is_ok_and(is_unreachable)
}
