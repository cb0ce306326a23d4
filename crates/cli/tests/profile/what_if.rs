//! Predictions from recorded runs, and the tutorial's way from a wait to a better assignment.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::{examples, message, millstream, succeeds, transformer};

/// Returns the rows of the first table whose header begins with this cell.
fn table(text: &str, first: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim_matches('│');
        line.split('┆').map(|cell| cell.trim().to_owned()).collect()
    };
    let rows = text.lines().map(|line| if line.starts_with('│') { cells(line) } else { vec![] });
    let mut rows = rows.skip_while(|row| row.first().is_none_or(|cell| cell != first));
    rows.next();
    rows.next();
    rows.take_while(|row| !row.is_empty()).collect()
}

/// Returns by how many percent the prediction without a change differs from the profile.
fn unchanged(text: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with("predicted without a change")).unwrap();
    let (_, off) = line.split_once('(').unwrap();
    off.trim_end_matches(" %)").parse().unwrap()
}

/// How near a prediction comes to a measured time is no test's: on a busy machine, a run has delays
/// that no profile names. What is predicted has none.
#[test]
fn a_predicted_run_without_a_change_is_predicted_as_it_was() {
    const CASES: [&str; 10] = [
        "dtypes_mixed",
        "gpt_block_infer",
        "gpt_train_adamw",
        "kv_cache_decode",
        "lstm_gru_infer",
        "mlp_train_3steps_foreach",
        "mlp_train_sgd",
        "resnet_block_train",
        "transformer_encoder_infer",
        "views_inplace_alias",
    ];
    let folder = tempfile::tempdir().unwrap();
    let recorded = CASES.map(|case| examples().join("../tests/traces/pytorch").join(case));
    let recorded = recorded.iter().map(|path| path.to_str().unwrap().to_owned());
    for program in recorded.chain([transformer()]) {
        for streams in ["1", "4"] {
            let all = ["run", &program, "--compute-streams", streams, "--assign", "round-robin"];
            succeeds(folder.path(), &[&all[..], &["--profile", "run.pftrace"]].concat());
            let text = succeeds(folder.path(), &["what-if", "run.pftrace"]);
            assert!(text.starts_with("measured: "), "{program}\n{text}");
            assert!(!table(&text, "op").is_empty(), "{program}\n{text}");
            succeeds(folder.path(), &["what-if", "run.pftrace", "--profile", "next.pftrace"]);
            let text = succeeds(folder.path(), &["what-if", "next.pftrace"]);
            assert!(text.starts_with("predicted before: "), "{program}\n{text}");
            assert!(unchanged(&text).abs() <= 0.1, "{program}\n{text}");
        }
    }
}

/// As the tutorial says: the costliest wait, what its removal would gain, its call on the stream of
/// what it waits for, the prediction of that, and the run.
#[test]
fn a_changed_assignment_gives_the_predicted_waits() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let program = transformer();
    let all =
        ["run", &program, "--compute-streams", "4", "--assign", "round-robin", "--repeat", "3"];
    let files = ["--profile", "run.pftrace", "--emit-assign", "streams.json"];
    succeeds(at, &[&all[..], &files].concat());
    let text = succeeds_wide(at, &["what-if", "run.pftrace"]);
    let wait = table(&text, "wait").swap_remove(0);
    let [number, waits_for, place] = [&wait[0], &wait[1], &wait[3]];
    let text = succeeds(at, &["what-if", "run.pftrace", "--without-wait", number]);
    assert!(text.contains(&format!("predicted without wait {number}: ")), "{text}");
    // `copy on compute 2`; `node 41`.
    let stream: u64 = waits_for.rsplit(' ').next().unwrap().parse().unwrap();
    let node: u64 = place.rsplit(' ').next().unwrap().parse().unwrap();
    let path = at.join("streams.json");
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let rules = file["assign"].as_array_mut().unwrap();
    let rule = rules.iter_mut().find(|rule| rule["at"] == node).unwrap();
    assert_ne!(rule["stream"], stream);
    rule["stream"] = stream.into();
    std::fs::write(&path, file.to_string()).unwrap();
    let predict = ["what-if", "run.pftrace", "--assign", "streams.json"];
    succeeds(at, &[&predict[..], &["--profile", "predicted.pftrace"]].concat());
    let again = [
        "run",
        &program,
        "--assign",
        "streams.json",
        "--compute-streams",
        "4",
        "--assign",
        "round-robin",
    ];
    succeeds(at, &[&again[..], &["--profile", "again.pftrace"]].concat());
    let text = succeeds(at, &["compare", "predicted.pftrace", "again.pftrace"]);
    assert!(text.contains("the same instructions on the same streams\n"), "{text}");
    let text = succeeds(at, &["compare", "run.pftrace", "again.pftrace"]);
    assert!(!text.contains("the same waits\n"), "{text}");
}

/// Runs the command with room for whole names.
#[track_caller]
fn succeeds_wide(folder: &Path, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_millstream"));
    let output =
        command.current_dir(folder).args(arguments).env_remove("COLUMNS").output().unwrap();
    assert!(output.status.success(), "{}", message(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A move on the command line is a rule of an assignment.
#[test]
fn calls_are_moved_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let model = examples().join("models/desktop-cpu.json");
    let (program, model) = (transformer(), model.to_str().unwrap());
    let simulate = [
        "simulate",
        &program,
        "--compute-streams",
        "4",
        "--assign",
        "round-robin",
        "--model",
        model,
    ];
    let more = ["--device", "cpu", "--profile", "run.pftrace"];
    succeeds(at, &[&simulate[..], &more].concat());
    let rules = r#"{ "assign": [{ "at": 213, "stream": 3 }, { "op": "matmul", "stream": 1 }] }"#;
    std::fs::write(at.join("streams.json"), rules).unwrap();
    let by_file = succeeds(at, &["what-if", "run.pftrace", "--assign", "streams.json"]);
    let moves = ["--move", "213=3", "--move", "matmul=1"];
    let by_moves = succeeds(at, &[&["what-if", "run.pftrace"][..], &moves].concat());
    let moved = "the streams of --move 213=3 and --move matmul=1: ";
    assert_eq!(by_moves, by_file.replace("the streams of streams.json: ", moved));
}

/// Returns the compute streams that an assignment uses.
fn streams_of(path: &Path) -> BTreeSet<u64> {
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let rules = file["assign"].as_array().unwrap();
    rules.iter().map(|rule| rule["stream"].as_u64().unwrap()).collect()
}

/// Streams are used where they help: by estimates before a run, and by the times of a profile.
#[test]
fn calls_get_streams_of_their_own_where_that_helps() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let path = |name: &str| examples().join("traces").join(name).to_str().unwrap().to_owned();
    let (branches, small) = (path("branches.json"), transformer());
    for (program, count) in [(&branches, 3), (&small, 1)] {
        let run = ["run", program, "--threads", "4", "--compute-streams", "4"];
        for more in [&[][..], &["--assign", "auto"], &["--driver", "inline"]] {
            succeeds(at, &[&run[..], &["--emit-assign", "streams.json"], more].concat());
            assert_eq!(streams_of(&at.join("streams.json")).len(), count, "{program} {more:?}");
        }
        let turns = ["--assign", "round-robin", "--emit-assign", "turns.json"];
        succeeds(at, &[&run[..], &turns].concat());
        assert!(streams_of(&at.join("turns.json")).len() > count, "{program}");
        // No more streams than workers.
        let two = ["run", program, "--threads", "2", "--compute-streams", "4"];
        succeeds(at, &[&two[..], &["--emit-assign", "two.json"]].concat());
        assert_eq!(streams_of(&at.join("two.json")).len(), count.min(2), "{program}");
        // The pass that spreads the calls of an executable. Fused, the branches are too short.
        let replay = ["--replay", "--emit", "list.txt", "--emit-after", "assign"];
        succeeds(at, &[&run[..], &replay, &["--passes", "dead,assign"]].concat());
        let list = std::fs::read_to_string(at.join("list.txt")).unwrap();
        let streams = list.lines().filter(|l| l.starts_with("stream ") && l.contains(" compute "));
        assert_eq!(streams.count(), count, "{list}");
    }
    // The times of a model, which are the same everywhere.
    let model = examples().join("models/desktop-cpu.json");
    let simulate = ["simulate", &branches, "--device", "cpu", "--model", model.to_str().unwrap()];
    succeeds(at, &[&simulate[..], &["--profile", "one.pftrace"]].concat());
    let ask = ["what-if", "one.pftrace", "--compute-streams", "4"];
    let said = succeeds(at, &[&ask[..], &["--emit-assign", "best.json"]].concat());
    assert!(said.contains("predicted with up to 4 compute streams: "), "{said}");
    let chosen = streams_of(&at.join("best.json"));
    let run = ["run", &branches, "--assign", "best.json", "--emit-assign", "again.json"];
    succeeds(at, &run);
    assert_eq!(streams_of(&at.join("again.json")), chosen);
    let wrong = millstream(at, &["run", &branches, "--assign", ""]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("auto, round-robin or a file"));
    let same = ["run", &branches, "--assign", "best.json", "--emit-assign", "best.json"];
    assert_eq!(millstream(at, &same).status.code(), Some(2));
}

/// The only profile of a folder, and the trace of one.
#[test]
fn folders_stand_for_what_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::create_dir_all(at.join("nodes")).unwrap();
    let race = examples().join("timelines/race-et.json");
    std::fs::copy(race, at.join("nodes/et.json")).unwrap();
    std::fs::create_dir_all(at.join("profiles")).unwrap();
    let timeline = at.join("profiles/k.json");
    std::fs::copy(examples().join("timelines/race.json"), &timeline).unwrap();
    let shown = succeeds(at, &["profile", "profiles", "--trace", "nodes"]);
    assert!(shown.contains("2 of 2 ops are nodes of the execution trace"), "{shown}");
    succeeds(at, &["what-if", "profiles"]);
    succeeds(at, &["compare", "profiles", "profiles/k.json"]);
    let proof = millstream(at, &["verify", "profiles", "--trace", "nodes"]);
    assert!(String::from_utf8_lossy(&proof.stderr).contains("s8.wait_stream(s7)"), "{proof:?}");
    std::fs::write(at.join("profiles/b.pftrace"), "").unwrap();
    let output = millstream(at, &["what-if", "profiles"]);
    let error = message(&output.stderr);
    assert!(error.contains("it holds 2 profiles and timelines"), "{error}");
    let output = millstream(at, &["profile", "nodes"]);
    let error = message(&output.stderr);
    assert!(error.contains("nodes: it holds no profile and no timeline"), "{error}");
}

#[test]
fn wrong_requests_say_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let trace = examples().join("traces/diamond.json");
    succeeds(folder.path(), &["run", trace.to_str().unwrap(), "--profile", "run.pftrace"]);
    let refused = |arguments: &[&str], says: &str| {
        let all = [&["what-if", "run.pftrace"], arguments].concat();
        let output = millstream(folder.path(), &all);
        let error = message(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{all:?}\n{error}");
        assert!(error.contains(says), "{all:?}\n{error}");
    };
    refused(&["--op", "matmull=x2"], "did you mean 'matmul'?");
    refused(&["--op", "matmul"], "matmul=x0.5");
    refused(&["--without-wait", "99"], "there is no wait 99");
    refused(&["--launch", "2"], "as in 12us");
    refused(&["--profile", "run.pftrace"], "would overwrite a file that is read");
    refused(&["--assign", "none.json"], "none.json");
    refused(&["--move", "12"], "a node, a line or an op, and its stream, as in 213=3, got '12'");
    refused(&["--move", "12=99999999"], "an index below 1024, and this is 99999999");
    refused(&["--move", "12=sidee"], "unknown stream 'sidee'");
    refused(&["--move", "nothing=1"], "--move nothing=1: no rule holds for a call of the profile");
    let output = millstream(folder.path(), &["what-if", trace.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let error = message(&output.stderr);
    let says = "it holds no profile: expected a file that `--profile` or `--html` has written";
    assert!(error.contains(says), "{error}");
}

/// A profile of a program of several ranks has the streams of all.
#[test]
fn ranks_are_in_one_profile() {
    let folder = tempfile::tempdir().unwrap();
    let ranks = examples().join("../tests/traces/pytorch/ddp_mlp_2rank");
    succeeds(folder.path(), &["run", ranks.to_str().unwrap(), "--profile", "run.pftrace"]);
    let text = succeeds(folder.path(), &["profile", "run.pftrace", "--summary"]);
    for rank in ["rank 0: ", "rank 1: "] {
        assert!(text.contains(rank), "{text}");
    }
    succeeds(folder.path(), &["what-if", "run.pftrace", "--profile", "next.pftrace"]);
    let text = succeeds(folder.path(), &["what-if", "next.pftrace"]);
    assert!(unchanged(&text).abs() <= 0.1, "{text}");
    let all = ["what-if", "run.pftrace", "--compute-streams", "2", "--assign", "round-robin"];
    let output = millstream(folder.path(), &all);
    assert_eq!(output.status.code(), Some(2));
    assert!(message(&output.stderr).contains("record a run of a single one"));
}

/// A failed call is told by the program's names.
#[test]
fn errors_have_the_programs_names() {
    let folder = tempfile::tempdir().unwrap();
    let program = r#"{ "millstream": 1, "streams": { "work": {} },
        "tensors": { "x": { "dtype": "f32", "values": [1, 2] },
                     "rows": { "dtype": "i64", "values": [9] } },
        "program": [{ "op": "index_select", "in": ["x", "rows"], "out": "z", "stream": "work",
                      "attrs": { "dim": 0 } }],
        "outputs": { "z": {} } }"#;
    std::fs::write(folder.path().join("p.json"), program).unwrap();
    let output = millstream(folder.path(), &["run", "p.json"]);
    assert_eq!(output.status.code(), Some(1));
    let error = message(&output.stderr);
    let says = "OpCall of index_select(x read f32[2], rows read i64[1], z write f32[1]) on work \
                (cpu:0 compute 0) number 3 failed: index 9 at [0]: expected 0 to 1";
    assert!(error.contains(says), "{error}");
}

/// A timeline of another program is asked as it is.
#[test]
fn a_timeline_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let timeline = examples().join("timelines/two-streams.json");
    let timeline = timeline.to_str().unwrap();
    let text = succeeds(folder.path(), &["what-if", timeline]);
    assert!(unchanged(&text).abs() <= 0.1, "{text}");
    assert!(text.contains("without it"), "{text}");
    succeeds(folder.path(), &["profile", timeline, "--profile", "t.pftrace"]);
    assert_eq!(succeeds(folder.path(), &["what-if", "t.pftrace"]), text);
    let all = ["what-if", timeline, "--compute-streams", "2", "--assign", "round-robin"];
    let output = millstream(folder.path(), &all);
    assert_eq!(output.status.code(), Some(2));
    let error = message(&output.stderr);
    assert!(error.contains("the profile has no calls on compute streams of ours"), "{error}");
}

/// The names of the program are in lists, tables and pictures.
#[test]
fn streams_and_tensors_have_the_programs_names() {
    let folder = tempfile::tempdir().unwrap();
    let trace = examples().join("traces/sim-pipeline.json");
    let files = ["--profile", "run.pftrace", "--emit", "list.txt"];
    let program = ["run", trace.to_str().unwrap()];
    succeeds(folder.path(), &[&program[..], &files].concat());
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let list = read("list.txt");
    let text: Value = serde_json::from_str(&std::fs::read_to_string(&trace).unwrap()).unwrap();
    let (name, _) = text["streams"].as_object().unwrap().iter().next().unwrap();
    assert!(list.contains(&format!("is \"{name}\"\n")), "{list}");
    assert!(list.contains("# tensor %"), "{list}");
    let summary = succeeds(folder.path(), &["profile", "run.pftrace", "--summary"]);
    assert!(summary.contains(&format!("{name} (")), "{summary}");
    let ran = succeeds(folder.path(), &[&program[..], &["-v"]].concat());
    assert!(ran.contains(&format!("│ {name} (")), "{ran}");
    // So they are if the whole trace is one line.
    std::fs::write(folder.path().join("line.json"), text.to_string()).unwrap();
    succeeds(folder.path(), &["run", "line.json", "--emit", "line.txt"]);
    let remarks = |list: &str| -> Vec<String> {
        list.lines().filter(|line| line.starts_with("# tensor")).map(str::to_owned).collect()
    };
    assert_eq!(remarks(&read("line.txt")), remarks(&list));
    // The list with its remarks runs.
    succeeds(folder.path(), &["run", "list.txt", "--inputs", trace.to_str().unwrap()]);
}

/// The inline driver runs each call within its submission: a faster op makes the program faster.
#[test]
fn a_run_of_the_inline_driver_is_predicted_on_its_own_thread() {
    let folder = tempfile::tempdir().unwrap();
    let all = ["run", &transformer(), "--repeat", "3", "--profile", "run.pftrace", "--summary"];
    let text = succeeds(folder.path(), &all);
    assert!(text.contains(", outputs read in "), "{text}");
    assert!(text.contains("\n0 waits between streams; 15 of the host\n"), "{text}");
    assert!(unchanged(&succeeds(folder.path(), &["what-if", "run.pftrace"])).abs() <= 0.1);
    let text = succeeds(folder.path(), &["what-if", "run.pftrace", "--op", "addmm=x0.1"]);
    let gained = text.lines().find(|line| line.starts_with("predicted with ")).unwrap();
    assert!(gained.contains("(-"), "{text}");
    let output = millstream(folder.path(), &["what-if", "run.pftrace", "--compute-streams", "2"]);
    let text = message(&output.stderr);
    assert!(text.contains("record it with --driver threaded"), "{text}");
}
