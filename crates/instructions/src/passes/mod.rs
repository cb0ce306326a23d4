//! Passes: functions from a list to a list that computes the same with less.
//!
//! A list that runs once is emitted call by call: the builder sees neither what comes later nor
//! what nobody will read. A list that is compiled to run many times is known as a whole, and passes
//! use that. A pass is pure and deterministic; what it returns is a list like any other: printed,
//! checked by `millstream_verify::check`, and compared with the list before it by
//! `millstream_verify::same_operations`. A list that a pass cannot improve stays as it is.
//!
//! | pass | what it does |
//! |---|---|
//! | `dead` | removes calls, views, allocations and touches whose results nobody can observe |
//! | `fold` | makes calls of constants once, and not in each launch |
//! | `fuse` | makes one call of op `fused` of chains and trees of elementwise calls |
//! | `assign` | spreads the calls of a host device over a number of in-order streams |
//! | `waits` | removes records and waits, and lets one wait serve for several |
//! | `remat` | computes storages again, so that the list fits its memory budgets |
//! | `memory` | places storages, workspaces and results over operands anew, by exact lifetimes |
//!
//! Each module names the source of its algorithm.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use millstream_instructions::passes::{CoreCosts, Effort, Outputs, Pass, PassOptions, run};
//! use millstream_instructions::text::{parse_list, print_list};
//!
//! let list = parse_list(
//!     "millstream-list 1
//!     stream s0 cpu:0 compute 0 in-order
//!     arena a0 cpu:0
//!     external %0 \"x\" f32[4] in 16 bytes of a0
//!     external %1 \"y\" f32[4] in 16 bytes of a0
//!     AllocateTensor s0 %2 f32[4] as 16 bytes at a0+0 generation 1
//!     OpCall s0:1 tanh (%0 read, %2 write)
//!     AllocateTensor s0 %3 f32[4] as 16 bytes at a0+512 generation 2
//!     OpCall s0:2 exp (%0 read, %3 write)
//!     OpCall s0:3 mul (%2 read, %0 read, %1 write)",
//! )?;
//! let ops = millstream_ops::standard();
//! let (costs, outputs) = (CoreCosts::default(), Outputs::All);
//! let options = PassOptions {
//!     ops: &ops,
//!     standard_kernels: &|_| true,
//!     costs: &costs,
//!     streams: 1,
//!     threads: 1,
//!     outputs: &outputs,
//!     effort: Effort::Usual,
//!     budgets: &BTreeMap::new(),
//! };
//! let passes = Pass::parse_list("dead,fuse")?;
//! let list = run(&list, &passes, &options, |pass, list| {
//!     println!("after {pass}:\n{}", print_list(list));
//!     Ok(())
//! })?;
//! // Nobody reads the result of exp; the result of tanh stays within the fused call.
//! assert_eq!(list.instructions.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Order of passes
//! Any order gives a correct list. `dead,fuse,assign,waits,remat,memory`, the order of
//! [`Pass::ALL`], gives the best one: the fewer calls there are, the better they are spread;
//! streams decide which waits are needed; and waits decide which storages may share bytes. `assign`
//! may need more memory and more waits than the list before it, and more than a budget: `remat`
//! comes after it. `remat` does nothing without a budget, and may add calls and waits. No other
//! pass needs more, except that on a pool `dead` may add a wait where a dead call ordered two side
//! effects.
//!
//! # What a pass keeps
//! - Externals with their names, the ids of tensors, reads and callbacks, the origins of
//!   instructions, arguments, priorities, the declared arenas, barriers and host observations.
//! - Every instruction with a *side effect*: callbacks, reads, collectives, launches
//!   of stored lists, critical sections, global syncs, and calls that write nothing. Two side
//!   effects that were ordered stay ordered.
//! - The content of every output external at the end.
//! - The bits of results: each op runs on the same values, layouts and arguments.
//!
//! Waits and events of the program that no data, no memory and no side effect needs may go. An
//! error of a call that `dead` removes is not reported, since the call does not run. A fused call
//! fails, and is poisoned, as a whole.
//!
//! Passes ask no schema how an op uses its operands: they take the accesses that the instructions
//! state. Only `fuse` asks for schemas: those of the standard elementwise ops, and of `fused`.
//! Calls of ops, or with kernels, that a program has replaced are not fused.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `dead`, `fold`, `fuse`, `assign`, `waits`, `remat`, `memory` | the passes |
//! | `rebuild` | the emission of a changed list through a fresh builder |
//! | `facts` | tensors, storages and side effects of a list |
//! | `reuse` | results in the storages of operands |
//! | `placement` | offsets for all storages and workspaces together |
//! | [`offsets`] | offsets for buffers in an order: orders, bound, search |
//! | `cost` | the times of calls |
//! | `timeline` | the time of a list |

mod assign;
pub mod cost;
mod dead;
mod facts;
mod fold;
mod fuse;
mod memory;
pub mod offsets;
mod placement;
mod rebuild;
mod remat;
mod reuse;
mod timeline;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use millstream_ops::OpRegistry;
use millstream_types::nearest::did_you_mean;
use millstream_types::{DeviceId, Error, Result};

use crate::instruction::Class;
use crate::list::InstructionList;

pub use cost::{CoreCosts, CostModel};
pub use fold::{Folded, fold};
pub use memory::{ArenaPlan, Owners, arena_plans};
pub use offsets::Effort;
pub use placement::arena_bytes;
pub use remat::{Fixed, Remat, rematerialize};

/// A pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// Removes what nobody can observe.
    Dead,
    /// Makes calls of constants once, before the first launch. What the results are is no part of a
    /// list, so this is a pass of lists that are recorded; [`Pass::apply`] leaves a list as it is.
    Fold,
    /// Makes one call of chains and trees of elementwise calls.
    Fuse,
    /// Spreads calls over streams.
    Assign,
    /// Removes waits.
    Waits,
    /// Computes storages again, within memory budgets.
    Remat,
    /// Places memory anew.
    Memory,
}

impl Pass {
    /// Every pass of lists alone, in the order that gives the best list.
    pub const ALL: [Pass; 6] =
        [Pass::Dead, Pass::Fuse, Pass::Assign, Pass::Waits, Pass::Remat, Pass::Memory];

    /// Returns the name used on command lines and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Pass::Dead => "dead",
            Pass::Fold => "fold",
            Pass::Fuse => "fuse",
            Pass::Assign => "assign",
            Pass::Waits => "waits",
            Pass::Remat => "remat",
            Pass::Memory => "memory",
        }
    }

    /// Parses names of passes, separated by commas. The empty text names none.
    ///
    /// # Errors
    /// A name is not one of a pass.
    pub fn parse_list(text: &str) -> Result<Vec<Pass>> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(str::parse).collect()
    }

    /// Applies the pass. Returns the list unchanged if the pass cannot improve it.
    ///
    /// # Errors
    /// The list is not one that the checker accepts, or does not fit a budget; the error names the
    /// instruction's origin.
    pub fn apply(
        self,
        list: &InstructionList,
        options: &PassOptions<'_>,
    ) -> Result<InstructionList> {
        let own = facts::with_own_ids(list)?;
        let list = own.as_ref().unwrap_or(list);
        match self {
            Pass::Dead => dead::dead(list, options),
            Pass::Fold => Ok(list.clone()),
            Pass::Fuse => fuse::fuse(list, options),
            Pass::Assign => assign::assign(list, options),
            Pass::Waits => waits::waits(list, options),
            Pass::Remat => remat::remat(list, options),
            Pass::Memory => memory::memory(list, options),
        }
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Pass {
    type Err = Error;

    fn from_str(name: &str) -> Result<Pass> {
        let all = || Pass::ALL.into_iter().chain([Pass::Fold]);
        let found = all().find(|pass| pass.name() == name);
        found.ok_or_else(|| Error::Unknown {
            what: "pass",
            name: name.to_owned(),
            help: did_you_mean(name, all().map(Pass::name)),
        })
    }
}

/// The externals whose content at the end of a list is a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outputs {
    /// All of them.
    #[default]
    All,
    /// Those with these names.
    Named(BTreeSet<String>),
}

impl Outputs {
    /// Whether the external of this name is an output.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Outputs::All => true,
            Outputs::Named(names) => names.contains(name),
        }
    }
}

/// The options of passes.
#[derive(Clone, Copy)]
pub struct PassOptions<'a> {
    /// The ops that calls may become.
    pub ops: &'a OpRegistry,
    /// Whether all kernels of an op are the standard ones, so that `fuse` may replace its calls.
    pub standard_kernels: &'a dyn Fn(&str) -> bool,
    /// The times of calls.
    pub costs: &'a dyn CostModel,
    /// The number of in-order streams of each host device that `assign` spreads calls over, each
    /// with a core.
    pub streams: usize,
    /// The number of threads that share a kernel.
    pub threads: usize,
    /// The externals that are results.
    pub outputs: &'a Outputs,
    /// How long `memory` may search for offsets.
    pub effort: Effort,
    /// The most memory of the list on a device, in bytes. `remat` keeps it, `memory` never exceeds
    /// it where the list before did not, and `assign` may.
    pub budgets: &'a BTreeMap<DeviceId, u64>,
}

impl fmt::Debug for PassOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassOptions")
            .field("streams", &self.streams)
            .field("outputs", &self.outputs)
            .field("effort", &self.effort)
            .field("budgets", &self.budgets)
            .finish_non_exhaustive()
    }
}

/// Applies passes one after another. Calls `after` with the name of each and the list that it gave,
/// to print it, or to prove it.
///
/// # Errors
/// As [`Pass::apply`], or the first error of `after`.
pub fn run(
    list: &InstructionList,
    passes: &[Pass],
    options: &PassOptions<'_>,
    mut after: impl FnMut(Pass, &InstructionList) -> Result<()>,
) -> Result<InstructionList> {
    let mut list = list.clone();
    for &pass in passes {
        list = pass.apply(&list, options)?;
        after(pass, &list)?;
    }
    Ok(list)
}

/// Returns the number of points of a list that are records or waits. A wait that records its event
/// itself counts as two.
pub fn sync_points(list: &InstructionList) -> usize {
    let bodies = list.instructions.iter().map(|i| &i.body);
    let syncs = bodies.filter(|body| matches!(body.class(), Class::Records | Class::Waits));
    syncs.map(|body| 1 + usize::from(body.second_point().is_some())).sum()
}
