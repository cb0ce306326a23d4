//! The forms of a profile: summary, comparison.

use serde_json::{Value, json};

use crate::{examples, millstream, succeeds, transformer};

#[test]
fn a_summary_fits_80_and_100_columns() {
    let folder = tempfile::tempdir().unwrap();
    let program = transformer();
    let all = [
        "run",
        &program,
        "--compute-streams",
        "4",
        "--assign",
        "round-robin",
        "--profile",
        "run.pftrace",
    ];
    succeeds(folder.path(), &all);
    for columns in [80, 100] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_millstream"));
        let output = command
            .current_dir(folder.path())
            .args(["profile", "run.pftrace", "--summary", "--all-rows"])
            .env("COLUMNS", columns.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= columns, "{longest} columns:\n{text}");
        for part in ["measured: ", "critical path", "waits for", "held at the peak", "matmul"] {
            assert!(text.contains(part), "no {part}:\n{text}");
        }
        assert!(!text.contains(" more\n"), "all rows are shown:\n{text}");
    }
}

#[test]
fn the_parts_of_the_critical_path_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let trace = examples().join("traces/sim-pipeline.json");
    let model = examples().join("models/a100-sxm-80gb.json");
    let (trace, model) = (trace.to_str().unwrap(), model.to_str().unwrap());
    let all = ["simulate", trace, "--model", model, "--summary", "--profile", "run.pftrace"];
    let text = succeeds(folder.path(), &all);
    let parts = "critical path: 96.3 % in instructions,\n  3.7 % reading the outputs\n";
    assert!(text.contains(parts), "{text}");
}

#[test]
fn a_comparison_finds_waits_and_the_first_difference() {
    let folder = tempfile::tempdir().unwrap();
    let program = transformer();
    for (streams, file) in [("1", "one.pftrace"), ("2", "two.pftrace")] {
        let all = [
            "run",
            &program,
            "--compute-streams",
            streams,
            "--assign",
            "round-robin",
            "--profile",
            file,
        ];
        succeeds(folder.path(), &all);
    }
    let text = succeeds(folder.path(), &["compare", "one.pftrace", "one.pftrace"]);
    assert!(text.contains("the same waits\n"), "{text}");
    assert!(text.contains("the same instructions on the same streams\n"), "{text}");
    let text = succeeds(folder.path(), &["compare", "one.pftrace", "two.pftrace"]);
    assert!(text.contains("waits: 0 only in A, "), "{text}");
    assert!(text.contains("the programs differ from call "), "{text}");
    assert!(text.contains("on cpu:0 compute 1"), "{text}");
    let trace = examples().join("traces/diamond.json");
    let trace = trace.to_str().unwrap();
    succeeds(folder.path(), &["run", trace, "--emit", "list.txt"]);
    let text = succeeds(folder.path(), &["compare", "list.txt", trace]);
    assert!(text.contains("the same waits\n"), "{text}");
}

#[test]
fn damaged_profiles_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = examples().join("traces/diamond.json");
    succeeds(folder.path(), &["run", trace.to_str().unwrap(), "--profile", "run.pftrace"]);
    let bytes = std::fs::read(folder.path().join("run.pftrace")).unwrap();
    for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(folder.path().join("cut"), &bytes[..cut]).unwrap();
        let output = millstream(folder.path(), &["profile", "cut"]);
        assert_eq!(output.status.code(), Some(2), "{cut} bytes");
        assert!(String::from_utf8_lossy(&output.stderr).contains("cut: "));
    }
}

#[test]
fn calls_that_repeat_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let step = |k: usize| {
        let [x, a, b, next] =
            [format!("x{k}"), format!("a{k}"), format!("b{k}"), format!("x{}", k + 1)];
        [
            json!({"op": "relu", "in": x, "out": a, "stream": "s"}),
            json!({"op": "mul", "in": [a, "w"], "out": b, "stream": "s"}),
            json!({"op": "sub", "in": [b, "w"], "out": next, "stream": "s", "attrs": {"alpha": k}}),
        ]
    };
    let tensor = json!({"dtype": "f32", "values": [1, -2]});
    let program = json!({
        "millstream": 1,
        "streams": {"s": {}},
        "tensors": {"x0": tensor, "w": tensor},
        "program": (0..20).flat_map(step).collect::<Vec<Value>>(),
        "outputs": {"x20": {}},
    });
    let program = serde_json::to_string_pretty(&program).unwrap();
    std::fs::write(folder.path().join("steps.json"), program).unwrap();
    let all =
        ["run", "steps.json", "--summary", "--report", "report.json", "--profile", "run.pftrace"];
    let text = succeeds(folder.path(), &all);
    let later = succeeds(folder.path(), &["profile", "run.pftrace", "--summary"]);
    for text in [text, later] {
        for part in ["calls that repeat", "100.0 %", "other arguments", "alpha=0", "alpha=1"] {
            assert!(text.contains(part), "no {part}:\n{text}");
        }
    }
    let report = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let repeats = report["repeats"].as_array().unwrap();
    assert_eq!(repeats.len(), 1, "{repeats:?}");
    let number = |key: &str| repeats[0][key].as_u64().unwrap();
    assert_eq!(["calls", "rounds", "depth", "around"].map(number), [3, 20, 0, 60]);
    assert!(repeats[0]["from"].as_str().unwrap().starts_with("steps.json:"), "{repeats:?}");
    let differing = &repeats[0]["differing"];
    assert_eq!(differing[0]["arguments"], json!(["alpha=0", "alpha=1"]), "{differing}");
    // A run that was not recorded says nothing.
    succeeds(folder.path(), &["run", "steps.json", "--report", "report.json"]);
    let report = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    assert!(!report.contains("repeats"), "{report}");
}

/// A list has waits and no times.
#[test]
fn a_profile_and_a_list_are_compared_without_times() {
    let folder = tempfile::tempdir().unwrap();
    let program = transformer();
    let all = ["run", &program, "--compute-streams", "2", "--assign", "round-robin"];
    succeeds(folder.path(), &[&all[..], &["--profile", "run.pftrace"]].concat());
    succeeds(folder.path(), &["run", &program, "--emit", "one.txt"]);
    for (a, b, which) in [("run.pftrace", "one.txt", "B"), ("one.txt", "run.pftrace", "A")] {
        let text = succeeds(folder.path(), &["compare", a, b]);
        assert!(text.contains(&format!("times are not compared: {which} has none\n")), "{text}");
        assert!(!text.contains('%') && text.contains(" only in A, "), "{text}");
    }
}

/// Profiles hold all repeats: their spread is shown, and a difference within it is called noise.
#[test]
fn repeats_tell_noise_from_change() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let trace = |n: usize| {
        let call = r#"{"op": "matmul", "in": ["x", "x"], "out": "y"}"#;
        format!(
            r#"{{"millstream": 1,
"tensors": {{"x": {{"dtype": "f32", "shape": [{n}, {n}], "fill": 0}}}},
"program": [{call}]}}"#
        )
    };
    for (name, n) in [("small", 8), ("large", 700)] {
        std::fs::write(at.join(format!("{name}.json")), trace(n)).unwrap();
        let (trace, profile) = (format!("{name}.json"), format!("{name}.pftrace"));
        succeeds(at, &["run", &trace, "--repeat", "5", "--profile", &profile]);
    }
    let summary = succeeds(at, &["profile", "small.pftrace"]);
    assert!(summary.contains("\none in the middle of 5 runs: "), "{summary}");
    assert!(summary.contains(" (median of 5, "), "{summary}");
    let compared = succeeds(at, &["compare", "small.pftrace", "large.pftrace"]);
    assert!(compared.contains(" (median of 5, ") && !compared.contains("be noise"), "{compared}");
    let compared = succeeds(at, &["compare", "small.pftrace", "small.pftrace"]);
    assert!(compared.contains("the difference may be noise"), "{compared}");
    let asked = succeeds(at, &["what-if", "large.pftrace", "--op", "matmul=x1"]);
    assert!(asked.contains("one in the middle of 5 runs: "), "{asked}");
    assert!(asked.contains("the runs differ by as much: the change may not be seen"), "{asked}");
    let page = ["profile", "small.pftrace", "--html", "small.html"];
    succeeds(at, &page);
    let page = millstream_profile::page::read(&std::fs::read(at.join("small.html")).unwrap());
    let runs = page.unwrap().runs;
    assert_eq!((runs.totals.len(), runs.ops["matmul"].len()), (5, 5));
    succeeds(at, &["run", "small.json", "--profile", "once.pftrace"]);
    let compared = succeeds(at, &["compare", "once.pftrace", "small.pftrace"]);
    assert!(compared.contains("of single runs; with --repeat"), "{compared}");
}
