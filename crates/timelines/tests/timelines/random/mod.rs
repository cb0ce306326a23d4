//! Random programs of streams, events, copies, host reads and memory that is used again, of
//! whose timelines random parts are forgotten. A proof and a race are never wrong against the full
//! knowledge. With all that a profiler's file can have, nothing is undecided but reuse of memory;
//! with a recording of streams, nothing is.

mod files;

use std::collections::HashMap;

use millstream_timelines::verdict::{Status, verdict};
use millstream_timelines::{Options, read, read_bytes};
use proptest::prelude::*;

use files::{files, streams};

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
        2 => (stream.clone(), device.clone(), host.clone(), any::<bool>()).prop_map(
            |(stream, device, host, to_host)| Step::Copy { stream, device, host, to_host }
        ),
        2 => (host, any::<bool>()).prop_map(|(host, writes)| Step::Host { host, writes }),
        3 => (stream.clone(), event.clone())
            .prop_map(|(stream, event)| Step::Record { stream, event }),
        4 => (stream.clone(), event.clone())
            .prop_map(|(stream, event)| Step::Wait { stream, event }),
        1 => event.prop_map(|event| Step::SyncEvent { event }),
        1 => stream.clone().prop_map(|stream| Step::SyncStream { stream }),
        1 => Just(Step::SyncDevice),
        2 => device.clone().prop_map(|device| Step::Renew { device }),
        1 => (device, stream).prop_map(|(device, stream)| Step::Name { device, stream }),
    ]
}

fn forgotten() -> impl Strategy<Value = Forgotten> {
    let [nothing, part, all] = [Forgotten::Nothing, Forgotten::Part, Forgotten::All].map(Just);
    prop_oneof![4 => nothing, 1 => part, 1 => all]
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
            let trace = Some(trace.clone());
            let options = Options { trace, partial: true, ..Options::default() };
            // Nothing is left of some programs.
            let found = read(&timeline, &options).ok()?;
            verdict(&found).ok()
        };
        if let Some(found) = decide(&forgotten) {
            prop_assert!(found.status != Status::Proven || !truth, "{}", found.line());
            let (line, races) = (found.line(), &found.races);
            prop_assert!(found.status != Status::Race || truth, "{}: {:?}", line, races);
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
            let is_reuse = |part: &String| part == "reuse of memory is not known";
            prop_assert!(parts.iter().all(is_reuse), "{}", line);
        }
        // A program without ops is refused.
        if let Ok(found) = read_bytes("streams.json", streams(&program).into_bytes()) {
            let found = verdict(&found).unwrap();
            let expected = if truth { Status::Race } else { Status::Proven };
            prop_assert_eq!(found.status, expected, "{}", found.line());
        }
    }
}
