//! The inference cache: with it, a builder emits what it emits when it asks each schema anew.

use std::sync::Arc;

use millstream_instructions::builder::{
    InferenceStats, Known, NotKept, OfflineCatalog, OfflineSink, Output,
};
use millstream_instructions::text;
use millstream_instructions::{
    BuilderConfig, Call, InstructionsBuilder, Outcome, Priority, SyncPolicy, TensorRef,
};
use millstream_types::{Attrs, DType, DeviceId, Origin, StreamId, StreamKey, TensorSpec};
use proptest::prelude::*;

/// A step of a program: what to do, two tensors, an argument, a stream.
type Step = (u8, u8, u8, u8, u8);

struct Program {
    builder: InstructionsBuilder,
    sink: OfflineSink,
    streams: Vec<StreamId>,
    live: Vec<TensorRef>,
    /// Whether calls may be found in the cache.
    cached: bool,
    /// The results of all steps.
    notes: Vec<String>,
}

impl Program {
    fn new(sync: SyncPolicy, cached: bool) -> Program {
        let config = BuilderConfig { sync, ..BuilderConfig::default() };
        let ops = Arc::new(millstream_ops::standard());
        let mut builder = InstructionsBuilder::new(&config, ops, Box::new(OfflineCatalog));
        let devices = [DeviceId::cpu(0), DeviceId::cpu(0), DeviceId::new("sim", 0).unwrap()];
        let keys = devices.into_iter().enumerate();
        let keys = keys.map(|(k, device)| StreamKey::compute(device, k as u32));
        let streams: Vec<StreamId> = keys.map(|key| builder.stream(&key).unwrap()).collect();
        let mut sink = OfflineSink { annotated: true, ..OfflineSink::default() };
        let mut live = Vec::new();
        for (stream, shape) in [(0, [4, 6]), (1, [4, 6]), (0, [4, 1]), (2, [4, 6])] {
            let spec = TensorSpec::contiguous(DType::F32, &shape).unwrap();
            let made =
                builder.allocate_offline(&mut sink, streams[stream], &spec, &Origin::Unknown);
            live.push(made.unwrap());
        }
        Program { builder, sink, streams, live, cached, notes: Vec::new() }
    }

    fn call(&mut self, name: &str, inputs: &[TensorRef], attrs: Attrs, stream: usize) {
        let attrs = Arc::new(attrs);
        let call = Call {
            op: self.builder.ops().id(name).unwrap(),
            inputs,
            into: None,
            attrs: &attrs,
            stream: self.streams[stream],
            priority: Priority::default(),
            section: None,
            origin: &Origin::Unknown,
        };
        let Program { builder, sink, .. } = self;
        let outputs = if self.cached {
            loop {
                match builder.call(sink, &call) {
                    Ok(Outcome::Done(outputs)) => break Ok(outputs),
                    Ok(Outcome::Need(need)) => {
                        builder.assume(sink, need, &Origin::Unknown).unwrap();
                    }
                    Err(error) => break Err(error),
                }
            }
        } else {
            builder.call_offline(sink, &call)
        };
        self.notes.push(format!("{outputs:?}"));
        for output in outputs.into_iter().flatten() {
            if let Output::Tensor(made) = output {
                self.live.push(made);
            }
        }
    }

    fn step(&mut self, (kind, a, b, argument, stream): Step) {
        let pick = |k: u8| self.live[usize::from(k) % self.live.len()];
        let (a_, b_, stream) = (pick(a), pick(b), usize::from(stream) % self.streams.len());
        let k = i64::from(argument % 3);
        match kind % 12 {
            0 | 1 => self.call("add", &[a_, b_], Attrs::new(), stream),
            2 => self.call("add", &[a_, b_], Attrs::new().with("alpha", k), stream),
            3 => self.call("relu", &[a_], Attrs::new(), stream),
            4 => self.call("mul_", &[a_, b_], Attrs::new(), stream),
            5 => self.call("select", &[a_], Attrs::new().with("dim", 0).with("index", k), stream),
            6 => {
                self.call("transpose", &[a_], Attrs::new().with("dim0", 0).with("dim1", k), stream)
            }
            7 => {
                let attrs = Attrs::new().with("split_size", 1 + k).with("dim", 0);
                self.call("split", &[a_], attrs, stream);
            }
            8 => self.call("sort", &[a_], Attrs::new().with("dim", k), stream),
            9 => self.call("mse_loss", &[a_, b_], Attrs::new(), stream),
            10 => self.call("nonzero", &[a_], Attrs::new(), stream),
            // Sometimes a tensor that was released before.
            _ => {
                let Program { builder, sink, .. } = self;
                let released = builder.release(sink, a_, None, &Origin::Unknown);
                self.notes.push(format!("{released:?}"));
                if argument % 4 != 0 {
                    self.live.retain(|tensor| *tensor != a_);
                }
                if self.live.is_empty() {
                    self.live.push(a_);
                }
            }
        }
    }

    fn ended(self) -> (String, Vec<String>, InferenceStats) {
        let stats = self.builder.inference_stats();
        let counts = format!("{:?}", self.builder.stats());
        let list = self.builder.finish_list(self.sink.recorder);
        (format!("{}\n{counts}", text::print_list(&list)), self.notes, stats)
    }
}

proptest! {
    /// The same list, results, errors and counts, whether schemas are asked or remembered.
    #[test]
    fn a_remembered_schema_says_what_the_schema_says(
        steps in proptest::collection::vec(any::<Step>(), 1..80),
        last_used in any::<bool>(),
    ) {
        let sync = if last_used { SyncPolicy::LastUsedStream } else { SyncPolicy::Frontier };
        let [mut cached, mut asked] = [true, false].map(|cached| Program::new(sync, cached));
        for step in steps {
            cached.step(step);
            asked.step(step);
        }
        let (cached, asked) = (cached.ended(), asked.ended());
        prop_assert_eq!(cached.1, asked.1);
        prop_assert_eq!(cached.0, asked.0);
    }
}

#[test]
fn a_repeated_call_is_found() {
    let mut program = Program::new(SyncPolicy::Frontier, true);
    let [x, y, ..] = program.live[..] else { unreachable!("four tensors are there") };
    for _ in 0..3 {
        program.call("add", &[x, y], Attrs::new(), 0);
        program.call("add", &[x, y], Attrs::new().with("alpha", 2), 0);
        program.call("select", &[x], Attrs::new().with("dim", 0).with("index", 1), 0);
        program.call("sort", &[x], Attrs::new().with("dim", 1), 0);
    }
    let stats = program.builder.inference_stats();
    // A call that needs memory first is looked up again.
    assert!(stats.hits >= 8 && stats.misses <= 8 && stats.replaced == 0, "{stats:?}");
}

#[test]
fn calls_are_counted_by_op_with_the_reasons_why_they_are_not_kept() {
    let mut program = Program::new(SyncPolicy::Frontier, true);
    let [x, y, ..] = program.live[..] else { unreachable!("four tensors are there") };
    let Program { builder, sink, streams, .. } = &mut program;
    let (op, attrs) = (builder.ops().id("relu").unwrap(), Attrs::new());
    let (stream, origin, into) = (streams[0], &Origin::Unknown, [y]);
    let call = Call {
        op,
        inputs: &[x],
        into: None,
        attrs: &attrs,
        stream,
        priority: Priority::default(),
        section: None,
        origin,
    };
    let gone = TensorRef { generation: x.generation + 1, ..x };
    let into = Call { into: Some(&into), ..call };
    for call in [into, into, Call { inputs: &[gone], ..call }] {
        let Known::Not(found) = builder.call_known(sink, &call).unwrap() else {
            unreachable!("such calls are not kept")
        };
        let _ = builder.call_looked_up(sink, &call, found);
    }
    let stats = builder.inference_stats_of_ops()["relu"];
    let reasons = NotKept::ALL.map(|reason| (reason, stats.passed[reason as usize]));
    let counted: Vec<_> = reasons.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counted, [(NotKept::Into, 2), (NotKept::Operand, 1)]);
    assert_eq!((stats.hits, stats.misses, stats.all_passed()), (0, 0, 3));
}

#[test]
fn a_call_more_than_there_are_places_is_right_and_counted() {
    let mut program = Program::new(SyncPolicy::Frontier, true);
    program.builder.set_inference_places(2);
    let x = program.live[0];
    for k in 0..12 {
        // Three calls in turn, in two places.
        program.call("add", &[x], Attrs::new().with("other", k % 3), 0);
    }
    let stats = program.builder.inference_stats_of_ops()["add"];
    assert!(stats.replaced > 0 && stats.hits + stats.misses >= 12, "{stats:?}");
    assert_eq!(stats, program.builder.inference_stats());
}

#[test]
fn the_cache_has_a_bound() {
    let mut program = Program::new(SyncPolicy::Frontier, true);
    let x = program.live[0];
    for k in 0..20_000 {
        program.call("add", &[x], Attrs::new().with("other", k), 0);
        let Some(made) = program.live.pop() else { unreachable!("the call made a tensor") };
        let Program { builder, sink, .. } = &mut program;
        builder.release(sink, made, None, &Origin::Unknown).unwrap();
    }
    let stats = program.builder.inference_stats();
    assert!(stats.hits == 0 && stats.misses >= 20_000, "{stats:?}");
    assert!(stats.replaced >= 20_000 - 4096, "{stats:?}");
}

/// Numbers of few digits differ in the upper bits of their floats alone.
#[test]
fn calls_with_round_numbers_are_found() {
    let mut program = Program::new(SyncPolicy::Frontier, true);
    let x = program.live[0];
    let powers = |count: i32| (0..count).map(|k| f64::from(k - 8).exp2());
    let numbers: Vec<(f64, f64)> =
        powers(16).flat_map(|a| powers(16).map(move |b| (a, b))).collect();
    for round in 0..4 {
        let before = program.builder.inference_stats();
        for (alpha, other) in &numbers {
            let attrs = Attrs::new().with("alpha", *alpha).with("other", *other);
            program.call("add", &[x], attrs, 0);
            let Some(made) = program.live.pop() else { unreachable!("the call made a tensor") };
            let Program { builder, sink, .. } = &mut program;
            builder.release(sink, made, None, &Origin::Unknown).unwrap();
        }
        let stats = program.builder.inference_stats().since(before);
        // 256 calls in 4,096 places, two for each call: hardly any gives way to another.
        assert!(round == 0 || stats.hits > 250, "{round}: {stats:?}");
    }
}
