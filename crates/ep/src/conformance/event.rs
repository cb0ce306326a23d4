//! Checks of events.

use std::any::Any;
use std::sync::Arc;

use anyhow::{bail, ensure};

use millstream_types::Result;

use crate::conformance::bed::{Log, until};
use crate::conformance::{Bed, Check, Outcome};
use crate::device::Event;

pub(super) const CHECKS: &[Check] = &[
    Check { name: "an event is true before its first record", run: fresh },
    Check { name: "an event is true only once its record has completed", run: query },
    Check { name: "a record again makes an event false again", run: query_again },
    Check { name: "a wait orders two streams on the device", run: wait_orders },
    Check { name: "a wait takes the record as of the call", run: wait_generation },
    Check { name: "many streams wait for one record", run: many_waiters },
    Check { name: "a chain of waits crosses many streams", run: chain },
    Check { name: "a stream waits for its own record", run: own_record },
    Check { name: "a wait for an event never recorded is refused", run: never_recorded },
    Check { name: "another backend's event is refused", run: foreign },
    Check { name: "an event may be dropped before it completes", run: dropped },
    Check { name: "a wait orders streams of two devices", run: wait_orders_devices },
    Check { name: "another device's event is not recorded", run: other_device },
];

/// Skips unless the device has events, and waits for them if `waits`.
macro_rules! require {
    ($bed:expr, asynchronous) => {
        if !$bed.device.capabilities().asynchronous {
            return Ok(Outcome::LacksCapability("events"));
        }
    };
    ($bed:expr, device_waits) => {
        if !$bed.device.capabilities().device_waits {
            return Ok(Outcome::LacksCapability("waits on the device"));
        }
    };
}

fn fresh(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    require!(bed, asynchronous);
    ensure!(bed.event()?.query()?, "an event that was never recorded is not true");
    Ok(Outcome::Passed)
}

fn query(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    require!(bed, asynchronous);
    let (mut lane, log, event) = (bed.lane()?, Log::default(), bed.event()?);
    lane.call(log.entry(1))?;
    lane.record(&event)?;
    if bed.harness.by_hand() {
        ensure!(!event.query()?, "the event is true before the device was moved");
    }
    until(bed.harness, "an event's record", || {
        let complete = event.query()?;
        ensure!(!complete || log.has(1), "the event is true before the work ahead of it ran");
        Ok(complete)
    })?;
    lane.finish_well()?;
    ensure!(event.query()?, "the event is false after its record was reported");
    Ok(Outcome::Passed)
}

fn query_again(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    require!(bed, asynchronous);
    let (mut lane, log, event) = (bed.lane()?, Log::default(), bed.event()?);
    for round in 1..=5 {
        lane.call(log.entry(round))?;
        lane.record(&event)?;
        if bed.harness.by_hand() {
            ensure!(!event.query()?, "the event answers for record {}", round - 1);
        }
        until(bed.harness, "an event's newest record", || {
            let complete = event.query()?;
            ensure!(!complete || log.has(round), "true before record {round} completed");
            Ok(complete)
        })?;
    }
    lane.finish_well()?;
    Ok(Outcome::Passed)
}

fn wait_orders(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    require!(bed, device_waits);
    // Both ways round, so that the order in which streams were made cannot be what orders them.
    for producer in [0, 1] {
        let (log, event) = (Log::default(), bed.event()?);
        let mut lanes = [bed.lane()?, bed.lane()?];
        lanes[producer].call(log.entry(1))?;
        lanes[producer].record(&event)?;
        lanes[1 - producer].wait(&event)?;
        lanes[1 - producer].call(log.entry(2))?;
        lanes[1 - producer].finish_well()?;
        ensure!(log.entries() == [1, 2], "the waiting work ran as {:?}", log.entries());
        lanes[producer].finish_well()?;
    }
    Ok(Outcome::Passed)
}

fn wait_generation(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    require!(bed, device_waits);
    let (log, event) = (Log::default(), bed.event()?);
    let (mut early, mut late, mut waiting) = (bed.lane()?, bed.lane()?, bed.lane()?);
    let (mut other, gate) = (bed.lane()?, bed.event()?);
    early.call(log.entry(1))?;
    early.record(&event)?;
    waiting.wait(&event)?;
    waiting.call(log.entry(2))?;
    // From here on the event has a newer record, on a stream that has nothing else to do: the wait
    // may not be satisfied with that one.
    late.record(&event)?;
    // And a record that comes behind the waiting work itself: the wait may not ask for that one,
    // which would never end.
    waiting.record(&gate)?;
    other.wait(&gate)?;
    other.record(&event)?;
    for lane in [&mut waiting, &mut late, &mut early, &mut other] {
        lane.finish_well()?;
    }
    ensure!(log.entries() == [1, 2], "the waiting work ran as {:?}", log.entries());
    ensure!(event.query()?, "the newest record has completed, and the event is false");
    Ok(Outcome::Passed)
}

fn many_waiters(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    require!(bed, device_waits);
    const WAITERS: u64 = 16;
    let (mut first, log, event) = (bed.lane()?, Log::default(), bed.event()?);
    first.call(log.entry(0))?;
    first.record(&event)?;
    let mut waiting = Vec::new();
    for k in 1..=WAITERS {
        let mut lane = bed.lane()?;
        lane.wait(&event)?;
        lane.call(log.entry(k))?;
        waiting.push(lane);
    }
    for lane in waiting.iter_mut().rev() {
        lane.finish_well()?;
    }
    first.finish_well()?;
    let mut ran = log.entries();
    ensure!(ran.first() == Some(&0), "a waiting work ran first: {ran:?}");
    ran.sort_unstable();
    ensure!(ran == (0..=WAITERS).collect::<Vec<_>>(), "works that ran: {ran:?}");
    Ok(Outcome::Passed)
}

fn chain(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    require!(bed, device_waits);
    const LINKS: u64 = 8;
    let log = Log::default();
    let mut lanes = Vec::new();
    let mut before: Option<Arc<dyn Event>> = None;
    for k in 0..LINKS {
        let (mut lane, event) = (bed.lane()?, bed.event()?);
        if let Some(before) = &before {
            lane.wait(before)?;
        }
        lane.call(log.entry(k))?;
        lane.record(&event)?;
        before = Some(event);
        lanes.push(lane);
    }
    for lane in lanes.iter_mut().rev() {
        lane.finish_well()?;
    }
    let ran = log.entries();
    ensure!(ran == (0..LINKS).collect::<Vec<_>>(), "the chain ran as {ran:?}");
    Ok(Outcome::Passed)
}

fn own_record(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    require!(bed, device_waits);
    let (mut lane, log, event) = (bed.lane()?, Log::default(), bed.event()?);
    lane.call(log.entry(1))?;
    lane.record(&event)?;
    lane.wait(&event)?;
    lane.call(log.entry(2))?;
    lane.finish_well()?;
    ensure!(log.entries() == [1, 2], "the works ran as {:?}", log.entries());
    Ok(Outcome::Passed)
}

fn never_recorded(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    require!(bed, device_waits);
    let (mut lane, log, event) = (bed.lane()?, Log::default(), bed.event()?);
    ensure!(lane.stream.wait(&event).is_err(), "the wait was accepted");
    lane.call(log.entry(1))?;
    lane.finish_well()?;
    ensure!(log.has(1), "the stream does not go on after the refusal");
    Ok(Outcome::Passed)
}

/// An event of no backend.
struct Foreign;

impl Event for Foreign {
    fn query(&self) -> Result<bool> {
        Ok(true)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn foreign(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    let (mut lane, log) = (bed.lane()?, Log::default());
    let event: Arc<dyn Event> = Arc::new(Foreign);
    if lane.stream.record(&event).is_ok() {
        bail!("record took another backend's event");
    }
    if lane.stream.wait(&event).is_ok() {
        bail!("wait took another backend's event");
    }
    lane.call(log.entry(1))?;
    lane.finish_well()?;
    ensure!(log.has(1), "the stream does not go on after the refusal");
    Ok(Outcome::Passed)
}

fn dropped(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    require!(bed, device_waits);
    let (mut first, mut second, log) = (bed.lane()?, bed.lane()?, Log::default());
    let event = bed.event()?;
    first.call(log.entry(1))?;
    first.record(&event)?;
    second.wait(&event)?;
    second.call(log.entry(2))?;
    drop(event);
    // A new event may take the place of the dropped one, and must not be mistaken for it.
    let other = bed.event()?;
    ensure!(other.query()?, "a new event takes over the records of a dropped one");
    second.finish_well()?;
    first.finish_well()?;
    ensure!(log.entries() == [1, 2], "the waiting work ran as {:?}", log.entries());
    Ok(Outcome::Passed)
}

fn wait_orders_devices(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    let both = bed.backend.waits_directly(0, 1) && bed.backend.waits_directly(1, 0);
    let Some(other) = bed.second()?.filter(|_| both) else {
        return Ok(Outcome::LacksCapability("waits for another device on the device"));
    };
    let beds = [bed, &other];
    for producer in [0, 1] {
        let (log, event) = (Log::default(), beds[producer].event()?);
        let mut lanes = [bed.lane()?, other.lane()?];
        lanes[producer].call(log.entry(1))?;
        lanes[producer].record(&event)?;
        lanes[1 - producer].wait(&event)?;
        lanes[1 - producer].call(log.entry(2))?;
        // As in one device, the wait takes the record as of the call.
        lanes[producer].record(&event)?;
        // Devices that move only when polled get there in turns.
        until(bed.harness, "the commands of two devices", || {
            lanes[1 - producer].poll()?;
            lanes[producer].poll()?;
            Ok(log.has(2))
        })?;
        for lane in &mut lanes {
            lane.finish_well()?;
        }
        ensure!(log.entries() == [1, 2], "the waiting work ran as {:?}", log.entries());
    }
    Ok(Outcome::Passed)
}

fn other_device(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    require!(bed, asynchronous);
    let Some(other) = bed.second()? else {
        return Ok(Outcome::LacksCapability("a second device"));
    };
    let (mut lane, log, event) = (bed.lane()?, Log::default(), other.event()?);
    ensure!(lane.stream.record(&event).is_err(), "record took another device's event");
    ensure!(lane.stream.wait(&event).is_err(), "wait took an event that was never recorded");
    let mut there = other.lane()?;
    there.record(&event)?;
    if !bed.backend.waits_directly(0, 1) {
        ensure!(lane.stream.wait(&event).is_err(), "wait took another device's event");
    }
    there.finish_well()?;
    lane.call(log.entry(1))?;
    lane.finish_well()?;
    ensure!(log.has(1), "the stream does not go on after the refusal");
    Ok(Outcome::Passed)
}
