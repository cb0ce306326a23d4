//! Files of Kineto's form, written here.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use millstream_profile::model::{Role, Source};
use millstream_profile::order::{Order, Segment, critical_path};
use millstream_timelines::{Options, read, read_bytes};

use crate::{check, described, waits};

/// Two streams: a kernel on stream 7, whose event stream 20 waits for, and a copy back that the
/// host waits for. Times are microseconds.
pub(crate) const TWO_STREAMS: &str = r#"{"schemaVersion": 1, "traceEvents": [
{"ph":"X","cat":"user_annotation","name":"step","pid":1,"tid":1,"ts":0,"dur":100,"args":{}},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":0,"dur":10,"args":{"Ev Idx":0}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":4,"dur":4,
 "args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"void a::gemm<float>(int)","pid":0,"tid":7,"ts":12,"dur":30,
 "args":{"device":0,"stream":7,"correlation":1}},
{"ph":"X","cat":"cuda_runtime","name":"cudaEventRecord","pid":1,"tid":1,"ts":14,"dur":1,
 "args":{"correlation":2}},
{"ph":"X","cat":"cuda_runtime","name":"cudaStreamWaitEvent","pid":1,"tid":1,"ts":16,"dur":1,
 "args":{"correlation":3}},
SYNC
{"ph":"X","cat":"cpu_op","name":"aten::copy_","pid":1,"tid":1,"ts":20,"dur":60,"args":{"Ev Idx":1}},
{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":22,"dur":50,
 "args":{"correlation":4}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":20,"ts":44,
 "dur":20,"args":{"device":0,"stream":20,"correlation":4,"bytes":64}},
{"ph":"X","cat":"cuda_runtime","name":"cudaDeviceSynchronize","pid":1,"tid":1,"ts":82,"dur":8,
 "args":{"correlation":5}},
{"ph":"M","name":"thread_name","pid":1,"tid":1,"ts":0,"args":{"name":"python"}}
]}"#;

/// The wait of stream 20 as newer files state it.
const STATED: &str = r#"{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":20,
"ts":16,"dur":1,"args":{"stream":20,"correlation":3,"device":0,"context":1,"wait_on_stream":7,
"wait_on_cuda_event_record_corr_id":2,"wait_on_cuda_event_id":1}},"#;

/// The same without the record, which the file names by its event.
const BY_EVENT: &str = r#"{"ph":"X","cat":"cuda_event","name":"cudaEventRecord","pid":0,"tid":7,
"ts":14,"args":{"stream":7,"correlation":2,"device":0,"context":1,"event_id":1}},
{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":20,
"ts":16,"dur":1,"args":{"stream":20,"correlation":3,"device":0,"context":1,
"wait_on_cuda_event_record_corr_id":-1,"wait_on_cuda_event_id":1}},"#;

const EXPECTED: [&str; 4] = [
    "cudaStreamWaitEvent on cuda:0 stream 20 < cudaEventRecord on cuda:0 stream 7",
    "cudaMemcpyAsync on thread 1 python < Memcpy DtoH (Device -> Pageable) on cuda:0 stream 20",
    "cudaDeviceSynchronize on thread 1 python < gemm<float> on cuda:0 stream 7",
    "cudaDeviceSynchronize on thread 1 python < Memcpy DtoH (Device -> Pageable) on cuda:0 stream 20",
];

fn two_streams(sync: &str) -> millstream_profile::Profile {
    let text = TWO_STREAMS.replace("SYNC\n", sync);
    let profile = read_bytes("two.json", text.into_bytes()).unwrap().profile;
    check(&profile);
    profile
}

#[test]
fn waits_are_restored_from_what_the_file_states() {
    for sync in [STATED, BY_EVENT] {
        let profile = two_streams(sync);
        assert_eq!(profile.source, Source::Imported);
        assert_eq!(waits(&profile), EXPECTED);
        assert_eq!(profile.remarks, Vec::<String>::new());
        let waiter = &profile.instructions[profile.waits[0].waiter as usize];
        let times = waiter.times.unwrap();
        assert_eq!((waiter.role, times.start, times.end), (Role::Wait, 16_000, 42_000));
        assert_eq!(profile.total, 90_000);
        assert_eq!((profile.ranges[0].name.as_str(), profile.ranges[0].end), ("step", 100_000));
    }
}

#[test]
fn the_order_of_calls_stands_in_for_absent_events() {
    let profile = two_streams("");
    assert_eq!(waits(&profile), EXPECTED);
    assert_eq!(profile.remarks.len(), 1);
    assert!(profile.remarks[0].starts_with("1 wait names no event"), "{:?}", profile.remarks);
    // What the wait would be for ends after the copy begins: it cannot be what the calls say.
    let text = TWO_STREAMS.replace("SYNC\n", "").replace("\"ts\":44", "\"ts\":30");
    let profile = read_bytes("two.json", text.into_bytes()).unwrap().profile;
    assert!(!waits(&profile).iter().any(|wait| wait.contains("StreamWait")));
    assert!(profile.remarks[0].contains("order is not restored"), "{:?}", profile.remarks);
}

#[test]
fn the_critical_path_leads_through_launches_waits_and_threads() {
    let profile = two_streams(STATED);
    let path = critical_path(&profile, &Order::of(&profile));
    let text = |segment: &Segment| match *segment {
        Segment::Runs(k) => described(&profile, k),
        Segment::Gap { before } => format!("to {}", described(&profile, before)),
        Segment::Submits { before } => format!("submits {}", described(&profile, before)),
        Segment::Resumes { after } => format!("resumes {}", described(&profile, after)),
    };
    let found: Vec<(String, u64)> =
        path.iter().map(|part| (text(&part.segment), (part.end - part.start) / 1000)).collect();
    let expected = [
        ("aten::mm on thread 1 python", 4),
        ("cudaLaunchKernel on thread 1 python", 4),
        ("to gemm<float> on cuda:0 stream 7", 4),
        ("gemm<float> on cuda:0 stream 7", 30),
        ("to Memcpy DtoH (Device -> Pageable) on cuda:0 stream 20", 2),
        ("Memcpy DtoH (Device -> Pageable) on cuda:0 stream 20", 20),
        ("cudaMemcpyAsync on thread 1 python", 8),
        ("aten::copy_ on thread 1 python", 8),
        ("to cudaDeviceSynchronize on thread 1 python", 2),
        ("cudaDeviceSynchronize on thread 1 python", 8),
    ];
    let expected: Vec<(String, u64)> = expected.map(|(text, us)| (text.to_owned(), us)).into();
    assert_eq!(found, expected);
}

#[test]
fn backward_ops_follow_their_forward_ops_on_other_threads() {
    let op = |name: &str, tid: u32, ts: u32, dur: u32| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":{tid},"ts":{ts},"dur":{dur}}}"#
        )
    };
    let arrow = |phase: &str, tid: u32, ts: u32| {
        format!(
            r#"{{"ph":"{phase}","cat":"fwdbwd","name":"fwdbwd","id":3,"pid":1,"tid":{tid},"ts":{ts}}}"#
        )
    };
    let ops = [
        op("aten::linear", 1, 0, 10),
        op("aten::addmm", 1, 0, 8),
        op("aten::sum", 1, 12, 4),
        op("AddmmBackward0", 2, 20, 9),
        op("aten::mm", 2, 20, 5),
    ];
    let read = |arrows: [String; 2]| {
        let text = format!("[{},{}]", ops.join(","), arrows.join(","));
        read_bytes("arrows.json", text.into_bytes()).unwrap().profile
    };
    let profile = read([arrow("s", 1, 0), arrow("f", 2, 20)]);
    check(&profile);
    assert_eq!(waits(&profile), ["fwdbwd on thread 2 < aten::linear on thread 1"]);
    assert!(profile.remarks[0].contains("forward before backward"), "{:?}", profile.remarks);
    // Arrows that begin at no op, or lead into the past, order nothing.
    for arrows in [[arrow("s", 1, 1), arrow("f", 2, 20)], [arrow("s", 2, 20), arrow("f", 1, 12)]] {
        assert_eq!(waits(&read(arrows)), Vec::<String>::new());
    }
}

#[test]
fn a_launch_of_a_graph_is_one_instruction_with_steps() {
    let kernel = |name: &str, stream: u32, ts: u32| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":{stream},"ts":{ts},"dur":5,
            "args":{{"device":0,"stream":{stream},"correlation":9}}}}"#
        )
    };
    let call = r#"{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":1,"tid":1,"ts":0,
        "dur":2,"args":{"correlation":9}}"#;
    let all = [call.to_owned(), kernel("a", 7, 4), kernel("b", 7, 6), kernel("c", 8, 6)];
    // The form of 2020: a list without an object around it.
    let text = format!("[{}]", all.join(","));
    let profile = read_bytes("graph.json", text.into_bytes()).unwrap().profile;
    check(&profile);
    let launch = profile.instructions.iter().position(|i| i.role == Role::Launch).unwrap();
    let times = profile.instructions[launch].times.unwrap();
    assert_eq!((times.start, times.end), (4_000, 11_000));
    let steps = profile.instructions.iter().filter(|i| i.parent == launch as u32);
    let steps: Vec<&str> = steps.map(|step| profile.name_of(step)).collect();
    assert_eq!(steps, ["a", "b", "c"]);
}

#[test]
fn a_compressed_file_is_read_and_a_range_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.json.gz");
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(TWO_STREAMS.replace("SYNC\n", STATED).as_bytes()).unwrap();
    std::fs::write(&path, packed.finish().unwrap()).unwrap();
    let within = |name: &str, number| Options {
        within: Some((name.to_owned(), number)),
        ..Options::default()
    };
    let timeline = read(&path, &within("step", 0)).unwrap();
    check(&timeline.profile);
    assert_eq!(waits(&timeline.profile), EXPECTED);
    let error = read(&path, &within("step", 1)).unwrap_err().to_string();
    assert!(error.ends_with("it has no range 'step' of that number; it has step"), "{error}");
}
