//! Records: a tensor that takes over a slot finds there what was published for it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use millstream_instructions::builder::Output;
use millstream_instructions::{
    Call, Instruction, InstructionsBuilder, Outcome, Placement, Priority, Sink, TensorRef,
};
use millstream_types::{
    Attrs, DType, DeviceId, Origin, Point, StreamId, StreamKey, TensorId, TensorSpec,
};
use proptest::prelude::*;

/// What the workers know of a slot.
#[derive(Clone, Debug, PartialEq)]
struct Published {
    offset: u64,
    size: u64,
    spec: TensorSpec,
}

/// A sink that checks who owns slots and memory.
#[derive(Default)]
struct Owners {
    published: HashMap<TensorId, Published>,
    live: HashMap<TensorId, Placement>,
    views: HashSet<TensorId>,
    /// Whether the points of pending instructions have completed.
    completed: bool,
    renewed: usize,
}

impl Owners {
    fn begin(&mut self, tensor: TensorId, placement: Placement) {
        let overlaps = |other: &Placement| {
            placement.arena == other.arena
                && placement.offset < other.offset + other.size
                && other.offset < placement.offset + placement.size
        };
        assert!(!self.live.values().any(overlaps), "{tensor} lies on a live tensor");
        assert!(self.live.insert(tensor, placement).is_none(), "{tensor} is live");
    }
}

impl Sink for Owners {
    fn emit(&mut self, _: Instruction) {}

    fn begin_tensor(
        &mut self,
        _: StreamId,
        tensor: TensorId,
        spec: &Arc<TensorSpec>,
        placement: Placement,
        _: &Origin,
    ) {
        let Placement { offset, size, .. } = placement;
        self.published.insert(tensor, Published { offset, size, spec: (**spec).clone() });
        self.begin(tensor, placement);
    }

    fn renews_tensors(&self) -> bool {
        true
    }

    fn renew_tensor(
        &mut self,
        _: StreamId,
        tensor: TensorId,
        spec: &Arc<TensorSpec>,
        placement: Placement,
        _: &Origin,
    ) {
        let Placement { offset, size, .. } = placement;
        let expected = Published { offset, size, spec: (**spec).clone() };
        assert_eq!(self.published.get(&tensor), Some(&expected), "{tensor} was published as that");
        self.begin(tensor, placement);
        self.renewed += 1;
    }

    /// A view is published with the memory of the storage. Its slot may be that of the storage's
    /// first tensor, which has ended, and then a like tensor takes it over as well.
    fn begin_view(&mut self, tensor: TensorId, of: TensorId, spec: &Arc<TensorSpec>, _: &Origin) {
        let of = self.published[&of].clone();
        self.published.insert(tensor, Published { spec: (**spec).clone(), ..of });
        assert!(self.views.insert(tensor), "{tensor} is live");
    }

    fn end_tensor(&mut self, tensor: TensorId, _: &Origin) {
        let ends = self.views.remove(&tensor) || self.live.remove(&tensor).is_some();
        assert!(ends, "{tensor} ends once");
    }

    fn reached(&self, _: Point) -> bool {
        self.completed
    }

    fn annotated(&self) -> bool {
        false
    }
}

struct Program {
    builder: InstructionsBuilder,
    sink: Owners,
    streams: [StreamId; 2],
    live: Vec<TensorRef>,
}

impl Program {
    fn new() -> Program {
        let ops = Arc::new(millstream_ops::standard());
        let mut builder = InstructionsBuilder::offline(ops);
        let stream = |k| StreamKey::compute(DeviceId::cpu(0), k);
        let streams = [0, 1].map(|k| builder.stream(&stream(k)).unwrap());
        let (mut sink, mut live) = (Owners::default(), Vec::new());
        for shape in [[4, 6], [40, 60]] {
            let spec = TensorSpec::contiguous(DType::F32, &shape).unwrap();
            let made =
                builder.allocate_offline(&mut sink, streams[0], &spec, &Origin::Unknown).unwrap();
            live.push(made);
        }
        Program { builder, sink, streams, live }
    }

    fn call(&mut self, name: &str, input: TensorRef, attrs: &Attrs, stream: usize) {
        let Program { builder, sink, streams, live } = self;
        let call = Call {
            op: builder.ops().id(name).unwrap(),
            inputs: &[input],
            into: None,
            attrs,
            stream: streams[stream],
            priority: Priority::default(),
            section: None,
            origin: &Origin::Unknown,
        };
        loop {
            match builder.call(sink, &call).unwrap() {
                Outcome::Done(outputs) => {
                    let made = outputs.into_iter().filter_map(|output| match output {
                        Output::Tensor(made) => Some(made),
                        _ => None,
                    });
                    return live.extend(made);
                }
                Outcome::Need(need) => builder.assume(sink, need, &Origin::Unknown).unwrap(),
            }
        }
    }

    fn step(&mut self, (kind, tensor, stream): (u8, u8, bool)) {
        let at = usize::from(tensor) % self.live.len();
        let (picked, stream) = (self.live[at], usize::from(stream));
        let rank = self.builder.spec(picked).unwrap().shape().len();
        match kind % 16 {
            5..7 if rank < 1 => {}
            7 if rank < 2 => {}
            0..5 => self.call("relu", picked, &Attrs::new(), stream),
            5 => self.call("sum", picked, &Attrs::new().with("dim", 0).with("keepdim", true), 0),
            6 => self.call("select", picked, &Attrs::new().with("dim", 0).with("index", 0), 0),
            7 => {
                let attrs = Attrs::new().with("dim0", 0).with("dim1", 1);
                self.call("transpose", picked, &attrs, stream);
            }
            8 => self.sink.completed = true,
            9 => self.sink.completed = false,
            10 => self.builder.watch(picked).unwrap(),
            11 => self.give_back(),
            _ if at < 2 => {}
            _ => {
                let Program { builder, sink, .. } = self;
                builder.release(sink, picked, None, &Origin::Unknown).unwrap();
                self.live.swap_remove(at);
            }
        }
    }

    /// Gives free memory back. The chunk that is taken next may lie elsewhere, so nothing that was
    /// published of it holds any more.
    fn give_back(&mut self) {
        let Program { builder, sink, .. } = self;
        let arena = builder.planner_mut().arena(&DeviceId::cpu(0));
        while let Some((start, points)) = builder.planner().next_return(arena) {
            let before = builder.planner().reserved(arena);
            builder.observe(sink, &points, &Origin::Unknown);
            if !builder.give_back(arena, start) {
                return;
            }
            let end = start + before - builder.planner().reserved(arena);
            let live = &sink.live;
            sink.published.retain(|tensor, slot| {
                live.contains_key(tensor) || !(start..end).contains(&slot.offset)
            });
        }
    }
}

proptest! {
    #[test]
    fn a_slot_is_taken_over_as_it_was_published(
        steps in proptest::collection::vec(any::<(u8, u8, bool)>(), 1..200),
    ) {
        let mut program = Program::new();
        steps.into_iter().for_each(|step| program.step(step));
    }
}

/// A result that is dropped and made again, while nothing has completed: one slot, published once.
#[test]
fn repeated_results_take_over_one_slot() {
    let mut program = Program::new();
    let x = program.live[0];
    for _ in 0..1000 {
        program.call("relu", x, &Attrs::new(), 0);
        let made = program.live.pop().unwrap();
        program.builder.release(&mut program.sink, made, None, &Origin::Unknown).unwrap();
    }
    assert!(program.sink.renewed >= 998, "{}", program.sink.renewed);
    assert!(program.sink.published.len() <= 4, "{}", program.sink.published.len());
}

/// Tensors of a watched storage, and of one that has another tensor, end as before.
#[test]
fn a_storage_that_is_watched_or_shared_is_not_taken_over() {
    let mut program = Program::new();
    let x = program.live[0];
    program.call("relu", x, &Attrs::new(), 0);
    for round in 0..20 {
        let made = program.live.pop().unwrap();
        if round % 2 == 0 {
            program.builder.watch(made).unwrap();
        } else {
            program.call("select", made, &Attrs::new().with("dim", 0).with("index", 0), 0);
        }
        program.builder.release(&mut program.sink, made, None, &Origin::Unknown).unwrap();
        if round % 2 == 1 {
            let view = program.live.pop().unwrap();
            program.builder.release(&mut program.sink, view, None, &Origin::Unknown).unwrap();
        }
        program.call("relu", x, &Attrs::new(), 0);
    }
    assert_eq!(program.sink.renewed, 0);
}
