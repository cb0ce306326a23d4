//! The shardings of a whole program: those of its inputs that are left open, and the division of
//! each call, such that the ranks exchange little and work little in all.
//!
//! # Costs
//! A program costs [`PER_BYTE`] for each byte that a rank receives, and one for each byte of the
//! parts that a call reads and writes on a rank: a link between ranks is slower than memory, and
//! whole tensors on all ranks would exchange nothing and do all work several times. A view works on
//! nothing.
//!
//! # Search
//! 1. Each call in order takes the division that is the cheapest by what its operands are held as.
//! 2. Chains of calls, each a consumer of the one before, take the divisions that are the cheapest
//!    together while all others stay, by dynamic programming; along the first consumers and along
//!    the last ones in turns, until nothing changes. So what a program requests of its results
//!    spreads backward as what its inputs have spreads forward. An input that is open always
//!    follows its uses.
//!
//! The result is a function of the program alone; ties go to the first division of an op's rule.
//!
//! Source: dynamic programming along a chain is A. Viterbi's, 1967. The choice call by call that it
//! begins with is that of J. Yuan et al., "OneFlow", 2021.
//!
//! | module | holds |
//! |---|---|
//! | `class` | the shardings of tensors of one dtype and shape, and the costs between them |
//! | `graph` | inputs and calls, the divisions that each may take, and the uses of values |
//! | `search` | the search |

mod class;
mod graph;
mod search;
#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use millstream_types::{Attrs, Mesh, Result, Sbp, Sharding, TensorSpec};

use super::choice::Pinned;
use crate::schema::Op;

use graph::Search;

/// What a byte that a rank receives costs, in bytes of memory that it reads or writes.
pub const PER_BYTE: u64 = 8;

/// How the ranks along each axis shall hold a tensor; `None` where it is open.
pub type Entries = SmallVec<[Option<Sbp>; 3]>;

/// A program of calls on global tensors of one mesh.
#[derive(Clone)]
pub struct Program<'a> {
    /// The mesh.
    pub mesh: &'a Mesh,
    /// The tensors.
    pub values: Vec<Value>,
    /// The calls, in order.
    pub calls: Vec<Call<'a>>,
    /// What the program requests of tensors, by their numbers.
    pub requests: Vec<(usize, Entries)>,
}

/// A tensor of a program.
#[derive(Clone, Debug)]
pub struct Value {
    /// The spec of the whole.
    pub spec: TensorSpec,
    /// What is known of its sharding.
    pub source: Source,
}

/// Where the sharding of a tensor comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// An input, which may be held in any way that has these entries.
    Input(Entries),
    /// It is held so.
    Held(Sharding),
    /// The call that makes it.
    Call,
}

/// A call of a program.
#[derive(Clone)]
pub struct Call<'a> {
    /// The op.
    pub op: &'a dyn Op,
    /// Its arguments.
    pub attrs: &'a Attrs,
    /// The numbers of its operands.
    pub operands: Vec<usize>,
    /// The numbers of its results; an operand's, where it is changed in place.
    pub results: Vec<usize>,
}

/// The shardings of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Shardings {
    /// Of each tensor.
    pub values: Vec<Sharding>,
    /// The division of each call.
    pub calls: Vec<Pinned>,
    /// How each requested tensor is held afterwards.
    pub requests: Vec<Sharding>,
    /// The bytes that the ranks receive.
    pub received: u64,
}

/// A cost that nothing has.
const NEVER: u64 = 1 << 60;

/// The most rounds of the search; one that changes nothing ends it before.
const ROUNDS: usize = 8;

impl Program<'_> {
    /// Chooses the shardings.
    ///
    /// # Errors
    /// An op refuses its operands or arguments; a tensor cannot be held as it shall be; a call
    /// changes a tensor in place that is held in a way that the op cannot write.
    pub fn shardings(&self) -> Result<Shardings> {
        let mut search = Search::of(self)?;
        search.run();
        search.result()
    }
}
