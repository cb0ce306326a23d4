//! No command destroys a file: outputs are checked before anything runs, replaced whole, and
//! independent of each other.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::{command, millstream, root};

const TRACE: &str = r#"{"millstream": 1,
"tensors": {"x": {"dtype": "f32", "shape": [2, 2], "file": "x.st", "key": "y"}},
"program": [{"op": "mul", "in": "x", "out": "y", "attrs": {"other": 1}}],
"outputs": {"y": {}}}"#;

/// Options that name files to be read; every other option with a file or folder names an output.
const READ: &[&str] =
    &["--assign", "--inputs", "--model", "--measured-on", "--trace", "--program", "--peers"];

fn ran(folder: &Path, arguments: &[&str]) {
    let output = millstream(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
}

/// Returns the errors of a command that is refused.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = millstream(folder, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
    errors
}

/// Returns a folder with inputs of all kinds: a recording, a native trace with a file of tensors,
/// a list, lists of ranks, a profile and an assignment.
fn inputs() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let recorded = root().join("tests/traces/pytorch/views_inplace_alias");
    fs::create_dir(folder.path().join("step")).unwrap();
    for file in fs::read_dir(recorded).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.path().join("step").join(file.file_name())).unwrap();
    }
    let inline = TRACE.replace(r#""file": "x.st", "key": "y""#, r#""values": [1, 2, 3, 4]"#);
    fs::write(folder.path().join("inline.json"), inline).unwrap();
    let all = ["run", "inline.json", "--save-outputs", "x.st", "--emit", "list.txt", "--profile"];
    ran(folder.path(), &[&all[..], &["p.pftrace", "--emit-assign", "a.json"]].concat());
    ran(folder.path(), &["run", "inline.json", "--ranks", "2", "--emit", "lists"]);
    fs::write(folder.path().join("t.json"), TRACE).unwrap();
    folder
}

/// Returns all files below a folder with their content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => drop(all.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    all
}

/// Returns the options of a command that name outputs, from its help.
fn outputs(command: &str) -> Vec<String> {
    let arguments: Vec<&str> = command.split(' ').chain(["--help"]).collect();
    let help = millstream(&root(), &arguments);
    let help = String::from_utf8(help.stdout).unwrap();
    let options = help.lines().filter_map(|line| {
        let (name, value) = line.trim().split_once(' ')?;
        let is_path = value.starts_with("<FILE>") || value.starts_with("<FOLDER>");
        (name.starts_with("--") && is_path && !READ.contains(&name)).then(|| name.to_owned())
    });
    options.collect()
}

/// Every output option of every command, with every file that the command reads.
#[test]
fn no_output_overwrites_an_input() {
    let folder = inputs();
    let recording = ["et.json.gz", "bindings.json", "consts.json", "meta.json"];
    let more = ["tensors.safetensors", "timeline.json.gz", "timeline-et.json.gz", "streams.json"];
    let recording = recording.into_iter().chain(more);
    let recording: Vec<String> = recording.map(|file| format!("step/{file}")).collect();
    let recording: Vec<&str> = recording.iter().map(String::as_str).collect();
    let cases: [(&[&str], usize, &[&str]); 9] = [
        (&["run", "step"], 6, &recording),
        (&["run", "t.json", "--assign", "a.json"], 6, &["t.json", "x.st", "a.json"]),
        (&["run", "list.txt", "--inputs", "t.json"], 6, &["list.txt", "t.json", "x.st"]),
        (&["simulate", "t.json", "--seed", "1"], 5, &["t.json", "x.st"]),
        (&["verify", "t.json", "list.txt"], 1, &["t.json", "x.st", "list.txt"]),
        (&["profile", "p.pftrace"], 3, &["p.pftrace"]),
        (&["compare", "p.pftrace", "list.txt"], 1, &["p.pftrace", "list.txt"]),
        (&["what-if", "p.pftrace", "--assign", "a.json"], 4, &["p.pftrace", "a.json"]),
        (&["coverage", "step"], 1, &recording),
    ];
    let before = files(folder.path());
    for (k, (command, count, read)) in cases.into_iter().enumerate() {
        let options = outputs(command[0]);
        assert_eq!(options.len(), count, "{}: {options:?}", command[0]);
        for option in &options {
            for (n, path) in read.iter().enumerate() {
                // Another name of the file, if it exists.
                let hard = folder.path().join(format!("hard-{k}-{n}"));
                drop(fs::hard_link(folder.path().join(path), &hard));
                let spelling =
                    if hard.exists() && n % 2 == 0 { hard.to_str().unwrap() } else { path };
                let text = refused(folder.path(), &[command, &[option, spelling]].concat());
                let expected = format!("{option} {spelling} would overwrite a file that is read");
                assert!(text.contains(&expected), "{command:?} {option} {spelling}: {text}");
                drop(fs::remove_file(&hard));
            }
        }
    }
    refused(folder.path(), &["convert", "step/et.json.gz", "step/meta.json"]);
    refused(folder.path(), &["convert", "t.json", "step/../t.json"]);
    // The tensors of the converted trace would go to the recording's own.
    let text = refused(folder.path(), &["convert", "step/et.json.gz", "step/tensors.json"]);
    assert!(text.contains("the file of its tensors step/tensors.safetensors would"), "{text}");
    let text = refused(folder.path(), &["run", "lists", "--random-inputs", "1", "--emit", "lists"]);
    assert!(text.contains("--emit lists/rank0.txt would overwrite"), "{text}");
    let trace = fs::File::open(folder.path().join("t.json")).unwrap();
    let mut reads = command(folder.path(), &["run", "-", "--report", "t.json"]);
    assert_eq!(reads.stdin(trace).output().unwrap().status.code(), Some(2));
    assert_eq!(files(folder.path()), before);
}

/// A file that cannot be written is found before anything runs.
#[test]
fn outputs_are_checked_before_anything_runs() {
    let folder = inputs();
    let before = files(folder.path());
    for command in ["run t.json", "verify t.json", "coverage step", "simulate t.json --seeds 1"] {
        let options = outputs(command.split(' ').next().unwrap());
        for option in options.iter().filter(|option| *option != "--log") {
            for (bad, why) in [
                ("/proc/out", "cannot write /proc/out: "),
                ("step", "it is a folder; name a file in it"),
                ("t.json/out", "a part of its path is a file"),
            ] {
                let arguments: Vec<&str> = command.split(' ').chain([&**option, bad]).collect();
                let text = refused(folder.path(), &arguments);
                assert!(text.contains(why) && text.contains(&**option), "{arguments:?}: {text}");
            }
        }
    }
    for arguments in [
        &["bench", "engine", "--report", "/proc/out"][..],
        &["bench", "replay", "--report", "/proc/out"],
        &["man", "/proc/pages"],
        &["completions", "bash", "/proc/out"],
        &["convert", "t.json", "/proc/out.json"],
        &["run", "t.json", "--html", "new.html", "--report", "/proc/out"],
    ] {
        let text = refused(folder.path(), arguments);
        assert!(text.contains("cannot write /proc/"), "{arguments:?}: {text}");
    }
    assert_eq!(files(folder.path()), before);
}

/// Runs a command within a limit on the length of files, with a shell's command before.
fn limited(folder: &Path, before: &str, arguments: &[&str]) -> Output {
    let script = format!("{before}; ulimit -f 4; ulimit -c 0; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_millstream")]).args(arguments);
    command.current_dir(folder).output().unwrap()
}

/// A write that fails in the middle leaves the old file; the other outputs are written.
#[test]
fn a_full_disk_leaves_the_old_file() {
    let folder = inputs();
    fs::write(folder.path().join("page.html"), "old").unwrap();
    let arguments = ["run", "t.json", "--html", "page.html", "--emit", "new/list.txt"];
    let arguments = [&arguments[..], &["--save-outputs", "y.st"]].concat();
    let output = limited(folder.path(), "trap '' XFSZ", &arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("--html: cannot write page.html: File too large"), "{text}");
    assert!(text.contains("; the old file is unchanged"), "{text}");
    assert_eq!(fs::read_to_string(folder.path().join("page.html")).unwrap(), "old");
    assert!(folder.path().join("new/list.txt").exists() && folder.path().join("y.st").exists());
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut saves = command(folder.path(), &["run", "t.json", "--save-outputs", "z.st"]);
    assert_eq!(saves.stdout(full).output().unwrap().status.code(), Some(2));
    assert!(folder.path().join("z.st").exists());
}

/// A signal in the middle of a write leaves the old file, beside a part of the new one.
#[test]
fn a_signal_leaves_the_old_file() {
    let folder = inputs();
    fs::write(folder.path().join("page.html"), "old").unwrap();
    let before = files(folder.path());
    // The system's signal for a file that grows too long ends a process as Ctrl-C does.
    let output = limited(folder.path(), ":", &["run", "t.json", "--html", "page.html"]);
    assert_eq!(output.status.signal(), Some(25), "{}", String::from_utf8_lossy(&output.stderr));
    let mut after = files(folder.path());
    after.retain(|path, _| path.extension().is_none_or(|ending| ending != "part"));
    assert_eq!(after, before);
}

#[test]
fn folders_are_made_and_devices_written() {
    let folder = inputs();
    let at = |path: &str| folder.path().join(path);
    ran(folder.path(), &["run", "t.json", "--html", "a/b/page.html", "--report", "/dev/null"]);
    ran(folder.path(), &["man", "share/man/man1"]);
    ran(folder.path(), &["completions", "bash", "share/completions/millstream"]);
    for made in ["a/b/page.html", "share/man/man1/millstream-run.1", "share/completions/millstream"]
    {
        assert!(fs::metadata(at(made)).unwrap().len() > 1000, "{made}");
    }
    assert!(at("share/man/man1/millstream.1").exists());
    let output = millstream(folder.path(), &["run", "t.json", "--report", "/dev/stdout"]);
    assert!(output.stdout.starts_with(b"{") && output.stderr.starts_with(b"t.json: ran"));
    // A file would be replaced under the shell's hands.
    let page = fs::File::create(at("page.html")).unwrap();
    let mut draws = command(folder.path(), &["run", "t.json", "--html", "page.html"]);
    let output = draws.stdout(page).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("standard output is redirected to this file"), "{text}");
}

#[test]
fn a_closed_standard_output_is_no_error() {
    let trace = root().join("examples/traces/add.json").display().to_string();
    let bench = ["bench", "engine", "--count", "10", "--rounds", "1"];
    for arguments in [&["run", &trace, "-v"][..], &["verify", &trace], &["record-help"], &bench] {
        if arguments[0] == "bench" && cfg!(not(feature = "bench")) {
            continue;
        }
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(&root(), arguments).stdout(writer).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_closed_standard_error_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command(folder.path(), &["verify", "absent.json"]).stderr(writer).status();
    assert_eq!(status.unwrap().code(), Some(2));
}
