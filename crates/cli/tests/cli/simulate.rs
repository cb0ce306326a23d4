//! `simulate` and certificates as users see them.

use std::process::Output;

use crate::{examples, millstream, root};

#[track_caller]
fn ends(output: &Output, status: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{out}{err}");
    assert!(!err.contains("panicked"), "{err}");
    (out, err)
}

#[test]
fn a_seed_gives_the_same_log_on_every_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = examples().join("diamond.json");
    let path = path.to_str().unwrap();
    let run = || millstream(folder.path(), &["simulate", path, "--seed", "5", "--log", "-"]);
    let (log, _) = ends(&run(), 0);
    assert!(log.contains("\n1 w") || log.starts_with("1 w"), "{log}");
    assert_eq!(ends(&run(), 0).0, log);
    let random = |threads| {
        let all = ["simulate", "--random", "--seeds", "300", "--threads", threads];
        ends(&millstream(folder.path(), &all), 0).0
    };
    assert_eq!(random("1"), random("3"));
}

#[test]
fn a_failing_seed_leaves_a_small_file_and_the_command_that_repeats_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = examples().join("event-reuse.json");
    let all = ["simulate", path.to_str().unwrap(), "--without", "waits"];
    let (_, err) = ends(&millstream(folder.path(), &all), 1);
    let command = err.lines().find(|l| l.starts_with("millstream ")).expect("a command");
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    let (_, again) = ends(&millstream(folder.path(), &arguments), 1);
    assert!(again.contains("is not what the inline driver gives"), "{again}");
    let without: Vec<&str> =
        arguments.iter().copied().filter(|a| !["--without", "waits"].contains(a)).collect();
    ends(&millstream(folder.path(), &without), 0);
}

#[test]
fn a_model_predicts() {
    let folder = tempfile::tempdir().unwrap();
    let path = examples().join("sim-pipeline.json");
    let model = root().join("examples/models/a100-sxm-80gb.json");
    let (path, model) = (path.to_str().unwrap(), model.to_str().unwrap());
    let all = ["simulate", path, "--model", model, "--summary"];
    let (out, _) = ends(&millstream(folder.path(), &all), 0);
    assert!(out.starts_with("for NVIDIA A100 SXM 80 GB"), "{out}");
    assert!(out.contains("matmul"), "{out}");
}

#[test]
fn bad_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = examples().join("add.json");
    let trace = trace.to_str().unwrap();
    let refused = |arguments: &[&str]| ends(&millstream(folder.path(), arguments), 2).1;
    assert!(refused(&["simulate", "nowhere.json"]).contains("there is no such file"));
    assert!(refused(&["simulate", trace, "--model", "none.json"]).contains("none.json"));
    assert!(refused(&["simulate", trace, "--device", "gpu"]).contains("unknown device kind"));
    let several = examples();
    let log = ["--seed", "1", "--log", "log.txt"];
    let several = refused(&[&["simulate", several.to_str().unwrap()][..], &log].concat());
    assert!(several.contains("--log is for one program, and "), "{several}");
    let nothing = refused(&["simulate", "."]);
    assert!(nothing.contains(". holds no trace to simulate"), "{nothing}");
    let nowhere = ["simulate", trace, "--seed", "1", "--log", "/proc/log"];
    assert!(refused(&nowhere).contains("cannot write"));
    let random = refused(&["simulate", "--random", "--assign", "round-robin"]);
    assert!(random.contains("--random") && random.contains("--assign"), "{random}");
}

#[test]
fn a_certificate_is_the_same_over_drivers_threads_and_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let path = examples().join("views.json");
    let certificate = |more: &[&str]| {
        let mut all = vec!["run", path.to_str().unwrap(), "--certificate"];
        all.extend(more);
        let (out, _) = ends(&millstream(folder.path(), &all), 0);
        out.lines().find(|l| l.starts_with("certificate ")).expect("a certificate").to_owned()
    };
    let first = certificate(&[]);
    assert_eq!(certificate(&["--driver", "inline"]), first);
    assert_eq!(certificate(&["--threads", "1", "--repeat", "3"]), first);
    assert_ne!(certificate(&["--device", "sim"]), first);
}

#[test]
fn a_folder_stands_for_all_its_programs() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["add.json", "diamond.json"] {
        std::fs::copy(examples().join(name), folder.path().join(name)).unwrap();
    }
    let simulate = |more: &[&str]| {
        millstream(folder.path(), &[&["simulate", ".", "--seeds", "2"], more].concat())
    };
    let (shown, _) = ends(&simulate(&[]), 0);
    for name in ["./add.json: 2 seeds", "./diamond.json: 2 seeds"] {
        assert!(shown.contains(name), "{shown}");
    }
    let (_, error) = ends(&simulate(&["--model", "desktop.json"]), 2);
    assert!(error.contains("--model is for one program, and . holds 2"), "{error}");
}
