//! Places storages and workspaces anew: a tensor begins right before its first use and ends right
//! after its last, and storages whose uses the list orders one behind the other share bytes.
//!
//! Views lengthen the life of their storage. The result needs less memory than before in some arena
//! and more in none, or the list stays as it is.

use millstream_types::Result;

use crate::list::InstructionList;
use crate::passes::facts::Facts;
use crate::passes::placement::arena_bytes;
use crate::passes::rebuild::{Lifetimes, Memory, Plan, Waits, rebuild};
use crate::passes::{PassOptions, sync_points, waits};

/// Applies the pass.
pub(super) fn memory(list: &InstructionList, options: &PassOptions<'_>) -> Result<InstructionList> {
    let facts = Facts::of(list)?;
    let unchanged = Plan::unchanged(&facts)?;
    let before = arena_bytes(list);
    // With fewer waits fewer storages may share; with all of them some wait for nothing.
    for mode in [Waits::Needed, Waits::Kept] {
        let (memory, lifetimes) = (Memory::Planned, Lifetimes::Tight);
        let plan = Plan { waits: mode, memory, lifetimes, ..unchanged.clone() };
        let planned = match mode {
            Waits::Needed => waits::needed(&facts, &plan, options)?.placed(options.effort),
            Waits::Kept | Waits::Replayed => rebuild(&facts, &plan)?.placed(options.effort),
        };
        let Some(planned) = planned else { continue };
        let after = arena_bytes(&planned);
        let is_larger = after.iter().zip(&before).any(|(after, before)| after > before);
        if !is_larger && after != before && sync_points(&planned) <= sync_points(list) {
            return Ok(planned);
        }
    }
    Ok(list.clone())
}
