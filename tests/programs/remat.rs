//! Recorded programs within memory budgets: the same bits, on every driver and number of streams,
//! at the modelled price; and budgets that no plan keeps.

use std::sync::Arc;

use millstream::instructions::passes::{Pass, Remat, arena_bytes};
use millstream::{DeviceId, DriverKind};
use millstream_runner::{RunOptions, RunReport, run};
use millstream_testing::cases;
use millstream_trace::Program;

use super::files::{self, parse};
use super::run_trace::{assert_ok, bytes};

fn recorded(name: &str) -> Arc<Program> {
    files::read(&files::root().join("tests/traces/pytorch").join(name).join("et.json.gz"))
}

fn replayed(program: &Arc<Program>, options: RunOptions) -> RunReport {
    let options = options.replay(true).emit(true).emit_after(Some(Pass::Memory));
    let report = run(program.clone(), &options).unwrap_or_else(|e| panic!("{e}"));
    assert_ok(&report);
    report
}

/// Returns the private memory of a program's executable on its device.
fn needed(report: &RunReport) -> u64 {
    arena_bytes(report.list.as_ref().unwrap())[0]
}

/// Runs a program within a part of its memory, in every way.
fn within(name: &str, part: f64) -> Remat {
    let program = recorded(name);
    let whole = replayed(&program, RunOptions::default());
    let budget = (part * needed(&whole) as f64) as u64;
    let mut first: Option<Remat> = None;
    for (driver, streams) in
        [(DriverKind::Threaded, 1), (DriverKind::Inline, 1), (DriverKind::Threaded, 3)]
    {
        let options = RunOptions::default()
            .machine(|config| config.driver(driver))
            .in_turn(streams)
            .remat([(DeviceId::cpu(0), budget)]);
        let report = replayed(&program, options);
        assert!(needed(&report) <= budget, "{name}: {} of {budget}", needed(&report));
        assert_eq!(bytes(&report), bytes(&whole), "{name} on {streams} streams, {driver:?}");
        let [plan] = &report.remat[..] else { panic!("{:?}", report.remat) };
        assert!(plan.floor <= plan.peak && plan.peak <= budget && plan.again > 0, "{plan}");
        first.get_or_insert_with(|| plan.clone());
    }
    first.unwrap()
}

fn price(plan: &Remat) -> f64 {
    1.0 + plan.extra as f64 / plan.time as f64
}

/// Long because the largest recorded programs are planned, in a build that is optimised little.
#[test]
fn half_the_memory_of_recorded_programs_costs_a_tenth() {
    let names = ["gpt_train_adamw", "gpt2_12layer_train", "resnet50_train"];
    for name in &names[..cases(1, 3)] {
        let plan = within(name, 0.5);
        assert!(price(&plan) <= 1.10, "{name}: {plan}");
    }
}

#[test]
fn less_memory_costs_more() {
    for (part, most) in [(0.7, 1.06), (0.4, 1.21), (0.3, 1.64)] {
        let plan = within("gpt_train_adamw", part);
        assert!(price(&plan) <= most, "{part}: {plan}");
    }
}

/// A budget below the floor names the call, and why each of its tensors is there.
#[test]
fn a_budget_below_the_floor_is_refused() {
    let program = recorded("gpt_train_adamw");
    let options = RunOptions::default().replay(true).remat([(DeviceId::cpu(0), 4096)]);
    let error = run(program, &options).unwrap_err().to_string();
    for part in ["memory budget: expected at least", "on cpu:0", "needs, got 4096", "uses it"] {
        assert!(error.contains(part), "{error}");
    }
}

/// An executable of a native trace has a budget of its own.
#[test]
fn executables_of_traces_have_budgets() {
    let with = |remat: &str| {
        parse(&format!(
            r#"{{"millstream": 1,
"tensors": {{"x": {{"dtype": "f32", "shape": [256], "fill": 0.5}}}},
"executables": {{"step": {{"inputs": {{"a": {{"dtype": "f32", "shape": [256]}}}}, "program": [
{{"op": "exp", "in": "a", "out": "b"}}, {{"op": "sum", "in": "b", "out": "s"}},
{{"op": "flip", "in": "a", "out": "c", "attrs": {{"dims": [0]}}}},
{{"op": "cumsum", "in": "c", "out": "d", "attrs": {{"dim": 0}}}},
{{"op": "cumsum", "in": "d", "out": "e", "attrs": {{"dim": 0}}}},
{{"op": "matmul", "in": ["e", "b"], "out": "y"}}],
"outputs": {{"y": {{}}, "s": {{}}}}{remat}}}}},
"program": [{{"launch": "step", "in": {{"a": "x"}}, "out": {{"y": "y", "s": "s"}}}}],
"outputs": {{"y": {{}}, "s": {{}}}}}}"#
        ))
    };
    let run = |remat: &str| run(with(remat), &RunOptions::default().emit(true));
    let again = |report: &RunReport| {
        let list = &report.list.as_ref().unwrap().executables[0];
        assert!(arena_bytes(list)[0] <= 2048);
        let origins = list.instructions.iter().map(|i| i.origin.to_string());
        origins.filter(|origin| origin.starts_with("again ")).count()
    };
    let whole = run("").unwrap();
    let within = run(r#", "remat": {"cpu:0": "2KiB"}"#).unwrap();
    assert_eq!(bytes(&within), bytes(&whole));
    assert!(again(&within) > 0);
    let error = run(r#", "remat": {"cpu:0": "1KiB"}"#).unwrap_err().to_string();
    assert!(error.contains("invalid memory budget") && error.starts_with("t.json:"), "{error}");
}
