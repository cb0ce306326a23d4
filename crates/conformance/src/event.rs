//! Checks of events.

use std::any::Any;
use std::sync::Arc;

use anyhow::{bail, ensure};
use millstream_ep::device::Event;

use millstream_types::Result;

use crate::fixture::{RunLog, drive_until};
use crate::{Check, Fixture, Outcome};

pub(super) const CHECKS: &[Check] = &[
    Check { name: "an event without a record is complete", run: fresh },
    Check { name: "an event is complete only once its record has completed", run: query },
    Check { name: "a new record makes an event incomplete again", run: query_again },
    Check { name: "a wait orders two streams on the device", run: wait_orders },
    Check { name: "a wait waits for the newest record at its call", run: wait_generation },
    Check { name: "many streams wait for one record", run: many_waiters },
    Check { name: "a chain of waits crosses many streams", run: chain },
    Check { name: "a stream waits for its own record", run: own_record },
    Check { name: "a wait for an event never recorded is refused", run: never_recorded },
    Check { name: "another backend's event is refused", run: foreign },
    Check { name: "an event may be dropped before it completes", run: dropped },
    Check { name: "a wait orders streams of two devices", run: wait_orders_devices },
    Check { name: "another device's event cannot be recorded", run: other_device },
    Check { name: "timed events keep the times of their records", run: times },
];

/// Skips the check unless the device has the capability.
macro_rules! require {
    ($fixture:expr, asynchronous) => {
        if !$fixture.device.capabilities().asynchronous {
            return Ok(Outcome::LacksCapability("events"));
        }
    };
    ($fixture:expr, device_waits) => {
        if !$fixture.device.capabilities().device_waits {
            return Ok(Outcome::LacksCapability("waits on the device"));
        }
    };
}

fn fresh(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    require!(fixture, asynchronous);
    ensure!(fixture.event()?.query()?, "an event that was never recorded is incomplete");
    Ok(Outcome::Passed)
}

fn query(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    require!(fixture, asynchronous);
    let (mut stream, log, event) = (fixture.stream()?, RunLog::default(), fixture.event()?);
    stream.call(log.entry(1))?;
    stream.record(&event)?;
    if fixture.harness.is_stepped() {
        ensure!(!event.query()?, "the event is complete before the device was stepped");
    }
    drive_until(fixture.harness, "an event's record", || {
        let complete = event.query()?;
        ensure!(!complete || log.has(1), "the event is complete before the work ahead of it ran");
        Ok(complete)
    })?;
    stream.finish_ok()?;
    ensure!(event.query()?, "the event is incomplete after its record was reported");
    Ok(Outcome::Passed)
}

fn query_again(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    require!(fixture, asynchronous);
    let (mut stream, log, event) = (fixture.stream()?, RunLog::default(), fixture.event()?);
    for round in 1..=5 {
        stream.call(log.entry(round))?;
        stream.record(&event)?;
        if fixture.harness.is_stepped() {
            ensure!(!event.query()?, "the event reports record {}, an older one", round - 1);
        }
        drive_until(fixture.harness, "an event's newest record", || {
            let complete = event.query()?;
            ensure!(!complete || log.has(round), "complete before record {round} completed");
            Ok(complete)
        })?;
    }
    stream.finish_ok()?;
    Ok(Outcome::Passed)
}

fn wait_orders(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    require!(fixture, device_waits);
    // In both directions, so that the order of creation cannot order the streams.
    for producer in [0, 1] {
        let (log, event) = (RunLog::default(), fixture.event()?);
        let mut streams = [fixture.stream()?, fixture.stream()?];
        streams[producer].call(log.entry(1))?;
        streams[producer].record(&event)?;
        streams[1 - producer].wait(&event)?;
        streams[1 - producer].call(log.entry(2))?;
        streams[1 - producer].finish_ok()?;
        ensure!(log.entries() == [1, 2], "the waiting work ran as {:?}", log.entries());
        streams[producer].finish_ok()?;
    }
    Ok(Outcome::Passed)
}

fn wait_generation(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    require!(fixture, device_waits);
    let (log, event) = (RunLog::default(), fixture.event()?);
    let (mut early, mut late, mut waiting) =
        (fixture.stream()?, fixture.stream()?, fixture.stream()?);
    let (mut other, gate) = (fixture.stream()?, fixture.event()?);
    early.call(log.entry(1))?;
    early.record(&event)?;
    waiting.wait(&event)?;
    waiting.call(log.entry(2))?;
    // A newer record, on a stream that is idle otherwise, must not satisfy the wait.
    late.record(&event)?;
    // A record after the waiting work: a wait for this one would never end.
    waiting.record(&gate)?;
    other.wait(&gate)?;
    other.record(&event)?;
    for stream in [&mut waiting, &mut late, &mut early, &mut other] {
        stream.finish_ok()?;
    }
    ensure!(log.entries() == [1, 2], "the waiting work ran as {:?}", log.entries());
    ensure!(event.query()?, "the newest record has completed, and the event is incomplete");
    Ok(Outcome::Passed)
}

fn many_waiters(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    require!(fixture, device_waits);
    const WAITERS: u64 = 16;
    let (mut first, log, event) = (fixture.stream()?, RunLog::default(), fixture.event()?);
    first.call(log.entry(0))?;
    first.record(&event)?;
    let mut waiting = Vec::new();
    for k in 1..=WAITERS {
        let mut stream = fixture.stream()?;
        stream.wait(&event)?;
        stream.call(log.entry(k))?;
        waiting.push(stream);
    }
    for stream in waiting.iter_mut().rev() {
        stream.finish_ok()?;
    }
    first.finish_ok()?;
    let mut ran = log.entries();
    ensure!(ran.first() == Some(&0), "a waiting work ran first: {ran:?}");
    ran.sort_unstable();
    ensure!(ran == (0..=WAITERS).collect::<Vec<_>>(), "works that ran: {ran:?}");
    Ok(Outcome::Passed)
}

fn chain(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    require!(fixture, device_waits);
    const LINKS: u64 = 8;
    let log = RunLog::default();
    let mut streams = Vec::new();
    let mut before: Option<Arc<dyn Event>> = None;
    for k in 0..LINKS {
        let (mut stream, event) = (fixture.stream()?, fixture.event()?);
        if let Some(before) = &before {
            stream.wait(before)?;
        }
        stream.call(log.entry(k))?;
        stream.record(&event)?;
        before = Some(event);
        streams.push(stream);
    }
    for stream in streams.iter_mut().rev() {
        stream.finish_ok()?;
    }
    let ran = log.entries();
    ensure!(ran == (0..LINKS).collect::<Vec<_>>(), "the chain ran as {ran:?}");
    Ok(Outcome::Passed)
}

fn own_record(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    require!(fixture, device_waits);
    let (mut stream, log, event) = (fixture.stream()?, RunLog::default(), fixture.event()?);
    stream.call(log.entry(1))?;
    stream.record(&event)?;
    stream.wait(&event)?;
    stream.call(log.entry(2))?;
    stream.finish_ok()?;
    ensure!(log.entries() == [1, 2], "the works ran as {:?}", log.entries());
    Ok(Outcome::Passed)
}

fn never_recorded(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    require!(fixture, device_waits);
    let (mut stream, log, event) = (fixture.stream()?, RunLog::default(), fixture.event()?);
    ensure!(stream.stream.wait(&event).is_err(), "the wait was accepted");
    stream.call(log.entry(1))?;
    stream.finish_ok()?;
    ensure!(log.has(1), "the stream does not continue after the refusal");
    Ok(Outcome::Passed)
}

/// An event of no backend.
struct ForeignEvent;

impl Event for ForeignEvent {
    fn query(&self) -> Result<bool> {
        Ok(true)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn foreign(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    let (mut stream, log) = (fixture.stream()?, RunLog::default());
    let event: Arc<dyn Event> = Arc::new(ForeignEvent);
    if stream.stream.record(&event).is_ok() {
        bail!("record accepted another backend's event");
    }
    if stream.stream.wait(&event).is_ok() {
        bail!("wait accepted another backend's event");
    }
    stream.call(log.entry(1))?;
    stream.finish_ok()?;
    ensure!(log.has(1), "the stream does not continue after the refusal");
    Ok(Outcome::Passed)
}

fn dropped(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    require!(fixture, device_waits);
    let (mut first, mut second, log) = (fixture.stream()?, fixture.stream()?, RunLog::default());
    let event = fixture.event()?;
    first.call(log.entry(1))?;
    first.record(&event)?;
    second.wait(&event)?;
    second.call(log.entry(2))?;
    drop(event);
    // A new event may reuse the dropped event's resources, but must not have its records.
    let other = fixture.event()?;
    ensure!(other.query()?, "a new event has the records of a dropped one");
    second.finish_ok()?;
    first.finish_ok()?;
    ensure!(log.entries() == [1, 2], "the waiting work ran as {:?}", log.entries());
    Ok(Outcome::Passed)
}

fn wait_orders_devices(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    let both = fixture.backend.waits_directly(0, 1) && fixture.backend.waits_directly(1, 0);
    let Some(other) = fixture.second_device()?.filter(|_| both) else {
        return Ok(Outcome::LacksCapability("waits for another device on the device"));
    };
    let fixtures = [fixture, &other];
    for producer in [0, 1] {
        let (log, event) = (RunLog::default(), fixtures[producer].event()?);
        let mut streams = [fixture.stream()?, other.stream()?];
        streams[producer].call(log.entry(1))?;
        streams[producer].record(&event)?;
        streams[1 - producer].wait(&event)?;
        streams[1 - producer].call(log.entry(2))?;
        // As on one device, the wait ignores records after its call.
        streams[producer].record(&event)?;
        // Devices that progress only when polled are polled in turn.
        drive_until(fixture.harness, "the commands of two devices", || {
            streams[1 - producer].poll()?;
            streams[producer].poll()?;
            Ok(log.has(2))
        })?;
        for stream in &mut streams {
            stream.finish_ok()?;
        }
        ensure!(log.entries() == [1, 2], "the waiting work ran as {:?}", log.entries());
    }
    Ok(Outcome::Passed)
}

fn other_device(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    require!(fixture, asynchronous);
    let Some(other) = fixture.second_device()? else {
        return Ok(Outcome::LacksCapability("a second_device device"));
    };
    let (mut stream, log, event) = (fixture.stream()?, RunLog::default(), other.event()?);
    ensure!(stream.stream.record(&event).is_err(), "record accepted another device's event");
    ensure!(stream.stream.wait(&event).is_err(), "wait accepted an event without a record");
    let mut other_stream = other.stream()?;
    other_stream.record(&event)?;
    if !fixture.backend.waits_directly(0, 1) {
        ensure!(stream.stream.wait(&event).is_err(), "wait accepted another device's event");
    }
    other_stream.finish_ok()?;
    stream.call(log.entry(1))?;
    stream.finish_ok()?;
    ensure!(log.has(1), "the stream does not continue after the refusal");
    Ok(Outcome::Passed)
}

fn times(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    require!(fixture, asynchronous);
    let timed = || fixture.device.create_timed_event();
    let (begin, end, plain) = (timed()?, timed()?, fixture.event()?);
    let (mut stream, log) = (fixture.stream()?, RunLog::default());
    stream.record(&begin)?;
    stream.call(log.entry(1))?;
    stream.record(&end)?;
    stream.record(&plain)?;
    stream.finish_ok()?;
    let Some(between) = end.since(&*begin)? else {
        return Ok(Outcome::LacksCapability("a clock of its own"));
    };
    ensure!(between >= 0.0, "a later record is {between} ms after an earlier one");
    let back = begin.since(&*end)?;
    ensure!(back.is_some_and(|back| back <= 0.0), "{back:?} ms from a later record to an earlier");
    ensure!(end.since(&*end)? == Some(0.0), "a record is at another time than itself");
    ensure!(plain.since(&*begin)?.is_none(), "an event without times has one");
    ensure!(end.since(&*plain)?.is_none(), "an event without times has one");
    Ok(Outcome::Passed)
}
