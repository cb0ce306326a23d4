//! Random programs for the passes, emitted by the builder: calls with stated accesses on several
//! streams, views, releases, reads, callbacks, collectives, sections, events and barriers.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use proptest::sample::{Index, select};

use millstream_instructions::builder::{
    Call, EventRef, InstructionsBuilder, OfflineSink, Outcome, Output, TensorRef,
};
use millstream_instructions::{InstructionList, Priority};
use millstream_ops::{ArgDoc, CallSpec, Op, OpRegistry, OutputSpec, Signature};
use millstream_types::{
    Access, Attrs, CallbackId, DType, DeviceId, Layout, Origin, ReadId, Result, StreamId,
    StreamKey, StreamMode, StreamType, TensorSpec,
};
use smallvec::SmallVec;

/// Elements of every storage of 4 bytes each.
const ELEMENTS: usize = 160;

/// An op whose arguments state its accesses and its workspace.
struct AnyUse(&'static str);

impl Op for AnyUse {
    fn name(&self) -> &str {
        self.0
    }

    fn summary(&self) -> &str {
        "Uses its operands as `accesses` says."
    }

    fn inputs(&self) -> &[ArgDoc] {
        &[]
    }

    fn takes(&self, _: usize) -> bool {
        true
    }

    fn attrs(&self) -> &[ArgDoc] {
        const {
            &[
                ArgDoc::new("accesses", "for each operand, the number of an access"),
                ArgDoc::new("workspace", "bytes"),
            ]
        }
    }

    fn signature(&self, call: CallSpec<'_>) -> Result<Signature> {
        let all = [Access::Read, Access::Write, Access::ReadWrite];
        let accesses = call.attrs.ints("accesses")?.unwrap_or_default();
        let accesses: SmallVec<_> = accesses.iter().map(|&k| all[k as usize]).collect();
        let first = accesses.first().map(|_| OutputSpec::Same(0));
        let workspace = call.attrs.int("workspace")?.unwrap_or(0) as usize;
        Ok(Signature { accesses, outputs: first.into_iter().collect(), workspace })
    }
}

/// The ops of random programs.
pub(crate) static OPS: LazyLock<Arc<OpRegistry>> = LazyLock::new(|| {
    let mut ops = millstream_ops::standard();
    for name in ["f", "g", "h"] {
        ops.register(Arc::new(AnyUse(name)));
    }
    Arc::new(ops)
});

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Allocate {
        rows: usize,
    },
    Call {
        op: u32,
        operands: Vec<(Index, Access)>,
        workspace: bool,
    },
    /// Calls of elementwise ops, each on the result of the one before and perhaps on another
    /// tensor; and whether that result is kept.
    Chain {
        ops: Vec<(&'static str, Index, bool)>,
        from: Index,
    },
    Touch(Index),
    View {
        of: Index,
        half: bool,
    },
    Release(Index),
    Record,
    WaitEvent(Index),
    WaitStream(Index),
    Read(Index),
    Callback(Index, Access),
    Collective(Index),
    Barrier {
        global: bool,
    },
    Section(Index),
}

pub(crate) type Steps = Vec<(Index, Action)>;

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Steps> {
    let index = any::<Index>;
    let access = || select(vec![Access::Read, Access::Read, Access::Write, Access::ReadWrite]);
    let operands = proptest::collection::vec((index(), access()), 1..4);
    let op = select(vec!["relu", "neg", "add", "mul", "maximum"]);
    let keeps = proptest::bool::weighted(0.15);
    let action = prop_oneof![
        6 => (1usize..4).prop_map(|rows| Action::Allocate { rows }),
        16 => (0u32..3, operands, proptest::bool::weighted(0.15))
            .prop_map(|(op, operands, workspace)| Action::Call { op, operands, workspace }),
        5 => (proptest::collection::vec((op, index(), keeps), 1..6), index())
            .prop_map(|(ops, from)| Action::Chain { ops, from }),
        1 => index().prop_map(Action::Touch),
        2 => (index(), any::<bool>()).prop_map(|(of, half)| Action::View { of, half }),
        5 => index().prop_map(Action::Release),
        1 => Just(Action::Record),
        1 => index().prop_map(Action::WaitEvent),
        1 => index().prop_map(Action::WaitStream),
        1 => index().prop_map(Action::Read),
        1 => (index(), access()).prop_map(|(on, access)| Action::Callback(on, access)),
        1 => index().prop_map(Action::Collective),
        1 => any::<bool>().prop_map(|global| Action::Barrier { global }),
        1 => index().prop_map(Action::Section),
    ];
    proptest::collection::vec((index(), action), 0..most)
}

/// The streams of a program: of the host or of a device.
pub(crate) fn streams() -> impl Strategy<Value = (bool, Vec<StreamMode>)> {
    let mode = prop_oneof![4 => Just(StreamMode::InOrder), 1 => Just(StreamMode::Pool)];
    (any::<bool>(), proptest::collection::vec(mode, 1..4))
}

struct Program {
    builder: InstructionsBuilder,
    sink: OfflineSink,
    streams: Vec<StreamId>,
    collectives: StreamId,
    barrier: StreamId,
    section: StreamId,
    tensors: Vec<TensorRef>,
    events: Vec<EventRef>,
    effects: u32,
    origins: u32,
}

fn spec(rows: usize) -> TensorSpec {
    TensorSpec::contiguous(DType::F32, &[rows * ELEMENTS]).unwrap()
}

/// Returns the list of a program whose memory has at most `limit` bytes where it can do with that.
pub(crate) fn emit(
    streams: &(bool, Vec<StreamMode>),
    limit: u64,
    steps: &Steps,
) -> InstructionList {
    let (on_host, modes) = streams;
    let device = if *on_host { DeviceId::cpu(0) } else { DeviceId::sim(0) };
    let ops = OPS.clone();
    let mut builder = InstructionsBuilder::offline(ops);
    builder.planner_mut().set_limit(&device, limit);
    let mut stream = |ty, index, mode| {
        builder.stream_with_mode(&StreamKey::new(device.clone(), ty, index), mode).unwrap()
    };
    let in_order = StreamMode::InOrder;
    let mut program = Program {
        streams: (0..).zip(modes).map(|(k, &m)| stream(StreamType::COMPUTE, k, m)).collect(),
        collectives: stream(StreamType::CCL, 0, in_order),
        barrier: stream(StreamType::BARRIER, 0, in_order),
        section: stream(StreamType::CRITICAL_SECTION, 0, in_order),
        builder,
        sink: OfflineSink::default(),
        tensors: Vec::new(),
        events: Vec::new(),
        effects: 0,
        origins: 0,
    };
    for name in ["x", "y", "z"] {
        let bytes = spec(1).span_bytes() as u64;
        let Program { builder, sink, tensors, .. } = &mut program;
        let made = builder.import(sink, spec(1), bytes, &device).unwrap();
        let external = builder.external(name, made).unwrap();
        sink.recorder.external(external);
        tensors.push(made);
    }
    for (stream, action) in steps {
        let stream = *stream.get(&program.streams);
        // What the builder refuses is left out: a full memory, an external that was released.
        let _ = program.step(stream, action);
    }
    let Program { builder, sink, .. } = program;
    builder.finish_list(sink.recorder)
}

impl Program {
    fn origin(&mut self) -> Origin {
        self.origins += 1;
        Origin::Text(Arc::new(format!("step {}", self.origins)))
    }

    fn step(&mut self, stream: StreamId, action: &Action) -> Result<()> {
        let origin = self.origin();
        self.effects += 1;
        let effect = self.effects;
        match action {
            Action::Allocate { rows } => {
                let spec = spec(*rows);
                let bytes = spec.span_bytes() as u64;
                let Program { builder, sink, tensors, .. } = self;
                loop {
                    match builder.allocate(sink, stream, spec.clone(), bytes, &origin)? {
                        Outcome::Done(tensor) => break tensors.push(tensor),
                        Outcome::Need(need) => builder.assume(sink, need, &origin)?,
                    }
                }
            }
            Action::Call { op, operands, workspace } => {
                let workspace = if *workspace { 600 } else { 0 };
                let op = ["f", "g", "h"][*op as usize];
                self.call(op, stream, operands, workspace, &origin)?;
            }
            Action::Collective(index) => {
                self.call("f", self.collectives, &[(*index, Access::ReadWrite)], 0, &origin)?;
            }
            Action::Chain { ops, from } if !self.tensors.is_empty() => {
                let mut result = *from.get(&self.tensors);
                for (k, (op, other, keeps)) in ops.iter().enumerate() {
                    let other = *other.get(&self.tensors);
                    let made = self.elementwise(op, [result, other], stream, &origin)?;
                    if k == 0 || *keeps {
                        // It is a tensor of the program's.
                    } else {
                        self.builder.release(&mut self.sink, result, None, &origin)?;
                        self.tensors.retain(|t| *t != result);
                    }
                    result = made;
                    self.tensors.push(made);
                }
            }
            Action::Touch(index) if !self.tensors.is_empty() => {
                let tensor = *index.get(&self.tensors);
                self.builder.touch(&mut self.sink, stream, &[tensor], None, &origin)?;
            }
            Action::View { of, half } if !self.tensors.is_empty() => {
                let of = *of.get(&self.tensors);
                let mut spec = self.builder.spec(of)?.clone();
                if *half && spec.numel() > 1 {
                    let layout = Layout::strided(&[spec.numel() / 2], &[1], spec.layout.offset());
                    spec = TensorSpec::new(DType::F32, layout?)?;
                }
                self.tensors.push(self.builder.view(&mut self.sink, of, spec, &origin)?);
            }
            Action::Release(index) if !self.tensors.is_empty() => {
                let at = index.index(self.tensors.len());
                // The first three are the externals.
                if at >= 3 {
                    let tensor = self.tensors.swap_remove(at);
                    self.builder.release(&mut self.sink, tensor, None, &origin)?;
                }
            }
            Action::Record => {
                self.events.push(self.builder.record_event(&mut self.sink, stream, &origin)?);
            }
            Action::WaitEvent(index) if !self.events.is_empty() => {
                let event = index.get(&self.events);
                self.builder.wait_event(&mut self.sink, stream, event, &origin)?;
            }
            Action::WaitStream(index) => {
                let source = *index.get(&self.streams);
                self.builder.wait_stream(&mut self.sink, stream, source, &origin)?;
            }
            Action::Read(index) if !self.tensors.is_empty() => {
                let tensor = *index.get(&self.tensors);
                let Program { builder, sink, .. } = self;
                let read = ReadId(effect);
                let at = builder.sync_read(sink, stream, tensor, read, None, &origin)?;
                if effect.is_multiple_of(2) {
                    builder.observe(sink, &[at], &origin);
                }
            }
            Action::Callback(index, access) if !self.tensors.is_empty() => {
                let tensor = *index.get(&self.tensors);
                let Program { builder, sink, .. } = self;
                let callback = CallbackId(effect);
                builder.access_blob(sink, stream, tensor, *access, callback, None, &origin)?;
            }
            Action::Barrier { global } => {
                self.builder.barrier(&mut self.sink, self.barrier, *global, &origin)?;
            }
            Action::Section(index) if !self.tensors.is_empty() => {
                let held = *index.get(&self.tensors);
                let Program { builder, sink, section, .. } = self;
                let id = builder.begin_critical_section(sink, *section, &[held], &origin)?;
                builder.touch(sink, stream, &[held], Some(id), &origin)?;
                builder.end_critical_section(sink, id, &origin)?;
            }
            // There is nothing to name.
            _ => {}
        }
        Ok(())
    }

    fn elementwise(
        &mut self,
        op: &str,
        inputs: [TensorRef; 2],
        stream: StreamId,
        origin: &Origin,
    ) -> Result<TensorRef> {
        let op = self.builder.ops().id(op)?;
        let takes = self.builder.ops().get(op).map_or(0, |op| op.inputs().len());
        let call = Call {
            op,
            inputs: &inputs[..takes],
            into: None,
            attrs: &Arc::default(),
            stream,
            priority: Priority::default(),
            section: None,
            origin,
        };
        match self.builder.call_offline(&mut self.sink, &call)?[0] {
            Output::Tensor(made) => Ok(made),
            other => panic!("{other:?} is no new tensor"),
        }
    }

    fn call(
        &mut self,
        op: &str,
        stream: StreamId,
        picked: &[(Index, Access)],
        workspace: i64,
        origin: &Origin,
    ) -> Result<()> {
        let picked = picked.iter().filter(|_| !self.tensors.is_empty());
        let (inputs, accesses): (Vec<TensorRef>, Vec<i64>) =
            picked.map(|(index, access)| (*index.get(&self.tensors), *access as i64)).unzip();
        let attrs = Attrs::new().with("accesses", accesses).with("workspace", workspace);
        let call = Call {
            op: self.builder.ops().id(op)?,
            inputs: &inputs,
            into: None,
            attrs: &Arc::new(attrs),
            stream,
            priority: Priority::default(),
            section: None,
            origin,
        };
        self.builder.call_offline(&mut self.sink, &call).map(|_| ())
    }
}
