//! The command line as its users see it: exit statuses, messages, reports.
//!
//! Long because every command's messages and statuses are compared in one place.

use std::fs;

use millstream_terminal::table::bytes;
use serde_json::{Value, json};

use crate::{command, examples, message, millstream, status, text};

/// Returns a folder with one trace in it.
fn folder_with(name: &str, trace: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), trace).unwrap();
    folder
}

/// Returns the message with which a trace is refused: status 2, nothing run, nothing written.
fn refused(trace: &str, arguments: &[&str]) -> String {
    let folder = folder_with("t.json", trace);
    let mut all = vec!["run", "t.json", "--report", "report.json"];
    all.extend(arguments);
    let output = millstream(folder.path(), &all);
    let errors = text(&output.stderr);
    assert_eq!(status(&output), 2, "{trace:.300}\n{errors}");
    assert!(errors.starts_with("error: "), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    assert_eq!(text(&output.stdout), "", "{trace:.300}");
    let report = fs::read_to_string(folder.path().join("report.json")).unwrap_or_default();
    assert_eq!(report, "");
    errors.to_owned()
}

fn with_tensors(tensors: &str, program: &str) -> String {
    format!(
        "{{\"millstream\": 1,\n\"tensors\": {{{tensors}}},\n\"program\": [\n{program}],\n\"outputs\": {{}}}}"
    )
}

const X: &str = r#""x": {"dtype": "f32", "shape": [2], "fill": 1}"#;

fn raw(lines: &[&str]) -> String {
    let mut all = vec![
        "millstream-list 1",
        "stream s0 cpu:0 compute 0 in-order",
        "stream s1 cpu:0 compute 1 in-order",
        "arena a0 cpu:0",
        "external %0 \"x\" f32[2] in 8 bytes of a0",
    ];
    all.extend(lines);
    let lines: Vec<String> = all.iter().map(|l| format!("  {}", json!(l))).collect();
    format!(
        "{{\"millstream\": 1, \"tensors\": {{{X}}},\n\"instructions\": [\n{}\n],\n\
         \"outputs\": {{\"x\": {{\"values\": [2, 2]}}}}}}",
        lines.join(",\n")
    )
}

#[test]
fn bad_input_is_refused_with_its_span() {
    let op = |program: &str| with_tensors(X, program);
    let tensor = |tensor: &str| with_tensors(tensor, "");
    let cases: Vec<(&str, String)> = vec![
        ("truncated", op("").chars().take(60).collect()),
        ("not JSON", "hello".to_owned()),
        ("a later version", r#"{"millstream": 9}"#.to_owned()),
        ("deep nesting", "[".repeat(1_000_000)),
        (
            "2^60 elements",
            tensor(r#""x": {"dtype": "f32", "shape": [1152921504606846976], "fill": 0}"#),
        ),
        (
            "a negative stride",
            tensor(r#""x": {"dtype": "f32", "shape": [2], "strides": [-1], "fill": 0}"#),
        ),
        (
            "an overflowing stride",
            tensor(
                r#""x": {"dtype": "f32", "shape": [3], "strides": [9223372036854775807], "fill": 0}"#,
            ),
        ),
        (
            "outside its storage",
            tensor(r#""x": {"dtype": "f32", "shape": [4], "offset": 2, "storage": 5, "fill": 0}"#),
        ),
        (
            "a view outside its tensor",
            op(r#"{"op": "reshape", "in": "x", "out": "y", "attrs": {"shape": [3]}}"#),
        ),
        ("an unknown dtype", tensor(r#""x": {"dtype": "f23", "shape": [2], "fill": 0}"#)),
        ("NaN as a shape", tensor(r#""x": {"dtype": "f32", "shape": [NaN], "fill": 0}"#)),
        ("a duplicate name", tensor(&format!("{X}, {X}"))),
        ("a missing sidecar", tensor(r#""x": {"file": "weights.safetensors", "key": "w"}"#)),
        (
            "a sidecar above the folder",
            tensor(r#""x": {"file": "../weights.safetensors", "key": "w"}"#),
        ),
        ("an unknown op", op("  {\"op\": \"rleu\", \"in\": \"x\", \"out\": \"y\"}")),
        ("an unknown tensor", op(r#"{"op": "relu", "in": "z", "out": "y"}"#)),
        ("an unknown stream", op(r#"{"op": "relu", "in": "x", "out": "y", "stream": "s"}"#)),
        ("an unknown statement", op(r#"{"opp": "relu"}"#)),
        ("shapes that do not fit", op(r#"{"op": "matmul", "in": ["x", "x", "x"], "out": "y"}"#)),
        (
            "a wait nobody records",
            r#"{"millstream": 1, "streams": {"s": {}},
"program": [{"wait": "ready", "stream": "s"}]}"#
                .to_owned(),
        ),
        (
            "an unknown device",
            r#"{"millstream": 1, "streams": {"s": {"device": "quantum:0"}}, "program": []}"#
                .to_owned(),
        ),
        (
            "a device that is not there",
            r#"{"millstream": 1, "streams": {"s": {"device": "sim:99"}}, "program": []}"#
                .to_owned(),
        ),
        (
            "words of other libraries",
            r#"{"millstream": 1,
"tensors": {"x": {"dtype": "float32", "shape": [2], "fill": 0},
            "y": {"dtype": "torch.bfloat16", "device": "gpu:0", "shape": [2], "fill": 0}},
"program": [{"op": "relu", "in": "x", "out": "z"}]}"#
                .to_owned(),
        ),
        (
            "several mistakes",
            op(r#"{"op": "torch.relu", "in": "x", "out": "a"},
{"op": "linear", "in": ["a", "x"], "out": "b"},
{"op": "add", "in": ["b", "nowhere"], "out": "c"},
{"op": "transpose", "in": "x", "out": "d", "attrs": {"dim0": 0}},
{"op": "relu", "in": "x", "into": "new"},
{"op": "add", "in": ["c", "d"], "out": "e"},
{"op": "_softmax", "in": "x", "out": "f", "attrs": {"dm": 0}},
{"op": "_softmax", "in": "x", "out": "g", "attrs": {"dim": 7}}"#),
        ),
        ("a remark", op("// doubled\n{\"op\": \"relu\", \"in\": \"x\", \"out\": \"y\"}")),
        ("a comma at the end", op(r#"{"op": "relu", "in": "x", "out": "y",}"#)),
        ("another comma at the end", op(r#"{"op": "relu", "in": ["x",], "out": "y"}"#)),
        ("single quotes", op("{'op': 'relu'}")),
        ("a timeline", r#"{"schemaVersion": 1, "traceEvents": []}"#.to_owned()),
        ("list: a misspelt instruction", raw(&["OpCal s0:1 add_ (%0 readwrite, %0 read)"])),
        ("list: an unknown op", raw(&["OpCall s0:1 ad_ (%0 readwrite, %0 read)"])),
        (
            "list: a race",
            raw(&[
                "OpCall s0:1 add_ (%0 readwrite, %0 read)",
                "OpCall s1:1 add_ (%0 readwrite, %0 read)",
            ]),
        ),
        ("list: an event nobody records", raw(&["StreamWaitEvent s0:1 until s1:1 by-device e0"])),
        ("list: an access that is not the op's", raw(&["OpCall s0:1 add_ (%0 read, %0 read)"])),
        (
            "list: a released tensor",
            raw(&["ReleaseTensor %0", "OpCall s0:1 add_ (%0 readwrite, %0 read)"]),
        ),
        (
            "list: another shape than the trace's",
            raw(&[]).replace("f32[2]", "f32[3]").replace("in 8", "in 12"),
        ),
        ("list: a tensor that the trace lacks", raw(&[]).replace("\\\"x\\\"", "\\\"w\\\"")),
        (
            "list: an output that it lacks",
            raw(&[]).replace("{\"x\": {\"values\"", "{\"y\": {\"values\""),
        ),
        ("list: an unknown device", raw(&[]).replace("arena a0 cpu:0", "arena a0 quantum:0")),
    ];
    let mut messages = String::new();
    for (name, trace) in cases {
        messages += &format!("== {name}\n{}\n", refused(&trace, &[]));
    }
    insta::assert_snapshot!("bad_input", messages);
}

#[test]
fn sequence_numbers_and_offsets_at_the_end_of_64_bits() {
    let last = raw(&["OpCall s0:18446744073709551615 add_ (%0 readwrite, %0 read)"]);
    let far = raw(&[
        "AllocateTensor s0 %1 f32[2] as 8 bytes at a0+18446744073709551104 generation 1",
        "OpCall s0:1 relu (%0 read, %1 write)",
    ]);
    for trace in [last, far] {
        let folder = folder_with("t.json", &trace);
        let output = millstream(folder.path(), &["run", "t.json", "--repeat", "2"]);
        let errors = text(&output.stderr);
        assert!([0, 1, 2].contains(&status(&output)), "{errors}");
        assert!(!errors.contains("panicked"), "{errors}");
    }
}

#[test]
fn bad_arguments() {
    let folder = examples();
    for (arguments, part) in [
        (&["run"][..], "PATH"),
        (&["run", "nowhere.json"], "nowhere.json"),
        (&["run", "add.json", "--device", "tpu"], "unknown device kind 'tpu'"),
        (&["run", "add.json", "--device", "simm"], "did you mean 'sim'?"),
        (&["run", "add.json", "--device", "sim:99"], "sim:99"),
        (&["run", "add.json", "--driver", "fast"], "possible values: threaded, inline"),
        (&["run", "add.json", "--compute-streams", "0"], "1..=1024"),
        (&["run", "add.json", "--memory-limit", "much"], "one such as 512MiB"),
        (&["run", "add.json", "--emit", "-", "--report", "-"], "standard output"),
        (&["run", ".", "--emit", "-"], "--emit writes the lists of one program"),
        (&["run-trase", "add.json"], "run"),
    ] {
        let output = millstream(&folder, arguments);
        let errors = text(&output.stderr);
        assert_eq!(status(&output), 2, "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {errors}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}

/// A shape or dtype that no run can give is found before the run; one that depends on data, in it.
#[test]
fn wrong_expected_shapes_are_found_before_the_run() {
    let compute = r#"{"op": "add", "in": ["x", "x"], "out": "y"},
{"op": "masked_select", "in": ["x", "m"], "out": "z"}"#;
    let mask = r#", "m": {"dtype": "bool", "shape": [2], "fill": true}"#;
    for (expected, part, status_is) in [
        (r#""y": {"shape": [3]}"#, "y: expected shape [3], got [2]", 2),
        (r#""y": {"values": [1, 2, 3]}"#, "y: expected shape [3], got [2]", 2),
        (r#""y": {"dtype": "f64"}"#, "y: expected f64, got f32", 2),
        (r#""z": {"shape": [3]}"#, "z: expected shape [3], got [2]", 1),
    ] {
        let trace = with_tensors(&format!("{X}{mask}"), compute);
        let trace = trace.replace("\"outputs\": {}", &format!("\"outputs\": {{{expected}}}"));
        let folder = folder_with("t.json", &trace);
        let output = millstream(folder.path(), &["run", "t.json"]);
        let shown = format!("{}{}", text(&output.stderr), text(&output.stdout));
        assert_eq!(status(&output), status_is, "{expected}: {shown}");
        assert!(shown.contains(part), "{expected}: {shown}");
    }
}

#[test]
fn wrong_results_and_runtime_failures_are_status_1() {
    let compute = r#"{"op": "add", "in": ["x", "x"], "out": "y"}"#;
    let differs = with_tensors(X, compute)
        .replace("\"outputs\": {}", "\"outputs\": {\"y\": {\"values\": [2, 3]}}");
    let huge = r#""x": {"dtype": "f32", "shape": [274877906944], "fill": 0}"#;
    let tebibyte = with_tensors(huge, "");
    let product = with_tensors(
        r#""r": {"dtype": "f32", "shape": [524288, 1], "fill": 0},
"c": {"dtype": "f32", "shape": [1, 524288], "fill": 0}"#,
        r#"{"op": "add", "in": ["r", "c"], "out": "y"}"#,
    );
    let nan = with_tensors(r#""x": {"dtype": "f64", "values": ["nan", 1]}"#, "")
        .replace("\"outputs\": {}", "\"outputs\": {\"x\": {\"values\": [1, 1]}}");
    let mut messages = String::new();
    for (name, trace) in [
        ("a wrong value", differs),
        ("1 TiB", tebibyte),
        ("a result of 1 TiB", product),
        ("NaN", nan),
    ] {
        let folder = folder_with("t.json", &trace);
        let arguments = ["run", "t.json", "--memory-limit", "1GiB", "--report", "report.json"];
        let output = millstream(folder.path(), &arguments);
        assert_eq!(status(&output), 1, "{name}: {}", text(&output.stderr));
        let report = fs::read_to_string(folder.path().join("report.json")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["ok"], false, "{name}");
        let shown = text(&output.stdout);
        let shown = steady(shown);
        let shown: Vec<&str> =
            shown.lines().filter(|l| l.len() > 6 && !l.contains(['┌', '╞', '└'])).collect();
        let shown = shown.join("\n");
        messages += &format!("== {name}\n{}{shown}\n{}\n", text(&output.stderr), report["outputs"]);
    }
    insta::assert_snapshot!("status_1", messages);
}

/// Removes everything that varies from run to run: times.
fn steady(shown: &str) -> String {
    let line = |line: &str| {
        let head = ["; ran in ", "outputs read in "]
            .into_iter()
            .find_map(|before| Some(line.find(before)? + before.len()));
        head.map_or_else(|| format!("{line}\n"), |head| format!("{}…\n", &line[..head]))
    };
    shown.lines().map(line).collect()
}

#[test]
fn a_trace_is_shown_in_a_line_and_tables_with_verbose() {
    let output = millstream(&examples(), &["run", "release.json", "--repeat", "3"]);
    let shown = text(&output.stdout);
    let (first, rest) = shown.split_once('\n').unwrap();
    assert!(first.starts_with("release.json: ran; 1 of 2 compared; ran in "), "{shown}");
    assert!(first.contains("s (median of 3, ") && first.ends_with("s)"), "{shown}");
    assert_eq!(rest, "zero = 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 …\n");
    let output = millstream(&examples(), &["run", "release.json", "add.json"]);
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert!(lines.len() == 2 && lines[1].starts_with("add.json: ok, "), "{lines:?}");

    for (columns, name) in [("60", "narrow"), ("100", "wide")] {
        let arguments = ["run", "release.json", "--driver", "inline", "--verbose"];
        let mut command = command(&examples(), &arguments);
        let output = command.env("COLUMNS", columns).output().unwrap();
        assert_eq!(status(&output), 0, "{}", text(&output.stderr));
        let shown = steady(text(&output.stdout));
        let width: usize = columns.parse().unwrap();
        for line in shown.lines().filter(|l| l.starts_with(['│', '┌'])) {
            assert!(line.chars().count() <= width, "{line}");
        }
        insta::assert_snapshot!(format!("tables_{name}"), shown);
    }
}

#[test]
fn the_verdict_says_how_many_streams_were_used() {
    let line = |arguments: &[&str]| {
        let output = millstream(&examples(), &[&["run", "add.json"], arguments].concat());
        assert_eq!(status(&output), 0, "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    let one = "; on 1 of 4 compute streams\n";
    assert!(line(&["--compute-streams", "4"]).ends_with(one));
    assert!(line(&["--compute-streams", "4", "--replay"]).ends_with(one));
    assert!(!line(&[]).contains("compute streams"));
    let output = millstream(&examples(), &["run", "diamond.json", "--compute-streams", "4"]);
    let named = text(&output.stdout);
    assert!(!named.contains("compute streams"), "the program names its streams: {named}");
}

#[test]
fn options_that_exclude_each_other_and_missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    let errors = |arguments: &[&str], columns: &str| {
        let output = command(folder.path(), arguments).env("COLUMNS", columns).output().unwrap();
        assert_eq!(status(&output), 2, "{arguments:?}");
        text(&output.stderr).to_owned()
    };
    let path = examples().join("add.json").display().to_string();
    let watched = ["run", &path, "--driver", "inline", "--watchdog", "10s"];
    let found = errors(&watched, "100");
    assert!(found.contains("--watchdog needs worker threads"), "{found}");
    let found = errors(&["run", &path, "--assign", "round_robin"], "100");
    assert!(found.contains("'round_robin' for '--assign"), "{found}");
    assert!(found.contains("did you mean 'round-robin'?"), "{found}");
    for command in ["run", "coverage", "verify"] {
        let found = errors(&[command, "empty"], "100");
        assert!(found.starts_with("error: empty: it holds no"), "{command}: {found}");
    }
    // Lines break between words.
    let narrow = errors(&watched, "50");
    assert!(narrow.lines().all(|line| line.chars().count() <= 50), "{narrow}");
    assert_eq!(message(narrow.as_bytes()), message(errors(&watched, "100").as_bytes()));
}

/// The peak of memory is the same number wherever it is shown. In the times of execution more may
/// be in use at once, where streams overlap, or less.
#[test]
fn run_summary_and_page_have_one_peak_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    for (trace, more) in [
        ("release.json", &[][..]),
        ("release.json", &["--compute-streams", "3", "--assign", "round-robin", "--repeat", "3"]),
        ("views.json", &["--replay"]),
        ("executable.json", &[]),
        (
            "../pytorch/transformer_encoder_train",
            &["--compute-streams", "4", "--assign", "round-robin"],
        ),
    ] {
        let path = examples().join(trace).display().to_string();
        let arguments = ["run", &path, "--report", "-", "--summary", "--html", "run.html"];
        let output = millstream(folder.path(), &[&arguments[..], more].concat());
        let (report, shown) = (text(&output.stdout), text(&output.stderr));
        let report: Value = serde_json::from_str(report).unwrap();
        let peak = report["peak_bytes"].as_u64().unwrap();
        let expected = format!("memory of cpu:0: the program holds at most {}\n", bytes(peak));
        assert!(shown.contains(&expected), "{trace}: not '{expected}':\n{shown}");
        let page = fs::read(folder.path().join("run.html")).unwrap();
        let profile = millstream_profile::page::read(&page).unwrap();
        assert_eq!(millstream_profile::memory::most_held(&profile, 0), Some(peak), "{trace}");
    }
}

#[test]
fn the_report_has_its_fields_and_no_others() {
    for arguments in [
        &["--device", "cpu"][..],
        &["--device", "sim", "--compute-streams", "3", "--assign", "round-robin"],
    ] {
        let mut all = vec!["run", "write-after-reads.json", "--report", "-"];
        all.extend(arguments);
        let output = millstream(&examples(), &all);
        assert_eq!(status(&output), 0, "{}", text(&output.stderr));
        let line = text(&output.stderr);
        assert!(line.starts_with("write-after-reads.json: ok, "), "it goes to standard error");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let fields =
            |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
        assert_eq!(
            fields(&report),
            [
                "instructions",
                "memory",
                "ok",
                "outputs",
                "peak_bytes",
                "reading_ms",
                "remarks",
                "streams",
                "trace",
                "waits",
                "wall_ms"
            ]
        );
        assert_eq!(fields(&report["waits"]), ["elided", "emitted", "needed"]);
        let memory = &report["memory"][0];
        assert_eq!(memory["reserved"], memory["reserved_peak"]);
        let devices = report["memory"].as_array().unwrap().iter();
        let peaks: u64 = devices.map(|device| device["peak"].as_u64().unwrap()).sum();
        assert_eq!(report["peak_bytes"], peaks);
        assert!(memory["steps"]["grown"].as_u64().unwrap() > 0);
        let streams = memory["streams"].as_object().unwrap();
        let held: u64 = streams.values().map(|s| s["in_use"].as_u64().unwrap()).sum();
        assert_eq!(memory["in_use"], held);
        assert_eq!(report["trace"], "write-after-reads.json");
        assert_eq!(report["ok"], true);
        let outputs = report["outputs"].as_array().unwrap();
        assert_eq!(outputs.len(), 3);
        for output in outputs {
            let expected = ["dtype", "elements", "max_abs", "max_rel", "name", "ok", "shape"];
            assert_eq!(fields(output), expected);
            assert_eq!(output["max_abs"], 0.0);
        }
        assert_eq!(report["instructions"]["OpCall"], 3);
        let waits = |name: &str| report["waits"][name].as_u64().unwrap();
        assert_eq!(waits("needed"), waits("emitted") + waits("elided"));
        assert!(waits("emitted") >= 2);
        assert!(report["streams"].as_array().unwrap().len() >= 3);
        assert!(report["peak_bytes"].as_u64().unwrap() >= 4 * 8);
        assert!(report["wall_ms"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn a_directory_stands_for_all_its_traces() {
    let output = millstream(&examples(), &["run", ".", "--report", "-", "--repeat", "2"]);
    assert_eq!(status(&output), 0, "{}", text(&output.stderr));
    let reports: Vec<Value> =
        text(&output.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let traces = fs::read_dir(examples())
        .unwrap()
        .filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|e| e == "json"))
        .count();
    assert_eq!(reports.len(), traces);
    assert!(reports.iter().all(|r| r["ok"] == true));
}

#[test]
fn the_worst_of_several_traces_counts() {
    let folder = folder_with("bad.json", "{");
    let wrong =
        with_tensors(X, "").replace("\"outputs\": {}", "\"outputs\": {\"x\": {\"fill\": 7}}");
    fs::write(folder.path().join("wrong.json"), wrong).unwrap();
    fs::write(folder.path().join("fine.json"), with_tensors(X, "")).unwrap();
    for (paths, expected) in [
        (&["fine.json"][..], 0),
        (&["wrong.json", "fine.json"], 1),
        (&["wrong.json", "bad.json", "fine.json"], 2),
    ] {
        let mut arguments = vec!["run"];
        arguments.extend(paths);
        let output = millstream(folder.path(), &arguments);
        assert_eq!(status(&output), expected, "{}", text(&output.stderr));
    }
}

#[test]
fn ranks_are_one_program() {
    let folder = tempfile::tempdir().unwrap();
    let trace = |k: i32, program: &str| {
        format!(
            r#"{{"millstream": 1, "tensors": {{"x": {{"dtype": "i32", "values": [{k}]}}}},
"program": [{program}], "outputs": {{"x": {{"values": [{k}]}}}}}}"#
        )
    };
    let write = |k: i32, program: &str| {
        fs::write(folder.path().join(format!("rank{k}.json")), trace(k, program)).unwrap();
    };
    (0..3).for_each(|k| write(k, r#"{"global_sync": true}"#));
    let arguments = ["run", ".", "--report", "-"];
    let output = millstream(folder.path(), &arguments);
    assert_eq!(status(&output), 0, "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&Value> =
        report["outputs"].as_array().unwrap().iter().map(|o| &o["name"]).collect();
    assert_eq!(names, ["rank0/x", "rank1/x", "rank2/x"]);
    assert_eq!(report["instructions"]["GlobalSync"], 3);

    // A rank that never starts does not block the others.
    write(1, "");
    let output = millstream(folder.path(), &arguments);
    assert_eq!(status(&output), 2, "{}", text(&output.stderr));
    let missing =
        "rank 0 in global_sync() at ./rank0.json:2 waits for rank 1, which does not make the call";
    assert!(message(&output.stderr).contains(missing), "{}", text(&output.stderr));
}

#[test]
fn an_emitted_list_is_alone_on_standard_output_and_runs_again() {
    let output = millstream(&examples(), &["run", "diamond.json", "--emit", "-"]);
    assert_eq!(status(&output), 0, "{}", text(&output.stderr));
    let list = text(&output.stdout);
    assert!(list.starts_with("millstream-list 1\n"), "{list}");
    let named = |name: &str| {
        let line = list.lines().find(|l| l.starts_with(&format!("# output {name:?} is ")));
        line.unwrap().rsplit_once(' ').unwrap().1.to_owned()
    };
    let trace = json!({
        "millstream": 1,
        "tensors": {
            "x": { "dtype": "f32", "values": [[1, -2], [-3, 4]] },
            "w": { "dtype": "f32", "shape": [2, 2], "fill": 2 }
        },
        "instructions": list.lines().collect::<Vec<_>>(),
        "outputs": { named("z"): { "values": [[-2, -4], [4, 12]] } }
    });
    let folder = folder_with("t.json", &trace.to_string());
    let output = millstream(folder.path(), &["run", "t.json"]);
    assert_eq!(status(&output), 0, "{}", text(&output.stderr));
}

#[test]
fn schema() {
    let output = millstream(&examples(), &["schema"]);
    assert_eq!(status(&output), 0);
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema, millstream_trace::schema());
}
