//! Recordings of streams, as the recorder writes them.

use std::path::Path;

use millstream_timelines::verdict::{Status, Verdict, verdict};
use millstream_timelines::{Options, Timeline, read, read_bytes};

/// Returns a recording: two streams, two blocks of a device, the first given out twice,
/// and pinned memory. The tensor of each storage has its number.
fn file(entries: &[&str]) -> String {
    let storage = |device: &str, address: u32| {
        format!(r#"{{"device": "{device}", "address": {address}, "bytes": 64, "pinned": true}}"#)
    };
    let storages = [("cuda:0", 4096), ("cuda:0", 8192), ("cuda:0", 4096), ("cpu", 4096)];
    let storages = storages.map(|(device, address)| storage(device, address)).join(",\n");
    let tensor = |storage: usize| {
        format!(
            r#"{{"storage": {storage}, "dtype": "f32", "shape": [16], "strides": [1], "offset": 0}}"#
        )
    };
    let tensors = [0, 1, 2, 3].map(tensor).join(",\n");
    let entries: Vec<String> =
        entries.iter().map(|entry| format!(r#"{{"at": 0, "kind": {entry}}}"#)).collect();
    format!(
        r#"{{"millstream_streams": 1, "torch": "2", "ops": [
        "aten::relu(Tensor self) -> Tensor", "aten::relu_(Tensor(a!) self) -> Tensor(a!)",
        "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
        "mine::op(Tensor x) -> Tensor"
        ], "stacks": [["step.py(3): step"]],
        "streams": [{{"device": "cuda:0", "handle": 0}}, {{"device": "cuda:0", "handle": 7}}],
        "storages": [{storages}], "tensors": [{tensors}], "entries": [
        {}
        ]}}"#,
        entries.join(",\n")
    )
}

fn open(entries: &[&str]) -> Timeline {
    let bytes = file(entries).into_bytes();
    read_bytes("streams.json", bytes).unwrap_or_else(|e| panic!("{e}"))
}

fn decided(entries: &[&str]) -> Verdict {
    let timeline = open(entries);
    crate::check(&timeline.profile);
    verdict(&timeline).unwrap_or_else(|e| panic!("{e}"))
}

/// Writes tensor 1 from tensor 0 on the first stream, and reads it on the second.
const WRITE: &str = r#""op", "op": 0, "stream": 0, "inputs": [[0, 0]], "outputs": [1]"#;
const READ: &str = r#""op", "op": 1, "stream": 1, "inputs": [[0, 1]], "outputs": [1]"#;
const RECORD: &str = r#""record", "stream": 0, "event": 0"#;
const WAIT: &str = r#""wait", "stream": 1, "event": 0"#;

#[test]
fn waits_name_their_records() {
    for (entries, status) in [
        (&[WRITE, READ][..], Status::Race),
        (&[WRITE, RECORD, WAIT, READ], Status::Proven),
        (&[RECORD, WAIT, WRITE, READ], Status::Race),
        (&[WRITE, RECORD, r#""sync_event", "event": 0"#, READ], Status::Proven),
        (&[WRITE, r#""sync_stream", "stream": 0"#, READ], Status::Proven),
        (&[WRITE, r#""sync_stream", "stream": 1"#, READ], Status::Race),
        (&[WRITE, r#""sync_device", "device": "cuda:0""#, READ], Status::Proven),
        // An event of before the recording.
        (&[WRITE, r#""wait", "stream": 1"#, READ], Status::Race),
        (&[WRITE, r#""op", "op": 3, "stream": 0, "unknown": true"#], Status::Undecided),
    ] {
        let found = decided(entries);
        assert_eq!(found.status, status, "{entries:?}: {}", found.line());
    }
}

/// A block that a stream reads is freed and given out again to another stream.
#[test]
fn memory_is_used_again_in_order() {
    const FREED: &[&str] = &[
        r#""alloc", "storage": 0, "stream": 0"#,
        r#""op", "op": 1, "stream": 0, "inputs": [[0, 0]], "outputs": [0]"#,
        RECORD,
        WAIT,
        r#""op", "op": 0, "stream": 1, "inputs": [[0, 0]], "outputs": [1]"#,
    ];
    const FREE: &str = r#""free", "storage": 0"#;
    const USE: &str = r#""use", "storage": 0, "stream": 1"#;
    const WRITTEN: &str = r#""op", "op": 1, "stream": 0, "inputs": [[0, 2]], "outputs": [2]"#;
    let again = |more: &[&'static str]| [FREED, more, &[WRITTEN]].concat();
    const SAME: &str = r#""alloc", "storage": 2, "stream": 0"#;
    const OTHER: &str = r#""alloc", "storage": 2, "stream": 1"#;
    let found = decided(&again(&[FREE, SAME]));
    assert_eq!(found.status, Status::Race, "{}", found.line());
    let race = &found.races[0];
    assert_eq!((race.tensor, race.freed, race.bytes.clone()), (2, Some(0), 0..64));
    assert_eq!(decided(&again(&[USE, FREE, SAME])).status, Status::Proven);
    // The driver gives memory to another stream once all work is done.
    assert_eq!(decided(&again(&[FREE, OTHER])).status, Status::Proven);
    let scratch = r#""op", "op": 0, "stream": 0, "inputs": [[0, 1]], "scratch": [2]"#;
    let found = decided(&[FREED, &[FREE, SAME, scratch]].concat());
    assert_eq!(found.status, Status::Race, "{}", found.line());
}

#[test]
fn the_host_reads_what_copies_write() {
    const COPY: &str =
        r#""op", "op": 2, "stream": 0, "inputs": [[0, 3], [1, 0]], "outputs": [3], "flags": [2]"#;
    const HOST: &str = r#""op", "op": 0, "inputs": [[0, 3]]"#;
    let found = decided(&[COPY, HOST]);
    assert_eq!(found.status, Status::Race, "{}", found.line());
    assert!(found.races[0].later.by_host);
    assert_eq!(decided(&[COPY, r#""sync_stream", "stream": 0"#, HOST]).status, Status::Proven);
}

/// Programs on an H200, right ones and wrong ones, as `tools/streams_programs.py` recorded them.
#[test]
fn programs_of_a_device_have_their_verdicts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timelines/data/streams");
    for (name, race) in [
        ("branches", None),
        ("branches_missing_join", Some(["aten::tanh", "aten::add"])),
        ("early_read", Some(["aten::copy_", "aten::sum"])),
        ("event_recorded_twice", Some(["aten::mm", "aten::sum"])),
        ("hooks", None),
        ("missing_wait", Some(["aten::mm", "aten::sum"])),
        ("no_record_stream", Some(["aten::add", "aten::add"])),
        ("prefetch", None),
        ("prefetch_missing_done", Some(["aten::mm", "aten::copy_"])),
        ("read_after_event", None),
        ("record_stream", None),
        ("with_wait", None),
    ] {
        let path = folder.join(format!("{name}.json"));
        let timeline = read(&path, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        let found = verdict(&timeline).unwrap();
        let status = if race.is_some() { Status::Race } else { Status::Proven };
        assert_eq!(found.status, status, "{name}: {}", found.line());
        let profile = &timeline.profile;
        let op = |k: u32| profile.name_of(&profile.instructions[k as usize]);
        let races = found.races.iter();
        let ops = races.map(|race| [race.earlier, race.later].map(|side| op(side.instruction)));
        assert_eq!(ops.collect::<Vec<_>>(), race.into_iter().collect::<Vec<_>>(), "{name}");
        for side in found.races.iter().flat_map(|race| [race.earlier, race.later]) {
            let stack = timeline.stack(side.instruction);
            assert!(stack[0].starts_with("tools/streams_programs.py("), "{name}: {stack:?}");
        }
        let is_reuse = found.races.first().is_some_and(|race| race.freed.is_some());
        assert_eq!(is_reuse, name == "no_record_stream", "{name}");
    }
}

#[test]
fn functions_are_those_of_the_program() {
    let timeline = open(&[WRITE, READ]);
    let race = &verdict(&timeline).unwrap().races[0];
    for side in [race.earlier, race.later] {
        assert_eq!(timeline.stack(side.instruction), ["step.py(3): step"]);
    }
    assert!(timeline.profile.instructions.iter().all(|i| i.times.is_none()));
}

#[test]
fn damaged_recordings_are_refused() {
    for (entries, message) in [
        (&[WAIT][..], "entry 1: event 0 is not recorded before"),
        (&[WRITE, r#""free", "storage": 9"#], "entry 2: storage 9 of 4"),
        (&[r#""record", "stream": 2, "event": 0"#], "entry 1: stream 2 of 2"),
        (&[r#""op", "op": 4"#], "entry 1: op 4 of 4"),
        (&[r#""op", "op": 0, "inputs": [[0, 4]]"#], "entry 1: tensor 4 of 4"),
        (&[r#""record", "event": 0"#], "missing field `stream`"),
        (&[r#""sync_event", "thread": 5"#], "entry 1: thread 5 of 0"),
        (&[RECORD], "none of its ops has known tensors"),
    ] {
        let error = read_bytes("streams.json", file(entries).into_bytes()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(message) && text.contains("record it again"), "{message}: {text}");
    }
    let newer = file(&[WRITE]).replace("_streams\": 1", "_streams\": 2").into_bytes();
    let error = read_bytes("streams.json", newer).unwrap_err();
    assert!(error.to_string().contains("it has version 2; expected 1"), "{error}");
}

/// The kernels of a graph's launch are not known.
#[test]
fn launches_of_graphs_are_undecided() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timelines/data/streams");
    let timeline = read(&folder.join("graph.json"), &Options::default()).unwrap();
    let found = verdict(&timeline).unwrap();
    assert_eq!(found.status, Status::Undecided);
    assert!(found.line().contains("1 of 2 kernels has no known tensors"), "{}", found.line());
}
