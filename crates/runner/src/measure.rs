//! Counts of a run.

use std::collections::HashSet;

use millstream_instructions::builder::Stats;
use millstream_instructions::planner::rounded;
use millstream_instructions::{Body, Id, InstructionList, Kind, Resolution, Role, Via};
use millstream_types::{Result, StreamKey};
use millstream_vm::Machine;

use crate::report::{MemoryReport, RunReport, StreamReport};

/// The counts of a machine before a program began.
pub(crate) struct Before {
    stats: Stats,
    loads: Vec<(StreamKey, u64)>,
}

impl Before {
    pub(crate) fn of(machine: &Machine) -> Result<Before> {
        Ok(Before { stats: machine.stats()?, loads: machine.stream_loads()? })
    }

    /// Adds the counts since then to a report.
    pub(crate) fn measure(&self, machine: &Machine, report: &mut RunReport) -> Result<()> {
        let now = machine.stats()?;
        let count = |kind: Kind| match kind {
            // Annotations appear in lists alone, one for each needed wait.
            Kind::SoftSyncStream => now.waits.needed - self.stats.waits.needed,
            kind => now.of(kind) - self.stats.of(kind),
        };
        report.instructions =
            Kind::ALL.iter().map(|&k| (k, count(k))).filter(|(_, n)| *n > 0).collect();
        let (mut waits, before) = (now.waits, self.stats.waits);
        waits.needed -= before.needed;
        waits.device -= before.device;
        waits.host -= before.host;
        waits.known -= before.known;
        waits.fenced -= before.fenced;
        waits.implied -= before.implied;
        report.waits = waits;
        report.events_created = now.events_created - self.stats.events_created;
        report.events_reused = now.events_reused - self.stats.events_reused;
        report.streams = machine
            .stream_loads()?
            .into_iter()
            .map(|(key, load)| {
                let before = self.loads.iter().find(|(k, _)| *k == key).map_or(0, |(_, n)| *n);
                StreamReport { key, name: None, instructions: load - before }
            })
            .filter(|s| s.instructions > 0)
            .collect();
        let keys = machine.stream_keys()?;
        let memory = machine.memory()?.into_iter().map(|usage| MemoryReport {
            streams: usage.streams.iter().map(|s| keys[s.stream.index()].clone()).collect(),
            usage,
        });
        report.memory = memory.collect();
        report.peak_bytes = report.memory.iter().map(|device| device.usage.peak).sum();
        Ok(())
    }
}

/// Adds the counts of a list from elsewhere. `held` are the bytes of each of its external tensors.
pub(crate) fn measure_list(
    list: &InstructionList,
    held: impl Iterator<Item = u64>,
    report: &mut RunReport,
) {
    let mut kinds = vec![0; Kind::ALL.len()];
    let mut loads = vec![0; list.streams.len()];
    let mut extents = vec![0; list.arenas.len()];
    let (mut events, mut records, mut by_event) = (HashSet::new(), 0u64, 0u64);
    for instruction in &list.instructions {
        let body = &instruction.body;
        kinds[body.kind() as usize] += 1;
        if let Some(at) = body.at() {
            loads[at.stream.index()] += 1;
        }
        if let Some(placement) = body.placement() {
            let extent: &mut u64 = &mut extents[placement.arena.index()];
            *extent = (*extent).max(placement.offset.saturating_add(placement.size));
        }
        if let Body::SoftSyncStream { resolution, .. } = body {
            report.waits.needed += 1;
            match resolution {
                Resolution::Known => report.waits.known += 1,
                Resolution::Fenced => report.waits.fenced += 1,
                Resolution::Implied(_) => report.waits.implied += 1,
                Resolution::Device | Resolution::Host => {}
            }
        }
        match body.via() {
            Some(Via::Host) => report.waits.host += 1,
            Some(Via::Device(_)) => by_event += 1,
            None => {}
        }
        body.visit_ids(&mut |id, role| {
            if let Id::Event(event) = id {
                records += u64::from(role == Role::Defines);
                events.insert(event);
            }
        });
    }
    report.waits.device += by_event;
    // A list may lack the annotations of its waits.
    report.waits.needed = report.waits.needed.max(report.waits.emitted() + report.waits.elided());
    let all = Kind::ALL.iter().map(|&k| (k, kinds[k as usize]));
    report.instructions = all.filter(|(_, n)| *n > 0).collect();
    let streams = list.streams.iter().zip(loads);
    report.streams = streams
        .map(|(decl, instructions)| StreamReport {
            key: decl.key.clone(),
            name: None,
            instructions,
        })
        .filter(|s| s.instructions > 0)
        .collect();
    report.events_created = events.len() as u64;
    report.events_reused = by_event.saturating_sub(records);
    let used = extents.into_iter().filter(|extent| *extent > 0);
    let taken = held.chain(used).map(|bytes| rounded(bytes).unwrap_or(u64::MAX));
    report.peak_bytes = taken.fold(0, u64::saturating_add);
}
