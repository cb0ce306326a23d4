//! The processes of a file into which several ranks were merged.
//!
//! Events of threads name their process. Those of devices name a device, which says nothing where
//! each rank calls its own one 0, and ranks that run the same program number their calls alike. So
//! an event belongs to the process with a call of its number before it; if there are several, to
//! the one whose name or other events fit, and at last to the one whose call is nearest in the
//! file, as merged files are mostly one after the other.

use std::collections::HashMap;

use crate::recording::{HostKind, Recording, counted};

/// What a file states about the process of an event of a device.
#[derive(Clone, Copy)]
pub(super) struct Device {
    /// The file's name of the process, which is the device for most writers.
    pub(super) pid: u32,
    /// The number of its call; 0 if there is none.
    pub(super) call: u64,
    pub(super) start: i64,
    /// How many events of threads come before it in the file.
    pub(super) at: u32,
}

/// The events of devices, in the order of the recording's lists.
#[derive(Default)]
pub(super) struct Devices {
    pub(super) work: Vec<Device>,
    pub(super) records: Vec<Device>,
    pub(super) syncs: Vec<Device>,
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
    guessed: usize,
}

/// Numbers the processes of a recording, whose threads have positions in `pids` instead of them.
pub(super) fn assign(recording: &mut Recording, pids: &[String], devices: &Devices) {
    let mut by_pid = HashMap::new();
    for thread in &mut recording.threads {
        let next = by_pid.len() as u32;
        thread.process = *by_pid.entry(thread.process).or_insert_with_key(|pid| {
            recording.processes.push(pids[*pid as usize].clone());
            next
        });
    }
    if by_pid.len() < 2 {
        return;
    }
    let mut processes = Processes::of(recording, pids, by_pid);
    let all = [&devices.work, &devices.records, &devices.syncs];
    all.into_iter().flatten().for_each(|device| processes.note(device));
    let mut owner = |device| processes.owner(device);
    let [work, records, syncs]: [Vec<u32>; 3] = all.map(|all| all.iter().map(&mut owner).collect());
    let guessed = processes.guessed;
    for (work, process) in recording.work.iter_mut().zip(work) {
        work.on.process = process;
    }
    for (record, process) in recording.records.iter_mut().zip(records) {
        record.on.process = process;
    }
    for (sync, process) in recording.syncs.iter_mut().zip(syncs) {
        sync.process = process;
        for stream in [&mut sync.on, &mut sync.source].into_iter().flatten() {
            stream.process = process;
        }
    }
    recording.remarks.extend(counted(
        guessed,
        "event of a device could be of several processes: it goes with the nearest call in the file",
        "events of devices could be of several processes: each goes with the nearest call in the \
         file",
    ));
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
        let of_label = |(pid, own): (&u32, &u32)| Some((label(&pids[*pid as usize])?, *own));
        let by_label = by_pid.iter().filter_map(of_label).collect();
        Processes { recording, calls, by_pid, by_label, pids, sure: HashMap::new(), guessed: 0 }
    }

    /// Returns the calls that may have submitted an event, each with its process.
    fn candidates(&self, device: &Device) -> Vec<(u32, u32)> {
        let all = self.calls.get(&device.call).map_or(&[][..], Vec::as_slice);
        let event = |call: &u32| &self.recording.host[*call as usize];
        let process = |call| self.recording.threads[event(call).thread as usize].process;
        let earlier = all.iter().filter(|call| event(call).start <= device.start);
        let earlier: Vec<(u32, u32)> = earlier.map(|call| (*call, process(call))).collect();
        match earlier.is_empty() {
            true => all.iter().map(|call| (*call, process(call))).collect(),
            false => earlier,
        }
    }

    /// Notes what an event that can be of one process only says about others of its name.
    fn note(&mut self, device: &Device) {
        if let Some(own) = only(&self.candidates(device)) {
            let sure = self.sure.entry(device.pid).or_insert(Some(own));
            *sure = sure.filter(|sure| *sure == own);
        }
    }

    /// Returns the process of an event, and counts it if it is a guess.
    fn owner(&mut self, device: &Device) -> u32 {
        let calls = self.candidates(device);
        if let Some(own) = only(&calls) {
            return own;
        }
        let label = label(&self.pids[device.pid as usize]);
        let fitting = [
            self.by_pid.get(&device.pid).copied(),
            label.and_then(|label| self.by_label.get(label).copied()),
            self.sure.get(&device.pid).copied().flatten(),
        ];
        let may_be = |own: &u32| calls.is_empty() || calls.iter().any(|(_, of)| of == own);
        fitting.into_iter().flatten().find(may_be).unwrap_or_else(|| {
            self.guessed += 1;
            let nearest = calls.iter().min_by_key(|(call, _)| call.abs_diff(device.at));
            nearest.map_or(0, |(_, own)| *own)
        })
    }
}

/// Returns the process of all calls, if it is one.
fn only(calls: &[(u32, u32)]) -> Option<u32> {
    let (_, own) = calls.first()?;
    calls.iter().all(|(_, of)| of == own).then_some(*own)
}

fn label(pid: &str) -> Option<&str> {
    pid.rsplit_once(' ').map(|(label, _)| label)
}
