//! Every example gives the same bytes in every way to run, and its list is self-contained.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream::instructions::Kind;
use millstream::instructions::text::{parse_list, print_list};
use millstream::{DeviceId, DriverKind, InstructionList, SyncPolicy};
use millstream_explore::simulate::{random_options, random_program};
use millstream_runner::{CollectiveChecks, RunOptions, RunReport, lists, prepare, run, run_ranks};
use millstream_trace::Program;
use millstream_verify::{CommunicatorRules, verify_ranks};
use serde_json::{Map, Value, json};

use super::files::{folder, parse, read};

fn examples() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    found.sort();
    assert!(found.len() >= 15, "{found:?}");
    found
}

pub(super) fn bytes(report: &RunReport) -> Vec<&[u8]> {
    report.outputs.iter().map(|o| o.bytes.as_slice()).collect()
}

#[track_caller]
pub(super) fn assert_ok(report: &RunReport) {
    assert!(report.failures.is_empty(), "{}: {:?}", report.trace, report.failures);
    for output in &report.outputs {
        assert!(output.ok(), "{}: {output:?}", report.trace);
    }
}

/// Returns every way to run: drivers, sync policies, streams, devices.
pub(super) fn ways() -> impl Iterator<Item = RunOptions> {
    let devices = [DeviceId::cpu(0), DeviceId::sim(0)];
    devices.into_iter().flat_map(|device| {
        [DriverKind::Inline, DriverKind::Threaded].into_iter().flat_map(move |driver| {
            let device = device.clone();
            [SyncPolicy::Frontier, SyncPolicy::LastUsedStream].into_iter().flat_map(move |sync| {
                let device = device.clone();
                [1, 2, 4, 7].into_iter().map(move |compute_streams| {
                    RunOptions::default()
                        .machine(|config| config.driver(driver).sync(sync))
                        .device(device.clone())
                        .in_turn(compute_streams)
                })
            })
        })
    })
}

/// Launches of the compiled program give the bytes of an eager run, in every way to run.
#[test]
fn random_programs_give_the_same_bytes_when_replayed() {
    for seed in 0..60 {
        let program = random_program(seed).unwrap();
        let eager = RunOptions::default().machine(|config| config.driver(DriverKind::Inline));
        let first = run(program.clone(), &random_options(&eager)).unwrap();
        for driver in [DriverKind::Inline, DriverKind::Threaded] {
            for threads in [1, 3] {
                let options = random_options(&RunOptions::default()).threads(threads);
                let options = options.machine(|config| config.driver(driver));
                let report = run(program.clone(), &options.replay(true).repeat(3)).unwrap();
                assert_ok(&report);
                assert_eq!(bytes(&report), bytes(&first), "seed {seed} {driver:?} {threads}");
            }
        }
    }
}

#[test]
fn every_way_to_run_gives_the_same_bytes() {
    for path in examples() {
        let program = read(&path);
        let first = run(program.clone(), &RunOptions::default()).unwrap();
        assert_ok(&first);
        assert!(!first.outputs.is_empty(), "{}", path.display());
        for way in ways() {
            let report = run(program.clone(), &way).unwrap_or_else(|e| panic!("{way:?}: {e}"));
            assert_ok(&report);
            assert_eq!(bytes(&report), bytes(&first), "{}: {way:?}", path.display());
        }
    }
}

#[test]
fn threads_and_repeats_change_nothing() {
    for path in examples() {
        let program = read(&path);
        let first = run(program.clone(), &RunOptions::default()).unwrap();
        for threads in [1, 2, 5] {
            let options = RunOptions::default().threads(threads).repeat(3).in_turn(3);
            let report = run(program.clone(), &options).unwrap();
            assert_ok(&report);
            assert_eq!(bytes(&report), bytes(&first), "{}: {threads} threads", path.display());
        }
    }
}

/// Returns a trace of instructions: the tensors and outputs of a trace, with the list of a run.
fn raw(path: &Path, report: &RunReport) -> Arc<Program> {
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let lines: Vec<String> =
        print_list(report.list.as_ref().unwrap()).lines().map(str::to_owned).collect();
    let mut outputs = Map::new();
    for output in &report.outputs {
        let expected = trace["outputs"][&output.name].clone();
        outputs.insert(output.tensor.unwrap().to_string(), expected);
    }
    let raw = json!({
        "millstream": 1,
        "tensors": trace.get("tensors").cloned().unwrap_or(json!({})),
        "default_tolerance": trace.get("default_tolerance").cloned().unwrap_or(json!({})),
        "instructions": lines,
        "outputs": outputs,
    });
    parse(&serde_json::to_string_pretty(&raw).unwrap())
}

#[test]
fn emitted_lists_are_accepted_and_run_again() {
    let mut executables = 0;
    for path in examples() {
        let program = read(&path);
        for way in ways().filter(|w| w.compute_streams != 4) {
            let emitting = way.clone().emit(true);
            let report = run(program.clone(), &emitting).unwrap();
            let list = report.list.clone().unwrap();
            let text = print_list(&list);
            assert_eq!(parse_list(&text).unwrap(), list, "{text}");
            let counted: u64 = report.instructions.iter().map(|(_, n)| n).sum();
            assert_eq!(counted, list.instructions.len() as u64, "{:?}", report.instructions);
            let checked = millstream_verify::check(list.clone());
            assert!(checked.is_ok(), "{}: {way:?}\n{text}{checked:?}", path.display());

            let again = raw(&path, &report);
            // A list holds the executables that it launches.
            executables += list.executables.len();
            let rerun = run(again, &way.clone().repeat(2));
            let rerun = rerun.unwrap_or_else(|e| panic!("{}: {way:?}\n{e}", path.display()));
            assert_ok(&rerun);
            for output in &report.outputs {
                let name = output.tensor.unwrap().to_string();
                let found = rerun.outputs.iter().find(|o| o.name == name).unwrap();
                assert_eq!(found.bytes, output.bytes, "{}: {way:?} {name}", path.display());
            }
        }
    }
    assert!(executables > 0, "no example launches an executable");
}

/// A list that is made without a run has the calls and launches of the run, on the same tensors:
/// also the private memory of executables.
#[test]
fn a_list_without_a_run_has_the_calls_of_the_run() {
    let uses = |list: &InstructionList| -> Vec<String> {
        let used = list.instructions.iter().filter(|i| !i.body.operands().is_empty());
        used.map(|i| format!("{} {:?}", i.body.kind().name(), i.body.operands())).collect()
    };
    for path in examples() {
        let program = read(&path);
        for device in [DeviceId::cpu(0), DeviceId::sim(0)] {
            let options = RunOptions::default().device(device).in_turn(2).emit(true);
            let ran = run(program.clone(), &options).unwrap().list.unwrap();
            let made = lists(&program, &options).unwrap().remove(0);
            assert_eq!(
                (made.executable, uses(&made.list)),
                (None, uses(&ran)),
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn calls_are_spread_over_the_compute_streams() {
    let options = RunOptions::default().in_turn(4);
    let report = run(read(&folder().join("dtypes.json")), &options).unwrap();
    let compute: Vec<_> = report.streams.iter().filter(|s| s.instructions > 0).collect();
    assert_eq!(compute.len(), 4, "{compute:?}");
    // A program that names its streams keeps them.
    let report = run(read(&folder().join("chain.json")), &options).unwrap();
    assert_eq!(report.streams.len(), 1, "{:?}", report.streams);
    assert_eq!(report.waits.needed, 0);
}

#[test]
fn waits_are_counted() {
    let report = run(read(&folder().join("three-readers.json")), &RunOptions::default()).unwrap();
    assert!(report.waits.needed >= 3, "{:?}", report.waits);
    assert_eq!(report.waits.needed, report.waits.emitted() + report.waits.elided());
    let annotations = report.instructions.iter().find(|(k, _)| *k == Kind::SoftSyncStream);
    assert_eq!(annotations.map(|(_, n)| *n), Some(report.waits.needed));
}

/// Every mistake in a program is found before anything runs, also in executables and sections.
#[test]
fn programs_are_checked_whole() {
    let tensors = r#""tensors": {"x": {"dtype": "f32", "shape": [2], "fill": 1},
        "y": {"dtype": "f32", "shape": [3], "fill": 1}}"#;
    for (program, at, part) in [
        (r#"{"op": "add", "in": ["x", "y"], "out": "z"}"#, 2, "add: "),
        (r#"{"op": "relu", "in": ["x", "y"], "out": "z"}"#, 2, "relu: "),
        (r#"{"op": "relu", "in": "x", "out": ["z", "w"]}"#, 2, "1 result(s), and 'out' names 2"),
        (
            r#"{"critical_section": "x", "body": [{"op": "rleu", "in": "x", "out": "z"}]}"#,
            2,
            "unknown op 'rleu'; did you mean 'relu'?",
        ),
        (
            "{\"op\": \"transpose\", \"in\": \"x\", \"out\": \"t\",\n\
              \"attrs\": {\"dim0\": 0, \"dim1\": 7}}",
            2,
            "transpose: ",
        ),
    ] {
        let text = format!(
            "{{\"millstream\": 1, {}, \"program\": [\n{program}]}}",
            tensors.replace('\n', " ")
        );
        let error = prepare(parse(&text), &RunOptions::default()).err().expect(program);
        assert!(!error.runtime);
        let shown = error.to_string();
        assert!(shown.starts_with(&format!("t.json:{at}:")), "{shown}");
        assert!(shown.contains(part), "{shown}");
    }
    let executable = r#"{"millstream": 1, "tensors": {"x": {"dtype": "f32", "shape": [2], "fill": 1}},
"executables": {"j": {"program": [
{"op": "matmul", "in": ["x", "x", "x"], "out": "z"}]}}, "program": [{"launch": "j"}]}"#;
    let error = prepare(parse(executable), &RunOptions::default()).err().unwrap().to_string();
    assert!(error.starts_with("t.json:3:1: matmul: "), "{error}");
}

/// Shapes that depend on data are checked once they are known.
#[test]
fn shapes_from_data_are_checked_late() {
    let text = |shape: &str| {
        format!(
            r#"{{"millstream": 1, "tensors": {{"x": {{"dtype": "f32", "values": [1, 2, 3]}},
"m": {{"dtype": "bool", "values": [true, false, true]}}}}, "program": [
{{"op": "masked_select", "in": ["x", "m"], "out": "s"}},
{{"op": "reshape", "in": "s", "out": "t", "attrs": {{"shape": {shape}}}}},
{{"op": "add", "in": ["t", "t"], "out": "u"}}],
"outputs": {{"u": {{"values": [[2], [6]]}}}}}}"#
        )
    };
    assert_ok(&run(parse(&text("[2, 1]")), &RunOptions::default()).unwrap());
    let prepared = prepare(parse(&text("[3, 1]")), &RunOptions::default()).unwrap();
    let error = prepared.run().expect_err("two elements for three");
    assert!(!error.runtime);
    assert!(error.to_string().starts_with("t.json:4:1: reshape: "), "{error}");
}

#[test]
fn nested_sections_and_views_of_their_tensors() {
    let text = r#"{"millstream": 1, "tensors": {"x": {"dtype": "i64", "values": [1, 2]},
"y": {"dtype": "i64", "values": [3, 4]}}, "program": [
{"critical_section": "x", "body": [
  {"op": "slice", "in": "x", "out": "v", "attrs": {"dim": 0, "start": 1, "end": 2}},
  {"critical_section": "y", "body": [
    {"op": "add_", "in": ["v", "v"]}, {"op": "add_", "in": ["y", "x"]},
    {"read": "y"}, {"touch": "v"}]},
  {"release": "v"}]}],
"outputs": {"x": {"values": [1, 4]}, "y": {"values": [4, 8]}}}"#;
    for way in ways() {
        assert_ok(&run(parse(text), &way).unwrap_or_else(|e| panic!("{e}")));
    }
}

/// The pool is the stream on which the tensors would otherwise be made.
#[test]
fn pools() {
    let text = r#"{"millstream": 1, "streams": {"p": {"mode": "pool", "index": 0}, "s": {}},
"tensors": {"x": {"dtype": "i64", "values": [1, 2]}}, "program": [
{"op": "add", "in": ["x", "x"], "out": "a", "stream": "p"},
{"op": "mul", "in": ["x", "x"], "out": "b", "stream": "p"},
{"op": "add_", "in": ["a", "b"], "stream": "p"},
{"op": "sub", "in": ["a", "b"], "out": "c", "stream": "s"},
{"read": "b"},
{"op": "mul", "in": ["c", "b"], "out": "d", "stream": "p"},
{"op": "relu", "in": "d", "out": "e"}],
"outputs": {"a": {"values": [3, 8]}, "e": {"values": [2, 16]}}}"#;
    for way in ways().filter(|w| w.compute_streams == 2) {
        let emitting = way.clone().emit(true);
        let report = run(parse(text), &emitting).unwrap_or_else(|e| panic!("{way:?}: {e}"));
        assert_ok(&report);
        let list = report.list.clone().unwrap();
        let checked = millstream_verify::check(list.clone());
        assert!(checked.is_ok(), "{way:?}\n{}{checked:?}", print_list(&list));
    }
}

fn ranks(programs: &[&str]) -> Vec<Arc<Program>> {
    let one = |(k, program): (usize, &&str)| {
        let text = format!(
            r#"{{"millstream": 1, "tensors": {{"x": {{"dtype": "i32", "values": [{k}]}}}},
"program": [{program}], "outputs": {{"x": {{"values": [{}]}}}}}}"#,
            2 * k
        );
        parse(&text)
    };
    programs.iter().enumerate().map(one).collect()
}

const STEP: &str = r#"{"global_sync": true}, {"op": "add_", "in": ["x", "x"]}"#;

#[test]
fn ranks_synchronize() {
    for way in ways().filter(|w| w.compute_streams == 2) {
        let reports = run_ranks(ranks(&[STEP; 3]), &way.repeat(2)).unwrap();
        assert_eq!(reports.len(), 3);
        reports.iter().for_each(assert_ok);
    }
}

/// The other ranks get an error for a rank that never arrives; nothing hangs.
#[test]
fn a_rank_that_never_arrives() {
    let alone = r#"{"op": "add_", "in": ["x", "x"]}"#;
    let error = run_ranks(ranks(&[STEP, alone]), &RunOptions::default()).err().unwrap();
    let names = ["rank 0 in global_sync() at", "waits for rank 1, which does not make the call"];
    assert!(names.iter().all(|name| error.to_string().contains(name)), "{error}");
    // The same where the programs are not compared before they run.
    let options = RunOptions::default().collective_checks(CollectiveChecks::Calls);
    let reports = run_ranks(ranks(&[STEP, alone]), &options).unwrap();
    assert!(!reports[0].ok());
    let failure = reports[0].failures[0].to_string();
    assert!(failure.contains("rank 1 has ended and does not reach"), "{failure}");
    assert_ok(&reports[1]);
}

/// Ranks whose calls match and wait for one another are refused before they run.
#[test]
fn ranks_in_a_cycle() {
    let call = |op: &str, peer: &str, other: usize| {
        format!(r#"{{"op": "{op}", "in": ["x"], "stream": "s", "attrs": {{"{peer}": {other}}}}}"#)
    };
    let programs = |orders: [[usize; 2]; 2]| {
        let program = |(rank, order): (usize, &[usize; 2])| {
            let calls = [call("recv_", "from", 1 - rank), call("send", "to", 1 - rank)];
            let calls = order.map(|k| calls[k].as_str()).join(",\n");
            parse(&format!(
                r#"{{"millstream": 1, "tensors": {{"x": {{"dtype": "i32", "values": [{rank}]}}}},
"streams": {{"s": {{"type": "ccl"}}}}, "program": [{calls}], "outputs": {{}}}}"#
            ))
        };
        orders.iter().enumerate().map(program).collect::<Vec<Arc<Program>>>()
    };
    let error = run_ranks(programs([[0, 1], [0, 1]]), &RunOptions::default()).err().unwrap();
    assert!(!error.runtime);
    let texts =
        ["these can never proceed: rank 0 in recv_(i32[1]) at", "waits for rank 1 in send("];
    assert!(texts.iter().all(|text| error.to_string().contains(text)), "{error}");
    let verified = programs([[0, 1], [0, 1]]);
    let own = verified.iter().map(|program| lists(program, &RunOptions::default()).unwrap());
    let own: Vec<_> = own.map(|mut lists| lists.remove(0).list).collect();
    let verdict = verify_ranks(&own.iter().collect::<Vec<_>>(), CommunicatorRules::Own);
    assert!(error.to_string().contains(&verdict.violations[0].to_string()), "{error}");
    for orders in [[[0, 1], [1, 0]], [[1, 0], [1, 0]]] {
        let reports = run_ranks(programs(orders), &RunOptions::default()).unwrap();
        reports.iter().for_each(assert_ok);
    }
}

#[test]
fn a_refused_rank_prevents_the_run_of_all() {
    let programs = ranks(&[STEP, r#"{"op": "add__", "in": ["x", "x"]}"#]);
    let error = run_ranks(programs, &RunOptions::default()).err().unwrap();
    assert!(!error.runtime);
    assert!(error.to_string().contains("did you mean 'add_'?"), "{error}");
}

/// The end of a run reports a failure that no output depends on.
#[test]
fn failures_are_reported_without_outputs() {
    let text = r#"{
        "millstream": 1,
        "tensors": {
            "w": {"dtype": "f32", "shape": [3, 2], "fill": 1},
            "i": {"dtype": "i64", "values": [0, 7]}
        },
        "program": [{"op": "embedding", "in": ["w", "i"], "out": "y"}]
    }"#;
    for driver in [DriverKind::Inline, DriverKind::Threaded] {
        let options = RunOptions::default().machine(|config| config.driver(driver));
        let report = run(parse(text), &options).unwrap();
        let [failure] = &report.failures[..] else { panic!("{:?}", report.failures) };
        let failure = failure.to_string();
        assert!(failure.contains("t.json:7") && failure.contains('7'), "{failure}");
    }
}
