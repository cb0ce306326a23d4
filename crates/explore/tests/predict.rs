//! Predictions: serial and overlapped pipelines take the time of the closed formulas, to the
//! nanosecond.

use std::path::Path;
use std::sync::Arc;

use millstream_explore::predict::{Model, predict};
use millstream_instructions::InstructionList;
use millstream_profile::order::{OnPath, Segment};
use millstream_profile::{Profile, summary};
use millstream_runner::{RunOptions, run};
use millstream_trace::{LoadOptions, load_bytes};
use millstream_vm::DriverKind;

/// A launch takes 1 ns. A copy of 800 bytes takes 100 ns in and 200 ns out. An op on 100 f64 takes
/// 16 ns for the memory of two operands, and 50 ns to compute.
const MODEL: &str = r#"{
    "name": "round numbers", "sources": [],
    "devices": {
        "sim": { "launch_ns": 1, "memory_gb_s": 100, "from_host_gb_s": 8, "to_host_gb_s": 4,
                 "gflop_s": { "f64": 2, "other": 1 } },
        "cpu": { "launch_ns": 0, "memory_gb_s": 1000, "from_host_gb_s": 1, "to_host_gb_s": 1,
                 "gflop_s": { "other": 1000000 } }
    } }"#;

const IN: u64 = 101;
const OP: u64 = 51;
const OUT: u64 = 201;

/// Returns the list of a program that copies `chunks` chunks in, computes, and copies them out, on
/// the streams of these names.
fn pipeline(chunks: usize, streams: [&str; 3]) -> InstructionList {
    let [to, compute, from] = streams;
    let mut tensors = Vec::new();
    let mut program = Vec::new();
    for k in 0..chunks {
        tensors.push(format!(
            r#""h{k}": {{ "dtype": "f64", "shape": [100], "fill": 1, "device": "cpu:0" }}"#
        ));
        program
            .push(format!(r#"{{ "op": "copy", "in": "h{k}", "out": "d{k}", "stream": "{to}" }}"#));
        program.push(format!(
            r#"{{ "op": "relu", "in": "d{k}", "out": "r{k}", "stream": "{compute}" }}"#
        ));
        program.push(format!(
            r#"{{ "op": "copy", "in": "r{k}", "out": "o{k}", "stream": "{from}" }}"#
        ));
    }
    let text = format!(
        r#"{{ "millstream": 1,
             "streams": {{ "in": {{ "device": "sim:0", "type": "host2device" }},
                           "work": {{ "device": "sim:0" }},
                           "out": {{ "device": "sim:0", "type": "device2host" }} }},
             "tensors": {{ {} }}, "program": [ {} ], "outputs": {{}} }}"#,
        tensors.join(",\n"),
        program.join(",\n")
    );
    list(&text)
}

fn list(text: &str) -> InstructionList {
    let program = load_bytes("t.json", text.as_bytes(), None, &LoadOptions::default());
    let program = Arc::new(program.unwrap_or_else(|e| panic!("{e}\n{text}")));
    let options =
        RunOptions::default().machine(|config| config.driver(DriverKind::Inline)).emit(true);
    run(program, &options).unwrap().list.unwrap()
}

fn predicted(list: &InstructionList) -> Profile {
    predict("a list", list, &Model::parse(MODEL).unwrap()).unwrap()
}

/// Returns the names and the times of the instructions on the critical path.
fn critical(made: &Profile) -> Vec<(&str, u64)> {
    let path = summary::path(made);
    let runs = |part: &OnPath| match part.segment {
        Segment::Runs(k) => (made.name_of(&made.instructions[k as usize]), part.end - part.start),
        _ => panic!("the critical path has no gap: {part:?}"),
    };
    path.iter().map(runs).collect()
}

#[test]
fn one_chunk_takes_the_sum_of_its_steps() {
    let made = predicted(&pipeline(1, ["in", "work", "out"]));
    assert_eq!(made.total, IN + OP + OUT);
    assert_eq!(critical(&made), [("copy", IN), ("relu", OP), ("copy", OUT)]);
}

#[test]
fn a_serial_program_takes_the_sum_of_its_steps() {
    let steps: Vec<String> = (0..9)
        .map(|k| {
            let next = k + 1;
            format!(r#"{{ "op": "relu", "in": "x{k}", "out": "x{next}", "stream": "work" }}"#)
        })
        .collect();
    let text = format!(
        r#"{{ "millstream": 1, "streams": {{ "work": {{ "device": "sim:0" }} }},
             "tensors": {{ "x0": {{ "dtype": "f64", "shape": [100], "fill": 1, "device": "sim:0" }} }},
             "program": [ {} ], "outputs": {{}} }}"#,
        steps.join(",\n")
    );
    let made = predicted(&list(&text));
    assert_eq!(made.total, 9 * OP);
    assert_eq!(critical(&made).len(), 9);
}

/// Chunks pass through stages that overlap. The first chunk takes the time of all stages, and each
/// further chunk adds the time of the slowest stage.
#[test]
fn an_overlapped_pipeline_takes_the_time_of_the_closed_formula() {
    for chunks in [1, 2, 3, 8, 64] {
        let made = predicted(&pipeline(chunks, ["in", "work", "out"]));
        let slowest = IN.max(OP).max(OUT);
        let formula = IN + OP + OUT + (chunks as u64 - 1) * slowest;
        assert_eq!(made.total, formula, "{chunks} chunks");
        let shares: u64 = critical(&made).iter().map(|(_, takes)| takes).sum();
        assert_eq!(shares, made.total, "the critical path has no gap");
    }
}

#[test]
fn a_host_read_and_a_barrier_delay_later_work() {
    let program = |between: &str| {
        format!(
            r#"{{ "millstream": 1,
                 "streams": {{ "a": {{ "device": "sim:0" }}, "b": {{ "device": "sim:0" }} }},
                 "tensors": {{ "x": {{ "dtype": "f64", "shape": [100], "fill": 1, "device": "sim:0" }} }},
                 "program": [
                   {{ "op": "relu", "in": "x", "out": "y", "stream": "a" }},
                   {between}
                   {{ "op": "relu", "in": "x", "out": "z", "stream": "b" }} ],
                 "outputs": {{}} }}"#
        )
    };
    assert_eq!(predicted(&list(&program(""))).total, OP);
    assert_eq!(predicted(&list(&program(r#"{ "barrier": true },"#))).total, 2 * OP);
    assert_eq!(predicted(&list(&program(r#"{ "read": "y" },"#))).total, 2 * OP + OUT);
}

#[test]
fn the_shipped_models_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/models");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let model = Model::parse(&text).unwrap();
        assert!(!model.sources.is_empty(), "{}", model.name);
        count += 1;
    }
    assert_eq!(count, 3);
}

#[test]
fn wrong_models_are_refused_with_the_reason() {
    let wrong = |text: &str| Model::parse(text).unwrap_err();
    assert!(wrong("{").contains("line 1"));
    assert!(wrong(&MODEL.replace("launch_ns", "launch")).contains("unknown field `launch`"));
    assert_eq!(
        wrong(&MODEL.replace("\"memory_gb_s\": 100,", "\"memory_gb_s\": 0,")),
        "devices.sim: memory_gb_s: expected a rate above 0, got 0"
    );
    assert_eq!(
        wrong(&MODEL.replace("\"f64\"", "\"f46\"")),
        "devices.sim.gflop_s: 'f46' is neither a dtype nor other"
    );
    let no_sim = MODEL.replace("\"sim\"", "\"gpu\"");
    let list = pipeline(1, ["in", "work", "out"]);
    assert_eq!(
        predict("a list", &list, &Model::parse(&no_sim).unwrap()).unwrap_err(),
        "the model 'round numbers' has no devices of kind sim, only cpu and gpu"
    );
}
