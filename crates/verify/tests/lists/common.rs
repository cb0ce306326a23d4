//! Lists of random actions. The generator leaves out every action that would violate a rule other
//! than order (liveness, references), so order is all that a list can violate.

use millstream_instructions::text::OpNames;
use millstream_instructions::{
    ArenaId, Body, External, Instruction, InstructionList, Operand, Operands, Placement, Priority,
    StreamDecl, Via,
};
use millstream_types::{
    Access, DType, DeviceId, EventId, Layout, OpId, Origin, Point, StreamId, StreamKey, StreamMode,
    StreamType, TensorId, TensorSpec,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Streams that run ops; one more runs barriers.
pub(crate) const STREAMS: u16 = 3;
const BARRIER: StreamId = StreamId(STREAMS);
const GRANULARITY: u64 = 512;

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Op { operands: Vec<(Index, Access)>, workspace: Option<u64> },
    Touch(Index),
    Allocate { slot: u64, slots: u64 },
    View(Index, TensorSpec),
    Release(Index),
    Record,
    WaitHost { source: u16, back: u64 },
    WaitDevice(Index),
    StreamWait { source: u16, device: bool },
    Barrier,
    Observe { source: u16, back: u64 },
}

/// An action on a stream; a careful step first waits for everything that it could depend on.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    stream: StreamId,
    careful: bool,
    gap: u64,
    action: Action,
}

fn action() -> impl Strategy<Value = Action> {
    let access = || select(vec![Access::Read, Access::Read, Access::Write, Access::ReadWrite]);
    let operands = || proptest::collection::vec((any::<Index>(), access()), 1..4);
    prop_oneof![
        8 => (operands(), proptest::option::weighted(0.2, 0u64..3))
            .prop_map(|(operands, workspace)| Action::Op { operands, workspace }),
        1 => any::<Index>().prop_map(Action::Touch),
        3 => (0u64..4, 1u64..3).prop_map(|(slot, slots)| Action::Allocate { slot, slots }),
        2 => (any::<Index>(), select(views())).prop_map(|(of, spec)| Action::View(of, spec)),
        3 => any::<Index>().prop_map(Action::Release),
        1 => Just(Action::Record),
        2 => (0..STREAMS, 0u64..3).prop_map(|(source, back)| Action::WaitHost { source, back }),
        2 => any::<Index>().prop_map(Action::WaitDevice),
        1 => (0..STREAMS, any::<bool>())
            .prop_map(|(source, device)| Action::StreamWait { source, device }),
        1 => Just(Action::Barrier),
        1 => (0..STREAMS, 0u64..3).prop_map(|(source, back)| Action::Observe { source, back }),
    ]
}

/// Returns steps, each careful with this probability.
pub(crate) fn steps(careful: f64, length: usize) -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![5 => Just(1u64), 1 => 1u64..4];
    let step = (0..STREAMS, proptest::bool::weighted(careful), gap, action()).prop_map(
        |(stream, careful, gap, action)| Step { stream: StreamId(stream), careful, gap, action },
    );
    proptest::collection::vec(step, 0..length)
}

pub(crate) fn modes() -> impl Strategy<Value = [StreamMode; STREAMS as usize]> {
    let mode = || prop_oneof![3 => Just(StreamMode::InOrder), 2 => Just(StreamMode::Pool)];
    [mode(), mode(), mode()]
}

fn spec() -> TensorSpec {
    TensorSpec::contiguous(DType::F32, &[4]).unwrap()
}

/// Returns views of a tensor: all of it, halves, columns, blocks, and an empty one.
fn views() -> Vec<TensorSpec> {
    let view = |shape: &[usize], strides: &[usize], offset| {
        let layout = Layout::strided(shape, strides, offset).unwrap();
        TensorSpec::new(DType::F32, layout).unwrap()
    };
    let bytes = Layout::strided(&[2, 3], &[8, 1], 5).unwrap();
    vec![
        spec(),
        view(&[2], &[1], 0),
        view(&[2], &[1], 2),
        view(&[2], &[2], 0),
        view(&[2], &[2], 1),
        view(&[1], &[1], 3),
        view(&[2, 3], &[1, 1], 0),
        view(&[0], &[1], 0),
        TensorSpec::new(DType::U8, bytes).unwrap(),
    ]
}

struct Generator {
    list: InstructionList,
    last: Vec<u64>,
    /// The last sequence number of each stream whose instruction is not a wait.
    last_use: Vec<u64>,
    /// The live tensors, each with its storage.
    tensors: Vec<(TensorId, usize)>,
    /// The slots of each storage, and the number of its live tensors.
    storages: Vec<(u64, u64, u32)>,
    events: Vec<(EventId, Point)>,
    next_tensor: u32,
    generation: u64,
}

/// Returns the list of these steps.
pub(crate) fn generate(modes: &[StreamMode], steps: &[Step]) -> InstructionList {
    let cpu = DeviceId::cpu(0);
    let mut streams: Vec<StreamDecl> = (0..)
        .zip(modes)
        .map(|(k, &mode)| StreamDecl::new(StreamKey::compute(cpu.clone(), k), mode))
        .collect();
    let key = StreamKey::new(cpu.clone(), StreamType::BARRIER, 0);
    streams.push(StreamDecl::new(key, StreamMode::InOrder));
    let external = |k: u32| External {
        tensor: TensorId(k),
        name: format!("x{k}"),
        spec: spec(),
        bytes: 16,
        arena: ArenaId(0),
    };
    let ops: OpNames = ["op"].into_iter().collect();
    let mut g = Generator {
        last: vec![0; streams.len()],
        last_use: vec![0; streams.len()],
        list: InstructionList {
            streams,
            arenas: vec![cpu],
            externals: (0..2).map(external).collect(),
            ops,
            ..InstructionList::default()
        },
        tensors: vec![(TensorId(0), 0), (TensorId(1), 1)],
        storages: vec![(0, 0, 1), (0, 0, 1)],
        events: Vec::new(),
        next_tensor: 2,
        generation: 0,
    };
    for step in steps {
        g.step(step);
    }
    g.list
}

impl Generator {
    fn push(&mut self, body: Body) {
        self.list.instructions.push(Instruction { body, origin: Origin::Unknown });
    }

    fn next(&mut self, stream: StreamId, gap: u64) -> Point {
        self.last[stream.index()] += gap;
        Point::new(stream, self.last[stream.index()])
    }

    fn next_use(&mut self, stream: StreamId, gap: u64) -> Point {
        let at = self.next(stream, gap);
        self.last_use[stream.index()] = at.seq;
        at
    }

    fn is_pool(&self, stream: StreamId) -> bool {
        self.list.streams[stream.index()].mode == StreamMode::Pool
    }

    /// Adds waits for everything, as a program without tracking would.
    fn wait_for_all(&mut self, stream: StreamId, memory: bool) {
        let points: Vec<Point> = (0..STREAMS)
            .map(|q| Point::new(StreamId(q), self.last_use[q as usize]))
            .filter(|p| p.seq > 0 && (p.stream != stream || self.is_pool(stream)))
            .collect();
        if memory && self.is_pool(stream) {
            self.push(Body::HostObserved { points: points.into() });
            return;
        }
        for until in points {
            let at = self.next(stream, 1);
            self.push(Body::StreamWaitEvent { at, until, via: Via::Host });
        }
    }

    fn step(&mut self, step: &Step) {
        let &Step { stream, careful, gap, ref action } = step;
        match action {
            Action::Op { operands, workspace } => {
                let operands: Operands = operands
                    .iter()
                    .filter(|_| !self.tensors.is_empty())
                    .map(|(index, access)| {
                        let (tensor, _) = *index.get(&self.tensors);
                        Operand { tensor, access: *access }
                    })
                    .collect();
                let workspace = workspace.and_then(|slot| self.place(slot, 1));
                if careful {
                    self.wait_for_all(stream, false);
                }
                let at = self.next_use(stream, gap);
                let workspace = workspace.map(Box::new);
                let (op, attrs, priority) = (OpId(0), None, Priority::default());
                self.push(Body::OpCall { at, op, operands, attrs, workspace, priority });
            }
            Action::Touch(index) if !self.tensors.is_empty() => {
                if careful {
                    self.wait_for_all(stream, false);
                }
                let operand = Operand { tensor: index.get(&self.tensors).0, access: Access::Read };
                let at = self.next_use(stream, gap);
                self.push(Body::TouchTensors { at, operands: [operand].into_iter().collect() });
            }
            Action::Allocate { slot, slots } => {
                let Some(place) = self.place(*slot, *slots) else { return };
                if careful {
                    self.wait_for_all(stream, true);
                }
                let tensor = TensorId(self.next_tensor);
                self.next_tensor += 1;
                self.tensors.push((tensor, self.storages.len()));
                self.storages.push((*slot, slot + slots, 1));
                self.push(Body::AllocateTensor {
                    on: stream,
                    tensor,
                    spec: Box::new(spec()),
                    placement: Box::new(place),
                });
                // Other streams can wait for an allocation only by a later point of its stream. A
                // careful program adds one.
                if careful {
                    let at = self.next_use(stream, gap);
                    self.push(Body::TouchTensors { at, operands: Operands::new() });
                }
            }
            Action::View(index, spec) if !self.tensors.is_empty() => {
                let (of, storage) = *index.get(&self.tensors);
                let tensor = TensorId(self.next_tensor);
                self.next_tensor += 1;
                self.storages[storage].2 += 1;
                self.tensors.push((tensor, storage));
                self.push(Body::ViewTensor { tensor, of, spec: Box::new(spec.clone()) });
            }
            Action::Release(index) if !self.tensors.is_empty() => {
                let (tensor, storage) = self.tensors.swap_remove(index.index(self.tensors.len()));
                self.storages[storage].2 -= 1;
                self.push(Body::ReleaseTensor { tensor });
            }
            Action::Record => {
                self.record(stream, gap);
            }
            Action::WaitHost { source, back } => {
                let until = self.earlier(*source, *back);
                let at = self.next(stream, gap);
                self.push(Body::StreamWaitEvent { at, until, via: Via::Host });
            }
            Action::WaitDevice(index) if !self.events.is_empty() => {
                let (event, until) = *index.get(&self.events);
                let at = self.next(stream, gap);
                self.push(Body::StreamWaitEvent { at, until, via: Via::Device(event) });
            }
            Action::StreamWait { source, device } if StreamId(*source) != stream => {
                let source = StreamId(*source);
                let (until, via) = if *device {
                    let event = EventId(self.events.len() as u32);
                    let until = self.next(source, gap);
                    self.events.push((event, until));
                    (until, Via::Device(event))
                } else {
                    (self.earlier(source.0, 0), Via::Host)
                };
                let at = self.next(stream, gap);
                self.push(Body::StreamWait { at, until, via });
            }
            Action::Barrier => {
                let at = self.next(BARRIER, gap);
                self.push(Body::Barrier { at });
            }
            Action::Observe { source, back } => {
                let points = [self.earlier(*source, *back)].into_iter().collect();
                self.push(Body::HostObserved { points });
            }
            // There is nothing to name.
            _ => {}
        }
    }

    fn record(&mut self, stream: StreamId, gap: u64) {
        let event = EventId(self.events.len() as u32);
        let at = self.next(stream, gap);
        self.events.push((event, at));
        self.push(Body::RecordEvent { at, event });
    }

    fn earlier(&self, stream: u16, back: u64) -> Point {
        Point::new(StreamId(stream), self.last[stream as usize].saturating_sub(back))
    }

    /// Returns a placement in these slots, if none of them has a live owner.
    fn place(&mut self, slot: u64, slots: u64) -> Option<Placement> {
        let taken = |&(from, to, tensors): &(u64, u64, u32)| {
            tensors > 0 && from < slot + slots && slot < to
        };
        if self.storages.iter().any(taken) {
            return None;
        }
        self.generation += 1;
        Some(Placement {
            arena: ArenaId(0),
            offset: slot * GRANULARITY,
            size: slots * GRANULARITY,
            generation: self.generation,
        })
    }
}
