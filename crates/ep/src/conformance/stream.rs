//! Checks of streams.

use std::any::Any;
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{bail, ensure};

use crate::conformance::bed::{Log, until};
use crate::conformance::{Bed, Check, Outcome};
use crate::device::{Work, WorkResult};
use crate::run::Panicked;

pub(super) const CHECKS: &[Check] = &[
    Check { name: "a stream runs its work once, in order", run: order },
    Check { name: "every command is reported once, in order", run: tickets },
    Check { name: "without asynchrony every command is done at once", run: synchronous },
    Check { name: "nothing runs inside submit", run: not_in_submit },
    Check { name: "an error of work is its result, and the stream goes on", run: errors },
    Check { name: "a panic of work is its error, and the stream goes on", run: panics },
    Check { name: "streams are independent", run: independent },
    Check { name: "a stream can move to another thread", run: moves },
    Check { name: "completions are notified", run: notifies },
    Check { name: "a poll of an idle stream reports nothing", run: idle },
];

/// Work that fails as it is told to.
#[derive(Clone, Copy)]
enum Faulty {
    Error,
    Panic,
}

impl Work for Faulty {
    fn run(&mut self, _native: &dyn Any) -> WorkResult {
        match self {
            Faulty::Error => bail!("expected by the check"),
            // Raised without the panic hook, which would print a message that looks like a defect.
            Faulty::Panic => std::panic::resume_unwind(Box::new("expected by the check")),
        }
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(*self)
    }
}

fn order(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    const WORKS: u64 = 100;
    let (mut lane, log) = (bed.lane()?, Log::default());
    for k in 0..WORKS {
        lane.call(log.entry(k))?;
    }
    lane.finish_well()?;
    let ran = log.entries();
    ensure!(ran == (0..WORKS).collect::<Vec<_>>(), "the works ran as {ran:?}");
    Ok(Outcome::Passed)
}

/// What a lane checks of tickets by itself, over several rounds of handing over and polling.
fn tickets(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    let (mut lane, log) = (bed.lane()?, Log::default());
    for round in 0..4 {
        for k in 0..5 {
            lane.call(log.entry(round * 5 + k))?;
            if k == 2 {
                lane.poll()?;
            }
        }
        lane.finish_well()?;
    }
    ensure!(lane.results.len() == 20, "{} of 20 commands were reported", lane.results.len());
    Ok(Outcome::Passed)
}

fn synchronous(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    if bed.device.capabilities().asynchronous {
        return Ok(Outcome::LacksCapability("synchronous commands"));
    }
    let (mut lane, log) = (bed.lane()?, Log::default());
    lane.call(log.entry(1))?;
    ensure!(log.has(1), "the work had not run when submit returned");
    ensure!(lane.results.len() == 1, "submit did not answer Done");
    ensure!(bed.device.create_event().is_err(), "a synchronous device made an event");
    Ok(Outcome::Passed)
}

fn not_in_submit(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    if !bed.device.capabilities().asynchronous {
        return Ok(Outcome::LacksCapability("asynchronous commands"));
    }
    if !bed.harness.by_hand() {
        // A device that moves by itself may have finished by now.
        return Ok(Outcome::LacksCapability("completion by hand"));
    }
    let (mut lane, log) = (bed.lane()?, Log::default());
    lane.call(log.entry(1))?;
    lane.poll()?;
    ensure!(!log.has(1), "the work ran before the device was moved");
    lane.finish_well()?;
    ensure!(log.has(1), "the work was reported and never ran");
    Ok(Outcome::Passed)
}

fn errors(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    let error = failure(bed, Faulty::Error)?;
    ensure!(error.to_string() == "expected by the check", "the error became '{error:#}'");
    Ok(Outcome::Passed)
}

fn panics(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    let error = failure(bed, Faulty::Panic)?;
    let Some(panicked) = error.downcast_ref::<Panicked>() else {
        bail!("the panic became an error that does not say so: {error:#}");
    };
    ensure!(panicked.message == "expected by the check", "the message became '{panicked}'");
    Ok(Outcome::Passed)
}

/// The error of `faulty` between two good works.
fn failure(bed: &Bed<'_>, mut faulty: Faulty) -> anyhow::Result<anyhow::Error> {
    let (mut lane, log) = (bed.lane()?, Log::default());
    lane.call(log.entry(1))?;
    lane.submit(&mut faulty)?;
    lane.call(log.entry(2))?;
    lane.finish()?;
    ensure!(log.entries() == [1, 2], "the works around it ran as {:?}", log.entries());
    match lane.results.remove(1) {
        Err(error) if lane.results.iter().all(Result::is_ok) => Ok(error),
        Err(_) => bail!("another command failed too"),
        Ok(()) => bail!("the failure was reported as a success"),
    }
}

fn independent(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    let log = Log::default();
    let mut lanes = [bed.lane()?, bed.lane()?, bed.lane()?];
    for k in 0..30 {
        lanes[k % 3].call(log.entry(k as u64))?;
    }
    // Finished in another order than filled.
    for lane in lanes.iter_mut().rev() {
        lane.finish_well()?;
    }
    let ran = log.entries();
    ensure!(ran.len() == 30, "{} of 30 works ran", ran.len());
    for lane in 0..3 {
        let own: Vec<u64> = ran.iter().copied().filter(|k| k % 3 == lane).collect();
        ensure!(own.is_sorted(), "stream {lane} ran its works as {own:?}");
    }
    Ok(Outcome::Passed)
}

fn moves(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    let (mut lane, log) = (bed.lane()?, Log::default());
    lane.call(log.entry(1))?;
    let second = log.entry(2);
    let elsewhere = thread::scope(|scope| {
        let moved = scope.spawn(move || {
            lane.call(second)?;
            lane.finish_well()
        });
        moved.join()
    });
    match elsewhere {
        Ok(result) => result?,
        Err(_) => bail!("the stream panicked on another thread"),
    }
    ensure!(log.entries() == [1, 2], "the works ran as {:?}", log.entries());
    Ok(Outcome::Passed)
}

fn notifies(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    if !bed.device.capabilities().notifies {
        return Ok(Outcome::LacksCapability("notifications"));
    }
    let (mut lane, log) = (bed.lane()?, Log::default());
    for round in 1..=3 {
        let before = lane.notified.load(Ordering::SeqCst);
        lane.call(log.entry(round))?;
        lane.finish_well()?;
        // The call may come a little after the completion can be polled.
        let notified = lane.notified.clone();
        until(bed.harness, "a notification", || Ok(notified.load(Ordering::SeqCst) > before))?;
    }
    Ok(Outcome::Passed)
}

fn idle(bed: &Bed<'_>) -> anyhow::Result<Outcome> {
    let mut lane = bed.lane()?;
    for _ in 0..3 {
        lane.poll()?;
        bed.harness.progress();
    }
    ensure!(lane.results.is_empty(), "an idle stream reported {} results", lane.results.len());
    Ok(Outcome::Passed)
}
