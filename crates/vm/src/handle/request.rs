//! What programs ask of a machine, and the layers that stand before the machine: a scope of
//! autocast, the tape of gradients, a recording, a trace.
//!
//! Long because it lists all verbs, and what layers see of each.
//!
//! Each method that submits something describes it as a [`Request`], and passes what the machine
//! does with it as a function. A layer notes a request, replaces it, refuses it, or gives it to the
//! layer below; the machine's function comes last. Layers install themselves on their thread, and
//! nothing here knows them.
//!
//! # Rules
//! 1. A thread without a layer pays for the load of one word, a branch and a direct call.
//! 2. The order of layers is fixed: [`Rank`].
//! 3. The layers of recordings and traces match over all verbs, so a new verb does not compile
//!    before they have decided. The others pass on the rest.
//! 4. What a layer or the machine submits for a request is a request of its own, from the top.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use millstream_instructions::{Priority, TensorRef};
use millstream_runtime::sync::thread_local;
use millstream_types::{Access, Attrs, Error, Origin, Point, Result, TensorSpec};

use crate::handle::generator::Generator;
use crate::handle::leaf::Leaf;
use crate::handle::machine::Machine;
use crate::handle::seed::Seed;
use crate::handle::tensor::OfRecording;
use crate::handle::{Event, Stream, Tensor};

/// The results of a call. Most have one.
pub(crate) type Results = SmallVec<[Tensor; 1]>;

/// Something that a program asks of a machine.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) verb: Verb<'a>,
    /// Whether it is made from within a critical section.
    pub(crate) is_within: bool,
    pub(crate) origin: &'a Origin,
}

/// What is asked.
#[derive(Clone, Copy)]
pub(crate) enum Verb<'a> {
    /// A call of an op.
    Op(OpCall<'a>),
    /// A call of a composite op, or of a method like it. Its calls are requests of their own.
    Composite(OpCall<'a>),
    /// A call of an op whose results' sizes are not waited for.
    Bounded {
        call: OpCall<'a>,
        operands: Operands<'a>,
    },
    /// The wait for the size of a result, for a reason.
    Size {
        machine: &'a Machine,
        reason: &'a str,
    },
    /// The begin of a batch of prepared calls.
    Batch {
        machine: &'a Machine,
    },
    /// A prepared call.
    Prepared {
        machine: &'a Machine,
        in_batch: bool,
        operands: Operands<'a>,
    },
    /// A launch of an executable.
    Launch {
        machine: &'a Machine,
        operands: Operands<'a>,
    },
    /// A push of a function of the program.
    Push {
        machine: &'a Machine,
    },
    /// A tensor of unspecified content.
    Empty {
        spec: &'a TensorSpec,
        bytes: u64,
        stream: &'a Stream,
    },
    /// A tensor in another library's memory.
    Import {
        machine: &'a Machine,
    },
    /// A tensor on the storage of another.
    View {
        of: &'a Tensor,
        spec: &'a TensorSpec,
    },
    /// A tensor with elements of the host. The machine takes them.
    Upload {
        spec: &'a TensorSpec,
        bytes: &'a RefCell<Vec<u8>>,
        stream: &'a Stream,
    },
    /// A copy to the memory of a stream.
    Copy {
        of: &'a Tensor,
    },
    /// A copy into a tensor.
    CopyInto {
        of: &'a Tensor,
        target: &'a Tensor,
    },
    /// A read of the elements by the host.
    Read {
        tensor: &'a Tensor,
    },
    /// A host function on the memory of a tensor.
    Access {
        tensor: &'a Tensor,
        access: Access,
    },
    /// The end of a tensor before its last handle's.
    Release {
        tensor: &'a Tensor,
    },
    /// A use of tensors without a computation.
    Touch {
        tensors: &'a [&'a Tensor],
        stream: &'a Stream,
    },
    RecordEvent {
        event: &'a Event,
        stream: &'a Stream,
    },
    /// `at` is the newest record, if the event has one.
    WaitEvent {
        event: &'a Event,
        stream: &'a Stream,
        at: Option<Point>,
    },
    WaitStream {
        stream: &'a Stream,
        source: &'a Stream,
    },
    Barrier {
        machine: &'a Machine,
        global: bool,
    },
    BeginSection {
        machine: &'a Machine,
    },
    EndSection {
        machine: &'a Machine,
    },
    /// A tensor becomes one with a gradient.
    BeginLeaf {
        tensor: &'a Tensor,
        leaf: &'a Arc<Leaf>,
    },
    ReadGradient {
        leaf: &'a Arc<Leaf>,
    },
    SetGradient {
        leaf: &'a Arc<Leaf>,
    },
    /// A draw from a generator.
    Draw {
        generator: &'a Generator,
    },
    /// Another use of a generator, in words.
    UseGenerator {
        generator: &'a Generator,
        use_of: &'a str,
    },
    /// A number of the program, which these tensors hold, is set.
    SetNumber {
        tensors: &'a [Tensor],
    },
    /// A tensor that [`outside`] has made is state of the program.
    Adopt {
        tensor: &'a Tensor,
    },
}

/// A call of an op.
#[derive(Clone, Copy)]
pub(crate) struct OpCall<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) name: &'a str,
    pub(crate) inputs: &'a [&'a Tensor],
    pub(crate) out: Option<&'a [&'a Tensor]>,
    pub(crate) attrs: &'a Attrs,
    pub(crate) stream: &'a Stream,
    pub(crate) priority: Priority,
}

/// The operands of a call of which a tape makes no note. Only a layer asks for them.
pub(crate) type Operands<'a> = &'a dyn Fn() -> Vec<RawOperand<'a>>;

/// An operand of a call, as far as it is known.
pub(crate) struct RawOperand<'a> {
    /// None if only its handle is known.
    pub(crate) tensor: Option<&'a Tensor>,
    pub(crate) address: usize,
    pub(crate) storage: Option<u64>,
    pub(crate) is_written: bool,
}

impl<'a> RawOperand<'a> {
    /// Returns an operand whose tensor is known.
    pub(crate) fn new(tensor: &'a Tensor, access: Access) -> RawOperand<'a> {
        RawOperand {
            tensor: Some(tensor),
            address: tensor.address(),
            storage: tensor.storage_number(),
            is_written: access.writes(),
        }
    }
}

impl<'a> Request<'a> {
    /// Returns a request from outside of critical sections.
    #[inline(always)]
    pub(crate) const fn new(verb: Verb<'a>, origin: &'a Origin) -> Request<'a> {
        Request { verb, is_within: false, origin }
    }
}

/// What a request returns, as layers know it.
pub(crate) enum Reply {
    /// Nothing that a layer uses; a layer that replaces the request makes nothing else.
    Done,
    Tensors(Results),
    Bytes(Vec<u8>),
    Recorded(Point),
    Drawn(Seed),
}

/// The result of the machine's part of a request.
pub(crate) trait Answer: Sized {
    /// Returns what layers see of it. What they do not see is put into `kept`.
    fn reply(self, kept: &mut Option<Self>) -> Reply;

    /// Returns the answer of the whole request; none if the reply is of another kind.
    fn of(reply: Reply, kept: Option<Self>) -> Option<Self>;
}

macro_rules! answer {
    ($reply:ident: $ty:ty) => {
        impl Answer for $ty {
            fn reply(self, _: &mut Option<Self>) -> Reply {
                Reply::$reply(self)
            }

            fn of(reply: Reply, _: Option<Self>) -> Option<Self> {
                if let Reply::$reply(answer) = reply { Some(answer) } else { None }
            }
        }
    };
}

answer! { Tensors: Results }
answer! { Bytes: Vec<u8> }
answer! { Drawn: Seed }

impl Answer for Tensor {
    fn reply(self, _: &mut Option<Self>) -> Reply {
        Reply::Tensors(smallvec![self])
    }

    fn of(reply: Reply, _: Option<Self>) -> Option<Self> {
        if let Reply::Tensors(mut tensors) = reply { tensors.pop() } else { None }
    }
}

/// An answer that no layer looks at; none if a layer has replaced the request.
impl<T> Answer for Option<T> {
    fn reply(self, kept: &mut Option<Self>) -> Reply {
        *kept = Some(self);
        Reply::Done
    }

    fn of(_: Reply, kept: Option<Self>) -> Option<Self> {
        Some(kept.flatten())
    }
}

/// An answer that no layer looks at, or can make.
pub(crate) struct Sole<T>(pub(crate) T);

impl<T> Answer for Sole<T> {
    fn reply(self, kept: &mut Option<Self>) -> Reply {
        *kept = Some(self);
        Reply::Done
    }

    fn of(_: Reply, kept: Option<Self>) -> Option<Self> {
        kept
    }
}

/// The layers, the uppermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// A scope casts operands.
    Autocast,
    /// The tape notes what its results depend on.
    Gradient,
    /// A recording replaces calls.
    Record,
    /// A trace notes calls, and compares them with an earlier run.
    Trace,
}

const RANKS: usize = 4;

impl Rank {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A layer. It keeps its state by thread.
pub(crate) trait Layer: Sync {
    /// Notes, replaces or refuses a request, or gives it to `next`.
    ///
    /// # Errors
    /// The layer refuses it, or that of `next`.
    fn submit(&self, request: &Request<'_>, next: Next<'_, '_>) -> Result<Reply>;

    /// Notes the end of a tensor.
    fn ended(&self, _: &Machine, _: Ended) {}

    /// Returns the number of the recording under way, which its draws name.
    fn recording(&self) -> Option<u64> {
        None
    }
}

/// A tensor that has ended.
#[derive(Clone, Copy)]
pub(crate) enum Ended {
    Made(TensorRef),
    Recorded(OfRecording),
}

thread_local! {
    /// The layers of this thread, a bit each. Every request reads it.
    static MODES: Cell<u8> = const { Cell::new(0) };
}

thread_local! {
    static LAYERS: Cell<[Option<&'static dyn Layer>; RANKS]> = const { Cell::new([None; RANKS]) };
}

/// Returns whether this thread has layers.
#[inline]
pub(crate) fn is_any() -> bool {
    MODES.with(Cell::get) != 0
}

/// Returns whether this thread has a layer of this rank.
#[inline]
pub(crate) fn is_on(rank: Rank) -> bool {
    MODES.with(Cell::get) & rank.bit() != 0
}

/// Installs a layer on this thread, or removes the one of this rank.
pub(crate) fn install(rank: Rank, layer: Option<&'static dyn Layer>) {
    let modes = MODES.with(Cell::get) & !rank.bit();
    MODES.with(|own| own.set(if layer.is_some() { modes | rank.bit() } else { modes }));
    LAYERS.with(|own| {
        let mut layers = own.get();
        layers[rank as usize] = layer;
        own.set(layers);
    });
}

/// Requests of this thread pass these layers by until the guard is dropped.
pub(crate) fn suspend(ranks: &[Rank]) -> Suspended {
    let before = MODES.with(Cell::get);
    let suspended = ranks.iter().fold(0, |bits, rank| bits | (before & rank.bit()));
    MODES.with(|own| own.set(before & !suspended));
    Suspended(suspended)
}

/// See [`suspend`].
pub(crate) struct Suspended(u8);

impl Drop for Suspended {
    fn drop(&mut self) {
        MODES.with(|own| own.set(own.get() | self.0));
    }
}

/// The layers below one, and the machine.
pub(crate) struct Next<'n, 'm> {
    /// The layers that the request has yet to pass.
    modes: u8,
    machine: &'n mut (dyn FnMut(&Request<'_>) -> Result<Reply> + 'm),
}

impl Next<'_, '_> {
    /// Gives a request to the next layer, or to the machine.
    ///
    /// # Errors
    /// Theirs.
    pub(crate) fn submit(self, request: &Request<'_>) -> Result<Reply> {
        if self.modes == 0 {
            return (self.machine)(request);
        }
        let at = self.modes.trailing_zeros();
        let next = Next { modes: self.modes & (self.modes - 1), machine: self.machine };
        match LAYERS.with(Cell::get)[at as usize] {
            Some(layer) => layer.submit(request, next),
            None => next.submit(request),
        }
    }
}

/// Submits a request: to the layers of this thread, and then to the machine.
///
/// # Errors
/// A layer refuses it, or that of `machine`.
#[inline(always)]
pub(crate) fn submit<'a, T: Answer>(
    request: Request<'a>,
    machine: impl FnOnce(&Request<'_>) -> Result<T>,
) -> Result<T> {
    if is_any() { submit_by(MODES.with(Cell::get), request, machine) } else { machine(&request) }
}

#[cold]
fn submit_by<T: Answer>(
    modes: u8,
    request: Request<'_>,
    machine: impl FnOnce(&Request<'_>) -> Result<T>,
) -> Result<T> {
    let (mut machine, mut kept) = (Some(machine), None);
    let mut once = |request: &Request<'_>| match machine.take() {
        Some(machine) => machine(request).map(|answer| answer.reply(&mut kept)),
        None => Err(mistake("a layer submits a request twice")),
    };
    let next = Next { modes, machine: &mut once };
    let reply = next.submit(&request)?;
    T::of(reply, kept).ok_or_else(|| mistake("a layer replies with another kind of answer"))
}

/// The layers that see a call on whole global tensors; those below see the calls on a rank's parts.
const ABOVE_PARTS: &[Rank] = &[Rank::Autocast, Rank::Gradient];

/// Submits a request on whole global tensors: to the layers that see it, and then to the machine,
/// whose own requests pass these layers by.
///
/// # Errors
/// As [`submit`].
pub(crate) fn submit_whole<'a, T: Answer>(
    request: Request<'a>,
    machine: impl FnOnce(&Request<'_>) -> Result<T>,
) -> Result<T> {
    let bits = ABOVE_PARTS.iter().fold(0, |bits, rank| bits | rank.bit());
    let modes = MODES.with(Cell::get) & bits;
    if modes == 0 {
        return machine(&request);
    }
    submit_by(modes, request, |request| {
        let _own = suspend(ABOVE_PARTS);
        machine(request)
    })
}

fn mistake(message: &str) -> Error {
    Error::Internal { message: message.to_owned() }
}

/// Tells the layers of this thread of the end of a tensor.
#[inline]
pub(crate) fn ended(machine: &Machine, tensor: Ended) {
    if is_any() {
        layers().for_each(|layer| layer.ended(machine, tensor));
    }
}

/// Returns whether this is the number of a recording of this thread.
pub(crate) fn is_recording(number: u64) -> bool {
    layers().any(|layer| layer.recording() == Some(number))
}

/// Returns the layers of this thread.
fn layers() -> impl Iterator<Item = &'static dyn Layer> {
    let (modes, layers) = (MODES.with(Cell::get), LAYERS.with(Cell::get));
    let is_on = move |(at, _): &(usize, _)| modes & 1 << at != 0;
    layers.into_iter().enumerate().filter(is_on).filter_map(|(_, layer)| layer)
}

/// Makes a tensor of state, which recordings and traces take from elsewhere.
///
/// # Errors
/// That of `make`.
pub(crate) fn outside(make: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    let made = {
        let _suspended = suspend(&[Rank::Record, Rank::Trace]);
        make()?
    };
    let adopt = Request::new(Verb::Adopt { tensor: &made }, made.made_at());
    submit(adopt, |_| Ok(Some(())))?;
    Ok(made)
}
