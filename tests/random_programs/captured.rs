//! Random functions, traced: they give the bits of the same calls made one by one, or the same
//! poison.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millstream::instructions::passes::Pass;
use millstream::*;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use millstream_testing::machine::floats;

use crate::body::{Eager, Held, Step, origin_of, run};
use crate::executables::{Outcome, Program, Way, compare, config, device, open, outcome, ways};

/// Runs the steps of a program: some of them, and then, by an element that it reads, the others
/// forwards or backwards. Returns the tensors that are live at its end.
fn body(machine: &Machine, program: &Program, formals: [&Tensor; 3]) -> Vec<Tensor> {
    let stream = |k| machine.compute(&device(program), k).unwrap();
    let streams = (0..program.streams as u32).map(stream).collect();
    let mut target = Eager { machine, streams };
    let formals = formals.map(|t| Held(t.clone()));
    let reads = program.pools & 1 == 1;
    let first = if reads { program.steps.len() / 2 } else { program.steps.len() };
    let (before, after) = program.steps.split_at(first);
    let mut live = run(&mut target, &formals, before, program.streams, 0);
    if reads {
        let read = live.first().unwrap_or(&formals[1]).0.read();
        let is_large = read.is_ok_and(|bytes| floats(&bytes)[0] > 1.0);
        let mut after = after.to_vec();
        if !is_large {
            after.reverse();
        }
        let mut whole = live.iter().filter(|t| t.0.spec().shape() == formals[0].0.spec().shape());
        let second = whole.next_back().unwrap_or(&formals[2]).clone();
        let given = [formals[0].clone(), formals[1].clone(), second];
        live.extend(run(&mut target, &given, &after, program.streams, 0));
    }
    live.into_iter().map(|Held(tensor)| tensor).collect()
}

/// Makes all calls one by one in program order.
fn eager(program: &Program) -> Outcome {
    let machine = open(&Way::IN_ORDER, None);
    outcome(&machine, program, None, |w| {
        let (w, machine) = (w.clone(), &machine);
        Box::new(move |[x, y], _| body(machine, program, [&w, x, y]))
    })
}

/// Most steps are calls; the others cannot be captured.
fn programs() -> impl Strategy<Value = Program> {
    let kind = prop_oneof![200 => 0..12u8, 40 => 18..20u8, 1 => 12..18u8];
    let step = (kind, any::<u8>(), any::<u8>(), any::<u8>());
    let steps = proptest::collection::vec(step, 1..25);
    let flags = (any::<u8>(), any::<bool>(), any::<bool>());
    (steps, 1usize..=8, 2usize..6, flags).prop_map(|(steps, streams, runs, flags)| {
        let (pools, on_sim, chained) = flags;
        let steps: Vec<Step> = steps;
        Program { steps, streams, pools, runs, on_sim, chained }
    })
}

/// Makes the calls of a program by a traced function. Returns also how often it replayed.
fn traced(program: &Program, way: &Way) -> (Outcome, u64) {
    let machine = open(way, None);
    let mut replays = 0;
    let got = outcome(&machine, program, None, |w| {
        let (w, inner, own) = (w.clone(), machine.clone(), program.clone());
        let function = move |inputs: &[Tensor], _: &Attrs| {
            Ok(body(&inner, &own, [&w, &inputs[0], &inputs[1]]))
        };
        let traced = machine.traced(function);
        let replays = &mut replays;
        Box::new(move |[x, y], _| {
            let made = with_origin(&origin_of(0, 0), || traced.call(&[x, y]).run().unwrap());
            *replays = traced.report().replays;
            made
        })
    });
    (got, replays)
}

#[test]
fn traced_functions_give_the_results_of_calls() {
    let replays = AtomicU64::new(0);
    let config = config();
    let cases = u64::from(config.cases);
    let result = TestRunner::new(config).run(&(programs(), ways()), |(program, way)| {
        let (got, replayed) = traced(&program, &way);
        replays.fetch_add(replayed, Relaxed);
        compare(&Way { passes: vec![Pass::Fuse], ..way }, &got, &eager(&program))
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let replays = replays.into_inner();
    assert!(replays >= cases / 2, "only {replays} replays in {cases} cases");
}
