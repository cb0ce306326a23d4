//! Computes storages again, where that saves memory: the list fits the budgets of its devices.
//!
//! The content of a private storage may be lost between two uses if the calls that computed it can
//! be made again before the second: they are functions of their operands, and their inputs are
//! unchanged or can be computed again themselves. A random call may, too: its numbers are
//! arguments. What is evicted is chosen once, when the list is compiled; a launch decides nothing.
//!
//! 1. [`search`] runs the program, as calls on buffers, in the order of the list, and evicts
//!    buffers by several rules, one of them that of DTR. The cheapest run is improved.
//! 2. [`insertion`] makes the list with the calls made again. They are instructions like all
//!    others, on the stream of the first call, with its origin marked `again`.
//! 3. The list is emitted anew, with the waits that its data need, and memory is placed by exact
//!    lifetimes. Where streams side by side need more than the list one by one, places follow the
//!    order of the list, and streams wait for the memory.
//! 4. If the places still do not fit, by fragmentation, the search starts again with less.
//!
//! Sources: Kirisame et al., "Dynamic Tensor Rematerialization", 2021; for the optimum of chains,
//! to which the tests compare, Griewank & Walther, "Algorithm 799: revolve", 2000.

mod floor;
mod insertion;
mod program;
mod reading;
mod search;
mod simulation;
#[cfg(test)]
mod tests;

use std::fmt;

use millstream_types::{DeviceId, Error, Origin, Result};

use crate::list::InstructionList;
use crate::passes::facts::{self, Facts};
use crate::passes::placement::arena_bytes;
use crate::passes::rebuild::{Lifetimes, Memory, Plan, Waits};
use crate::passes::{PassOptions, waits};

use floor::{Floor, Held};
use reading::Reading;
use simulation::{Again, Misfit};

/// The most searches for one list: the first, and those with less memory.
const MOST_SEARCHES: usize = 4;

/// The memory of a device in a list with a budget, and what it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Remat {
    /// The device.
    pub device: DeviceId,
    /// The most bytes that the list may need.
    pub budget: u64,
    /// The bytes that the list needed before.
    pub before: u64,
    /// The bytes that it needs.
    pub peak: u64,
    /// The bytes that it needs at least, whatever is computed again.
    pub floor: u64,
    /// The call that needs them.
    pub floor_at: String,
    /// The place of this call in the program.
    pub floor_origin: Origin,
    /// The memory at this call, the largest first.
    pub fixed: Vec<Fixed>,
    /// The time of all calls of the list before, by the cost model, in nanoseconds.
    pub time: u64,
    /// The time of the calls made again.
    pub extra: u64,
    /// The number of calls made again, on all devices.
    pub again: usize,
}

/// Memory that no list of the same operations does without at some call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Its bytes.
    pub bytes: u64,
    /// The op that computed it, with its place; or the call whose workspace it is.
    pub of: String,
    /// Why it is in memory there.
    pub reason: &'static str,
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}: {}", self.bytes, self.of, self.reason)
    }
}

/// One line, then one for each holder of the floor's memory.
impl fmt::Display for Remat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Remat { device, budget, before, peak, again, .. } = self;
        let part = 100.0 * self.extra as f64 / self.time.max(1) as f64;
        write!(f, "{device}: {peak} bytes of a budget of {budget}, {before} without; ")?;
        write!(f, "{again} call(s) made again take {part:.1} % more time by the cost model; ")?;
        write!(f, "at least {} bytes, at {}", self.floor, self.floor_at)?;
        self.fixed.iter().try_for_each(|fixed| write!(f, "\n  {fixed}"))
    }
}

/// Applies the pass.
pub(super) fn remat(list: &InstructionList, options: &PassOptions<'_>) -> Result<InstructionList> {
    Ok(rematerialize(list, options)?.0)
}

/// Returns a list that computes the same and fits the budgets, with a report for each device that
/// has one. A list that fits already stays as it is.
///
/// # Errors
/// No list of the same operations that was found fits; or the list is not one that the checker
/// accepts.
pub fn rematerialize(
    list: &InstructionList,
    options: &PassOptions<'_>,
) -> Result<(InstructionList, Vec<Remat>)> {
    let own = facts::with_own_ids(list)?;
    let list = own.as_ref().unwrap_or(list);
    let facts = Facts::of(list)?;
    let budget = |device: &DeviceId| options.budgets.get(device).copied();
    let budgets: Vec<Option<u64>> = list.arenas.iter().map(budget).collect();
    if budgets.iter().all(Option::is_none) {
        return Ok((list.clone(), Vec::new()));
    }
    let most: Vec<u64> = budgets.iter().map(|b| b.unwrap_or(u64::MAX)).collect();
    let reading = reading::read(&facts, options, most.clone());
    let floors: Vec<Floor> =
        (0..most.len()).map(|arena| floor::floor(&reading.program, arena)).collect();
    let before = arena_bytes(list);
    let fits = |bytes: &[u64]| bytes.iter().zip(&most).all(|(bytes, most)| bytes <= most);
    let report = |after: &InstructionList, again: &[Again]| {
        let with = budgets.iter().enumerate().filter_map(|(arena, b)| Some((arena, (*b)?)));
        let peaks = arena_bytes(after);
        let steps = &reading.program.steps;
        let extra = again.iter().map(|again| steps[again.step].time).sum();
        let one = |(arena, budget): (usize, u64)| {
            let floor: &Floor = &floors[arena];
            Remat {
                device: list.arenas[arena].clone(),
                budget,
                before: before[arena],
                peak: peaks[arena],
                floor: floor.bytes,
                floor_at: reading.step_name(&facts, floor.step),
                floor_origin: reading.origin(&facts, floor.step),
                fixed: reading.fixed(&facts, floor),
                time: reading.program.time(),
                extra,
                again: again.len(),
            }
        };
        with.map(one).collect::<Vec<Remat>>()
    };
    if fits(&before) {
        return Ok((list.clone(), report(list, &[])));
    }
    let below = floors.iter().enumerate().find(|(arena, floor)| floor.bytes > most[*arena]);
    if let Some((arena, floor)) = below {
        let fixed: Vec<String> =
            reading.fixed(&facts, floor).iter().map(Fixed::to_string).collect();
        let message = format!(
            "expected at least {} bytes on {}, which {} needs, got {}:\n  {}",
            floor.bytes,
            list.arenas[arena],
            reading.step_name(&facts, floor.step),
            most[arena],
            fixed.join("\n  ")
        );
        let error = Error::Invalid { what: "memory budget", message };
        return Err(error.at(&reading.origin(&facts, floor.step)));
    }
    let mut program = reading.program.clone();
    let mut smallest: Option<Vec<u64>> = None;
    for _ in 0..MOST_SEARCHES {
        let again = match search::cheapest(&program) {
            Ok(outcome) => outcome.again,
            Err(misfit) => return Err(reading.refused(&facts, &most, misfit, smallest)),
        };
        let Some(after) = emitted(&facts, &reading, &again, options, &fits)? else {
            let message = "too much lives at once to place it".to_owned();
            return Err(Error::Invalid { what: "memory budget", message });
        };
        let bytes = arena_bytes(&after);
        if fits(&bytes) {
            let reports = report(&after, &again);
            return Ok((after, reports));
        }
        for (target, (bytes, most)) in program.budgets.iter_mut().zip(bytes.iter().zip(&most)) {
            *target = target.saturating_sub(bytes.saturating_sub(*most));
        }
        smallest = Some(bytes);
    }
    let misfit = Misfit::Full(floors[0].step, Vec::new());
    Err(reading.refused(&facts, &most, misfit, smallest))
}

/// Emits the list with calls made again; none if too much lives at once to be placed.
fn emitted(
    facts: &Facts<'_>,
    reading: &Reading,
    again: &[Again],
    options: &PassOptions<'_>,
    fits: &dyn Fn(&[u64]) -> bool,
) -> Result<Option<InstructionList>> {
    let inserted = insertion::insert(facts, reading, again)?;
    let facts = Facts::of(&inserted)?;
    let (memory, lifetimes) = (Memory::Planned, Lifetimes::Tight);
    let plan = Plan { waits: Waits::Needed, memory, lifetimes, ..Plan::unchanged(&facts)? };
    let rebuilt = waits::needed(&facts, &plan, options)?;
    let free = rebuilt.clone().placed(options.effort);
    if free.as_ref().is_some_and(|list| fits(&arena_bytes(list))) {
        return Ok(free);
    }
    let Some(in_order) = rebuilt.placed_in_order(options.effort) else { return Ok(free) };
    let facts = Facts::of(&in_order)?;
    let plan = Plan { waits: Waits::Needed, ..Plan::unchanged(&facts)? };
    Ok(Some(waits::needed(&facts, &plan, options)?.list))
}

impl Reading {
    fn origin(&self, facts: &Facts<'_>, step: usize) -> Origin {
        let index = self.steps.get(step);
        index.map_or(Origin::Unknown, |&k| facts.list.instructions[k].origin.clone())
    }

    /// Returns the name of a step's call, with its place.
    fn step_name(&self, facts: &Facts<'_>, step: usize) -> String {
        let Some(&index) = self.steps.get(step) else { return "no call".to_owned() };
        let instruction = &facts.list.instructions[index];
        let name = facts.list.name_of(&instruction.body);
        match &instruction.origin {
            Origin::Unknown => name.to_owned(),
            origin => format!("{name} ({origin})"),
        }
    }

    fn fixed(&self, facts: &Facts<'_>, floor: &Floor) -> Vec<Fixed> {
        let one = |&(buffer, bytes, held): &(Option<usize>, u64, Held)| {
            let buffer = buffer.map(|b| &self.program.buffers[b]);
            let made = buffer.and_then(|b| Some(b.writers.first()?.step)).unwrap_or(floor.step);
            Fixed { bytes, of: self.step_name(facts, made), reason: held.reason() }
        };
        floor.held.iter().map(one).collect()
    }

    /// Returns the error of a list for which no run fits.
    fn refused(
        &self,
        facts: &Facts<'_>,
        most: &[u64],
        misfit: Misfit,
        smallest: Option<Vec<u64>>,
    ) -> Error {
        let (Misfit::Full(step, _) | Misfit::Endless(step)) = misfit;
        let reason = match misfit {
            Misfit::Full(..) => "too much has to be in memory at once while it is computed again",
            Misfit::Endless(_) => "too many calls would be made again",
        };
        let of = facts.list.arenas.iter().zip(most).filter(|(_, most)| **most < u64::MAX);
        let of: Vec<String> =
            of.map(|(device, most)| format!("{most} bytes on {device}")).collect();
        let found = smallest.map_or_else(String::new, |bytes| {
            let bytes: Vec<String> = bytes.iter().map(ToString::to_string).collect();
            format!("; the closest plan needs {} bytes", bytes.join(" and "))
        });
        let (at, of) = (self.step_name(facts, step), of.join(", "));
        let message = format!(
            "no plan was found within {of}: at {at}, {reason}{found}; give a larger budget"
        );
        Error::Invalid { what: "memory budget", message }.at(&self.origin(facts, step))
    }
}
