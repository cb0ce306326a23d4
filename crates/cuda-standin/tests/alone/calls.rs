//! The exact calls of the driver for the standard cases.
//!
//! All streams are held while a program is submitted, so that no command completes: a completed
//! command needs no wait. The lists leave out queries, and the markers of streams, whose number
//! depends on time.

use std::collections::{BTreeSet, HashMap};

use millstream::ep::cuda::CudaConfig;
use millstream::{DeviceId, DriverKind, Machine, Stream, StreamKey, StreamOptions, StreamType};

use crate::{call, machine, no_violations, nothing_is_open, read, stand_in, upload};

const CUDA: DeviceId = DeviceId::cuda(0);

fn streams<const N: usize>(m: &Machine) -> [Stream; N] {
    std::array::from_fn(|k| m.compute(&CUDA, k as u32).unwrap())
}

/// Returns the calls of `program`, which submits its work and returns a check of the results. None
/// without a C++ compiler, because other kernels are then launched.
#[track_caller]
fn calls<C: FnOnce()>(program: impl FnOnce(&Machine) -> C) -> Option<String> {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return None;
    }
    let turn = stand_in().turn();
    let m = machine(DriverKind::Inline, CudaConfig::default());
    let hold = turn.hold();
    let check = program(&m);
    let calls = turn.calls();
    drop(hold);
    check();
    m.synchronize().unwrap();
    drop(m);
    no_violations();
    nothing_is_open();
    Some(shown(&calls))
}

/// Returns the calls without queries and markers, with the events renumbered.
pub(crate) fn shown(calls: &[String]) -> String {
    let prefixes = [
        "cuCtxEnable",
        "cuStreamCreate",
        "cuMem",
        "cuEventRecord",
        "cuStreamWait",
        "cuLaunch",
        "cuModule",
    ];
    let is_shown = |call: &&String| {
        let matches = prefixes.iter().any(|prefix| call.starts_with(prefix));
        matches && !call.starts_with("cuMemGetInfo")
    };
    // Events that a stream waits for: `cuStreamWaitEvent(s1, e4#1)`.
    let waited = calls.iter().filter_map(|call| {
        let arguments = call.strip_prefix("cuStreamWaitEvent(s")?;
        arguments.split_once(", ")?.1.split_once('#').map(|(event, _)| event.to_owned())
    });
    let waited: BTreeSet<String> = waited.collect();
    let mut names = HashMap::new();
    let mut lines = String::new();
    for call in calls.iter().filter(is_shown) {
        let Some(at) = call.find(['(', ' ']).filter(|_| call.contains('#')) else {
            lines += &format!("{call}\n");
            continue;
        };
        let event = call[at..].split([' ', '(', ',']).find(|part| part.contains('#')).unwrap();
        let (event, _) = event.split_once('#').unwrap();
        if waited.contains(event) {
            let next = format!("e{}", names.len());
            let name = names.entry(event.to_owned()).or_insert(next);
            lines += &format!("{}\n", call.replace(&format!("{event}#"), &format!("{name}#")));
        }
    }
    lines
}

#[test]
fn chain_on_one_stream() {
    let Some(calls) = calls(|m| {
        let [s] = streams(m);
        let x = upload(m, &s, &[1.0, -2.0]);
        let y = call(m, "relu", &[&x], &s);
        let z = call(m, "add", &[&y, &x], &s);
        move || assert_eq!(read(&z).unwrap(), [2.0, -2.0])
    }) else {
        return;
    };
    insta::assert_snapshot!(calls, @r"
    cuMemAlloc_v2(512) = m0
    cuMemHostAlloc(512, 1) = h0
    cuStreamCreateWithPriority(0) = s0
    cuEventRecord(e0#1, s0)
    cuStreamCreateWithPriority(-5) = s1
    cuStreamWaitEvent(s1, e0#1)
    cuMemcpyAsync(m0 <- h0, 8, s1)
    cuMemAlloc_v2(512) = m1
    cuEventRecord(e1#1, s1)
    cuStreamCreateWithPriority(0) = s2
    cuStreamWaitEvent(s2, e1#1)
    cuModuleLoadData() = k0
    cuModuleGetFunction(k0, ms_relu__f32)
    cuLaunchKernel(ms_relu__f32, s2)
    cuMemAlloc_v2(512) = m2
    cuModuleLoadData() = k1
    cuModuleGetFunction(k1, ms_add__f32)
    cuLaunchKernel(ms_add__f32, s2)
    ");
}

#[test]
fn diamond() {
    let Some(calls) = calls(|m| {
        let s: [Stream; 4] = streams(m);
        let x = upload(m, &s[0], &[1.0, -2.0]);
        let a = call(m, "mul", &[&x, &x], &s[0]);
        let b = call(m, "relu", &[&a], &s[1]);
        let c = call(m, "add", &[&a, &a], &s[2]);
        let d = call(m, "sub", &[&c, &b], &s[3]);
        move || assert_eq!(read(&d).unwrap(), [1.0, 4.0])
    }) else {
        return;
    };
    insta::assert_snapshot!(calls, @r"
    cuMemAlloc_v2(512) = m0
    cuMemHostAlloc(512, 1) = h0
    cuStreamCreateWithPriority(0) = s0
    cuEventRecord(e0#1, s0)
    cuStreamCreateWithPriority(-5) = s1
    cuStreamWaitEvent(s1, e0#1)
    cuMemcpyAsync(m0 <- h0, 8, s1)
    cuMemAlloc_v2(512) = m1
    cuEventRecord(e1#1, s1)
    cuStreamCreateWithPriority(0) = s2
    cuStreamWaitEvent(s2, e1#1)
    cuModuleLoadData() = k0
    cuModuleGetFunction(k0, ms_mul__f32)
    cuLaunchKernel(ms_mul__f32, s2)
    cuMemAlloc_v2(512) = m2
    cuEventRecord(e2#1, s2)
    cuStreamCreateWithPriority(0) = s3
    cuStreamWaitEvent(s3, e2#1)
    cuModuleLoadData() = k1
    cuModuleGetFunction(k1, ms_relu__f32)
    cuLaunchKernel(ms_relu__f32, s3)
    cuMemAlloc_v2(512) = m3
    cuStreamCreateWithPriority(0) = s4
    cuStreamWaitEvent(s4, e2#1)
    cuModuleLoadData() = k2
    cuModuleGetFunction(k2, ms_add__f32)
    cuLaunchKernel(ms_add__f32, s4)
    cuMemAlloc_v2(512) = m4
    cuEventRecord(e3#1, s3)
    cuStreamCreateWithPriority(0) = s5
    cuStreamWaitEvent(s5, e3#1)
    cuEventRecord(e4#1, s4)
    cuStreamWaitEvent(s5, e4#1)
    cuModuleLoadData() = k3
    cuModuleGetFunction(k3, ms_sub__f32)
    cuLaunchKernel(ms_sub__f32, s5)
    ");
}

#[test]
fn fan_out() {
    let Some(calls) = calls(|m| {
        let s: [Stream; 4] = streams(m);
        let x = upload(m, &s[0], &[1.0, -2.0]);
        let y = call(m, "relu", &[&x], &s[0]);
        let out = [1, 2, 3].map(|k| call(m, "add", &[&y, &y], &s[k]));
        move || out.iter().for_each(|z| assert_eq!(read(z).unwrap(), [2.0, 0.0]))
    }) else {
        return;
    };
    insta::assert_snapshot!(calls, @r"
    cuMemAlloc_v2(512) = m0
    cuMemHostAlloc(512, 1) = h0
    cuStreamCreateWithPriority(0) = s0
    cuEventRecord(e0#1, s0)
    cuStreamCreateWithPriority(-5) = s1
    cuStreamWaitEvent(s1, e0#1)
    cuMemcpyAsync(m0 <- h0, 8, s1)
    cuMemAlloc_v2(512) = m1
    cuEventRecord(e1#1, s1)
    cuStreamCreateWithPriority(0) = s2
    cuStreamWaitEvent(s2, e1#1)
    cuModuleLoadData() = k0
    cuModuleGetFunction(k0, ms_relu__f32)
    cuLaunchKernel(ms_relu__f32, s2)
    cuMemAlloc_v2(512) = m2
    cuEventRecord(e2#1, s2)
    cuStreamCreateWithPriority(0) = s3
    cuStreamWaitEvent(s3, e2#1)
    cuModuleLoadData() = k1
    cuModuleGetFunction(k1, ms_add__f32)
    cuLaunchKernel(ms_add__f32, s3)
    cuMemAlloc_v2(512) = m3
    cuStreamCreateWithPriority(0) = s4
    cuStreamWaitEvent(s4, e2#1)
    cuLaunchKernel(ms_add__f32, s4)
    cuMemAlloc_v2(512) = m4
    cuStreamCreateWithPriority(0) = s5
    cuStreamWaitEvent(s5, e2#1)
    cuLaunchKernel(ms_add__f32, s5)
    ");
}

#[test]
fn write_after_reads() {
    let Some(calls) = calls(|m| {
        let s: [Stream; 3] = streams(m);
        let x = upload(m, &s[0], &[1.0, -2.0]);
        let [y, z] = [1, 2].map(|k| call(m, "relu", &[&x], &s[k]));
        m.call("add_", &[&x, &x]).on(&s[0]).unwrap();
        move || {
            assert_eq!(read(&x).unwrap(), [2.0, -4.0]);
            assert_eq!((read(&y).unwrap(), read(&z).unwrap()), (vec![1.0, 0.0], vec![1.0, 0.0]));
        }
    }) else {
        return;
    };
    insta::assert_snapshot!(calls, @r"
    cuMemAlloc_v2(512) = m0
    cuMemHostAlloc(512, 1) = h0
    cuStreamCreateWithPriority(0) = s0
    cuEventRecord(e0#1, s0)
    cuStreamCreateWithPriority(-5) = s1
    cuStreamWaitEvent(s1, e0#1)
    cuMemcpyAsync(m0 <- h0, 8, s1)
    cuMemAlloc_v2(512) = m1
    cuEventRecord(e1#1, s1)
    cuStreamCreateWithPriority(0) = s2
    cuStreamWaitEvent(s2, e1#1)
    cuModuleLoadData() = k0
    cuModuleGetFunction(k0, ms_relu__f32)
    cuLaunchKernel(ms_relu__f32, s2)
    cuMemAlloc_v2(512) = m2
    cuStreamCreateWithPriority(0) = s3
    cuStreamWaitEvent(s3, e1#1)
    cuLaunchKernel(ms_relu__f32, s3)
    cuEventRecord(e2#1, s2)
    cuStreamCreateWithPriority(0) = s4
    cuStreamWaitEvent(s4, e2#1)
    cuEventRecord(e3#1, s3)
    cuStreamWaitEvent(s4, e3#1)
    cuModuleLoadData() = k1
    cuModuleGetFunction(k1, ms_add__f32)
    cuLaunchKernel(ms_add__f32, s4)
    ");
}

#[test]
fn record_and_wait_back() {
    let Some(calls) = calls(|m| {
        let s: [Stream; 2] = streams(m);
        let x = upload(m, &s[0], &[1.0, -2.0]);
        let y = call(m, "relu", &[&x], &s[1]);
        let z = call(m, "add", &[&y, &x], &s[0]);
        move || assert_eq!(read(&z).unwrap(), [2.0, -2.0])
    }) else {
        return;
    };
    insta::assert_snapshot!(calls, @r"
    cuMemAlloc_v2(512) = m0
    cuMemHostAlloc(512, 1) = h0
    cuStreamCreateWithPriority(0) = s0
    cuEventRecord(e0#1, s0)
    cuStreamCreateWithPriority(-5) = s1
    cuStreamWaitEvent(s1, e0#1)
    cuMemcpyAsync(m0 <- h0, 8, s1)
    cuMemAlloc_v2(512) = m1
    cuEventRecord(e1#1, s1)
    cuStreamCreateWithPriority(0) = s2
    cuStreamWaitEvent(s2, e1#1)
    cuModuleLoadData() = k0
    cuModuleGetFunction(k0, ms_relu__f32)
    cuLaunchKernel(ms_relu__f32, s2)
    cuMemAlloc_v2(512) = m2
    cuEventRecord(e2#1, s2)
    cuStreamCreateWithPriority(0) = s3
    cuStreamWaitEvent(s3, e2#1)
    cuModuleLoadData() = k1
    cuModuleGetFunction(k1, ms_add__f32)
    cuLaunchKernel(ms_add__f32, s3)
    ");
}

#[test]
fn host_to_device_and_back() {
    let Some(calls) = calls(|m| {
        let to = m.stream(&StreamKey::new(CUDA, StreamType::HOST2DEVICE, 0)).unwrap();
        let [on] = streams(m);
        let from = m.stream(&StreamKey::new(CUDA, StreamType::DEVICE2HOST, 0)).unwrap();
        let host = m.compute(&DeviceId::cpu(0), 0).unwrap();
        let x = upload(m, &host, &[1.0, -2.0]);
        let staged = call(m, "relu", &[&x], &host);
        let there = call(m, "copy", &[&staged], &to);
        let y = call(m, "add", &[&there, &there], &on);
        let back = call(m, "copy", &[&y], &from);
        let z = call(m, "add", &[&back, &x], &host);
        move || assert_eq!(read(&z).unwrap(), [3.0, -2.0])
    }) else {
        return;
    };
    insta::assert_snapshot!(calls, @r"
    cuMemAlloc_v2(512) = m0
    cuStreamCreateWithPriority(-5) = s0
    cuMemHostAlloc(4194304, 1) = h0
    cuLaunchHostFunc(s0)
    cuMemcpyAsync(m0 <- h0, 8, s0)
    cuMemAlloc_v2(512) = m1
    cuEventRecord(e0#1, s0)
    cuStreamCreateWithPriority(0) = s1
    cuStreamWaitEvent(s1, e0#1)
    cuModuleLoadData() = k0
    cuModuleGetFunction(k0, ms_add__f32)
    cuLaunchKernel(ms_add__f32, s1)
    cuEventRecord(e1#1, s1)
    cuStreamCreateWithPriority(-5) = s2
    cuStreamWaitEvent(s2, e1#1)
    cuMemHostAlloc(4194304, 1) = h1
    cuMemcpyAsync(h1 <- m1, 8, s2)
    cuLaunchHostFunc(s2)
    ");
}

/// The driver's numbers fall as priorities rise, from 0 to -5.
#[test]
fn priorities_of_streams() {
    let Some(calls) = calls(|m| {
        for priority in [2, 100, -3] {
            let options = StreamOptions::default().priority(priority);
            let s = m.create_stream_with(&CUDA, options).unwrap();
            m.call("full", &[]).attr("shape", vec![1i64]).attr("value", 0.0).on(&s).unwrap();
        }
        || ()
    }) else {
        return;
    };
    let created: Vec<&str> = calls.lines().filter(|c| c.starts_with("cuStreamCreate")).collect();
    let expected = ["(-2) = s0", "(-5) = s1", "(0) = s2"];
    assert_eq!(created, expected.map(|end| format!("cuStreamCreateWithPriority{end}")));
}
