//! Lowers transfers, host reads and composite ops to calls: which copies move a tensor, through
//! which memory, on which streams.
//!
//! The functions compose the calls of a [`Submitter`]: a machine, or a builder without one. A dry
//! run and a run therefore make the same calls.
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
//!
//! Long because its items have examples.

mod composite;
mod offline;

use millstream_comm::Communicator;
use millstream_ep::Capabilities;
use millstream_stream_policy::PolicyTable;
use millstream_types::{Attrs, DeviceId, Error, Result, StreamKey, StreamType, TensorSpec};

pub use composite::InnerCalls;
pub use offline::{OfflineSubmitter, OfflineTensors};

/// Reads of at most this many bytes go through a staging buffer in pinned memory.
const STAGED: usize = 64 << 10;

/// Submits the calls of a lowering.
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_instructions::builder::OfflineSink;
/// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
/// # use millstream_stream_policy::Catalog;
/// # use millstream_types::{Attrs, DType, DeviceId, Origin, StreamKey, TensorSpec};
/// # use millstream_vm::{Machine, MachineConfig, lowering::*};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let policies = machine.policies().clone();
/// # let (config, catalog) = (BuilderConfig::default(), Box::new(Catalog(policies.clone())));
/// # let ops = Arc::new(millstream_ops::standard());
/// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
/// # let (mut sink, mut tensors) = (OfflineSink::default(), OfflineTensors::default());
/// # let mut s = OfflineSubmitter {
/// #     builder: &mut builder,
/// #     sink: &mut sink,
/// #     policies: &policies,
/// #     tensors: &mut tensors,
/// #     section: None,
/// #     origin: &Origin::Unknown,
/// # };
/// let stream = s.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
/// let x = s.empty(&stream, TensorSpec::contiguous(DType::F32, &[2])?)?;
/// let y = s.call("relu", &[&x], &Attrs::new(), None, &stream)?;
/// assert_eq!(s.spec(&y[0])?.to_string(), "f32[2]");
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub trait Submitter {
    /// A tensor.
    type Tensor: Clone;
    /// A stream.
    type Stream: Clone;

    /// Returns the streams and devices that calls can use.
    fn policies(&self) -> &PolicyTable;

    /// Returns a tensor's dtype, shape and layout.
    ///
    /// # Errors
    /// The tensor was released.
    fn spec(&self, tensor: &Self::Tensor) -> Result<TensorSpec>;

    /// Returns the device whose memory a tensor lies in.
    ///
    /// # Errors
    /// The tensor was released.
    fn device(&self, tensor: &Self::Tensor) -> Result<DeviceId>;

    /// Returns the stream that a tensor was made on, if it is known, with its key.
    fn made_on(&self, tensor: &Self::Tensor) -> Option<(StreamKey, Self::Stream)>;

    /// Returns the stream of a tensor's last write, if there was one, with its key.
    ///
    /// # Errors
    /// The tensor was released.
    fn written_on(&self, tensor: &Self::Tensor) -> Result<Option<(StreamKey, Self::Stream)>>;

    /// Returns the stream of this key, in the mode that it has.
    ///
    /// # Errors
    /// No policy serves the stream.
    fn stream(&mut self, key: &StreamKey) -> Result<Self::Stream>;

    /// Returns whether copies on a stream read tensors in `device`'s memory.
    ///
    /// # Errors
    /// The machine cannot be asked.
    fn copies_from(&mut self, stream: &Self::Stream, device: &DeviceId) -> Result<bool>;

    /// Makes a tensor of unspecified content in the memory of `stream`.
    ///
    /// # Errors
    /// The memory is used up.
    fn empty(&mut self, stream: &Self::Stream, spec: TensorSpec) -> Result<Self::Tensor>;

    /// Calls an op that writes only to `out`, or in place. Returns its results.
    ///
    /// # Errors
    /// The op refuses its operands, or a tensor was released.
    fn call(
        &mut self,
        op: &str,
        inputs: &[&Self::Tensor],
        attrs: &Attrs,
        out: Option<&Self::Tensor>,
        stream: &Self::Stream,
    ) -> Result<Vec<Self::Tensor>>;

    /// Returns whether two handles are of one tensor.
    fn is_same(&self, a: &Self::Tensor, b: &Self::Tensor) -> bool;
}

/// Returns a stream that runs ops on a tensor's memory: the tensor's own stream, if that does.
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_instructions::builder::OfflineSink;
/// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
/// # use millstream_stream_policy::Catalog;
/// # use millstream_types::{Attrs, DType, DeviceId, Origin, StreamKey, TensorSpec};
/// # use millstream_vm::{Machine, MachineConfig, lowering::*};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let policies = machine.policies().clone();
/// # let (config, catalog) = (BuilderConfig::default(), Box::new(Catalog(policies.clone())));
/// # let ops = Arc::new(millstream_ops::standard());
/// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
/// # let (mut sink, mut tensors) = (OfflineSink::default(), OfflineTensors::default());
/// # let mut s = OfflineSubmitter {
/// #     builder: &mut builder,
/// #     sink: &mut sink,
/// #     policies: &policies,
/// #     tensors: &mut tensors,
/// #     section: None,
/// #     origin: &Origin::Unknown,
/// # };
/// # let stream = s.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
/// # let x = s.empty(&stream, TensorSpec::contiguous(DType::F32, &[2])?)?;
/// // `x` was made on a stream that computes.
/// assert_eq!(compute_stream(&mut s, &x)?, stream);
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// The tensor was released.
pub fn compute_stream<S: Submitter>(s: &mut S, tensor: &S::Tensor) -> Result<S::Stream> {
    let memory = s.device(tensor)?;
    match s.made_on(tensor) {
        Some((key, stream)) if computes_in(&key, &memory) => Ok(stream),
        _ => s.stream(&StreamKey::compute(compute_device(&memory), 0)),
    }
}

/// The device that computes on host memory.
const HOST: DeviceId = DeviceId::cpu(0);

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

/// Returns a stream that makes tensors in host memory for copies from `device`, in pinned memory
/// where available.
pub(crate) fn staging<S: Submitter>(s: &mut S, device: &DeviceId) -> Result<S::Stream> {
    let key = staging_key(s.policies(), device);
    s.stream(&key)
}

/// Returns the key of the stream of [`staging`].
pub(crate) fn staging_key(policies: &PolicyTable, device: &DeviceId) -> StreamKey {
    let (pinned, devices) = (DeviceId::pinned(0), policies.devices());
    // A probe of an unknown device searches for the nearest name, which takes longer than the first
    // question.
    match devices.serves(&pinned) && devices.probe(&pinned).is_ok() {
        true => StreamKey::new(device.clone(), StreamType::PINNED_COMPUTE, 0),
        false => StreamKey::compute(DeviceId::cpu(0), 0),
    }
}

/// Makes a dense, row-major copy of a tensor in the memory of `stream`.
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_instructions::builder::OfflineSink;
/// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
/// # use millstream_stream_policy::Catalog;
/// # use millstream_types::{Attrs, DType, DeviceId, Origin, StreamKey, TensorSpec};
/// # use millstream_vm::{Machine, MachineConfig, lowering::*};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let policies = machine.policies().clone();
/// # let (config, catalog) = (BuilderConfig::default(), Box::new(Catalog(policies.clone())));
/// # let ops = Arc::new(millstream_ops::standard());
/// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
/// # let (mut sink, mut tensors) = (OfflineSink::default(), OfflineTensors::default());
/// # let mut s = OfflineSubmitter {
/// #     builder: &mut builder,
/// #     sink: &mut sink,
/// #     policies: &policies,
/// #     tensors: &mut tensors,
/// #     section: None,
/// #     origin: &Origin::Unknown,
/// # };
/// # let stream = s.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
/// # let x = s.empty(&stream, TensorSpec::contiguous(DType::F32, &[2])?)?;
/// let y = copy_to(&mut s, &x, &stream)?;
/// assert!(!s.is_same(&x, &y));
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// The tensor was released, or the memory is used up.
pub fn copy_to<S: Submitter>(
    s: &mut S,
    tensor: &S::Tensor,
    stream: &S::Stream,
) -> Result<S::Tensor> {
    let spec = s.spec(tensor)?;
    let target = s.empty(stream, TensorSpec::contiguous(spec.dtype, spec.shape())?)?;
    transfer(s, tensor, &target, stream)?;
    Ok(target)
}

/// Sets the elements of `target`, of the same dtype and shape, to those of `tensor`. Both may be
/// views, also of one storage: `tensor` counts as read in full before `target` is written.
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_instructions::builder::OfflineSink;
/// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
/// # use millstream_stream_policy::Catalog;
/// # use millstream_types::{Attrs, DType, DeviceId, Origin, StreamKey, TensorSpec};
/// # use millstream_vm::{Machine, MachineConfig, lowering::*};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let policies = machine.policies().clone();
/// # let (config, catalog) = (BuilderConfig::default(), Box::new(Catalog(policies.clone())));
/// # let ops = Arc::new(millstream_ops::standard());
/// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
/// # let (mut sink, mut tensors) = (OfflineSink::default(), OfflineTensors::default());
/// # let mut s = OfflineSubmitter {
/// #     builder: &mut builder,
/// #     sink: &mut sink,
/// #     policies: &policies,
/// #     tensors: &mut tensors,
/// #     section: None,
/// #     origin: &Origin::Unknown,
/// # };
/// # let stream = s.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
/// # let x = s.empty(&stream, TensorSpec::contiguous(DType::F32, &[2])?)?;
/// let y = s.empty(&stream, TensorSpec::contiguous(DType::F32, &[2])?)?;
/// copy_into(&mut s, &x, &y)?;
/// let z = s.empty(&stream, TensorSpec::contiguous(DType::F32, &[3])?)?;
/// assert!(copy_into(&mut s, &x, &z).is_err()); // of another shape
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// A tensor was released, the two differ in dtype or shape, elements of `target` overlap, or memory
/// is used up.
pub fn copy_into<S: Submitter>(s: &mut S, tensor: &S::Tensor, target: &S::Tensor) -> Result<()> {
    let (own, given) = (s.spec(tensor)?, s.spec(target)?);
    if own.dtype != given.dtype || own.shape() != given.shape() {
        let message = format!("{} is to be copied into {}", own.brief(), given.brief());
        return Err(Error::Invalid { what: "copy", message });
    }
    let made_on = compute_stream(s, target)?;
    let (from, to) = (s.device(tensor)?, s.device(target)?);
    let is_near = from == to || (from.is_host() && to.is_host());
    if !is_near && given.layout.is_contiguous() {
        return transfer(s, tensor, target, &made_on);
    }
    let near = if is_near { tensor.clone() } else { copy_to(s, tensor, &made_on)? };
    s.call("copy_", &[target, &near], &Attrs::new(), None, &made_on).map(drop)
}

/// Copies `tensor` into `target`, which is dense, of the same shape and made on `stream`.
fn transfer<S: Submitter>(
    s: &mut S,
    tensor: &S::Tensor,
    target: &S::Tensor,
    stream: &S::Stream,
) -> Result<()> {
    let (from, to) = (s.device(tensor)?, s.device(target)?);
    if from == to || (from.is_host() && to.is_host()) {
        return copy(s, tensor, target, stream);
    }
    if !from.is_host() && !to.is_host() {
        let direct = s.stream(&to_device(&to))?;
        if !s.copies_from(&direct, &from)? {
            let host = staging(s, &from)?;
            let staged = copy_to(s, tensor, &host)?;
            return transfer(s, &staged, target, stream);
        }
    }
    let dense = match s.spec(tensor)?.layout.is_contiguous() {
        true => tensor.clone(),
        false => {
            let own = compute_stream(s, tensor)?;
            copy_to(s, tensor, &own)?
        }
    };
    if !to.is_host() {
        return copy_to_device(s, &dense, target).map(drop);
    }
    let copies = s.stream(&StreamKey::new(from, StreamType::DEVICE2HOST, 0))?;
    copy(s, &dense, target, &copies)
}

/// The stream of the copies into a device's memory.
fn to_device(device: &DeviceId) -> StreamKey {
    StreamKey::new(device.clone(), StreamType::HOST2DEVICE, 0)
}

/// Copies `tensor` into `target` in a device's memory, in one step on the stream returned.
pub(crate) fn copy_to_device<S: Submitter>(
    s: &mut S,
    tensor: &S::Tensor,
    target: &S::Tensor,
) -> Result<S::Stream> {
    let device = s.device(target)?;
    let copies = s.stream(&to_device(&device))?;
    copy(s, tensor, target, &copies)?;
    Ok(copies)
}

fn copy<S: Submitter>(
    s: &mut S,
    tensor: &S::Tensor,
    target: &S::Tensor,
    stream: &S::Stream,
) -> Result<()> {
    s.call("copy", &[tensor], &Attrs::new(), Some(target), stream).map(drop)
}

/// Returns the tensor that the host reads in place of `tensor`, and the stream that reads it, if
/// `tensor` has to be copied first: a small tensor of a device goes to pinned memory, where
/// available, as a read of other memory would have to. A tensor that the host cannot read in place
/// is copied in any case.
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_instructions::builder::OfflineSink;
/// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
/// # use millstream_stream_policy::Catalog;
/// # use millstream_types::{Attrs, DType, DeviceId, Origin, StreamKey, TensorSpec};
/// # use millstream_vm::{Machine, MachineConfig, lowering::*};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let policies = machine.policies().clone();
/// # let (config, catalog) = (BuilderConfig::default(), Box::new(Catalog(policies.clone())));
/// # let ops = Arc::new(millstream_ops::standard());
/// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
/// # let (mut sink, mut tensors) = (OfflineSink::default(), OfflineTensors::default());
/// # let mut s = OfflineSubmitter {
/// #     builder: &mut builder,
/// #     sink: &mut sink,
/// #     policies: &policies,
/// #     tensors: &mut tensors,
/// #     section: None,
/// #     origin: &Origin::Unknown,
/// # };
/// # let stream = s.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
/// # let x = s.empty(&stream, TensorSpec::contiguous(DType::F32, &[2])?)?;
/// assert!(stage_read(&mut s, &x)?.is_none()); // the host reads its own memory
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// The tensor was released, or the memory is used up.
pub fn stage_read<S: Submitter>(
    s: &mut S,
    tensor: &S::Tensor,
) -> Result<Option<(S::Tensor, S::Stream)>> {
    let (spec, device) = (s.spec(tensor)?, s.device(tensor)?);
    if device.is_host() {
        return Ok(None);
    }
    let dense = TensorSpec::contiguous(spec.dtype, spec.shape())?;
    let devices = s.policies().devices();
    let is_small = dense.span_bytes() <= STAGED && devices.probe(&DeviceId::pinned(0)).is_ok();
    if !is_small && devices.capabilities(&device).is_ok_and(|can| can.host_memory) {
        return Ok(None);
    }
    let memory = staging(s, &device)?;
    let target = s.empty(&memory, dense)?;
    let copies = s.stream(&StreamKey::new(device, StreamType::DEVICE2HOST, 0))?;
    copy(s, tensor, &target, &copies)?;
    Ok(Some((target, copies)))
}

/// Returns the stream that reads a tensor in place for the host: for host memory that of its last
/// write, where a read needs no wait.
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_instructions::builder::OfflineSink;
/// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
/// # use millstream_stream_policy::Catalog;
/// # use millstream_types::{Attrs, DType, DeviceId, Origin, StreamKey, TensorSpec};
/// # use millstream_vm::{Machine, MachineConfig, lowering::*};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let policies = machine.policies().clone();
/// # let (config, catalog) = (BuilderConfig::default(), Box::new(Catalog(policies.clone())));
/// # let ops = Arc::new(millstream_ops::standard());
/// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
/// # let (mut sink, mut tensors) = (OfflineSink::default(), OfflineTensors::default());
/// # let mut s = OfflineSubmitter {
/// #     builder: &mut builder,
/// #     sink: &mut sink,
/// #     policies: &policies,
/// #     tensors: &mut tensors,
/// #     section: None,
/// #     origin: &Origin::Unknown,
/// # };
/// # let stream = s.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
/// # let x = s.empty(&stream, TensorSpec::contiguous(DType::F32, &[2])?)?;
/// let value = Attrs::new().with("value", 1.5);
/// s.call("fill", &[&x], &value, None, &stream)?;
/// assert_eq!(read_stream(&mut s, &x)?, stream); // its last write's
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// The tensor was released.
pub fn read_stream<S: Submitter>(s: &mut S, tensor: &S::Tensor) -> Result<S::Stream> {
    let device = s.device(tensor)?;
    if !device.is_host() {
        return s.stream(&StreamKey::new(device, StreamType::DEVICE2HOST, 0));
    }
    match s.written_on(tensor)? {
        Some((key, stream)) if reads_host(&key) => Ok(stream),
        _ => s.stream(&StreamKey::compute(DeviceId::cpu(0), 0)),
    }
}

/// Returns whether a stream reads host memory for the host.
pub(crate) fn reads_host(stream: &StreamKey) -> bool {
    stream.ty == StreamType::COMPUTE && stream.device.kind() == "cpu"
}

/// Returns whether a collective on a stream of `device` has to run on the host, since neither the
/// communicator nor the host reaches the memory of the device.
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_instructions::builder::OfflineSink;
/// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
/// # use millstream_stream_policy::Catalog;
/// # use millstream_types::{Attrs, DType, DeviceId, Origin, StreamKey, TensorSpec};
/// # use millstream_vm::{Machine, MachineConfig, lowering::*};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let policies = machine.policies().clone();
/// # let (config, catalog) = (BuilderConfig::default(), Box::new(Catalog(policies.clone())));
/// # let ops = Arc::new(millstream_ops::standard());
/// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
/// # let (mut sink, mut tensors) = (OfflineSink::default(), OfflineTensors::default());
/// # let mut s = OfflineSubmitter {
/// #     builder: &mut builder,
/// #     sink: &mut sink,
/// #     policies: &policies,
/// #     tensors: &mut tensors,
/// #     section: None,
/// #     origin: &Origin::Unknown,
/// # };
/// let alone = millstream_comm::SingleRank;
/// assert!(!runs_on_host(&policies, &alone, &DeviceId::cpu(0)));
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

/// Makes a collective on a stream of `device` in another way than as a call: on the host, or on
/// dense copies of strided operands on a device that the communicator reaches. Returns none if it
/// can be made as a call.
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_instructions::builder::OfflineSink;
/// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
/// # use millstream_stream_policy::Catalog;
/// # use millstream_types::{Attrs, DType, DeviceId, Origin, StreamKey, TensorSpec};
/// # use millstream_vm::{Machine, MachineConfig, lowering::*};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let policies = machine.policies().clone();
/// # let (config, catalog) = (BuilderConfig::default(), Box::new(Catalog(policies.clone())));
/// # let ops = Arc::new(millstream_ops::standard());
/// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
/// # let (mut sink, mut tensors) = (OfflineSink::default(), OfflineTensors::default());
/// # let mut s = OfflineSubmitter {
/// #     builder: &mut builder,
/// #     sink: &mut sink,
/// #     policies: &policies,
/// #     tensors: &mut tensors,
/// #     section: None,
/// #     origin: &Origin::Unknown,
/// # };
/// # let stream = s.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
/// # let x = s.empty(&stream, TensorSpec::contiguous(DType::F32, &[2])?)?;
/// let (alone, device) = (millstream_comm::SingleRank, DeviceId::cpu(0));
/// let place = (&stream, &device);
/// let made = collective(&mut s, &alone, place, "allreduce_", &[&x], &Attrs::new())?;
/// assert!(made.is_none()); // a call will do
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// A call or a copy is refused.
pub fn collective<S: Submitter>(
    s: &mut S,
    communicator: &dyn Communicator,
    (stream, device): (&S::Stream, &DeviceId),
    op: &str,
    inputs: &[&S::Tensor],
    attrs: &Attrs,
) -> Result<Option<Vec<S::Tensor>>> {
    if runs_on_host(s.policies(), communicator, device) {
        let host = s.stream(&StreamKey::new(DeviceId::cpu(0), StreamType::CCL, 0))?;
        return on_copies(s, &host, op, inputs, attrs, |_| true).map(Some);
    }
    let is_strided = |spec: &TensorSpec| !spec.layout.is_contiguous();
    let specs = inputs.iter().map(|input| s.spec(input)).collect::<Result<Vec<TensorSpec>>>()?;
    match communicator.reaches(device.kind()) && specs.iter().any(is_strided) {
        true => on_copies(s, stream, op, inputs, attrs, is_strided).map(Some),
        false => Ok(None),
    }
}

/// Runs a collective on copies of its operands in the memory of a stream, and copies back the
/// elements that it changed in place. Each of the three is a call like any other: the builder finds
/// their waits, and only data flow carries their failures. No worker waits for the other ranks.
///
/// # Errors
/// A call or a copy is refused.
fn on_copies<S: Submitter>(
    s: &mut S,
    stream: &S::Stream,
    op: &str,
    inputs: &[&S::Tensor],
    attrs: &Attrs,
    is_copied: impl Fn(&TensorSpec) -> bool,
) -> Result<Vec<S::Tensor>> {
    let mut copies = Vec::with_capacity(inputs.len());
    for &input in inputs {
        copies.push(match is_copied(&s.spec(input)?) {
            true => copy_to(s, input, stream)?,
            false => input.clone(),
        });
    }
    let operands: Vec<&S::Tensor> = copies.iter().collect();
    let results = s.call(op, &operands, attrs, None, stream)?;
    let mut returned = Vec::with_capacity(results.len());
    for result in results {
        // The results of a collective are the operands that it has changed.
        match copies.iter().position(|copy| s.is_same(copy, &result)) {
            Some(k) => {
                if !s.is_same(&result, inputs[k]) {
                    copy_into(s, &result, inputs[k])?;
                }
                returned.push(inputs[k].clone());
            }
            None => returned.push(result),
        }
    }
    Ok(returned)
}
