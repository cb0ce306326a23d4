//! Places storages and workspaces anew: a tensor begins right before its first use and ends right
//! after its last, and storages whose uses the list orders one behind the other share bytes. A
//! private tensor that the list never releases ends after its last use, too.
//!
//! Views lengthen the life of their storage. The result of a call has the storage of an operand
//! that ends there, where the op allows it (`reuse`). What comes of it needs less memory than
//! before in some arena and more in none, or the list stays as it is.

use millstream_types::{DeviceId, Result};

use crate::list::InstructionList;
use crate::passes::facts::{self, Facts};
use crate::passes::offsets::{Effort, Offsets};
use crate::passes::placement::{self, Owner, arena_bytes};
use crate::passes::rebuild::{Lifetimes, Memory, Plan, Waits, place, rebuild};
use crate::passes::reuse::reused;
use crate::passes::{PassOptions, sync_points, waits};
use crate::planner::ArenaId;

/// Applies the pass.
pub(super) fn memory(list: &InstructionList, options: &PassOptions<'_>) -> Result<InstructionList> {
    let facts = Facts::of(list)?;
    if let Some(reused) = reused(&facts, options)
        && let Some(planned) = planned(&Facts::of(&reused)?, list, options)?
    {
        return Ok(planned);
    }
    Ok(planned(&facts, list, options)?.unwrap_or_else(|| list.clone()))
}

/// Returns a list with its memory planned anew, if it needs less than the list `old`, and no more
/// waits.
fn planned(
    facts: &Facts<'_>,
    old: &InstructionList,
    options: &PassOptions<'_>,
) -> Result<Option<InstructionList>> {
    let unchanged = Plan::unchanged(facts)?;
    let before = arena_bytes(old);
    // With fewer waits fewer storages may share; with all of them some wait for nothing.
    for mode in [Waits::Needed, Waits::Kept] {
        let (memory, lifetimes) = (Memory::Planned, Lifetimes::Tight);
        let plan = Plan { waits: mode, memory, lifetimes, ..unchanged.clone() };
        let planned = match mode {
            Waits::Needed => waits::needed(facts, &plan, options)?.placed(options.effort),
            Waits::Kept | Waits::Replayed => rebuild(facts, &plan)?.placed(options.effort),
        };
        let Some(planned) = planned else { continue };
        let after = arena_bytes(&planned);
        let is_larger = after.iter().zip(&before).any(|(after, before)| after > before);
        if !is_larger && after != before && sync_points(&planned) <= sync_points(old) {
            return Ok(Some(planned));
        }
    }
    Ok(None)
}

/// The storages and workspaces of a list, and when each is used. That is enough to place the memory
/// of a list that differs in sizes alone.
#[derive(Clone, Debug)]
pub struct Owners(Vec<Owner>);

impl Owners {
    /// Returns those of a list; none if passes would leave out some of its instructions.
    ///
    /// # Errors
    /// The list is not one that the checker accepts.
    pub fn of(list: &InstructionList) -> Result<Option<Owners>> {
        let facts = Facts::of(list)?;
        let plan = Plan { memory: Memory::Planned, ..Plan::unchanged(&facts)? };
        let rebuilt = rebuild(&facts, &plan)?;
        let is_here = |owner: &Owner| {
            let body = list.instructions.get(owner.instruction).map(|i| &i.body);
            body.and_then(|b| b.placement()).map_or(0, |p| p.size) == owner.bytes
        };
        let is_same = rebuilt.list.instructions.len() == list.instructions.len();
        Ok((is_same && rebuilt.owners.iter().all(is_here)).then(|| Owners(rebuilt.owners)))
    }

    /// Places the memory of a list whose owners have the sizes that it states. Returns whether it
    /// has: a list in which too many live at once stays as it is.
    pub fn place(&self, list: &mut InstructionList, effort: Effort) -> bool {
        let sized = |owner: &Owner| {
            let body = &list.instructions.get(owner.instruction)?.body;
            Some(Owner { bytes: body.placement().map_or(0, |p| p.size), ..owner.clone() })
        };
        let owners: Option<Vec<Owner>> = self.0.iter().map(sized).collect();
        owners.and_then(|owners| place(list, &owners, effort)).is_some()
    }
}

/// The memory of an arena, planned anew.
#[derive(Clone, Debug)]
pub struct ArenaPlan {
    /// The device.
    pub device: DeviceId,
    /// The number of storages and workspaces.
    pub buffers: usize,
    /// Their offsets.
    pub offsets: Offsets,
}

/// Returns the plan of each arena that a list has memory in, by the list's own order and its exact
/// lifetimes; none if so much lives at once that it would take too long.
///
/// # Errors
/// The list is not one that the checker accepts.
pub fn arena_plans(list: &InstructionList, effort: Effort) -> Result<Option<Vec<ArenaPlan>>> {
    let own = facts::with_own_ids(list)?;
    let facts = Facts::of(own.as_ref().unwrap_or(list))?;
    let (memory, lifetimes) = (Memory::Planned, Lifetimes::Tight);
    let plan = Plan { memory, lifetimes, ..Plan::unchanged(&facts)? };
    let owners = rebuild(&facts, &plan)?.owners;
    let plans = placement::plans(&owners, list.streams.len(), effort);
    let device = |arena: ArenaId| list.arenas[arena.index()].clone();
    let plan = |(arena, members, offsets): (ArenaId, Vec<usize>, Offsets)| ArenaPlan {
        device: device(arena),
        buffers: members.len(),
        offsets,
    };
    Ok(plans.map(|plans| plans.into_iter().map(plan).collect()))
}
