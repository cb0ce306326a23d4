//! The checker accepts every list of the builder: both implement the same rules and share no code.
//! The verifier decides correctly, for each wait of such a list, whether the list needs it.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use millstream_instructions::builder::{
    BuilderConfig, EventRef, InstructionsBuilder, OfflineCatalog, OfflineSink, Outcome, SyncPolicy,
    TensorRef,
};
use millstream_instructions::text::print_list;
use millstream_instructions::{Body, InstructionList};
use millstream_ops::{ArgDoc, CallSpec, Op, OpRegistry, OutputSpec, Signature};
use millstream_types::{
    Access, Attrs, DType, DeviceId, OpId, Origin, ReadId, StreamId, StreamKey, StreamMode,
    StreamType, TensorSpec,
};
use millstream_verify::{check, verify};

/// An op whose argument states the accesses of its operands.
struct AnyUse;

impl Op for AnyUse {
    fn name(&self) -> &str {
        "op"
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
        const { &[ArgDoc::new("accesses", "for each operand, the number of an access")] }
    }

    fn signature(&self, call: CallSpec<'_>) -> millstream_types::Result<Signature> {
        let all = [Access::Read, Access::Write, Access::ReadWrite];
        let accesses = call.attrs.ints("accesses")?.unwrap_or_default();
        let accesses = accesses.iter().map(|&k| all[k as usize]).collect();
        let outputs = [OutputSpec::Same(0)].into_iter().collect();
        Ok(Signature { accesses, outputs, workspace: 0 })
    }
}

#[derive(Clone, Debug)]
enum Action {
    Allocate { elements: usize },
    Call(Vec<(Index, Access)>),
    Touch(Index),
    View(Index),
    Release(Index),
    Record,
    WaitEvent(Index),
    WaitStream(Index),
    SyncRead(Index),
    Barrier,
    Synchronize,
    Section(Index),
}

fn action() -> impl Strategy<Value = Action> {
    let any = any::<Index>;
    let access = select(vec![Access::Read, Access::Write, Access::ReadWrite]);
    prop_oneof![
        4 => (0usize..300).prop_map(|elements| Action::Allocate { elements }),
        8 => proptest::collection::vec((any(), access), 1..4).prop_map(Action::Call),
        1 => any().prop_map(Action::Touch),
        1 => any().prop_map(Action::View),
        4 => any().prop_map(Action::Release),
        1 => Just(Action::Record),
        1 => any().prop_map(Action::WaitEvent),
        1 => any().prop_map(Action::WaitStream),
        1 => any().prop_map(Action::SyncRead),
        1 => Just(Action::Barrier),
        1 => Just(Action::Synchronize),
        1 => any().prop_map(Action::Section),
    ]
}

struct Program {
    builder: InstructionsBuilder,
    sink: OfflineSink,
    streams: Vec<StreamId>,
    barrier: StreamId,
    section: StreamId,
    tensors: Vec<TensorRef>,
    events: Vec<EventRef>,
}

const HERE: Origin = Origin::Unknown;

impl Program {
    fn new(sync: SyncPolicy, modes: &[StreamMode], limit: u64, annotated: bool) -> Program {
        let config = BuilderConfig { sync, ..BuilderConfig::default() };
        let mut ops = OpRegistry::new();
        ops.register(Arc::new(AnyUse));
        let ops = Arc::new(ops);
        let mut builder = InstructionsBuilder::new(&config, ops, Box::new(OfflineCatalog));
        let sim = DeviceId::sim(0);
        builder.planner_mut().set_limit(&sim, limit);
        let mut stream = |ty, index, mode| {
            builder.stream_with_mode(&StreamKey::new(sim.clone(), ty, index), mode).unwrap()
        };
        let streams =
            (0..).zip(modes).map(|(k, &mode)| stream(StreamType::COMPUTE, k, mode)).collect();
        let barrier = stream(StreamType::BARRIER, 0, StreamMode::InOrder);
        let section = stream(StreamType::CRITICAL_SECTION, 0, StreamMode::InOrder);
        let sink = OfflineSink { annotated, ..OfflineSink::default() };
        Program {
            builder,
            sink,
            streams,
            barrier,
            section,
            tensors: Vec::new(),
            events: Vec::new(),
        }
    }

    fn step(&mut self, stream: StreamId, action: &Action) {
        let Program { builder, sink, tensors, events, .. } = self;
        match action {
            Action::Allocate { elements } => {
                let spec = TensorSpec::contiguous(DType::F32, &[*elements]).unwrap();
                let bytes = spec.span_bytes() as u64;
                loop {
                    match builder.allocate(sink, stream, spec.clone(), bytes, &HERE) {
                        Ok(Outcome::Done(tensor)) => break tensors.push(tensor),
                        Ok(Outcome::Need(need)) => {
                            if builder.assume(sink, need, &HERE).is_err() {
                                break;
                            }
                        }
                        // The memory is exhausted: nothing was emitted.
                        Err(_) => break,
                    }
                }
            }
            Action::Barrier => {
                builder.barrier(sink, self.barrier, false, &HERE).unwrap();
            }
            Action::Synchronize => {
                let tail = builder.tail(stream);
                builder.observe(sink, &[tail], &HERE);
            }
            Action::Record => events.push(builder.record_event(sink, stream, &HERE).unwrap()),
            Action::WaitEvent(index) if !events.is_empty() => {
                builder.wait_event(sink, stream, index.get(events), &HERE).unwrap();
            }
            Action::WaitStream(index) => {
                let source = *index.get(&self.streams);
                builder.wait_stream(sink, stream, source, &HERE).unwrap();
            }
            _ if tensors.is_empty() => {}
            Action::Call(operands) => {
                let inputs: Vec<TensorRef> =
                    operands.iter().map(|(index, _)| *index.get(tensors)).collect();
                let accesses =
                    operands.iter().map(|(_, access)| *access as i64).collect::<Vec<_>>();
                let attrs = Arc::new(Attrs::new().with("accesses", accesses));
                let call = builder.prepare(OpId(0), &inputs, &attrs).unwrap();
                builder.call_prepared(sink, stream, &call, &inputs, &HERE).unwrap();
            }
            Action::Touch(index) => {
                builder.touch(sink, stream, &[*index.get(tensors)], None, &HERE).unwrap();
            }
            Action::View(index) => {
                let of = *index.get(tensors);
                let spec = builder.spec(of).unwrap().clone();
                tensors.push(builder.view(sink, of, spec, &HERE).unwrap());
            }
            Action::Release(index) => {
                let tensor = tensors.swap_remove(index.index(tensors.len()));
                builder.release(sink, tensor, None, &HERE).unwrap();
            }
            Action::SyncRead(index) => {
                let tensor = *index.get(tensors);
                let at = builder.sync_read(sink, stream, tensor, ReadId(0), None, &HERE).unwrap();
                builder.observe(sink, &[at], &HERE);
            }
            Action::Section(index) => {
                let held = *index.get(tensors);
                let section =
                    builder.begin_critical_section(sink, self.section, &[held], &HERE).unwrap();
                builder.touch(sink, stream, &[held], Some(section), &HERE).unwrap();
                builder.end_critical_section(sink, section, &HERE).unwrap();
            }
            Action::WaitEvent(_) => {}
        }
    }

    fn finish(mut self) -> InstructionList {
        for decl in self.builder.streams() {
            self.sink.recorder.stream(decl.clone());
        }
        for arena in self.builder.planner().devices() {
            self.sink.recorder.arena(arena.clone());
        }
        self.sink.recorder.ops(["op"].into_iter().collect());
        self.sink.recorder.finish()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn emitted_lists_are_accepted(
        sync in select(vec![SyncPolicy::Frontier, SyncPolicy::LastUsedStream]),
        // The builder stores the knowledge of few streams differently from that of many.
        pools in prop_oneof![
            9 => proptest::collection::vec(proptest::bool::weighted(0.3), 1..5),
            1 => proptest::collection::vec(proptest::bool::weighted(0.1), 9..13),
        ],
        limit in 1u64..12,
        steps in proptest::collection::vec((any::<Index>(), action()), 0..50),
    ) {
        let mode = |&pool: &bool| if pool { StreamMode::Pool } else { StreamMode::InOrder };
        let modes: Vec<StreamMode> = pools.iter().map(mode).collect();
        let run = |annotated| {
            let mut program = Program::new(sync, &modes, limit * 512, annotated);
            for (stream, action) in &steps {
                let stream = *stream.get(&program.streams);
                program.step(stream, action);
            }
            (program.builder.stats().waits, program.finish())
        };
        let (waits, list) = run(true);
        // Without annotations the builder takes a shorter path, to the same waits and counts.
        let (mut unannotated, plain) = (list.clone(), run(false));
        unannotated.instructions.retain(|i| !matches!(i.body, Body::SoftSyncStream { .. }));
        prop_assert_eq!(print_list(&unannotated), print_list(&plain.1));
        prop_assert_eq!(waits, plain.0);
        if let Err(found) = check(list.clone()) {
            let found: Vec<String> = found.iter().map(|v| v.to_string()).collect();
            return Err(TestCaseError::fail(format!("{}{}", print_list(&list), found.join("\n"))));
        }
        let verdict = verify(&list);
        prop_assert!(verdict.proven(), "{}{:?}", print_list(&list), verdict.violations);
        for wait in verdict.waits {
            let mut fewer = list.clone();
            fewer.instructions.remove(wait.index);
            prop_assert_eq!(
                verify(&fewer).proven(),
                !wait.needed,
                "[{}] {}\n{}",
                wait.index,
                wait.reason,
                print_list(&list)
            );
        }
    }
}
