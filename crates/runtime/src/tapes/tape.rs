//! Tapes: the compiled form of a list, one for each worker that takes part.
//!
//! A tape is a sequence of steps that one stream of a worker runs in order. Its calls name their
//! operands as a base and an offset: a launch fills in the bases, which are the storages of the
//! formals and the private memory of an instance. Waits name another tape and a number of its
//! steps. Nothing of a tape changes while it runs, so all launches share it.

use std::sync::Arc;

use millstream_instructions::InstructionList;
use millstream_kernels::PreparedKernel;
use millstream_ops::collective::Channel;
use millstream_types::{
    Access, Attrs, DeviceId, OpId, Origin, ReadId, StreamKey, TensorId, TensorSpec,
};

use crate::host::SharedCallback;
use crate::profile::recording::StepSource;

use super::graph::GraphPlan;

/// The address of an operand before a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Which of the launch's bases.
    pub base: u32,
    /// The distance from the base, in bytes.
    pub offset: u64,
}

/// An address in eight bytes: the offset above 16 bits of the base. The loop over the steps reads
/// little else, so their size counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedAddress(u64);

impl PackedAddress {
    /// Returns an address that fits.
    pub fn new(address: Address) -> Option<PackedAddress> {
        let base = u16::try_from(address.base).ok()?;
        let packed = PackedAddress(address.offset << 16 | u64::from(base));
        (packed.offset() == address.offset).then_some(packed)
    }

    pub(crate) const fn base(self) -> usize {
        self.0 as u16 as usize
    }

    /// Returns the offset. It is negative where the layout's start is before the given tensor's.
    pub(crate) const fn offset(self) -> u64 {
        (self.0 as i64 >> 16) as u64
    }
}

/// One step of a tape.
pub enum Action {
    /// Calls a kernel on the operands at `addresses[first..first + count]` of the tape. A kernel
    /// that was not prepared runs through its context.
    Call { kernel: Option<Arc<dyn PreparedKernel>>, first: u32, count: u8, call: u32 },
    /// Waits until another tape has completed so many steps.
    Wait { tape: u16, steps: u32 },
    /// Records a native event, for the tapes that wait for it on the device.
    Record { event: u16, call: u32 },
    /// Waits on the device for an event that another tape records as its step number `steps`.
    WaitOnDevice { event: u16, tape: u16, steps: u32, call: u32 },
    /// Reads a tensor into the launch's result number `into`.
    Read { call: u32, into: u16 },
    /// Calls a host function with a tensor's memory.
    Callback { call: u32, callback: u16 },
    /// Meets all ranks.
    GlobalSync { call: u32 },
}

// Two steps are a cache line.
const _: () = assert!(size_of::<Action>() == 32);

/// An operand of a step, for errors and for poison.
#[derive(Clone, Debug)]
pub struct StepOperand {
    /// Its name in the list.
    pub tensor: TensorId,
    /// Its storage among those of the list; the first ones are the formals'.
    pub storage: u32,
    pub access: Access,
    pub address: Address,
    pub spec: Arc<TensorSpec>,
}

/// What a step needs beyond its fast path.
#[derive(Clone, Debug)]
pub struct StepCall {
    /// The kind of instruction, for errors.
    pub kind: &'static str,
    pub op: Option<OpId>,
    pub operands: Box<[StepOperand]>,
    pub attrs: Option<Arc<Attrs>>,
    /// Their position in [`Program::given`], if each launch gives some of them.
    pub given: Option<u32>,
    /// The scratch memory and its size in bytes.
    pub workspace: Option<Box<(Address, u64)>>,
    pub origin: Origin,
    /// For a collective its channel, by position in [`Program::channels`], and its number among the
    /// channel's calls of a launch.
    pub number: Option<Box<(u16, u64)>>,
}

/// The steps of one stream of one worker.
pub struct Tape {
    /// The stream whose native stream runs the calls.
    pub key: StreamKey,
    /// Its position among the tapes that the host's workers share; none for a tape that runs on
    /// the worker of its own device.
    pub on_host: Option<u16>,
    pub steps: Box<[Action]>,
    /// For each step, whether another tape waits for it, so that its end is published.
    pub publishes: Box<[bool]>,
    /// For each step, what it is made for. Recordings of times share it.
    pub sources: Arc<[StepSource]>,
    pub addresses: Box<[PackedAddress]>,
    pub calls: Box<[StepCall]>,
}

/// How the tensor of a formal comes to a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormalKind {
    /// Given at each launch.
    Input,
    /// New with each launch, unless the program gives one.
    Output,
    /// Given when the list was recorded.
    Bound,
}

/// What the program's list does not say of one of its externals.
#[derive(Clone, Debug)]
pub struct Formal {
    pub kind: FormalKind,
    /// That of the external, shared with the operands of steps.
    pub spec: Arc<TensorSpec>,
    /// The union of all accesses to it; none if the list does not use it.
    pub access: Option<Access>,
    /// The bytes of its storage that the list uses.
    pub begin: u64,
    pub end: u64,
}

/// A result that a launch names.
#[derive(Clone, Debug)]
pub struct OutputSpec {
    pub name: String,
    /// The formal whose storage holds it.
    pub formal: usize,
    pub spec: Arc<TensorSpec>,
}

/// A compiled list.
pub struct Program {
    pub list: InstructionList,
    /// One for each external of the list.
    pub formals: Box<[Formal]>,
    pub outputs: Box<[OutputSpec]>,
    /// The private memory of an instance: for each device, so many bytes. Base number
    /// `formals.len() + k` is the first byte of the k-th.
    pub memory: Box<[(DeviceId, u64)]>,
    pub tapes: Box<[Tape]>,
    /// The tapes that are launched as graphs.
    pub graphs: Box<[GraphPlan]>,
    /// How many native events a launch needs.
    pub events: u16,
    /// The host reads, by their ids in the list.
    pub reads: Box<[ReadId]>,
    pub callbacks: Box<[SharedCallback]>,
    /// The channels of the collectives, each with the number of its calls.
    pub channels: Box<[(Channel, u64)]>,
    /// The arguments of the calls to which each launch gives some.
    pub given: Box<[Arc<Attrs>]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_packed_where_they_fit() {
        let packed = |base, offset| PackedAddress::new(Address { base, offset });
        for (base, offset) in [(0, 0), (65_535, 1), (3, (1 << 47) - 1), (3, u64::MAX - 511)] {
            let packed = packed(base, offset).unwrap();
            assert_eq!((packed.base(), packed.offset()), (base as usize, offset));
        }
        assert_eq!(packed(65_536, 0), None);
        assert_eq!(packed(0, 1 << 47), None);
    }
}
