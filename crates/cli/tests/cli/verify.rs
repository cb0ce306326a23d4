//! `verify` as its users see it: exit statuses, counterexamples, repairs, reports.

use std::fs;

use serde_json::Value;

use crate::{examples, message, millstream, text};

const LIST: &str = "# two streams
millstream-list 1
stream s0 sim:0 compute 0 in-order
stream s1 sim:0 compute 1 in-order
arena a0 sim:0
external %0 \"x\" f32[4,4] in 64 bytes of a0
external %1 \"y\" f32[4,4] in 64 bytes of a0

OpCall s0:1 fill (%0 write) # train.py:7
StreamWaitEvent s1:1 until s0:1 by-host
OpCall s1:2 copy (%0 read, %1 write) # train.py:8
";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("good.txt"), LIST).unwrap();
    let bad: String =
        LIST.lines().filter(|l| !l.contains("Wait")).map(|l| format!("{l}\n")).collect();
    fs::write(folder.path().join("bad.txt"), bad).unwrap();
    folder
}

#[test]
fn a_proven_list() {
    let folder = folder();
    let output = millstream(folder.path(), &["verify", "good.txt", "--waits"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    insta::assert_snapshot!("verify_proven", text(&output.stdout));
}

#[test]
fn a_counterexample_and_its_repair() {
    let folder = folder();
    let output = millstream(folder.path(), &["verify", "bad.txt", "--json", "report.json"]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!("verify_refused", text(&output.stderr));
    assert_eq!(text(&output.stdout), "not proven: 1 violation, in 2 instructions\n");
    let report = fs::read_to_string(folder.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    insta::assert_snapshot!("verify_json", serde_json::to_string_pretty(&report).unwrap());
    // The wait that the report proposes, inserted at the proposed line, repairs the list.
    let repair = &report["violations"][0]["repair"];
    let bad = fs::read_to_string(folder.path().join("bad.txt")).unwrap();
    let mut lines: Vec<&str> = bad.lines().collect();
    let before = repair["before_line"].as_u64().unwrap() as usize - 1;
    lines.insert(before, repair["text"].as_str().unwrap());
    fs::write(folder.path().join("repaired.txt"), lines.join("\n")).unwrap();
    let output = millstream(folder.path(), &["verify", "repaired.txt"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn folders_and_traces() {
    let folder = folder();
    fs::copy(examples().join("diamond.json"), folder.path().join("diamond.json")).unwrap();
    let list = serde_json::json!({
        "millstream": 1,
        "tensors": {"x": {"dtype": "f32", "shape": [4, 4], "fill": 0},
                    "y": {"dtype": "f32", "shape": [4, 4], "fill": 0}},
        "instructions": LIST.lines().filter(|l| !l.is_empty()).collect::<Vec<_>>(),
    });
    fs::write(folder.path().join("list.json"), list.to_string()).unwrap();
    let output = millstream(
        folder.path(),
        &["verify", ".", "--compute-streams", "4", "--assign", "round-robin", "--report", "-"],
    );
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let reports: Vec<Value> =
        text(&output.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let proven: Vec<(&str, bool)> = reports
        .iter()
        .map(|r| (r["list"].as_str().unwrap(), r["proven"].as_bool().unwrap()))
        .collect();
    let expected = [
        ("./bad.txt", false),
        ("./good.txt", true),
        ("./diamond.json", true),
        ("./list.json", true),
    ];
    assert_eq!(proven, expected, "{}", text(&output.stderr));
    let waits = reports[1]["waits"].as_array().unwrap();
    assert_eq!((&waits[0]["line"], &waits[0]["needed"]), (&10.into(), &true.into()));
}

#[test]
fn bad_input() {
    let folder = folder();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("word.txt", "millstream-list 1\nFrobnicate s0:1\n");
    write("none.json", "{}");
    fs::create_dir(folder.path().join("empty")).unwrap();
    for (path, said) in [
        ("word.txt", "word.txt:2:1: unknown instruction 'Frobnicate'"),
        ("none.json", "no Millstream trace"),
        ("missing.txt", "missing.txt"),
        ("empty", "empty: it holds nothing to verify"),
    ] {
        let output = millstream(folder.path(), &["verify", path]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{path}: {errors}");
        assert!(errors.contains(said), "{path}: {errors}");
        assert_eq!(text(&output.stdout), "", "{path}");
    }
}

/// The lists of several ranks are proven one by one, and compared with one another.
#[test]
fn ranks_that_wait_for_one_another_are_not_proven() {
    let folder = tempfile::tempdir().unwrap();
    let write = |rank: usize, peer: usize, receives_first: bool| {
        let receive =
            format!(r#"{{"op": "recv_", "in": "y", "stream": "a", "attrs": {{"from": {peer}}}}}"#);
        let send =
            format!(r#"{{"op": "send", "in": "x", "stream": "a", "attrs": {{"to": {peer}}}}}"#);
        let statements = match receives_first {
            true => format!("{receive},\n{send}"),
            false => format!("{send},\n{receive}"),
        };
        let trace = format!(
            r#"{{"millstream": 1, "streams": {{"a": {{"type": "ccl"}}}},
"tensors": {{"x": {{"dtype": "f32", "values": [1]}}, "y": {{"dtype": "f32", "values": [1]}}}},
"program": [{statements}]}}"#
        );
        fs::write(folder.path().join(format!("rank{rank}.json")), trace).unwrap();
    };
    write(0, 1, true);
    write(1, 0, true);
    let output = millstream(folder.path(), &["verify", ".", "--json", "report.json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[..2].iter().all(|line| line.contains("proven for this rank alone")), "{lines:?}");
    assert!(lines[2].contains("not proven: the ranks do not meet, 1 violation"), "{lines:?}");
    let error = text(&output.stderr);
    assert!(error.contains("rank 0 in recv_(f32[1]) at") && error.contains("rank 1 in"), "{error}");
    // A run refuses the ranks before it starts, with the same words.
    let run = millstream(folder.path(), &["run", "."]);
    let refused = message(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{refused}");
    assert!(refused.contains("these can never proceed: rank 0 in recv_(f32[1]) at"), "{refused}");
    let report = fs::read_to_string(folder.path().join("report.json")).unwrap();
    let last: Value = serde_json::from_str(report.lines().last().unwrap()).unwrap();
    assert_eq!((&last["proven"], &last["compared"]), (&Value::from(false), &Value::from(2)));
    write(1, 0, false);
    let output = millstream(folder.path(), &["verify", "."]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let last = text(&output.stdout).lines().last().unwrap();
    assert!(last.contains("proven: the ranks meet, in 2 collectives"), "{last}");
    let run = millstream(folder.path(), &["run", "."]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
}

/// A send without a receive is pending at the end. By NCCL's rules it waits for ever, and ranks
/// that launch in different orders are refused as well.
#[test]
fn ranks_by_the_rules_of_their_communicator() {
    let rank = |program: &str| {
        format!(
            r#"{{"millstream": 1, "streams": {{"a": {{"type": "ccl"}}, "b": {{"type": "ccl"}}}},
            "tensors": {{"x": {{"dtype": "f32", "values": [1]}}, "y": {{"dtype": "f32", "values": [2]}}}},
            "program": [{program}], "outputs": {{}}}}"#
        )
    };
    let reduce = |x: &str, group: u32, stream: &str| {
        format!(
            r#"{{"op": "allreduce_", "in": "{x}", "stream": "{stream}",
            "attrs": {{"group": [0, 1], "group_index": {group}}}}}"#
        )
    };
    let verified = |programs: [&str; 2], more: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        for (k, program) in programs.iter().enumerate() {
            fs::write(folder.path().join(format!("rank{k}.json")), rank(program)).unwrap();
        }
        let output = millstream(folder.path(), &[&["verify", "."], more].concat());
        let all = format!("{}{}", text(&output.stdout), message(&output.stderr));
        (output.status.code(), all)
    };
    let send = r#"{"op": "send", "in": "x", "attrs": {"to": 1}, "stream": "a"}"#;
    let (status, said) = verified([send, ""], &[]);
    assert_eq!(status, Some(1));
    assert!(said.contains("not proven: 1 send is pending at the end"), "{said}");
    assert!(said.contains("is never received"), "{said}");
    let (status, said) = verified([send, ""], &["--nccl"]);
    assert_eq!(status, Some(1));
    assert!(said.contains("waits for rank 1, which does not make the call"), "{said}");
    let one = [reduce("x", 0, "a"), reduce("y", 1, "b")].join(", ");
    let other = [reduce("y", 1, "b"), reduce("x", 0, "a")].join(", ");
    let (status, said) = verified([&one, &other], &[]);
    assert_eq!(status, Some(0), "{said}");
    let (status, said) = verified([&one, &other], &["--nccl"]);
    assert_eq!(status, Some(1));
    assert!(said.contains("the ranks launch in different orders: rank 0 in "), "{said}");
    let (status, said) = verified([&one, &one], &["--nccl"]);
    assert_eq!(status, Some(0), "{said}");
}
