//! Timelines beside an execution trace of the same run.

use std::path::{Path, PathBuf};

use millstream_timelines::verdict::{Status, verdict};
use millstream_timelines::{Options, Timeline, read};

use crate::{check, public};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timelines/data").join(name)
}

fn linked(timeline: &Path, trace: &Path) -> Timeline {
    let options = Options { trace: Some(trace.to_owned()), partial: true, ..Options::default() };
    read(timeline, &options).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_recorded_run_of_the_host_is_linked_by_id() {
    let timeline = linked(&data("cpu_kineto.json"), &data("cpu_et.json"));
    check(&timeline.profile);
    let remark = &timeline.profile.remarks[0];
    assert_eq!(remark, "101 of 101 ops are nodes of the execution trace");
    assert!(timeline.profile.places.iter().any(|place| place.contains("aten::linear [node ")));
}

/// A kernel of an op on each of two streams: the second one reads what the first one writes.
fn two_ops(sync: &str) -> String {
    let kernel = |op: &str, id: u32, at: u32, stream: u32| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{op}","pid":1,"tid":1,"ts":{at},"dur":9,
            "args":{{"Record function id":{id}}}}},
            {{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{at},
            "dur":2,"args":{{"correlation":{id}}}}},
            {{"ph":"X","cat":"kernel","name":"k{id}","pid":0,"tid":{stream},"ts":{},"dur":5,
            "args":{{"device":0,"stream":{stream},"correlation":{id}}}}}"#,
            at + 3
        )
    };
    let [first, second] = [kernel("aten::relu", 1, 0, 7), kernel("aten::neg", 2, 20, 8)];
    format!("{{\"traceEvents\": [{first},{sync}{second}]}}")
}

const SYNC: &str = r#"{"ph":"X","cat":"cuda_runtime","name":"cudaDeviceSynchronize","pid":1,"tid":1,
    "ts":12,"dur":2,"args":{"correlation":8}},"#;

const NODES: &str = r#"{"schema": "1.1.1", "pid": 1, "nodes": [
{"id": 2, "name": "aten::relu", "ctrl_deps": 1,
 "inputs": {"values": [[3,4,0,6,4,"cuda:0"]], "shapes": [[2,3]], "types": ["Tensor(float)"], "strides": [[3,1]]},
 "outputs": {"values": [[5,6,0,6,4,"cuda:0"]], "shapes": [[2,3]], "types": ["Tensor(float)"], "strides": [[3,1]]},
 "attrs": [{"name":"rf_id","type":"uint64","value":1},{"name":"tid","type":"uint64","value":1},
 {"name":"op_schema","type":"string","value":"aten::relu(Tensor self) -> Tensor"}]},
{"id": 7, "name": "aten::neg", "ctrl_deps": 1,
 "inputs": {"values": [[5,6,OFFSET,3,4,"cuda:0"]], "shapes": [[3]], "types": ["Tensor(float)"], "strides": [[1]]},
 "outputs": {"values": [[8,9,0,3,4,"cuda:0"]], "shapes": [[3]], "types": ["Tensor(float)"], "strides": [[1]]},
 "attrs": [{"name":"rf_id","type":"uint64","value":2},{"name":"tid","type":"uint64","value":1},
 {"name":"op_schema","type":"string","value":"aten::neg(Tensor self) -> Tensor"}]}
]}"#;

fn own(sync: &str) -> Timeline {
    let folder = tempfile::tempdir().unwrap();
    let [timeline, trace] = ["k.json", "et.json"].map(|name| folder.path().join(name));
    std::fs::write(&timeline, two_ops(sync)).unwrap();
    std::fs::write(&trace, NODES.replace("OFFSET", "3")).unwrap();
    linked(&timeline, &trace)
}

#[test]
fn kernels_get_the_tensors_of_their_ops() {
    let timeline = own("");
    check(&timeline.profile);
    let profile = &timeline.profile;
    let kernel = profile.instructions.iter().find(|i| profile.name_of(i) == "k2").unwrap();
    assert_eq!(profile.shapes_of(kernel), "t5 f32[3], → t8 f32[3]");
    assert_eq!(profile.place_of(kernel), "aten::neg [node 7]");
}

#[test]
fn the_verifier_finds_a_read_beside_a_write() {
    let found = verdict(&own("")).unwrap();
    assert_eq!((found.status, found.races.len()), (Status::Race, 1), "{}", found.line());
    // The host waits for the first kernel before it submits the second one.
    let found = verdict(&own(SYNC)).unwrap();
    assert_eq!(found.line(), "proven: 3 instructions, 2 streams, 1 pair");
}

#[test]
fn a_trace_of_another_run_is_refused() {
    let options = Options { trace: Some(data("cpu_et.json")), ..Options::default() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.json");
    std::fs::write(&path, two_ops("")).unwrap();
    let error = read(&path, &options).unwrap_err().to_string();
    assert!(error.contains("none of its 105 nodes is an op of the timeline"), "{error}");
}

#[test]
fn public_runs_are_linked_and_verified() {
    for (timeline, trace, least) in [
        ("pytorch-et/resnet50_kineto.json.gz", "pytorch-et/resnet50_1gpu_1.0.3.json.gz", 0.0),
        (
            "pytorch-et/dlrm_8rank/kineto_rank0.json.gz",
            "pytorch-et/dlrm_8rank/et_rank0.json.gz",
            0.99,
        ),
    ] {
        let (Some(timeline), Some(trace)) = (public(timeline), public(trace)) else { return };
        let found = linked(&timeline, &trace);
        check(&found.profile);
        let remark = &found.profile.remarks[0];
        let mut numbers = remark.split(' ').filter_map(|word| word.parse::<f64>().ok());
        let share = numbers.next().unwrap() / numbers.next().unwrap();
        println!("{remark}: {share}");
        assert!(share >= least, "{remark}");
        println!("{}", verdict(&found).unwrap().line());
    }
}
