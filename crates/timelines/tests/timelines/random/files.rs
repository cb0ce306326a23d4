//! Random programs as a profiler, PyTorch's observer and our recorder write them.

use std::collections::HashMap;
use std::fmt::Write;

use super::{DEVICE_TENSORS, Forgotten, HOST_TENSORS, STREAMS, Step};

/// Writes the timeline and the execution trace of a program, without what is forgotten.
pub(super) fn files(program: &[Step], forgotten: &[Forgotten]) -> (String, String) {
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
pub(super) fn streams(program: &[Step]) -> String {
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
