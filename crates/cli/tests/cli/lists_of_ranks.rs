//! The lists of a program of several ranks: written by `run --emit`, verified as parts of one
//! program, and run again.

use std::fs;
use std::path::Path;

use crate::{message, millstream, root, text};

const PROGRAM: &str = r#"{"millstream": 1,
  "tensors": {"x": {"dtype": "f32", "values": [1, -2], "ranks": [0]}},
  "program": [
    {"op": "relu", "in": ["x"], "out": ["y"], "ranks": [0]},
    {"op": "add", "in": ["y", "y"], "out": ["z"], "ranks": [1]}
  ],
  "outputs": {"z": {"values": [2, 0]}}}
"#;

/// Returns all lines but the first.
fn rest(list: &str) -> &str {
    list.split_once('\n').unwrap().1
}

/// Returns a folder with the program and, in `lists`, what its ranks emit.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("program.json"), PROGRAM).unwrap();
    emit(folder.path(), "program.json", "lists");
    folder
}

fn emit(folder: &Path, program: &str, into: &str) {
    let output = millstream(folder, &["run", program, "--ranks", "2", "--emit", into]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn lists_that_are_not_proven_are_not_compared() {
    let folder = folder();
    let path = folder.path().join("lists/rank0.txt");
    let list = fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = list.lines().filter(|line| !line.starts_with("arena ")).collect();
    assert!(kept.len() < list.lines().count(), "{list}");
    fs::write(&path, kept.join("\n") + "\n").unwrap();
    let output = millstream(folder.path(), &["verify", "lists", "--program", "program.json"]);
    assert_eq!(output.status.code(), Some(1));
    let out = text(&output.stdout);
    assert!(
        out.ends_with("; lists that are not proven are not compared with program.json\n"),
        "{out}"
    );
}

#[test]
fn emitted_lists_are_parts_of_their_program_and_run_again() {
    let folder = folder();
    let first = fs::read_to_string(folder.path().join("lists/rank0.txt")).unwrap();
    assert!(first.starts_with("# rank 0 of 2 of program "), "{first}");
    for (more, said) in [
        (&[][..], "lists: proven: the ranks meet, in 1 collective; their lists name one program\n"),
        (&["--program", "program.json"], "; their lists are their parts of program.json\n"),
    ] {
        let output = millstream(folder.path(), &[&["verify", "lists"], more].concat());
        let out = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{out}{}", text(&output.stderr));
        assert!(out.ends_with(said), "{out}");
        // The lists of a folder of ranks are verified once.
        assert_eq!(out.matches("rank1.txt").count(), 1, "{out}");
    }
    let again = ["run", "lists", "-v", "--inputs", "program.json", "--emit", "again"];
    let output = millstream(folder.path(), &again);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("rank1/z"), "{}", text(&output.stdout));
    let of = |lists: &str| millstream(folder.path(), &["verify", lists, "--report", "-"]).stdout;
    assert_eq!(text(&of("lists")).replace("lists", ""), text(&of("again")).replace("again", ""));
    let output = millstream(folder.path(), &["run", "lists/rank1.txt"]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!("list_of_a_rank_alone", text(&output.stderr));
}

/// The lists of the ranks of a mesh hold those of its executables: they are verified as parts of
/// the program, and run again on its tensors.
#[test]
fn lists_of_a_mesh_hold_its_executables() {
    let folder = tempfile::tempdir().unwrap();
    let example = root().join("examples/placement");
    fs::copy(example.join("mesh_executable.json"), folder.path().join("program.json")).unwrap();
    let passes = |arguments: &[&str], ends: &str| {
        let output = millstream(folder.path(), arguments);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {out}{err}");
        assert!(out.contains(ends), "{arguments:?}: {out}");
    };
    passes(&["run", "program.json", "--ranks", "4", "--emit", "lists"], "program.json: ok");
    let list = fs::read_to_string(folder.path().join("lists/rank2.txt")).unwrap();
    insta::assert_snapshot!("list_of_a_rank_with_an_executable", rest(&list));
    passes(&["verify", "program.json", "--ranks", "4"], "proven: the ranks meet");
    let parts = "their lists are their parts of program.json";
    passes(&["verify", "lists", "--program", "program.json"], parts);
    passes(&["run", "lists", "--inputs", "program.json"], "lists: ok");
    passes(&["simulate", "program.json", "--ranks", "4", "--seeds", "20"], "20 seeds");
    // The ranks run what `convert` writes for them.
    for rank in ["0", "1", "2", "3"] {
        let own = format!("parts/rank{rank}.json");
        passes(&["convert", "program.json", &own, "--ranks", "4", "--rank", rank], "");
        let own = fs::read_to_string(folder.path().join(own)).unwrap();
        assert_eq!(own.matches("\"launch\": \"step\"").count(), 3, "{own}");
    }
    passes(&["run", "parts"], "parts: ok");
    passes(&["verify", "parts"], "proven: the ranks meet");
}

/// So do they where a rank is outside of a mesh, and has other outputs.
#[test]
fn parts_of_a_program_of_meshes_run_as_programs() {
    let folder = tempfile::tempdir().unwrap();
    let path = root().join("tests/ranks/cases/tensors_of_a_mesh.json");
    let case: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    fs::write(folder.path().join("program.json"), case["program"].to_string()).unwrap();
    let parts = (0..5).map(|rank| [rank.to_string(), format!("parts/rank{rank}.json")]);
    let converted = parts.map(|[rank, part]| {
        let rank = ["--ranks", "5", "--rank", &rank];
        millstream(folder.path(), &[&["convert", "program.json", &part], &rank[..]].concat())
    });
    assert!(converted.collect::<Vec<_>>().iter().all(|output| output.status.success()));
    let output = millstream(folder.path(), &["run", "parts"]);
    assert!(text(&output.stdout).contains("parts: ok"), "{}", text(&output.stderr));
}

#[test]
fn lists_that_are_not_parts_of_one_program_are_refused() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let other = PROGRAM.replace("add", "mul").replace("[2, 0]", "[1, 0]");
    fs::write(path("other.json"), other).unwrap();
    emit(folder.path(), "other.json", "others");
    let first = fs::read_to_string(path("lists/rank0.txt")).unwrap();
    let second = fs::read_to_string(path("lists/rank1.txt")).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(second.contains(from), "{second}");
        Some(second.replacen(from, to, 1))
    };
    let no_call: String =
        second.lines().filter(|l| !l.contains(" add ")).map(|l| format!("{l}\n")).collect();
    let own: Vec<(&str, Option<String>, &[&str])> = vec![
        ("the list of another program", fs::read_to_string(path("others/rank1.txt")).ok(), &[]),
        ("a missing rank", None, &[]),
        ("a rank twice", Some(first), &[]),
        ("another number of ranks", changed("# rank 1 of 2", "# rank 1 of 3"), &[]),
        ("a program of its own", Some(format!("# rank 1 of 2\n{}", rest(&second))), &[]),
        ("another op", changed(" add ", " mul "), &["--program", "program.json"]),
        ("a call less", Some(no_call), &["--program", "program.json"]),
        ("a list for itself", Some(rest(&second).to_owned()), &[]),
        ("another program", Some(second.clone()), &["--program", "other.json"]),
    ];
    let mut found = String::new();
    for (what, list, more) in own {
        match list {
            Some(list) => fs::write(path("lists/rank1.txt"), list).unwrap(),
            None => fs::remove_file(path("lists/rank1.txt")).unwrap(),
        }
        let output = millstream(folder.path(), &[&["verify", "lists"], more].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{what}: {said}{}", text(&output.stdout));
        found += &format!("{what}\n{said}\n");
    }
    insta::assert_snapshot!(found);
    let all = ["verify", "lists", "program.json", "--program", "program.json"];
    let output = millstream(folder.path(), &all);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("--program: expected folders with lists of ranks"));
    // Without the first rank there is no program.
    fs::remove_file(path("lists/rank0.txt")).unwrap();
    let output = millstream(folder.path(), &["verify", "lists"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("there is rank1 and no rank0"));
}

/// The ranks compare what their lists say before they run.
#[test]
fn lists_of_different_programs_do_not_run() {
    let folder = folder();
    let path = folder.path().join("lists/rank1.txt");
    let list = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("# rank 1 of 2 of program 0\n{}", rest(&list))).unwrap();
    let output = millstream(folder.path(), &["run", "lists", "--inputs", "program.json"]);
    let said = message(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("ranks 0 and 1 read different programs, and none has run"), "{said}");
}
