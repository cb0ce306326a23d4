//! Random programs of streams, events, copies, host reads and memory that is freed and used again, of
//! whose timelines random parts are forgotten. A proof and a race are never wrong against the full
//! knowledge. With all that a profiler's file can have, nothing is undecided but reuse of memory;
//! with a recording of streams, nothing is.

use std::collections::HashMap;
use std::fmt::Write;

use millstream_timelines::verdict::{Status, verdict};
use millstream_timelines::{Options, read, read_bytes};
use proptest::prelude::*;

const STREAMS: usize = 3;
const DEVICE_TENSORS: u32 = 3;
const HOST_TENSORS: u32 = 2;

#[derive(Clone, Debug)]
enum Step {
    /// Reads one tensor and writes another on a stream.
    Kernel {
        stream: usize,
        reads: u32,
        writes: u32,
    },
    /// Copies to or from pinned memory.
    Copy {
        stream: usize,
        device: u32,
        host: u32,
        to_host: bool,
    },
    /// A thread's own op on the host's memory.
    Host {
        host: u32,
        writes: bool,
    },
    Record {
        stream: usize,
        event: usize,
    },
    Wait {
        stream: usize,
        event: usize,
    },
    SyncEvent {
        event: usize,
    },
    SyncStream {
        stream: usize,
    },
    SyncDevice,
    /// Frees a tensor's memory, which the allocator then gives to another one.
    Renew {
        device: u32,
    },
    /// Names a stream that uses a tensor, for which the allocator waits.
    Name {
        device: u32,
        stream: usize,
    },
}

/// What a file does not say of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Forgotten {
    Nothing,
    /// The record of a wait; the tensors of an op.
    Part,
    /// Also the stream of a wait.
    All,
}

fn step() -> impl Strategy<Value = Step> {
    let (stream, event) = (0..STREAMS, 0..3usize);
    let (device, host) = (0..DEVICE_TENSORS, 0..HOST_TENSORS);
    prop_oneof![
        6 => (stream.clone(), device.clone(), device.clone())
            .prop_map(|(stream, reads, writes)| Step::Kernel { stream, reads, writes }),
        2 => (stream.clone(), device.clone(), host.clone(), any::<bool>())
            .prop_map(|(stream, device, host, to_host)| Step::Copy { stream, device, host, to_host }),
        2 => (host, any::<bool>()).prop_map(|(host, writes)| Step::Host { host, writes }),
        3 => (stream.clone(), event.clone()).prop_map(|(stream, event)| Step::Record { stream, event }),
        4 => (stream.clone(), event.clone()).prop_map(|(stream, event)| Step::Wait { stream, event }),
        1 => event.prop_map(|event| Step::SyncEvent { event }),
        1 => stream.clone().prop_map(|stream| Step::SyncStream { stream }),
        1 => Just(Step::SyncDevice),
        2 => device.clone().prop_map(|device| Step::Renew { device }),
        1 => (device, stream).prop_map(|(device, stream)| Step::Name { device, stream }),
    ]
}

fn forgotten() -> impl Strategy<Value = Forgotten> {
    prop_oneof![4 => Just(Forgotten::Nothing), 1 => Just(Forgotten::Part), 1 => Just(Forgotten::All)]
}

/// Returns whether two conflicting uses of a program are unordered, by a graph of all that orders:
/// uses of the same memory, or only those of the same tensor.
fn races(program: &[Step], of_memory: bool) -> bool {
    // Node 2k is the host's part of step k, node 2k + 1 the device's.
    let count = 2 * program.len();
    let mut after = vec![vec![false; count]; count];
    let come_after = |after: &mut Vec<Vec<bool>>, later: usize, earlier: usize| {
        let known: Vec<usize> = (0..count).filter(|&k| k == earlier || after[earlier][k]).collect();
        known.into_iter().for_each(|k| after[later][k] = true);
    };
    let mut last: [Option<usize>; STREAMS] = [None; STREAMS];
    let mut events: HashMap<usize, usize> = HashMap::new();
    let mut uses: Vec<(usize, (bool, u32), bool)> = Vec::new();
    // The number of each tensor's memory, or of its content, and the streams that are named for it.
    let mut current: Vec<u32> = (0..DEVICE_TENSORS).collect();
    let mut named: HashMap<u32, Vec<usize>> = HashMap::new();
    for (k, step) in program.iter().enumerate() {
        let (host, device) = (2 * k, 2 * k + 1);
        if k > 0 {
            come_after(&mut after, host, host - 2);
        }
        let stream = match *step {
            Step::Kernel { stream, .. } | Step::Copy { stream, .. } => Some(stream),
            Step::Record { stream, .. } | Step::Wait { stream, .. } => Some(stream),
            _ => None,
        };
        if let Some(stream) = stream {
            come_after(&mut after, device, host);
            if let Some(before) = last[stream].replace(device) {
                come_after(&mut after, device, before);
            }
        }
        match *step {
            Step::Kernel { reads, writes, .. } => {
                let [reads, writes] = [reads, writes].map(|tensor| current[tensor as usize]);
                uses.extend([(device, (false, reads), false), (device, (false, writes), true)]);
            }
            Step::Copy { device: tensor, host, to_host, .. } => {
                let tensor = current[tensor as usize];
                uses.extend([(device, (false, tensor), !to_host), (device, (true, host), to_host)]);
            }
            Step::Host { host: tensor, writes } => uses.push((host, (true, tensor), writes)),
            Step::Record { event, .. } => drop(events.insert(event, device)),
            Step::Wait { event, .. } => {
                if let Some(&record) = events.get(&event) {
                    come_after(&mut after, device, record);
                }
            }
            Step::SyncEvent { event } => {
                if let Some(&record) = events.get(&event) {
                    come_after(&mut after, host, record);
                }
            }
            Step::SyncStream { stream } => {
                last[stream].into_iter().for_each(|node| come_after(&mut after, host, node));
            }
            Step::SyncDevice => {
                last.iter().flatten().for_each(|&node| come_after(&mut after, host, node));
            }
            Step::Renew { device } => {
                for stream in named.remove(&device).unwrap_or_default() {
                    last[stream].into_iter().for_each(|node| come_after(&mut after, host, node));
                }
                if !of_memory {
                    current[device as usize] += DEVICE_TENSORS;
                }
            }
            Step::Name { device, stream } => named.entry(device).or_default().push(stream),
        }
    }
    uses.iter().enumerate().any(|(k, (a, tensor, writes))| {
        uses[..k].iter().any(|(b, other, also)| {
            tensor == other && (*writes || *also) && a != b && !after[*a][*b] && !after[*b][*a]
        })
    })
}

/// Writes the timeline and the execution trace of a program, without what is forgotten.
fn files(program: &[Step], forgotten: &[Forgotten]) -> (String, String) {
    let (mut events, mut nodes) = (Vec::new(), Vec::new());
    let mut ended = [0u64; STREAMS];
    let mut recorded: HashMap<usize, (usize, usize, u64)> = HashMap::new();
    let mut renewed = [0; DEVICE_TENSORS as usize];
    let mut named = [false; DEVICE_TENSORS as usize];
    let mut now = 0;
    for (k, (step, &forgotten)) in program.iter().zip(forgotten).enumerate() {
        let call = |name: &str, from: u64, lasts: u64| {
            format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":1,"tid":1,"ts":{from},"dur":{lasts},"args":{{"correlation":{}}}}}"#,
                k + 1
            )
        };
        let op = |name: &str, from: u64, lasts: u64| {
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{from},"dur":{lasts},"args":{{"Record function id":{}}}}}"#,
                k + 1
            )
        };
        let work = |category: &str, name: &str, stream: usize, from: u64| {
            format!(
                r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":{stream},"ts":{from},"dur":30,"args":{{"device":0,"context":1,"stream":{stream},"correlation":{}}}}}"#,
                k + 1
            )
        };
        let sync = |name: &str, stream: i64, record: Option<(usize, usize, u64)>| {
            let (source, call) =
                record.map_or((-1, -1), |(stream, k, _)| (stream as i64, k as i64 + 1));
            format!(
                r#"{{"ph":"X","cat":"cuda_sync","name":"{name}","pid":0,"tid":{stream},"ts":{now},"dur":0,"args":{{"device":0,"context":1,"stream":{stream},"correlation":{},"wait_on_stream":{source},"wait_on_cuda_event_record_corr_id":{call},"wait_on_cuda_event_id":-1}}}}"#,
                k + 1
            )
        };
        let tensor = |on_host: bool, tensor: u32| {
            let renewed = if on_host { 0 } else { renewed[tensor as usize] };
            let id = 2 * (tensor + 100 * renewed + if on_host { 50 } else { 10 });
            let device = if on_host { "cpu" } else { "cuda:0" };
            format!(r#"[{id},{},0,6,4,"{device}"]"#, id + 1)
        };
        let mut node = |name: &str, schema: &str, tensors: &[String]| {
            let each = |text: &str| vec![text; tensors.len()].join(",");
            nodes.push(format!(
                r#"{{"id":{},"name":"{name}","ctrl_deps":1,"inputs":{{"values":[{}],"shapes":[{}],"types":[{}],"strides":[{}]}},"outputs":{{"values":[],"shapes":[],"types":[],"strides":[]}},"attrs":[{{"name":"rf_id","type":"uint64","value":{}}},{{"name":"tid","type":"uint64","value":1}},{{"name":"op_schema","type":"string","value":"{schema}"}}]}}"#,
                k + 2,
                tensors.join(","),
                each("[6]"),
                each(r#""Tensor(float)""#),
                each("[1]"),
                k + 1,
            ));
        };
        match *step {
            Step::Kernel { stream, reads, writes } => {
                let start = ended[stream].max(now + 3);
                ended[stream] = start + 30;
                events.push(op("aten::mine", now, 8));
                events.push(call("cudaLaunchKernel", now + 1, 2));
                events.push(work("kernel", "kernel", stream, start));
                if forgotten == Forgotten::Nothing {
                    let tensors = [tensor(false, writes), tensor(false, reads)];
                    node("aten::mine", "aten::mine(Tensor(a!) self, Tensor other) -> ()", &tensors);
                }
            }
            Step::Copy { stream, device, host, to_host } => {
                let start = ended[stream].max(now + 3);
                ended[stream] = start + 30;
                let name = match to_host {
                    true => "Memcpy DtoH (Device -> Pinned)",
                    false => "Memcpy HtoD (Pinned -> Device)",
                };
                events.push(op("aten::copy_", now, 8));
                events.push(call("cudaMemcpyAsync", now + 1, 2));
                events.push(work("gpu_memcpy", name, stream, start));
                if forgotten == Forgotten::Nothing {
                    let mut tensors = [tensor(true, host), tensor(false, device)];
                    if !to_host {
                        tensors.reverse();
                    }
                    node("aten::copy_", "aten::copy_(Tensor(a!) self, Tensor src) -> ()", &tensors);
                }
            }
            Step::Host { host, writes } => {
                events.push(op("aten::host", now, 8));
                let schema = match writes {
                    true => "aten::host(Tensor(a!) self) -> ()",
                    false => "aten::host(Tensor self) -> ()",
                };
                if forgotten == Forgotten::Nothing {
                    node("aten::host", schema, &[tensor(true, host)]);
                }
            }
            Step::Record { stream, event } => {
                events.push(call("cudaEventRecord", now + 1, 2));
                recorded.insert(event, (stream, k, ended[stream]));
            }
            Step::Wait { stream, event } => {
                let Some(&record) = recorded.get(&event) else { continue };
                events.push(call("cudaStreamWaitEvent", now + 1, 2));
                ended[stream] = ended[stream].max(record.2);
                let known = Some(record).filter(|_| forgotten == Forgotten::Nothing);
                if forgotten != Forgotten::All {
                    events.push(sync("Stream Wait Event", stream as i64, known));
                }
            }
            Step::SyncEvent { event } => {
                let Some(&record) = recorded.get(&event) else { continue };
                let lasts = record.2.saturating_sub(now) + 5;
                events.push(call("cudaEventSynchronize", now + 1, lasts));
                if forgotten == Forgotten::Nothing {
                    events.push(sync("Event Sync", -1, Some(record)));
                }
                now += lasts;
            }
            Step::SyncStream { stream } => {
                let lasts = ended[stream].saturating_sub(now) + 5;
                events.push(call("cudaStreamSynchronize", now + 1, lasts));
                if forgotten == Forgotten::Nothing {
                    events.push(sync("Stream Sync", stream as i64, None));
                }
                now += lasts;
            }
            Step::SyncDevice => {
                let lasts = ended.iter().max().unwrap().saturating_sub(now) + 5;
                events.push(call("cudaDeviceSynchronize", now + 1, lasts));
                now += lasts;
            }
            Step::Renew { device } => {
                renewed[device as usize] += 1;
                if std::mem::take(&mut named[device as usize]) {
                    // The allocator asks whether the uses on other streams are over.
                    events.push(call("cudaEventRecordWithFlags", now + 1, 2));
                    events.push(call("cudaEventQuery", now + 4, 2).replace("correlation", "none"));
                }
            }
            Step::Name { device, .. } => named[device as usize] = true,
        }
        now += 10;
    }
    let mut trace = String::new();
    write!(trace, r#"{{"schema":"1.1.1","pid":1,"nodes":[{}]}}"#, nodes.join(",")).unwrap();
    (format!(r#"{{"traceEvents":[{}]}}"#, events.join(",\n")), trace)
}

/// Writes the recording of a program's streams.
fn streams(program: &[Step]) -> String {
    let mut storages: Vec<String> = Vec::new();
    let mut storage = |device: &str, address: u32| {
        storages.push(format!(r#"{{"device":"{device}","address":{address},"bytes":64}}"#));
        storages.len() - 1
    };
    let address = |tensor: u32| 4096 * (tensor + 1);
    let mut current: Vec<usize> =
        (0..DEVICE_TENSORS).map(|tensor| storage("cuda:0", address(tensor))).collect();
    let on_host: Vec<usize> =
        (0..HOST_TENSORS).map(|tensor| storage("cpu", address(tensor))).collect();
    let mut recorded: HashMap<usize, usize> = HashMap::new();
    let mut entries = Vec::new();
    for (k, step) in program.iter().enumerate() {
        let mut entry = |text: String| entries.push(format!(r#"{{"at":0,"kind":{text}}}"#));
        let mut op = |op: usize, stream: Option<usize>, inputs: &[usize]| {
            let inputs: Vec<String> =
                inputs.iter().enumerate().map(|(k, t)| format!("[{k},{t}]")).collect();
            let stream = stream.map_or_else(String::new, |stream| format!(r#""stream":{stream},"#));
            entry(format!(r#""op","op":{op},{stream}"inputs":[{}]"#, inputs.join(",")));
        };
        match *step {
            Step::Kernel { stream, reads, writes } => {
                op(0, Some(stream), &[current[writes as usize], current[reads as usize]]);
            }
            Step::Copy { stream, device, host, to_host } => {
                let mut both = [on_host[host as usize], current[device as usize]];
                if !to_host {
                    both.reverse();
                }
                op(0, Some(stream), &both);
            }
            Step::Host { host, writes } => {
                op(1 + usize::from(writes), None, &[on_host[host as usize]])
            }
            Step::Record { stream, event } => {
                recorded.insert(event, k);
                entry(format!(r#""record","stream":{stream},"event":{k}"#));
            }
            Step::Wait { stream, event } => {
                let event =
                    recorded.get(&event).map_or_else(|| "null".to_owned(), usize::to_string);
                entry(format!(r#""wait","stream":{stream},"event":{event}"#));
            }
            Step::SyncEvent { event } => {
                let event =
                    recorded.get(&event).map_or_else(|| "null".to_owned(), usize::to_string);
                entry(format!(r#""sync_event","event":{event}"#));
            }
            Step::SyncStream { stream } => entry(format!(r#""sync_stream","stream":{stream}"#)),
            Step::SyncDevice => entry(r#""sync_device","device":"cuda:0""#.to_owned()),
            Step::Renew { device } => {
                let (own, stream) = (&mut current[device as usize], device as usize % STREAMS);
                entry(format!(r#""free","storage":{own}"#));
                *own = storage("cuda:0", address(device));
                entry(format!(r#""alloc","storage":{own},"stream":{stream}"#));
            }
            Step::Name { device, stream } => {
                let own = current[device as usize];
                entry(format!(r#""use","storage":{own},"stream":{stream}"#));
            }
        }
    }
    let tensor = |storage: usize| {
        format!(r#"{{"storage":{storage},"dtype":"f32","shape":[16],"strides":[1],"offset":0}}"#)
    };
    let tensors: Vec<String> = (0..storages.len()).map(tensor).collect();
    let stream = |k: usize| format!(r#"{{"device":"cuda:0","handle":{k}}}"#);
    let streams: Vec<String> = (0..STREAMS).map(stream).collect();
    format!(
        r#"{{"millstream_streams":1,"torch":"2","ops":["aten::mine(Tensor(a!) self, Tensor other) -> ()",
        "aten::host(Tensor self) -> ()","aten::host(Tensor(a!) self) -> ()"],"stacks":[[]],
        "streams":[{}],"storages":[{}],"tensors":[{}],"entries":[{}]}}"#,
        streams.join(","),
        storages.join(","),
        tensors.join(","),
        entries.join(",\n"),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn proofs_and_races_hold_against_the_full_knowledge(
        program in proptest::collection::vec((step(), forgotten()), 1..24),
    ) {
        let (program, forgotten): (Vec<Step>, Vec<Forgotten>) = program.into_iter().unzip();
        let [truth, of_tensors] = [true, false].map(|of_memory| races(&program, of_memory));
        let folder = tempfile::tempdir().unwrap();
        let [timeline, trace] = ["k.json", "et.json"].map(|name| folder.path().join(name));
        let decide = |forgotten: &[Forgotten]| {
            let (events, nodes) = files(&program, forgotten);
            std::fs::write(&timeline, events).unwrap();
            std::fs::write(&trace, nodes).unwrap();
            let options = Options { trace: Some(trace.clone()), partial: true, ..Options::default() };
            // Nothing is left of some programs.
            let found = read(&timeline, &options).ok()?;
            verdict(&found).ok()
        };
        if let Some(found) = decide(&forgotten) {
            prop_assert!(found.status != Status::Proven || !truth, "{}", found.line());
            prop_assert!(found.status != Status::Race || truth, "{}: {:?}", found.line(), found.races);
        }
        // What an event that is asked for answers, no file says.
        let asks = program.iter().any(|step| matches!(step, Step::Name { .. }));
        let all = vec![Forgotten::Nothing; program.len()];
        if let Some(found) = decide(&all).filter(|_| !asks) {
            let line = found.line();
            prop_assert!(found.undecided.is_empty(), "{line}: {:?}", found.undecided);
            prop_assert_eq!(found.status == Status::Race, of_tensors, "{}", line);
            prop_assert!(found.status != Status::Proven || !truth, "{}", line);
            let parts = found.unknown.parts();
            prop_assert!(parts.iter().all(|part| part == "reuse of memory is not known"), "{}", line);
        }
        // A program without ops is refused.
        if let Ok(found) = read_bytes("streams.json", streams(&program).into_bytes()) {
            let found = verdict(&found).unwrap();
            let expected = if truth { Status::Race } else { Status::Proven };
            prop_assert_eq!(found.status, expected, "{}", found.line());
        }
    }
}
