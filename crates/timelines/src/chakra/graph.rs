//! From nodes with what each comes after to a profile.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use millstream_profile::Interned;
use millstream_profile::model::{Instruction, NONE, Profile, Role, Source, Stream, Times, Wait};

use super::messages::Node;

/// A stream of the profile, as the nodes name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum On {
    Thread(i64),
    Stream(i64),
    Kind(&'static str),
}

impl On {
    fn of(node: &Node) -> On {
        let attr = |name: &str| node.attr.iter().find(|a| a.name == name).and_then(|a| a.whole());
        let is_host = attr("is_cpu_op").map(|value| value != 0);
        if let Some(stream) = attr("stream").filter(|_| is_host != Some(true)) {
            return On::Stream(stream);
        }
        if is_host == Some(true) {
            return On::Thread(attr("tid").unwrap_or(0));
        }
        On::Kind(match node.kind {
            1 => "metadata",
            2 | 3 => "memory",
            5..=7 => "communication",
            _ => "compute",
        })
    }

    fn stream(&self) -> Stream {
        let (name, device, thread) = match self {
            On::Thread(number) => (format!("thread {number}"), "host", true),
            On::Stream(number) => (format!("stream {number}"), "device", false),
            On::Kind(kind) => ((*kind).to_owned(), "device", false),
        };
        Stream { name, device: device.to_owned(), thread, by_device: !thread, ..Stream::default() }
    }
}

/// What the nodes come after, by position.
struct Dependences {
    before: Vec<Vec<u32>>,
    /// How many name a node that the file lacks.
    absent: usize,
}

fn dependences(nodes: &[Node]) -> Result<Dependences, String> {
    let mut by_id: HashMap<u64, u32> = HashMap::with_capacity(nodes.len());
    for (k, node) in nodes.iter().enumerate() {
        if by_id.insert(node.id, k as u32).is_some() {
            return Err(format!("two nodes have the id {}", node.id));
        }
    }
    let mut absent = 0;
    let one = |(k, node): (usize, &Node)| {
        let ids = node.ctrl_deps.iter().chain(&node.data_deps);
        let mut before: Vec<u32> = ids
            .filter_map(|id| {
                let found = by_id.get(id).copied();
                absent += usize::from(found.is_none());
                found
            })
            .filter(|before| *before as usize != k)
            .collect();
        before.sort_unstable();
        before.dedup();
        before
    };
    let before = nodes.iter().enumerate().map(one).collect();
    Ok(Dependences { before, absent })
}

/// Returns the nodes in an order in which each follows what it comes after, earlier ones first, and
/// how many are on a cycle: these come last.
fn order(nodes: &[Node], before: &[Vec<u32>]) -> (Vec<u32>, usize) {
    let mut after: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    let mut left: Vec<usize> = before.iter().map(Vec::len).collect();
    for (k, before) in before.iter().enumerate() {
        before.iter().for_each(|&earlier| after[earlier as usize].push(k as u32));
    }
    let key = |k: u32| Reverse((nodes[k as usize].start_time_micros, nodes[k as usize].id, k));
    let free = (0..nodes.len() as u32).filter(|&k| left[k as usize] == 0);
    let mut free: BinaryHeap<_> = free.map(key).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse((.., k))) = free.pop() {
        order.push(k);
        for &later in &after[k as usize] {
            left[later as usize] -= 1;
            if left[later as usize] == 0 {
                free.push(key(later));
            }
        }
    }
    let cyclic = nodes.len() - order.len();
    let mut rest: Vec<u32> = (0..nodes.len() as u32).filter(|&k| left[k as usize] > 0).collect();
    rest.sort_by_key(|&k| Reverse(key(k)));
    order.extend(rest);
    (order, cyclic)
}

/// Returns which of the dependences of each node need a wait: those on nodes of other streams which
/// nothing else of the node's stream, or before it in its list, comes after.
///
/// One stream is looked at after another, so that a number for each node suffices: how many of that
/// stream's nodes have ended when the node runs.
fn needed(order: &[u32], streams: &[u32], before: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let mut needed: Vec<Vec<u32>> = vec![Vec::new(); before.len()];
    let mut seqs = vec![0u32; before.len()];
    // The node before each on its stream, and the part of the order in which a stream matters.
    let mut previous = vec![NONE; before.len()];
    let mut tails: HashMap<u32, (u32, u32)> = HashMap::new();
    let mut parts: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for (at, &k) in order.iter().enumerate() {
        let stream = streams[k as usize];
        let (node, seq) = tails.entry(stream).or_insert((NONE, 0));
        (previous[k as usize], *node, *seq) = (*node, k, *seq + 1);
        seqs[k as usize] = *seq;
        for source in before[k as usize].iter().map(|&earlier| streams[earlier as usize]) {
            if source != stream {
                parts.entry(source).or_insert((at, at)).1 = at;
            }
        }
    }
    let mut known = vec![0u32; before.len()];
    for (source, (first, last)) in parts {
        let part = &order[first..=last];
        for &k in part {
            let own = streams[k as usize];
            let mut most = known.get(previous[k as usize] as usize).copied().unwrap_or(0);
            for &earlier in before[k as usize].iter().filter(|e| streams[**e as usize] != own) {
                let seq = seqs[earlier as usize];
                if streams[earlier as usize] == source {
                    if seq > most {
                        needed[k as usize].push(earlier);
                    }
                    most = most.max(seq);
                } else {
                    most = most.max(known[earlier as usize]);
                }
            }
            known[k as usize] = most;
        }
        part.iter().for_each(|k| known[*k as usize] = 0);
    }
    needed.iter_mut().for_each(|own| own.sort_unstable());
    needed
}

/// Returns the profile of these nodes.
pub(super) fn profile(title: &str, nodes: Vec<Node>) -> Result<Profile, String> {
    let Dependences { mut before, absent } = dependences(&nodes)?;
    let (order, cyclic) = order(&nodes, &before);
    if cyclic > 0 {
        let mut at = vec![0; nodes.len()];
        order.iter().enumerate().for_each(|(k, node)| at[*node as usize] = k);
        for (k, before) in before.iter_mut().enumerate() {
            before.retain(|earlier| at[*earlier as usize] < at[k]);
        }
    }
    let has_times = nodes.iter().any(|node| node.start_time_micros > 0);
    let has_durations = nodes.iter().any(|node| node.duration_micros > 0);
    let mut streams: BTreeMap<On, u32> = nodes.iter().map(|node| (On::of(node), 0)).collect();
    let mut profile =
        Profile { title: title.to_owned(), source: Source::Imported, ..Profile::default() };
    for (k, (on, number)) in streams.iter_mut().enumerate() {
        *number = k as u32;
        profile.streams.push(on.stream());
    }
    let base = nodes.iter().filter(|n| n.duration_micros > 0 || n.start_time_micros > 0);
    let base = base.map(|node| node.start_time_micros).min().unwrap_or(0);
    let mut names = Interned::default();
    let wait_name = names.number_of("wait", &mut profile.names);
    let mut counts = vec![0u64; streams.len()];
    let mut ended = vec![0u64; streams.len()];
    let on: Vec<u32> = nodes.iter().map(|node| streams[&On::of(node)]).collect();
    let needed = needed(&order, &on, &before);
    // The instruction of each node.
    let mut made = vec![NONE; nodes.len()];
    for &k in &order {
        let node = &nodes[k as usize];
        let stream = on[k as usize];
        let own = stream as usize;
        let mut ready = ended[own];
        let mut open = Vec::new();
        for &earlier in &needed[k as usize] {
            let until = made[earlier as usize];
            let end = profile.instructions[until as usize].times.map_or(0, |times| times.end);
            counts[own] += 1;
            let begin = ready;
            ready = ready.max(end);
            let waiter = profile.instructions.len() as u32;
            profile.instructions.push(Instruction {
                name: wait_name,
                role: Role::Wait,
                stream,
                seq: counts[own],
                place: NONE,
                times: has_durations.then_some(Times { ready: begin, start: begin, end: ready }),
                parent: NONE,
                ..Instruction::default()
            });
            open.push(profile.waits.len());
            profile.waits.push(Wait { waiter, until, ..Wait::default() });
        }
        counts[own] += 1;
        let position = profile.instructions.len() as u32;
        let length = node.duration_micros.saturating_mul(1000);
        let start = match has_times {
            true => node.start_time_micros.saturating_sub(base).saturating_mul(1000),
            false => ready,
        };
        let end = start.saturating_add(length);
        // Waits of a recorded run end when the node begins, at the latest.
        for wait in open {
            let wait = &mut profile.waits[wait];
            wait.user = position;
            let waiter = &mut profile.instructions[wait.waiter as usize];
            if let Some(times) = waiter.times.as_mut().filter(|_| has_times) {
                times.end = times.end.min(start).max(times.start);
            }
        }
        ended[own] = ended[own].max(end);
        profile.instructions.push(Instruction {
            name: names.number_of(&node.name, &mut profile.names),
            role: Role::Work,
            stream,
            seq: counts[own],
            place: NONE,
            times: has_durations.then_some(Times { ready: ready.min(start), start, end }),
            parent: NONE,
            ..Instruction::default()
        });
        made[k as usize] = position;
    }
    profile.total = ended.into_iter().max().unwrap_or(0);
    let mut say = |count: usize, text: &str| {
        if count > 0 {
            profile.remarks.push(format!("{count} {text}"));
        }
    };
    say(absent, "dependences name nodes that the file lacks");
    say(cyclic, "nodes depend on each other in a cycle, or on such nodes: their order is not kept");
    if !has_durations {
        profile.remarks.push("the file has no durations: only the order is known".to_owned());
    } else if !has_times {
        let text = "the file has durations and no times: each node begins as soon as it can";
        profile.remarks.push(text.to_owned());
    }
    Ok(profile)
}
