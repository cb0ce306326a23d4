//! Devices of kind `cuda` on the command line: without a driver, and on the stand-in.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::{command, examples, millstream, root, stand_in_is_found, status, text};

/// NCCL that is not there is bad input, as is a device that it does not reach.
#[test]
fn without_nccl() {
    let folder = examples();
    let output = millstream(&folder, &["run", "add.json", "--nccl"]);
    assert_eq!(status(&output), 2);
    let errors = text(&output.stderr);
    assert!(errors.contains("expected a device of kind cuda, got cpu:0"), "{errors}");
    if stand_in_is_found() {
        let mut command = command(&folder, &["run", "../ranks", "--device", "cuda:0", "--nccl"]);
        let there = command.output().unwrap();
        assert_eq!(status(&there), 0, "{}", text(&there.stderr));
        let output = command.env("MILLSTREAM_NCCL", "/nowhere/libnccl.so.2").output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(status(&output), 2, "{errors}");
        for part in ["NVIDIA's library of collectives", "/nowhere/libnccl.so.2", "nvidia-nccl"] {
            assert!(errors.contains(part), "{part}: {errors}");
        }
    }
}

/// Without a driver a device of kind `cuda` is bad input. The error names the library and the paths
/// that were searched.
#[test]
fn without_a_driver() {
    let folder = examples();
    // The search path of the tests contains the stand-in.
    let mut command = command(&folder, &["run", "add.json", "--device", "cuda:0"]);
    let output = command.env_remove("LD_LIBRARY_PATH").output().unwrap();
    let errors = text(&output.stderr);
    if status(&output) == 0 || !errors.contains("libcuda") {
        println!("skipped: there is a CUDA driver here");
        return;
    }
    assert_eq!(status(&output), 2, "{errors}");
    for part in ["cuda:0", "libcuda.so.1", "LD_LIBRARY_PATH", "/usr/lib/wsl/lib", "NVIDIA driver"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    assert_eq!(text(&output.stdout), "");
}

/// A trace runs on a device that exists. Tests of the workspace have the stand-in in their search
/// path.
#[test]
fn with_a_device() {
    if !stand_in_is_found() {
        return;
    }
    let output = millstream(&examples(), &["run", "add.json", "--device", "cuda:0"]);
    let (shown, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(status(&output), 0, "{errors}");
    assert!(shown.contains("add.json: ok"), "{shown}");
    let output = millstream(&examples(), &["run", "add.json", "--device", "cuda:7"]);
    let errors = text(&output.stderr);
    assert_eq!(status(&output), 2, "{errors}");
    assert!(errors.contains("cuda:7: there are 4 devices of this kind"), "{errors}");
}

/// The check of a GPU does not accept the stand-in by default. With `--on-stand-in` it passes, and
/// reports that the device was the stand-in.
#[test]
fn the_check_of_a_gpu() {
    if !stand_in_is_found() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = millstream(folder.path(), &["gpu-check"]);
    let errors = text(&output.stderr);
    assert_eq!(status(&output), 2, "{errors}");
    assert!(errors.contains("stand-in and no GPU"), "{errors}");
    let program = examples().join("../pytorch").canonicalize().unwrap();
    let program = program.to_str().unwrap();
    let output = millstream(folder.path(), &["gpu-check", "--on-stand-in", "--only", "ops,sums"]);
    let errors = text(&output.stderr);
    assert_eq!(status(&output), 2, "{errors}");
    assert!(errors.contains("there is no part 'sums'"), "{errors}");
    // Stands in for NVIDIA's sanitizer: runs its arguments and finds nothing.
    let sanitizer = folder.path().join("compute-sanitizer");
    fs::write(&sanitizer, "#!/bin/sh\nshift 8\nexec \"$@\"\n").unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    fs::set_permissions(&sanitizer, PermissionsExt::from_mode(0o755)).unwrap();
    // A few ops: the stand-in's own tests compare all of them.
    let reference = root().join("crates/kernels/tests/reference");
    let check = |more: &[&str]| {
        let arguments = ["gpu-check", "--on-stand-in", "--quick", "--python", "no-python", program];
        let mut command = command(folder.path(), &[&arguments, more].concat());
        let output = command.env("PATH", &path).output().unwrap();
        let (shown, errors) = (text(&output.stdout).to_owned(), text(&output.stderr));
        assert_eq!(status(&output), 0, "{shown}{errors}");
        shown
    };
    let shown = check(&["--seed", "1", "--reference", reference.to_str().unwrap()]);
    assert!(shown.starts_with("NOT A GPU"), "{shown}");
    let out = folder.path().join("gpu-check");
    assert_eq!(fs::read_to_string(out.join("report.txt")).unwrap(), shown);
    let report = fs::read_to_string(out.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["stand_in"], &report["not_asked_for"]), (&json!(true), &json!([])));
    let parts = report["parts"].as_array().unwrap();
    let names: Vec<&str> = parts.iter().map(|part| part["name"].as_str().unwrap()).collect();
    let all = [
        "conformance",
        "memory",
        "ranks",
        "bandwidth",
        "pipeline",
        "soak",
        "programs",
        "graphs",
        "pytorch",
        "launches",
        "sanitizer",
        "ops",
    ];
    assert_eq!(names, all);
    for part in parts {
        assert_eq!(part["failed"], json!([]), "{part}");
        let skips = part["skipped"].as_array().unwrap().len() as u64;
        assert!(part["passed"].as_u64().unwrap() + skips > 0, "{part}");
        for measured in part["measured"].as_array().unwrap() {
            assert_eq!(measured["value"], json!(null), "something was measured: {part}");
        }
    }
    assert!(parts[11]["passed"].as_u64().unwrap() > 80, "{}", parts[11]);
    let why = parts[8]["skipped"][0].as_str().unwrap();
    assert!(why.starts_with("no python with torch and CUDA: no-python: "), "{why}");
    assert_eq!(parts[10]["passed"], json!(1), "{}", parts[10]);
    // Each part can be cut short. Without a checkout there are no reference files.
    let shown = check(&["--seconds", "0"]);
    for part in all.iter().filter(|part| !["ranks", "ops"].contains(part)) {
        assert!(shown.contains(&format!("{part}: cut short")), "{part}: {shown}");
    }
    assert!(shown.contains("ops: skipped all: there is no folder crates/kernels"), "{shown}");
    // On a narrow terminal each line of its tables fits.
    let arguments = ["gpu-check", "--on-stand-in", "--only", "launches", "--quick", program];
    let output = command(folder.path(), &arguments).env("COLUMNS", "60").output().unwrap();
    let lines: Vec<&str> = text(&output.stdout).lines().filter(|l| l.starts_with('│')).collect();
    assert!(lines.len() > 4 && lines.iter().all(|l| l.chars().count() <= 60), "{lines:#?}");
}
