//! The threads of the program, where a profile does not have them as streams.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use millstream_profile::Profile;
use millstream_profile::model::{Instruction, NONE, Pause, Resolution, Role, Stream, Times, Wait};

use super::costs::is_of_thread;

/// A step of the program: an instruction that it submits, or a pause.
#[derive(Clone, Copy)]
enum Step {
    Pause(usize),
    Submit(u32),
}

/// The threads that were added to a profile: a stream for each rank, whose instructions stand
/// behind all others.
#[derive(Clone)]
pub(crate) struct Threads {
    /// The streams of the threads; none if the profile had its own.
    streams: Range<usize>,
    /// How many waits the profile had.
    waits: usize,
    /// Whether the profile has no times of submissions.
    is_untimed: bool,
    /// The instruction of each pause, counted from the first added one.
    pauses: Vec<usize>,
}

impl Threads {
    /// Adds the threads of the program to a profile of ours: an instruction for each submission,
    /// which takes no time, and a wait for each pause.
    pub(crate) fn add(profile: &mut Profile) -> Threads {
        let is_untimed = profile.instructions.iter().all(|i| i.issued.is_none());
        let mut pauses = vec![0; profile.pauses.len()];
        let (first, streams) = (profile.instructions.len(), profile.streams.len());
        let before = profile.waits.len();
        if profile.streams.iter().any(|stream| stream.thread) {
            let joins = joins(profile);
            profile.waits.extend(joins);
            return Threads { streams: 0..0, waits: before, is_untimed, pauses };
        }
        let observed = observed(profile);
        if is_untimed {
            submit_at_once(profile, &observed);
        }
        let rank_of = |k: u32| {
            let stream = profile.instructions.get(k as usize)?.stream;
            Some(profile.streams.get(stream as usize)?.rank)
        };
        let ends = profile.shown().filter(|(_, i, _)| i.parent == NONE);
        let mut ends: Vec<(u64, u32)> = ends.map(|(k, _, t)| (t.end, k as u32)).collect();
        ends.sort_unstable();
        let (mut made, mut waits, mut ranks) = (Vec::new(), Vec::new(), Vec::new());
        let mut rank = 0;
        // What each rank's next submission waits for, the last instruction of each stream, and the
        // one that submits each.
        let (mut open, mut last) = (HashMap::new(), HashMap::new());
        let mut submitters = vec![NONE; first];
        for (at, _, step) in steps(profile) {
            let own = first + made.len();
            let (mut until, mut place) = (Vec::new(), NONE);
            let (mut start, mut role) = (at, Role::Order);
            match step {
                Step::Submit(k) => {
                    let instruction = &profile.instructions[k as usize];
                    let awaited = observed.get(&k);
                    let of = awaited.map_or(k, |awaited| awaited[0]);
                    rank = rank_of(of).unwrap_or(rank);
                    match awaited {
                        Some(awaited) => drop(open.insert(rank, awaited.clone())),
                        None => until = open.remove(&rank).unwrap_or_default(),
                    }
                    place = instruction.place;
                    last.insert(instruction.stream, k);
                    submitters[k as usize] = own as u32;
                    // The inline driver runs each instruction before the program goes on.
                    if profile.is_inline && instruction.is_shown() {
                        open.insert(rank, vec![k]);
                    }
                }
                Step::Pause(pause) => {
                    let Pause { begin, rank: own, .. } = profile.pauses[pause];
                    (rank, start, role) = (own, begin.min(at), Role::Wait);
                    pauses[pause] = made.len();
                    let awaited = profile.pauses[pause].until;
                    let all = last.values().filter(|k| rank_of(**k) == Some(rank)).copied();
                    until = match profile.instructions.get(awaited as usize) {
                        // It waited for room: for the instruction that ended last.
                        None => {
                            let upto = ends.partition_point(|(end, _)| *end <= at);
                            ends[..upto].last().map(|(_, k)| *k).into_iter().collect()
                        }
                        // A program that waits for the last of everything, and not for a result,
                        // may have to wait longer for another stream.
                        Some(of)
                            if last.get(&of.stream) == Some(&awaited)
                                && profile.name_of(of) != "SyncRead" =>
                        {
                            all.collect()
                        }
                        Some(_) => vec![awaited],
                    };
                }
            }
            // A step waits only for what was submitted before it.
            until.retain(|&k| {
                let root = profile.root_of(k) as usize;
                submitters[root] != NONE || profile.instructions[root].issued.is_none()
            });
            waits.extend(until.into_iter().map(|until| wait(own as u32, until)));
            let thread = ranks.iter().position(|own| *own == rank).unwrap_or_else(|| {
                ranks.push(rank);
                ranks.len() - 1
            });
            let (stream, parent) = ((streams + thread) as u32, NONE);
            let times = Some(Times { ready: start, start, end: at });
            made.push(Instruction { role, stream, place, times, parent, ..Default::default() });
        }
        for k in 0..first {
            // A launch is submitted with its steps.
            let own = submitters[profile.root_of(k as u32) as usize];
            profile.instructions[k].submitter = Some(own).filter(|own| *own != NONE);
        }
        profile.instructions.extend(made);
        profile.waits.extend(waits);
        let thread = |rank| Stream { thread: true, rank, ..Stream::default() };
        profile.streams.extend(ranks.into_iter().map(thread));
        Threads { streams: streams..profile.streams.len(), waits: before, is_untimed, pauses }
    }

    /// Gives the submissions and pauses their times, and removes the threads that were added.
    pub(crate) fn remove(self, profile: &mut Profile) {
        let at = |profile: &Profile, k: usize| Some(profile.instructions.get(k)?.times?.start);
        for k in 0..profile.instructions.len() {
            let Instruction { issued, submitter, .. } = profile.instructions[k];
            let submitted = submitter.and_then(|k| at(profile, k as usize));
            let issued = issued.filter(|_| !self.is_untimed).and(submitted.or(issued));
            profile.instructions[k].issued = issued;
        }
        let Threads { streams, pauses, .. } = self;
        if streams.is_empty() {
            return profile.waits.truncate(self.waits);
        }
        let is_added = |stream: u32| streams.contains(&(stream as usize));
        let first = profile.instructions.iter().position(|i| is_added(i.stream));
        let first = first.unwrap_or(profile.instructions.len());
        for (pause, k) in profile.pauses.iter_mut().zip(pauses) {
            let times = profile.instructions.get(first + k).and_then(|i| i.times);
            (pause.begin, pause.end) = times.map_or((0, 0), |times| (times.start, times.end));
        }
        profile.instructions.truncate(first);
        profile.waits.retain(|wait| wait.waiter == NONE || (wait.waiter as usize) < first);
        for instruction in &mut profile.instructions {
            instruction.submitter = None;
            if instruction.stream != NONE && instruction.stream as usize >= streams.end {
                instruction.stream -= streams.len() as u32;
            }
        }
        profile.streams.drain(streams);
    }
}

/// Returns a wait of a thread.
fn wait(waiter: u32, until: u32) -> Wait {
    Wait { waiter, until, user: waiter, resolution: Resolution::Host, ..Wait::default() }
}

/// Returns the waits of threads for those that run their backward ops, and the other way. The file
/// has arrows to backward ops, and no more: of two such threads one has calls at a time, and the
/// other one goes on when these have ended.
fn joins(profile: &Profile) -> Vec<Wait> {
    let stream = |k: u32| profile.instructions[k as usize].stream;
    let thread = |k: u32| is_of_thread(profile, k).then(|| stream(k));
    let pairs = profile.waits.iter().filter_map(|w| thread(w.until).zip(thread(w.waiter)));
    let pairs = pairs.filter(|(of, by)| of != by).flat_map(|(of, by)| [(of, by), (by, of)]);
    let pairs: BTreeSet<(u32, u32)> = pairs.collect();
    let mut last: HashMap<u32, (u64, u32)> = HashMap::new();
    let mut joins = Vec::new();
    for (k, _, Times { start, end, .. }) in profile.shown() {
        let Some(own) = thread(k as u32) else { continue };
        let (before, _) = last.insert(own, (end, k as u32)).unwrap_or_default();
        for &(_, by) in pairs.range((own, 0)..=(own, NONE)) {
            let ended = last.get(&by).filter(|(at, _)| (before + 1..=start).contains(at));
            joins.extend(ended.map(|(_, until)| wait(k as u32, *until)));
        }
    }
    joins
}

/// Returns the steps of the program, in the order of their ends.
fn steps(profile: &Profile) -> Vec<(u64, u8, Step)> {
    let submitted = (0..).zip(&profile.instructions).filter(|(_, i)| i.parent == NONE);
    let submitted = submitted.filter_map(|(k, i)| Some((i.issued?, 1, Step::Submit(k))));
    let pauses = profile.pauses.iter().enumerate();
    let pauses = pauses.map(|(k, pause)| (pause.end, 0, Step::Pause(k)));
    let mut all: Vec<(u64, u8, Step)> = submitted.chain(pauses).collect();
    // Of steps at one time, an instruction follows what the program waited for.
    all.sort_by_key(|&(at, rank, _)| (at, rank));
    all
}

/// Returns what the program waited for in each of its waits.
pub(super) fn observed(profile: &Profile) -> HashMap<u32, Vec<u32>> {
    let mut observed: HashMap<u32, Vec<u32>> = HashMap::new();
    let instruction = |k: u32| profile.instructions.get(k as usize);
    for wait in profile.waits.iter().filter(|wait| instruction(wait.until).is_some()) {
        let waiter = instruction(wait.waiter);
        if waiter.is_some_and(|i| i.role == Role::Observe && i.parent == NONE) {
            observed.entry(wait.waiter).or_default().push(wait.until);
        }
    }
    observed
}

/// Lets a program whose submissions have no times submit at once, but for its waits.
fn submit_at_once(profile: &mut Profile, observed: &HashMap<u32, Vec<u32>>) {
    let mut at = 0;
    for k in 0..profile.instructions.len() {
        profile.instructions[k].issued = Some(at);
        let awaited = observed.get(&(k as u32)).into_iter().flatten();
        let ends = awaited.filter_map(|&k| Some(profile.instructions[k as usize].times?.end));
        at = ends.fold(at, u64::max);
    }
}
