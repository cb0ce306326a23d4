//! Random programs over the whole public surface, with right and wrong calls, on streams of every
//! type: the verifier proves what the machine accepts, and a call that is refused has emitted
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::comm::LocalGroup;
use millstream::instructions::text::print_list;
use millstream::types::StreamId;
use millstream::*;
use millstream_testing::machine::{CPU, SIM, bytes, config, f32_spec};
use millstream_verify::{CheckOptions, CommunicatorRules, check_with, verify, verify_ranks};
use proptest::prelude::*;

/// What to do, and four numbers that choose its operands.
type Step = (u8, [u8; 4]);

/// The tensors of a program at first.
const FIRST: usize = 6;

struct Program {
    machine: Machine,
    streams: Vec<Stream>,
    tensors: Vec<Tensor>,
    vars: Vec<Var>,
    events: Vec<Event>,
    sections: Vec<Section>,
    executables: Vec<Executable>,
    prepared: Vec<Prepared>,
    /// How many functions of the program have run.
    ran: Arc<AtomicUsize>,
    /// How many calls were accepted and refused.
    outcomes: [usize; 2],
}

fn pick<T>(from: &[T], number: u8) -> &T {
    &from[usize::from(number) % from.len()]
}

impl Program {
    fn new(config: MachineConfig) -> Program {
        let machine = Machine::new(config).unwrap();
        let keys = [CPU, SIM].into_iter().flat_map(|device| {
            StreamType::BUILT_IN.map(|ty| StreamKey::new(device.clone(), ty, 0))
        });
        // Some types have no streams on one of the devices.
        let mut streams: Vec<Stream> = keys.filter_map(|key| machine.stream(&key).ok()).collect();
        assert!(streams.len() > StreamType::BUILT_IN.len());
        for device in [CPU, SIM] {
            let key = StreamKey::compute(device, 1);
            streams.push(machine.stream_with_mode(&key, StreamMode::Pool).unwrap());
        }
        let tensors = (0..FIRST).map(|k| {
            let stream = machine.compute([&CPU, &SIM][k % 2], 0).unwrap();
            machine.upload(&stream, f32_spec(&[2]), bytes(&[k as f32, -1.0])).unwrap()
        });
        let mut program = Program {
            tensors: tensors.collect(),
            vars: Vec::new(),
            events: vec![machine.event()],
            sections: Vec::new(),
            executables: Vec::new(),
            prepared: Vec::new(),
            ran: Arc::default(),
            outcomes: [0; 2],
            streams,
            machine,
        };
        let engine = program.machine.dependency_engine().unwrap();
        program.vars.push(engine.var().unwrap());
        program.vars.push(engine.var_of(&program.tensors[0]).unwrap());
        let x = &program.tensors[0];
        program.prepared.push(program.machine.prepare("neg_", &[x], Attrs::new()).unwrap());
        program.machine.start_recording(&[]).unwrap();
        program
    }

    fn is_of_ranks(&self) -> bool {
        self.machine.communicator().ranks() > 1
    }

    fn keep(&mut self, made: Vec<Tensor>) {
        self.tensors.extend(made);
        // The oldest are dropped, which releases them.
        let surplus = self.tensors.len().saturating_sub(12);
        self.tensors.drain(..surplus);
    }

    /// Returns a function of the program, which counts its runs.
    fn function(&self) -> impl FnOnce() + Send + 'static {
        let ran = self.ran.clone();
        move || {
            ran.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn step(&mut self, &(kind, [a, b, c, d]): &Step) -> Result<()> {
        let machine = self.machine.clone();
        let (x, y) = (pick(&self.tensors, a).clone(), pick(&self.tensors, b).clone());
        let stream = pick(&self.streams, c).clone();
        let other = pick(&self.streams, d).clone();
        let section = self.sections.last().filter(|_| d % 2 == 0);
        let made = match kind % 24 {
            0 => machine.call("relu", &[&x]).on(&stream)?,
            1 => {
                let call =
                    machine.call(pick::<&str>(&["add", "add_", "copy_", "mul"], d), &[&x, &y]);
                let call = call.priority(d.into());
                match section {
                    Some(section) => call.within(section).on(&stream)?,
                    None => call.on(&stream)?,
                }
            }
            2 => machine.call("neg", &[&x]).out(&[&y]).on(&stream)?,
            3 => machine.call(pick::<&str>(&["add", "sub_", "transpose"], d), &[&x, &y]).run()?,
            4 => with_stream(&stream, || if d % 2 == 0 { x.relu() } else { x.add(&y) })
                .map(|made| vec![made])?,
            5 => with_stream(&stream, || x.add_(&y)).map(|_| Vec::new())?,
            6 => vec![with_stream(&stream, || x.unsqueeze(0)?.squeeze(0))?],
            7 => vec![machine.upload(&stream, f32_spec(&[2]), bytes(&[1.0, 2.0]))?],
            8 => vec![machine.empty(&stream, f32_spec(&[2]))?],
            9 => vec![x.copy_to(&stream)?],
            10 => x.copy_into(&y).map(|()| Vec::new())?,
            11 => {
                let access = *pick(&[Access::Read, Access::Write, Access::ReadWrite], d);
                let function = self.function();
                x.access(access, |_| {
                    function();
                    Ok(())
                })?;
                Vec::new()
            }
            12 => match section {
                Some(section) => x.read_within(Some(section)).map(|_| Vec::new())?,
                None => x.read().map(|_| Vec::new())?,
            },
            13 => x.release_within(section).map(|()| Vec::new())?,
            14 => {
                self.events.push(stream.record_event()?);
                other.wait_event(pick(&self.events, a)).map(|()| Vec::new())?
            }
            15 => pick(&self.events, a).record_on(&stream).map(|()| Vec::new())?,
            16 => stream.wait_stream(&other).map(|()| Vec::new())?,
            17 => stream.touch_within(&[&x, &y], section).map(|_| Vec::new())?,
            18 => [Machine::barrier, Machine::global_sync][usize::from(d % 2)](&machine)
                .map(|_| Vec::new())?,
            19 if d % 3 == 0 => match self.sections.pop() {
                Some(section) => section.end().map(|_| Vec::new())?,
                None => Vec::new(),
            },
            19 => {
                let section = machine.critical_section_within(&[&x, &y], section)?;
                self.sections.push(section);
                Vec::new()
            }
            20 => {
                self.executables.push(record(&machine, stream.key(), d)?);
                Vec::new()
            }
            21 => {
                let Some(executable) = self.executables.last() else { return Ok(()) };
                let launch = executable.launch().input("x", &x);
                let launch = if d % 4 == 0 { launch.output("y", &y) } else { launch };
                let launch = if d % 2 == 0 { launch.on(&stream) } else { launch };
                launch.run()?.outputs().to_vec()
            }
            22 => {
                let engine = match d % 2 {
                    0 => machine.dependency_engine()?,
                    _ => machine.dependency_engine_on(&stream)?,
                };
                let (one, two) = (pick(&self.vars, a).clone(), pick(&self.vars, b).clone());
                let push = engine.push(self.function()).reads(&[&one]).writes(&[&two]);
                let push = if d % 3 == 0 { push.on(&other) } else { push };
                push.spawn()?;
                if self.vars.len() < 6 {
                    self.vars.push(if d % 5 == 0 { engine.var_of(&x)? } else { engine.var()? });
                }
                Vec::new()
            }
            _ => match d % 4 {
                0 => pick(&self.prepared, a).on(&stream).map(|()| Vec::new())?,
                1 => machine.batch().call(pick(&self.prepared, a), &stream).map(|()| Vec::new())?,
                2 if self.is_of_ranks() => {
                    let message = match machine.communicator().rank() {
                        0 => machine.call("send", &[&x]).attr("to", 1),
                        _ => machine.call("recv_", &[&x]).attr("from", 0),
                    };
                    // A stream may read what it cannot write; both ranks need one that does both.
                    let key = StreamKey::new(x.device().clone(), StreamType::CCL, 0);
                    // Only the receiver has a result, and both ranks go on with the same tensors.
                    message.collective_on(&machine.stream(&key)?).map(|_| Vec::new())?
                }
                _ => machine.call("allreduce_", &[&x]).collective_on(&stream)?,
            },
        };
        self.keep(made);
        Ok(())
    }

    /// Returns the list.
    fn run(&mut self, steps: &[Step]) -> Result<InstructionList, TestCaseError> {
        for step in steps {
            // The functions of earlier steps have run, and what was dropped is released.
            self.machine.synchronize().unwrap();
            let before = (self.machine.stats().unwrap(), self.ran.load(Ordering::Relaxed));
            let done = self.step(step);
            self.outcomes[usize::from(done.is_err())] += 1;
            if let Err(error) = done {
                self.machine.synchronize().unwrap();
                let after = (self.machine.stats().unwrap(), self.ran.load(Ordering::Relaxed));
                prop_assert_eq!(before, after, "{:?} is refused, and emitted: {}", step, error);
            }
        }
        while let Some(section) = self.sections.pop() {
            section.end().unwrap();
        }
        let list = self.machine.finish_recording().unwrap();
        let options = CheckOptions { callbacks: true };
        let verdict = verify(&list);
        let found = &verdict.violations;
        prop_assert!(verdict.proven(), "{:#?}\n{}", found, print_list(&list));
        let checked = check_with(list.clone(), options);
        prop_assert!(checked.is_ok(), "{:?}", checked.err());
        Ok(list)
    }
}

/// Compiles y = x + x, with the call on a stream of this key.
fn record(machine: &Machine, key: &StreamKey, choice: u8) -> Result<Executable> {
    let recorded = machine.record(|r| {
        let x = r.input_on("x", f32_spec(&[2]), &key.device)?;
        let stream: StreamId = r.stream(key)?;
        let y = match choice % 3 {
            0 => r.call("add", &[x, x]).on(stream)?[0],
            1 => r.call("add", &[x, x]).run()?[0],
            _ => {
                r.read(&x, stream)?;
                r.call("neg", &[x]).run()?[0]
            }
        };
        r.output("y", &y)
    })?;
    recorded.compile()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: super::cases().min(10_000) / 10,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn what_is_accepted_is_proven_and_what_is_refused_emits_nothing(
        steps in proptest::collection::vec(any::<Step>(), 1..40),
    ) {
        Program::new(config(DriverKind::Inline, SyncPolicy::Frontier)).run(&steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: super::cases().min(10_000) / 100,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    /// Two ranks make the same calls; messages go from one to the other.
    #[test]
    fn ranks_whose_calls_are_accepted_are_proven_to_meet(
        steps in proptest::collection::vec(any::<Step>(), 1..30),
    ) {
        let lists = LocalGroup::run(2, |rank| {
            let config = config(DriverKind::Threaded, SyncPolicy::Frontier);
            Program::new(config.communicator(Arc::new(rank)).submitters(Some(1))).run(&steps)
        })?;
        let verdict = verify_ranks(&lists.iter().collect::<Vec<_>>(), CommunicatorRules::Own);
        prop_assert!(verdict.proven(), "{:?} {:?}", verdict.violations, verdict.pending);
    }
}

/// Most calls of the random programs reach the machine on streams and operands that suit them.
#[test]
fn the_programs_have_right_and_wrong_calls() {
    let mut program = Program::new(config(DriverKind::Inline, SyncPolicy::Frontier));
    let steps: Vec<Step> = (0..400u32)
        .map(|k| {
            let mixed = k.wrapping_mul(2_654_435_761).to_le_bytes();
            (k as u8, [mixed[3], mixed[2], mixed[1], mixed[0]])
        })
        .collect();
    program.run(&steps).unwrap();
    let [accepted, refused] = program.outcomes;
    assert!(accepted > 100 && refused > 50, "{accepted} accepted, {refused} refused");
}
