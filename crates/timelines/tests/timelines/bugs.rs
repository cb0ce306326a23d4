//! Inputs after public bug reports: one odd event, several processes, other devices. Each folder of
//! `tests/bugs` has the right answer in its `EXPECTED.txt`.

use std::path::{Path, PathBuf};

use millstream_profile::model::{Profile, Role};
use millstream_timelines::{Options, read, read_bytes};

use crate::{check, described, open, waits};

/// Returns a folder of the inputs.
pub(crate) fn inputs(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder)
}

fn file(name: &str) -> PathBuf {
    let folder = inputs("bugs").join(name);
    let names = ["kineto.json", "k2.json", "report.sqlite"].map(|name| folder.join(name));
    names.into_iter().find(|path| path.is_file()).unwrap()
}

fn profile(name: &str) -> Profile {
    let profile = open(&file(name)).profile;
    check(&profile);
    profile
}

/// A file that is read: its length in nanoseconds, what runs in it by name, and its remarks.
struct Read {
    name: &'static str,
    total: u64,
    work: &'static [&'static str],
    remarks: &'static [&'static str],
}

const RELU_NEG: &[&str] = &["aten::neg", "aten::relu", "neg_kernel", "relu_kernel"];

#[test]
fn one_odd_event_does_not_cost_the_file() {
    let cases = [
        Read {
            name: "text_backslash",
            total: 10_000,
            work: &["aten::add in torch\\cuda\\__init__.py(219): _lazy_init"],
            remarks: &[],
        },
        Read {
            name: "text_control_char",
            total: 10_000,
            work: &["aten::add in <string>(1): f\u{1}\n g"],
            remarks: &[],
        },
        Read {
            name: "text_non_utf8",
            total: 10_000,
            work: &["aten::add in enum.py(1): \u{fffd}(\u{fffd} mod"],
            remarks: &["1 event is read with '\u{fffd}' for bytes that are not UTF-8: event 1 \
                        ('enum.py(1): \u{fffd}(\u{fffd} mod')"],
        },
        Read {
            name: "number_inf",
            total: 10_000,
            work: &["Memcpy HtoD (Pageable -> Device)", "aten::copy_"],
            remarks: &[],
        },
        Read {
            name: "number_nan_python",
            total: 10_000,
            work: &["Memcpy HtoD", "aten::copy_"],
            remarks: &[],
        },
        Read {
            name: "value_missing",
            total: 12_000,
            work: &["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "record_param_comms"],
            remarks: &[],
        },
        Read { name: "duplicate_keys", total: 29_000, work: RELU_NEG, remarks: &[] },
        Read { name: "metadata_before_events", total: 29_000, work: RELU_NEG, remarks: &[] },
        Read {
            name: "times_text_absolute",
            total: 29_000,
            work: RELU_NEG,
            remarks: &[
                "events that are not read: 2 of 'async_npu'",
                "2 kernels and copies have no call that submits them: the file begins after it",
            ],
        },
        Read {
            name: "times_negative",
            total: 29_000,
            work: RELU_NEG,
            remarks: &["2 events end before they begin: they count as instants"],
        },
        Read {
            name: "times_zero",
            total: 129_000,
            work: &["aten::relu", "k"],
            remarks: &["15 events are left out, as they begin long before or after the others"],
        },
        Read { name: "nsys_table_versions", total: 2_900, work: &["gemm"], remarks: &[] },
    ];
    for Read { name, total, work, remarks } in cases {
        let profile = profile(name);
        let of = |k: usize| match profile.place_of(&profile.instructions[k]) {
            place if place.contains("(") => {
                format!("{} in {place}", profile.name_of(&profile.instructions[k]))
            }
            _ => profile.name_of(&profile.instructions[k]).to_owned(),
        };
        let is_work = |k: &usize| {
            let instruction = &profile.instructions[*k];
            let name = profile.name_of(instruction);
            instruction.role == Role::Work && !name.starts_with("cuda")
        };
        let mut found: Vec<String> =
            (0..profile.instructions.len()).filter(is_work).map(of).collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(
            (found, profile.total),
            (work.iter().map(|w| (*w).to_owned()).collect(), total),
            "{name}"
        );
        assert_eq!(profile.remarks, remarks, "{name}");
    }
}

#[test]
fn streams_are_those_of_the_files() {
    for name in ["category_xpu_driver", "xpu_queue_text", "correlation_wraps"] {
        let path = file(name);
        let trace = Some(path.with_file_name("et.json"));
        let timeline = read(&path, &Options { trace, ..Options::default() }).unwrap();
        check(&timeline.profile);
        let streams = timeline.profile.streams.iter().filter(|stream| !stream.thread);
        let streams: Vec<&str> = streams.map(|stream| stream.name.as_str()).collect();
        match name {
            "correlation_wraps" => assert_eq!(streams, ["cuda:0 stream 7", "cuda:0 stream 8"]),
            _ => assert_eq!(streams, ["cuda:0 stream 64", "cuda:0 stream 65"]),
        }
    }
}

#[test]
fn merged_ranks_stay_apart() {
    for (name, pids) in [
        ("merged_ranks", ["4000", "4001"]),
        ("merged_ranks_text_pid", ["[TP00] 4000", "[TP01] 4001"]),
    ] {
        let profile = profile(name);
        let threads = pids.map(|pid| format!("thread 1 of process {pid}"));
        let of_devices =
            pids.map(|pid| [7, 8].map(|number| format!("cuda:0 stream {number} of process {pid}")));
        let streams: Vec<String> =
            threads.into_iter().chain(of_devices.into_iter().flatten()).collect();
        let found: Vec<&str> = profile.streams.iter().map(|stream| stream.name.as_str()).collect();
        assert_eq!(found, streams, "{name}");
        for thread in 0..2 {
            let calls = profile.instructions.iter().filter(|i| i.stream == thread);
            let calls = calls.filter(|i| profile.name_of(i).starts_with("cuda"));
            // Two launches, a record and a wait.
            assert_eq!(calls.count(), 4, "{name}");
        }
        for (k, instruction) in profile.instructions.iter().enumerate() {
            let Some(submitter) = instruction.submitter else { continue };
            let pid = |text: &str| text.rsplit_once("process ").unwrap().1.to_owned();
            let (own, of) = (described(&profile, k as u32), described(&profile, submitter));
            assert_eq!(pid(&own), pid(&of));
        }
        let expected = pids.map(|pid| {
            format!(
                "cudaStreamWaitEvent on cuda:0 stream 8 of process {pid} < cudaEventRecord on \
                 cuda:0 stream 7 of process {pid}"
            )
        });
        assert_eq!(waits(&profile), expected);
    }
}

/// Where the events of all ranks are sorted by time, the nearest call is another rank's.
#[test]
fn kernels_go_with_the_other_kernels_of_their_name() {
    let event = |cat: &str, name: &str, pid: u32, ts: u32, call: u32| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":7,"ts":{ts},"dur":1,
            "args":{{"device":0,"stream":7,"correlation":{call}}}}}"#
        )
    };
    let events = [
        event("cuda_runtime", "cudaLaunchKernel", 1, 0, 5),
        event("cuda_runtime", "cudaLaunchKernel", 1, 2, 1),
        event("cuda_runtime", "cudaLaunchKernel", 2, 4, 1),
        event("kernel", "own", 10, 6, 5),
        event("kernel", "shared", 10, 8, 1),
        event("kernel", "shared", 20, 10, 1),
        event("kernel", "not submitted", 10, 12, 0),
    ];
    let text = format!("[{}]", events.join(","));
    let profile = read_bytes("sorted.json", text.into_bytes()).unwrap().profile;
    check(&profile);
    let kernels = profile.instructions.iter().filter(|i| profile.name_of(i) != "cudaLaunchKernel");
    let found: Vec<(&str, &str)> =
        kernels.map(|i| (profile.name_of(i), profile.stream_name(i.stream))).collect();
    let [first, second] = [1, 2].map(|pid| format!("cuda:0 stream 7 of process {pid}"));
    let (first, second) = (first.as_str(), second.as_str());
    let expected =
        [("own", first), ("shared", first), ("shared", second), ("not submitted", first)];
    assert_eq!(found, expected);
    let guessed = "1 event of a device could be of several processes: it goes with the nearest call \
                   in the file";
    assert_eq!(profile.remarks[0], guessed);
}

#[test]
fn what_is_left_out_is_counted_by_reason() {
    let event = |rest: &str| {
        format!(r#"{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":2{rest}}}"#)
    };
    let events = [
        event(""),
        event(r#","ts":NaN"#),
        event(r#","ts":null"#),
        event(r#","dur":-Infinity"#),
        event(r#","pid":[1]"#),
        event(r#","cat":"kernel","pid":"#),
        event(r#","cat":"mtia_ccp_events""#),
        event(r#","cat" "kernel""#),
        event(r#","args": {"a": [1, 2}, "tid": 2"#),
        "17".to_owned(),
    ];
    let text = format!("{{\"traceEvents\": [{}]}} and more", events.join(", "));
    let profile = read_bytes("odd.json", text.into_bytes()).unwrap().profile;
    check(&profile);
    let expected = [
        "1 event is left out, as 'stream' and 'device' are not in its 'args': event 6 ('a')",
        "1 event is left out, as it is no JSON behind a key: event 8 ('dur')",
        "1 event is left out, as it is no JSON object: event 10",
        "1 event is left out, as its 'dur' is no number: event 4 ('a')",
        "1 event is left out, as its 'pid' or 'tid', which name its process and thread, is absent: \
         event 5 ('a')",
        "2 events are left out, as its 'ts', the begin in microseconds, is no number; the first is \
         event 2 ('a')",
        "events that are not read: 1 of 'mtia_ccp_events'",
        "what follows the end of its JSON is not read",
        "the order between its 2 host threads is not in the file",
    ];
    assert_eq!(profile.remarks, expected);
}

#[test]
fn recordings_of_a_gpu_are_read() {
    let folders = std::fs::read_dir(inputs("cuda-recorded")).unwrap();
    let mut count = 0;
    for folder in folders.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let trace = Some(folder.join("et.json.gz"));
        let path = folder.join("timeline.json.gz");
        let timeline = read(&path, &Options { trace, ..Options::default() });
        let timeline = timeline.unwrap_or_else(|e| panic!("{e}"));
        check(&timeline.profile);
        let odd = ["left out", "not read", "before they begin", "read with"];
        let remarks = &timeline.profile.remarks;
        assert!(!remarks.iter().any(|r| odd.iter().any(|odd| r.contains(odd))), "{remarks:?}");
        count += 1;
    }
    assert_eq!(count, 10);
}
