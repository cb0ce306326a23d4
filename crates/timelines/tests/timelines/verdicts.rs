//! Verdicts on timelines whose order and tensors are partly unknown: small inputs after public bug
//! reports, and CUDA timelines of an H200.

use std::path::{Path, PathBuf};

use millstream_timelines::verdict::{Status, Verdict, verdict};
use millstream_timelines::{Options, Timeline, read};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn decided(timeline: &Path, trace: &Path) -> (Timeline, Verdict) {
    let options = Options { trace: Some(trace.to_owned()), ..Options::default() };
    let found = read(timeline, &options).unwrap_or_else(|e| panic!("{e}"));
    let verdict = verdict(&found).unwrap_or_else(|e| panic!("{}: {e}", timeline.display()));
    (found, verdict)
}

fn bug(name: &str) -> (Timeline, Verdict) {
    let folder = folder("bugs").join(name);
    decided(&folder.join("kineto.json"), &folder.join("et.json"))
}

/// Returns the names of the two uses of the only race: the later one first.
fn race(name: &str) -> [String; 2] {
    let (timeline, verdict) = bug(name);
    assert_eq!(verdict.status, Status::Race, "{name}: {}", verdict.line());
    let [race] = &verdict.races[..] else { panic!("{name}: {:?}", verdict.races) };
    let name = |k: u32| timeline.profile.name_of(&timeline.profile.instructions[k as usize]);
    [race.later, race.earlier].map(|side| name(side.instruction).to_owned())
}

#[test]
fn races_are_found_whatever_is_not_known() {
    for (name, later, earlier) in [
        ("link_rf_zero", "neg_kernel", "relu_kernel"),
        ("category_xpu_driver", "neg_kernel", "relu_kernel"),
        ("xpu_queue_text", "neg_kernel", "relu_kernel"),
        ("proof_collective_in_place", "sgd_kernel", "ncclDevKernel_AllReduce"),
        ("proof_sibling_overlap", "neg_kernel", "relu_kernel"),
        ("proof_host_read", "aten::neg", "Memcpy DtoH (Device -> Pinned)"),
    ] {
        assert_eq!(race(name), [later, earlier], "{name}");
    }
    let (_, verdict) = bug("proof_host_read");
    assert!(verdict.races[0].later.by_host && !verdict.races[0].earlier.by_host);
}

#[test]
fn what_is_not_known_is_counted_and_proves_nothing() {
    for (name, parts) in [
        ("proof_unknown_kernel", &["1 of 3 kernels has no known tensors"][..]),
        ("proof_graph_unknown", &["1 of 1 graph launches has no known tensors"]),
        (
            "proof_launch_missing",
            &["1 of 2 kernels has no known tensors", "1 kernel or copy has no launch"],
        ),
        ("link_two_iterations", &["2 nodes have no op in the timeline", "ambiguous"]),
        ("proof_guessed_wait", &["1 pair depends on 1 wait whose event or stream is not known"]),
    ] {
        let (_, verdict) = bug(name);
        assert_eq!(verdict.status, Status::Undecided, "{name}: {}", verdict.line());
        for part in parts {
            assert!(verdict.line().contains(part), "{name}: {}", verdict.line());
        }
    }
}

/// Numbers of calls wrap, and memory that no later work can have got proves nothing amiss.
#[test]
fn a_wait_whose_record_the_file_names_is_a_proof() {
    let (_, verdict) = bug("correlation_wraps");
    assert_eq!(verdict.line(), "proven: 3 instructions, 2 streams, 1 pair");
}

/// The recorder leaves out what ops call: their kernels belong to the op around them.
#[test]
fn ops_within_a_node_are_covered_by_it() {
    let folder = folder("bugs/link_own_recorder");
    let trace = Some(folder.join("et.json"));
    let options = Options { trace, ..Options::default() };
    let found = read(&folder.join("timeline.json.gz"), &options).unwrap();
    let remark = "36 of 81 ops are nodes of the execution trace";
    assert!(found.profile.remarks.iter().any(|r| r == remark), "{:?}", found.profile.remarks);
}

/// The pairs of an undecided verdict name the waits that they depend on.
#[test]
fn an_undecided_pair_names_its_waits() {
    let (timeline, verdict) = bug("proof_guessed_wait");
    let [pair] = &verdict.undecided[..] else { panic!("{:?}", verdict.undecided) };
    let [wait] = pair.depends[..] else { panic!("{pair:?}") };
    let wait = &timeline.profile.instructions[wait as usize];
    assert_eq!(timeline.profile.name_of(wait), "cudaStreamWaitEvent");
}

/// A timeline of the profiler's default settings names no event: what has no race cannot be
/// proven, and is never said to race; what races without any wait between is found.
#[test]
fn timelines_of_a_device_are_never_judged_wrongly() {
    let recorded = folder("cuda-recorded").read_dir().unwrap();
    let mut cases: Vec<PathBuf> = recorded.map(|entry| entry.unwrap().path()).collect();
    cases.retain(|case| case.is_dir());
    // The example of the README.
    cases.push(folder("../../../examples/timelines/missing_wait"));
    for case in cases {
        let meta = std::fs::read_to_string(case.join("meta.json")).unwrap();
        let traces = ["et.json.gz", "timeline-et.json.gz"].map(|name| case.join(name));
        let trace = traces.iter().find(|trace| trace.is_file()).unwrap();
        let (_, verdict) = decided(&case.join("timeline.json.gz"), trace);
        let name = case.file_name().unwrap().to_str().unwrap();
        println!("{name}: {}", verdict.line());
        let wrong = if meta.contains("no race") { Status::Race } else { Status::Proven };
        assert_ne!(verdict.status, wrong, "{name}: {}", verdict.line());
        let expected = match name {
            "missing_wait" => Status::Race,
            "train_adamw" | "train_fused" | "train_bf16" => Status::Proven,
            _ => Status::Undecided,
        };
        assert_eq!(verdict.status, expected, "{name}: {}", verdict.line());
    }
}
