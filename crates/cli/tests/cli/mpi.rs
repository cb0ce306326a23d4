//! `mpirun -n 2 millstream run`, under each launcher that is found. Without one the test says so;
//! `MILLSTREAM_REQUIRE_MPI=1` makes that a failure.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::{launchers, root, text};

fn run((launcher, arguments): (&str, &[&str]), ranks: &str, more: &[&str]) -> Output {
    let mut command = Command::new(launcher);
    command.args(arguments).args(["-n", ranks]).arg(env!("CARGO_BIN_EXE_millstream"));
    command.arg("run").args(more).output().unwrap()
}

/// Writes a program of two ranks, which add `values` up, and returns its folder.
fn program(folder: &Path, reductions: [&str; 2], expected: [&str; 2]) -> String {
    for (rank, (reduction, expected)) in reductions.iter().zip(expected).enumerate() {
        let value = rank + 1;
        let trace = format!(
            r#"{{"millstream": 1, "streams": {{"a": {{"type": "ccl"}}}},
"tensors": {{"x": {{"dtype": "bf16", "values": [{value}, 10]}}}},
"program": [{{"op": "allreduce_", "in": "x", "stream": "a", "attrs": {{"op": "{reduction}"}}}},
{{"global_sync": true}}],
"outputs": {{"x": {{"values": {expected}}}}}}}"#
        );
        fs::write(folder.join(format!("rank{rank}.json")), trace).unwrap();
    }
    folder.display().to_string()
}

#[test]
fn each_process_runs_its_ranks_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path(), ["sum", "sum"], ["[3, 20]", "[3, 20]"]);
    let report = folder.path().join("report.jsonl").display().to_string();
    for launcher in launchers() {
        let output = run(launcher, "2", &[&path, "-v", "--report", &report]);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{launcher:?}: {out}{err}");
        assert!(out.contains("rank0/x") && !out.contains("rank1/x"), "the first prints: {out}");
        assert_eq!(fs::read_to_string(&report).unwrap().lines().count(), 1, "the first writes");
        // Two programs, one after the other: the numbers of their collectives begin anew.
        let output = run(launcher, "2", &[&path, &path]);
        assert_eq!(output.status.code(), Some(0), "{launcher:?}: {}", text(&output.stderr));
        // A single process is one rank; the ranks of a folder are its threads.
        let output = run(launcher, "1", &[&path, "-v"]);
        assert_eq!(output.status.code(), Some(0), "{launcher:?}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("rank1/x"));
    }
}

/// The programs of several ranks that PyTorch recorded, as processes: its results on every rank.
#[test]
fn recorded_programs_run_as_processes() {
    let traces = root().join("tests/traces");
    let programs = [
        ("2", "pytorch/ddp_mlp_2rank"),
        ("3", "pytorch/pipeline_3rank"),
        ("4", "pytorch/tp_mlp_4rank"),
        ("4", "own/process_groups"),
    ];
    for launcher in launchers() {
        for (ranks, program) in programs {
            let path = traces.join(program).display().to_string();
            let output = run(launcher, ranks, &[&path, "--threads", "1"]);
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(0), "{launcher:?}: {program}: {out}{err}");
        }
    }
}

/// Programs that name ranks, with copies from rank to rank: the example, and one whose outputs have
/// to have the bits that the ranks of one process give.
#[test]
fn placed_programs_run_as_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let example = |name| root().join("examples/placement").join(name).display().to_string();
    let launches = example("mesh_executable.json");
    let (example, mesh) = (example("two_layers.json"), example("mesh.json"));
    let program = |seed: u32, outputs: &str| {
        format!(
            r#"{{"millstream": 1, "tensors": {{
"x": {{"dtype": "f32", "shape": [33, 40], "random": {{"seed": {seed}}}, "ranks": [0]}},
"w": {{"dtype": "f32", "shape": [40, 50], "random": {{"seed": 2}}, "ranks": [1]}},
"b": {{"dtype": "f32", "shape": [50], "random": {{"seed": 3}}}}}},
"program": [
{{"op": "tanh", "in": ["x"], "out": ["a"], "ranks": [0]}},
{{"op": "matmul", "in": ["a", "w"], "out": ["c"], "ranks": [1]}},
{{"op": "add", "in": ["c", "b"], "out": ["d"], "ranks": [1, 2]}},
{{"op": "mul_", "in": ["d"], "attrs": {{"other": "parallel_id"}}, "ranks": [1, 2]}},
{{"op": "allreduce_", "in": ["d"], "ranks": [1, 2]}},
{{"op": "add_", "in": ["a"], "attrs": {{"other": 1}}, "ranks": [0]}},
{{"op": "sum", "in": ["a"], "out": ["e"], "ranks": [0, 2]}}],
"outputs": {{{outputs}}}}}"#
        )
    };
    fs::write(path("local.json"), program(1, r#""c": {}, "d": {}, "e": {}"#)).unwrap();
    let mut local = Command::new(env!("CARGO_BIN_EXE_millstream"));
    let local = local.args(["run", &path("local.json"), "--ranks", "3", "--emit", &path("local")]);
    let output = local.args(["--save-outputs", &path("local.safetensors")]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let exact = |(name, key): (&str, &str)| {
        let from = format!(r#""file": "local.safetensors", "key": "{key}""#);
        format!(r#""{name}": {{{from}, "rtol": 0, "atol": 0}}"#)
    };
    let outputs = [("c", "rank1/c"), ("d", "rank2/d"), ("e", "rank0/e")].map(exact).join(", ");
    fs::write(path("exact.json"), program(1, &outputs)).unwrap();
    fs::write(path("other.json"), program(4, &outputs)).unwrap();
    for launcher in launchers() {
        for (ranks, program, status) in [
            ("2", &example, 0),
            ("4", &mesh, 0),
            ("4", &launches, 0),
            ("3", &path("exact.json"), 0),
            ("3", &path("other.json"), 1),
        ] {
            let output = run(launcher, ranks, &[program, "--threads", "1"]);
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(status), "{launcher:?}: {program}: {out}{err}");
        }
        // Every process writes the list of its rank, which is that of the rank as a thread.
        let emit = ["--threads", "1", "--emit", &path(launcher.0)];
        let output = run(launcher, "3", &[&[&*path("local.json")], &emit[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{launcher:?}: {}", text(&output.stderr));
        for rank in 0..3 {
            let list = |of: &str| fs::read_to_string(path(&format!("{of}/rank{rank}.txt")));
            assert_eq!(list(launcher.0).unwrap(), list("local").unwrap(), "{launcher:?}: {rank}");
        }
    }
}

#[test]
fn the_worst_status_is_that_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path(), ["sum", "sum"], ["[3, 20]", "[4, 20]"]);
    for launcher in launchers() {
        let output = run(launcher, "2", &[&path]);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{launcher:?}: {out}{err}");
        assert!(err.contains("rank1/x"), "the second says what differs: {err}");
    }
    let path = program(folder.path(), ["sum", "max"], ["[3, 20]", "[3, 20]"]);
    for launcher in launchers() {
        let output = run(launcher, "2", &[&path]);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{launcher:?}: {err}");
        assert!(err.contains("allreduce_(bf16[2]; sum) at") && err.contains("; max) at"), "{err}");
        assert!(err.contains("none has run"), "{err}");
        // Without comparison each rank reduces in its own way.
        let output = run(launcher, "2", &[&path, "--unchecked-collectives"]);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{launcher:?}: {err}");
        assert!(err.contains("rank1/x") && !err.contains("rank 0 calls"), "{err}");
        let output = run(launcher, "3", &[&path]);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{launcher:?}: {err}");
        assert!(err.contains("the program has 2 ranks, and the launcher has started 3"), "{err}");
    }
    // A mistake on one rank: no rank runs.
    let path = program(folder.path(), ["sum", "summ"], ["[3, 20]", "[3, 20]"]);
    for launcher in launchers() {
        let output = run(launcher, "2", &[&path]);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{launcher:?}: {err}");
        assert!(err.contains("did you mean 'sum'?"), "{err}");
        assert!(err.contains("another rank's program has a mistake"), "{err}");
    }
}

#[test]
fn an_absent_library_is_named() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.env("PMI_SIZE", "2").env("MILLSTREAM_MPI", "libabsent.so.1");
    let output = command.args(["run", "x.json"]).output().unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("no MPI library: looked for libabsent.so.1"), "{err}");
}
