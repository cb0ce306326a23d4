//! Checks of streams.

use std::any::Any;
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{bail, ensure};
use millstream_ep::device::{Work, WorkResult};
use millstream_types::Panicked;

use crate::fixture::{RunLog, drive_until};
use crate::{Check, Fixture, Outcome};

pub(super) const CHECKS: &[Check] = &[
    Check { name: "a stream runs its work once, in order", run: order },
    Check { name: "every command is reported once, in order", run: tickets },
    Check { name: "a synchronous device completes commands at once", run: synchronous },
    Check { name: "a stepped device runs nothing inside submit", run: not_in_submit },
    Check { name: "an error of work is its result, and the stream continues", run: errors },
    Check { name: "a panic of work is its error, and the stream continues", run: panics },
    Check { name: "streams are independent", run: independent },
    Check { name: "a stream can move to another thread", run: moves },
    Check { name: "completions are notified", run: notifies },
    Check { name: "a poll of an idle stream reports nothing", run: idle },
];

/// Work that fails.
#[derive(Clone, Copy)]
enum FailingWork {
    Error,
    Panic,
}

impl Work for FailingWork {
    fn run(&mut self, _native: &dyn Any) -> WorkResult {
        match self {
            FailingWork::Error => bail!("expected by the check"),
            // Raised without the panic hook, which would print a message that looks like a defect.
            FailingWork::Panic => std::panic::resume_unwind(Box::new("expected by the check")),
        }
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(*self)
    }
}

fn order(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    const WORKS: u64 = 100;
    let (mut stream, log) = (fixture.stream()?, RunLog::default());
    for k in 0..WORKS {
        stream.call(log.entry(k))?;
    }
    stream.finish_ok()?;
    let ran = log.entries();
    ensure!(ran == (0..WORKS).collect::<Vec<_>>(), "the works ran as {ran:?}");
    Ok(Outcome::Passed)
}

/// Submits and polls in several rounds. `TestStream` checks the tickets.
fn tickets(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    let (mut stream, log) = (fixture.stream()?, RunLog::default());
    for round in 0..4 {
        for k in 0..5 {
            stream.call(log.entry(round * 5 + k))?;
            if k == 2 {
                stream.poll()?;
            }
        }
        stream.finish_ok()?;
    }
    ensure!(stream.results.len() == 20, "{} of 20 commands were reported", stream.results.len());
    Ok(Outcome::Passed)
}

fn synchronous(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    if fixture.device.capabilities().asynchronous {
        return Ok(Outcome::LacksCapability("synchronous commands"));
    }
    let (mut stream, log) = (fixture.stream()?, RunLog::default());
    stream.call(log.entry(1))?;
    ensure!(log.has(1), "the work had not run when submit returned");
    ensure!(stream.results.len() == 1, "submit did not return Done");
    ensure!(fixture.device.create_event().is_err(), "a synchronous device created an event");
    Ok(Outcome::Passed)
}

fn not_in_submit(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    if !fixture.device.capabilities().asynchronous {
        return Ok(Outcome::LacksCapability("asynchronous commands"));
    }
    if !fixture.harness.is_stepped() {
        // A device that progresses by itself may have run the work before the assertion below.
        return Ok(Outcome::LacksCapability("completion by hand"));
    }
    let (mut stream, log) = (fixture.stream()?, RunLog::default());
    stream.call(log.entry(1))?;
    stream.poll()?;
    ensure!(!log.has(1), "the work ran before the device was stepped");
    stream.finish_ok()?;
    ensure!(log.has(1), "the work was reported as completed and never ran");
    Ok(Outcome::Passed)
}

fn errors(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    let error = failure(fixture, FailingWork::Error)?;
    ensure!(error.to_string() == "expected by the check", "the error became '{error:#}'");
    Ok(Outcome::Passed)
}

fn panics(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    let error = failure(fixture, FailingWork::Panic)?;
    let Some(panicked) = error.downcast_ref::<Panicked>() else {
        bail!("the panic became an error other than `Panicked`: {error:#}");
    };
    ensure!(panicked.message == "expected by the check", "the message became '{panicked}'");
    Ok(Outcome::Passed)
}

/// Runs `failing` between two works that succeed, and returns its error.
fn failure(fixture: &Fixture<'_>, mut failing: FailingWork) -> anyhow::Result<anyhow::Error> {
    let (mut stream, log) = (fixture.stream()?, RunLog::default());
    stream.call(log.entry(1))?;
    stream.submit(&mut failing)?;
    stream.call(log.entry(2))?;
    stream.finish()?;
    ensure!(log.entries() == [1, 2], "the works around it ran as {:?}", log.entries());
    match stream.results.remove(1) {
        Err(error) if stream.results.iter().all(Result::is_ok) => Ok(error),
        Err(_) => bail!("another command failed too"),
        Ok(()) => bail!("the failure was reported as a success"),
    }
}

fn independent(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    let log = RunLog::default();
    let mut streams = [fixture.stream()?, fixture.stream()?, fixture.stream()?];
    for k in 0..30 {
        streams[k % 3].call(log.entry(k as u64))?;
    }
    // Finished in another order than submitted.
    for stream in streams.iter_mut().rev() {
        stream.finish_ok()?;
    }
    let ran = log.entries();
    ensure!(ran.len() == 30, "{} of 30 works ran", ran.len());
    for stream in 0..3 {
        let own: Vec<u64> = ran.iter().copied().filter(|k| k % 3 == stream).collect();
        ensure!(own.is_sorted(), "stream {stream} ran its works as {own:?}");
    }
    Ok(Outcome::Passed)
}

fn moves(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    let (mut stream, log) = (fixture.stream()?, RunLog::default());
    stream.call(log.entry(1))?;
    let second = log.entry(2);
    let result = thread::scope(|scope| {
        let moved = scope.spawn(move || {
            stream.call(second)?;
            stream.finish_ok()
        });
        moved.join()
    });
    match result {
        Ok(result) => result?,
        Err(_) => bail!("the stream panicked on another thread"),
    }
    ensure!(log.entries() == [1, 2], "the works ran as {:?}", log.entries());
    Ok(Outcome::Passed)
}

fn notifies(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    if !fixture.device.capabilities().notifies {
        return Ok(Outcome::LacksCapability("notifications"));
    }
    let (mut stream, log) = (fixture.stream()?, RunLog::default());
    for round in 1..=3 {
        let before = stream.notified.load(Ordering::SeqCst);
        stream.call(log.entry(round))?;
        stream.finish_ok()?;
        // The device may call the notify function after the completion can be polled.
        let notified = stream.notified.clone();
        drive_until(fixture.harness, "a notification", || {
            Ok(notified.load(Ordering::SeqCst) > before)
        })?;
    }
    Ok(Outcome::Passed)
}

fn idle(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    let mut stream = fixture.stream()?;
    for _ in 0..3 {
        stream.poll()?;
        fixture.harness.progress();
    }
    ensure!(stream.results.is_empty(), "an idle stream reported {} results", stream.results.len());
    Ok(Outcome::Passed)
}
