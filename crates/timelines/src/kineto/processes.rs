//! The processes of a file into which several ranks were merged.
//!
//! Events of threads name their process. Those of devices name a device, which says nothing where
//! each rank calls its own one 0, and ranks that run the same program number their calls alike. So
//! an event belongs to the process with a call of its number before it; if there are several, to
//! the one whose name or other events fit, and at last to the one whose call is nearest in the
//! file, as merged files are mostly one after the other.

use std::collections::HashMap;

use crate::recording::{HostKind, Recording};

/// What a file states about an event of a device that tells its process.
#[derive(Clone, Copy)]
struct Device {
    /// The file's name of the process, which is the device for most writers.
    pid: u32,
    /// The number of its call; 0 if there is none.
    call: u64,
    start: i64,
    /// How many events of threads come before it in the file.
    at: u32,
}

/// Where the events of devices are in a file: for each, how many events of threads come before.
#[derive(Default)]
pub(super) struct Positions {
    pub(super) work: Vec<u32>,
    pub(super) records: Vec<u32>,
    pub(super) syncs: Vec<u32>,
}

struct Processes<'a> {
    recording: &'a Recording,
    /// The calls by number, as positions in [`Recording::host`].
    calls: HashMap<u64, Vec<u32>>,
    /// By the file's name.
    by_pid: HashMap<u32, u32>,
    /// By what comes before the number in the name: `[TP00]` of `[TP00] 4000`.
    by_label: HashMap<&'a str, u32>,
    pids: &'a [String],
    /// For each name, the process of all its events that can be of one process only.
    sure: HashMap<u32, Option<u32>>,
}

/// Numbers the processes of a recording, which has positions in `pids` instead of them.
pub(super) fn assign(recording: &mut Recording, pids: &[String], positions: &Positions) {
    let mut by_pid = HashMap::new();
    for thread in &mut recording.threads {
        let next = by_pid.len() as u32;
        let pid = std::mem::replace(&mut thread.process, next);
        thread.process = *by_pid.entry(pid).or_insert_with(|| {
            recording.processes.push(pids[pid as usize].clone());
            next
        });
    }
    let mut guessed = 0;
    let mut owners = [Vec::new(), Vec::new(), Vec::new()];
    if by_pid.len() > 1 {
        let work = recording.work.iter().zip(&positions.work);
        let work = work.map(|(work, at)| (work.on.process, work.correlation, work.start, *at));
        let records = recording.records.iter().zip(&positions.records);
        let records = records.map(|(r, at)| (r.on.process, r.correlation, i64::MAX, *at));
        let syncs = recording.syncs.iter().zip(&positions.syncs);
        let syncs = syncs.map(|(s, at)| (s.process, s.correlation, i64::MAX, *at));
        let device = |(pid, call, start, at)| Device { pid, call, start, at };
        let all: [Vec<Device>; 3] = [
            work.map(device).collect(),
            records.map(device).collect(),
            syncs.map(device).collect(),
        ];
        let mut processes = Processes::of(recording, pids, by_pid);
        all.iter().flatten().for_each(|device| processes.note(device));
        owners = all.map(|devices| {
            devices.iter().map(|device| processes.owner(device, &mut guessed)).collect()
        });
    }
    let owner = |kind: usize, k: usize| owners[kind].get(k).copied().unwrap_or(0);
    for (k, work) in recording.work.iter_mut().enumerate() {
        work.on.process = owner(0, k);
    }
    for (k, record) in recording.records.iter_mut().enumerate() {
        record.on.process = owner(1, k);
    }
    for (k, sync) in recording.syncs.iter_mut().enumerate() {
        sync.process = owner(2, k);
        for stream in [&mut sync.on, &mut sync.source].into_iter().flatten() {
            stream.process = sync.process;
        }
    }
    if guessed > 0 {
        recording.remarks.push(format!(
            "{guessed} events of devices could be of several of the {} processes: each goes with \
             the nearest call in the file",
            recording.processes.len()
        ));
    }
}

impl<'a> Processes<'a> {
    fn of(
        recording: &'a Recording,
        pids: &'a [String],
        by_pid: HashMap<u32, u32>,
    ) -> Processes<'a> {
        let mut calls: HashMap<u64, Vec<u32>> = HashMap::new();
        for (k, event) in recording.host.iter().enumerate() {
            if event.kind == HostKind::Call && event.correlation != 0 {
                calls.entry(event.correlation).or_default().push(k as u32);
            }
        }
        let labels =
            by_pid.iter().filter_map(|(pid, own)| Some((label(&pids[*pid as usize])?, *own)));
        let by_label = labels.collect();
        Processes { recording, calls, by_pid, by_label, pids, sure: HashMap::new() }
    }

    fn process(&self, call: u32) -> u32 {
        let thread = self.recording.host[call as usize].thread;
        self.recording.threads[thread as usize].process
    }

    /// Returns the calls that may have submitted an event.
    fn candidates(&self, device: &Device) -> Vec<u32> {
        let all = self.calls.get(&device.call).map_or(&[][..], Vec::as_slice);
        let start = |call: u32| self.recording.host[call as usize].start;
        let earlier: Vec<u32> =
            all.iter().copied().filter(|call| start(*call) <= device.start).collect();
        if earlier.is_empty() { all.to_vec() } else { earlier }
    }

    /// Notes what an event that can be of one process only says about others of its name.
    fn note(&mut self, device: &Device) {
        let calls = self.candidates(device);
        let Some(first) = calls.first().map(|call| self.process(*call)) else { return };
        if calls.iter().all(|call| self.process(*call) == first) {
            let sure = self.sure.entry(device.pid).or_insert(Some(first));
            *sure = sure.filter(|sure| *sure == first);
        }
    }

    /// Returns the process of an event, and counts it if it is a guess.
    fn owner(&self, device: &Device, guessed: &mut usize) -> u32 {
        let calls = self.candidates(device);
        let may_be =
            |own: &u32| calls.is_empty() || calls.iter().any(|call| self.process(*call) == *own);
        let nearest = calls.iter().min_by_key(|call| call.abs_diff(device.at));
        let nearest = nearest.map_or(0, |call| self.process(*call));
        if !calls.is_empty() && calls.iter().all(|call| self.process(*call) == nearest) {
            return nearest;
        }
        let label = label(&self.pids[device.pid as usize]);
        let fitting = [
            self.by_pid.get(&device.pid).copied(),
            label.and_then(|label| self.by_label.get(label).copied()),
            self.sure.get(&device.pid).copied().flatten(),
        ];
        fitting.into_iter().flatten().find(may_be).unwrap_or_else(|| {
            *guessed += 1;
            nearest
        })
    }
}

fn label(pid: &str) -> Option<&str> {
    pid.rsplit_once(' ').map(|(label, _)| label)
}
