//! Profiles of replayed programs hold what those of the same calls one by one do: the calls within
//! a launch, their times, waits, tensors and memory, and a critical path through them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use millstream_profile::model::{Instruction, NONE, Role, Times};
use millstream_profile::order::Segment;
use millstream_profile::{Profile, file, summary};

use crate::browser::{Site, result};
use crate::{examples, succeeds, transformer};

/// Records a program, and returns its profile.
#[track_caller]
fn recorded(folder: &Path, program: &str, more: &[&str]) -> Profile {
    let all = ["run", program, "--threads", "2", "--profile", "run.pftrace"];
    succeeds(folder, &[&all[..], more].concat());
    file::read(&folder.join("run.pftrace")).unwrap()
}

fn launches(profile: &Profile) -> Vec<u32> {
    let is_root = |k: &u32| {
        let instruction = &profile.instructions[*k as usize];
        instruction.role == Role::Launch && instruction.parent == NONE
    };
    (0..profile.instructions.len() as u32).filter(is_root).collect()
}

/// Returns the steps of a launch, with their positions.
fn steps(profile: &Profile, launch: u32) -> Vec<(u32, &Instruction)> {
    let all = (0..).zip(&profile.instructions);
    all.filter(|(k, _)| *k != launch && profile.root_of(*k) == launch).collect()
}

/// Returns whether an instruction is a call of an op.
fn is_call(instruction: &Instruction) -> bool {
    instruction.role == Role::Work && instruction.arguments.is_some()
}

/// Returns the stream of an instruction, in the program.
fn stream<'a>(profile: &'a Profile, instruction: &Instruction) -> &'a str {
    profile.streams[instruction.stream as usize].key_and_list().0
}

/// Returns the calls, each with its stream, place and shapes.
fn calls(profile: &Profile) -> Vec<String> {
    let calls = profile.instructions.iter().filter(|i| is_call(i));
    let one = |i: &Instruction| {
        let specs = profile.operands_of(i).iter().map(|o| &profile.tensors[o.tensor as usize].spec);
        let specs: Vec<&String> = specs.collect();
        let (name, place) = (profile.name_of(i), profile.place_of(i));
        format!("{name} {specs:?} on {} at {place}", stream(profile, i))
    };
    calls.map(one).collect()
}

/// Returns the waits for calls that calls have made: what waits, for what, and how many tensors
/// need it.
fn causes(profile: &Profile) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    let call = |k: u32| profile.instructions.get(k as usize).filter(|i| is_call(i));
    for wait in profile.waits.iter().filter(|w| !w.resolution.is_elided()) {
        let (Some(user), Some(until)) = (call(wait.user), call(wait.until)) else { continue };
        let describe = |i: &Instruction| {
            format!("{} on {} at {}", profile.name_of(i), stream(profile, i), profile.place_of(i))
        };
        let tensors = wait.tensors.iter().collect::<BTreeSet<_>>().len();
        all.insert(format!("{} waits for {}", describe(user), describe(until)), tensors);
    }
    all
}

/// Checks that the calls of each launch are those of a list, within the time of the launch.
#[track_caller]
fn complete(profile: &Profile, listed: usize) {
    for launch in launches(profile) {
        let steps = steps(profile, launch);
        let works = steps.iter().filter(|(_, i)| is_call(i)).count();
        assert_eq!(works, listed);
        let all = profile.instructions[launch as usize].times.unwrap();
        let mut of_tapes: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        for (k, step) in steps.iter().filter(|(_, i)| i.stream != NONE) {
            assert!(*k < launch, "a launch stands behind its steps");
            let Times { ready, start, end } = step.times.expect("each step has times");
            assert!(ready <= start && start <= end);
            assert!(all.ready <= ready && end <= all.end, "{step:?} within {all:?}");
            let stream = &profile.streams[step.stream as usize];
            assert!(stream.worker.is_some() && stream.tape.is_some(), "{stream:?}");
            // Waits of one tape may overlap: those without a step of their own take no time.
            *of_tapes.entry(stream.tape).or_default() += end - start;
            assert_ne!(profile.place_of(step), "", "{step:?}");
        }
        for (tape, takes) in of_tapes {
            assert!(takes <= all.end - all.ready, "{tape:?} takes {takes} of {all:?}");
        }
    }
}

/// Checks that the parts of the critical path follow one another up to the last end, and that some
/// are steps. Returns the streams of these.
#[track_caller]
fn path(profile: &Profile) -> BTreeSet<&str> {
    let path = summary::path(profile);
    assert!(path.windows(2).all(|pair| pair[0].end == pair[1].start), "{path:?}");
    let last = profile.shown().map(|(_, _, times)| times.end).max();
    assert_eq!(path.last().map(|part| part.end), last);
    let runs = path.iter().filter_map(|part| match part.segment {
        Segment::Runs(k) => Some(&profile.instructions[k as usize]),
        _ => None,
    });
    let steps = runs.filter(|i| is_call(i) && i.parent != NONE);
    steps.map(|i| stream(profile, i)).collect()
}

#[test]
fn a_replay_shows_what_the_same_calls_do_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let program = transformer();
    let eager = recorded(at, &program, &["--compute-streams", "4", "--assign", "round-robin"]);
    let more =
        ["--compute-streams", "4", "--assign", "round-robin", "--replay", "--emit", "list.txt"];
    let replay = recorded(at, &program, &more);
    let list = std::fs::read_to_string(at.join("list.txt")).unwrap();
    let listed = list.lines().filter(|line| line.starts_with("list0: OpCall ")).count();
    assert!(listed > 40, "{list}");
    assert_eq!(launches(&replay).len(), 1);
    complete(&replay, listed);
    assert_eq!(calls(&replay), calls(&eager));
    assert_eq!(path(&replay).len(), 4, "the path is on all streams");
    let [own, one_by_one] = [causes(&replay), causes(&eager)];
    assert_eq!(own.keys().collect::<Vec<_>>(), one_by_one.keys().collect::<Vec<_>>());
    assert!(own.len() > 30 && own.values().all(|tensors| *tensors > 0), "{own:#?}");
    // Steps hold memory: that of the launch, which was planned.
    assert!(replay.arenas.iter().any(|arena| arena == "cpu:0 in list0"), "{:?}", replay.arenas);
    let compared = succeeds(at, &["compare", "run.pftrace", "run.pftrace"]);
    assert!(compared.contains("the same instructions on the same streams\n"), "{compared}");
}

/// A stored step is launched three times, or becomes a part of the program's executable.
#[test]
fn each_launch_has_its_steps() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let program = examples().join("traces/executable.json");
    let program = program.to_str().unwrap();
    let called = recorded(at, program, &[]);
    assert_eq!(launches(&called).len(), 3);
    complete(&called, 3);
    // A replay of the whole program has no launches within it.
    let replayed = recorded(at, program, &["--replay"]);
    assert_eq!(launches(&replayed).len(), 1);
    complete(&replayed, 10);
    let text = succeeds(at, &["what-if", "run.pftrace", "--op", "mul=1us"]);
    assert!(text.contains("predicted with mul=1.00 us: "), "{text}");
}

/// Streams and tensors within a launch are called what the program calls them.
#[test]
fn the_parts_of_a_replay_have_the_names_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = examples().join("traces/diamond.json");
    let profile = recorded(folder.path(), program.to_str().unwrap(), &["--replay"]);
    complete(&profile, 4);
    let names: BTreeSet<&str> = profile
        .instructions
        .iter()
        .filter(|i| is_call(i))
        .map(|i| i.stream)
        .map(|stream| profile.streams[stream as usize].own_name().unwrap())
        .collect();
    assert_eq!(names, BTreeSet::from(["bottom", "left", "right", "top"]));
    let matmul = profile.instructions.iter().find(|i| profile.name_of(i) == "matmul").unwrap();
    assert_eq!(profile.shapes_of(matmul), "y f32[2,2], w f32[2,2], → r f32[2,2]");
    assert!(profile.place_of(matmul).ends_with("diamond.json:13"), "{}", profile.place_of(matmul));
}

/// Predictions of changes: other ops, other streams, without waits; and of the replay itself.
#[test]
fn changes_of_a_replay_are_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let program = transformer();
    // Elementwise calls of one stream would become one call, and results that take the memory of
    // operands there would need waits on others.
    let replay =
        ["--replay", "--passes", "dead,waits", "--assign", "round-robin", "--compute-streams"];
    recorded(at, &program, &[&replay[..], &["4"]].concat());
    let text = succeeds(at, &["what-if", "run.pftrace"]);
    assert!(text.contains("│ wait ┆") && text.contains("in list0"), "{text}");
    let changed = |more: &[&str]| {
        let all = ["what-if", "run.pftrace", "--profile", "next.pftrace"];
        let text = succeeds(at, &[&all[..], more].concat());
        (file::read(&at.join("next.pftrace")).unwrap(), text)
    };
    let (unchanged, _) = changed(&[]);
    let (faster, _) = changed(&["--op", "matmul=0"]);
    assert!(faster.total < unchanged.total);
    let matmul = |i: &&Instruction| faster.name_of(i) == "matmul";
    assert!(faster.instructions.iter().filter(matmul).all(|i| i.duration() == 0));
    let (moved, text) = changed(&["--compute-streams", "1", "--assign", "round-robin"]);
    assert!(text.contains("an executable is compiled for its streams"), "{text}");
    let one = recorded(at, &program, &[&replay[..], &["1", "--driver", "threaded"]].concat());
    assert_eq!(calls(&moved), calls(&one));
    let waits = |profile: &Profile| {
        let waits =
            profile.instructions.iter().filter(|i| i.role == Role::Wait && i.parent != NONE);
        waits.count()
    };
    assert_eq!((waits(&moved), waits(&one)), (0, 0));
    let streams =
        ["--compute-streams", "4", "--assign", "round-robin", "--emit-assign", "streams.json"];
    succeeds(at, &[&["run", &program][..], &streams].concat());
    succeeds(at, &["what-if", "run.pftrace", "--assign", "streams.json", "--profile", "4.pftrace"]);
    let more = file::read(&at.join("4.pftrace")).unwrap();
    assert_eq!(calls(&more), calls(&unchanged));
    assert_eq!(
        causes(&more).keys().collect::<Vec<_>>(),
        causes(&unchanged).keys().collect::<Vec<_>>()
    );
}

/// Times by a cost model are the same everywhere.
#[test]
fn predicted_launches_have_steps() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let program = examples().join("traces/executable.json");
    let model = examples().join("models/desktop-cpu.json");
    let (program, model) = (program.to_str().unwrap(), model.to_str().unwrap());
    let all = ["simulate", program, "--device", "cpu", "--model", model, "--summary"];
    let summary = succeeds(at, &[&all[..], &["--profile", "run.pftrace"]].concat());
    insta::assert_snapshot!(summary);
    let mut text = String::new();
    for change in
        [&[][..], &["--op", "mul=x0.5"], &["--compute-streams", "1"], &["--move", "mul=3"]]
    {
        text += &format!("$ what-if {}\n", change.join(" "));
        text += &succeeds(at, &[&["what-if", "run.pftrace"][..], change].concat());
    }
    insta::assert_snapshot!(text);
}

#[test]
fn the_page_shows_the_steps_of_a_launch() {
    let folder = tempfile::tempdir().unwrap();
    let program = transformer();
    let all = [
        "run",
        &program,
        "--compute-streams",
        "4",
        "--assign",
        "round-robin",
        "--threads",
        "2",
        "--replay",
    ];
    succeeds(folder.path(), &[&all[..], &["--html", "page.html"]].concat());
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    let script = include_str!("replay.js");
    let page = page.replace("</body>", &format!("<script>{script}</script></body>"));
    let site = Site::from([("/index.html".to_owned(), page.into_bytes())]);
    let Some(text) = result(site, [1400, 900], &[]) else { return };
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(found["error"].is_null(), "{}", found["error"]);
    assert_eq!(found["failed"], serde_json::json!([]), "{found}");
    assert!(found["checks"].as_u64().unwrap() >= 12, "{found}");
}
