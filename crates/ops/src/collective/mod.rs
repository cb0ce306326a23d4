//! Collectives: ops in which several ranks of a program take part.
//!
//! | op | what it does |
//! |---|---|
//! | `allreduce_(x...; op="sum")` | each x becomes the reduction over all ranks |
//! | `reduce_(x...; root, op="sum")` | each x of the root becomes the reduction over all ranks |
//! | `broadcast_(x...; root)` | each x becomes that of the root |
//! | `allgather_(out, x; splits)` | out becomes the x of all ranks, in rank order |
//! | `reduce_scatter_(out, x; op="sum", splits)` | out becomes this rank's part of the reduced x |
//! | `alltoall_(out, x; output_splits, input_splits)` | part k of x goes to rank k |
//! | `gather_to_(x, out; root, splits)` | out of the root becomes the x of all ranks |
//! | `scatter_from_(out, x; root, splits)` | out becomes this rank's part of the root's x |
//! | `barrier_(x...)` | x is used by nobody before every rank has got here |
//! | `send(x...; to, tag)`, `recv_(x...; from, tag)` | from one rank to another |
//!
//! All but `send` and `recv_` take part within a group (`group`, `group_index`): all ranks of the
//! program by default. Roots and peers are ranks of the program.
//!
//! Ranks match their collectives by number, not by arrival: the machine numbers the calls of each
//! [`Channel`] in the order of its program. Reductions combine in rank order, so all ranks get the
//! same bits. A send does not wait for its receiver.
//!
//! Source of the semantics: <https://docs.pytorch.org/docs/stable/distributed.html>.

mod channel;
mod reduce_op;

use millstream_types::{Access, DType, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::required;
use crate::def::{Def, arg, refused};
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

pub use channel::{Channel, Numbering, ProcessGroup};
pub use reduce_op::ReduceOp;

pub(crate) const OPS: &[Def] = &[
    ALLREDUCE,
    REDUCE,
    BROADCAST,
    ALLGATHER,
    REDUCE_SCATTER,
    ALLTOALL,
    GATHER,
    SCATTER,
    BARRIER,
    SEND,
    RECV,
];

/// The argument by which a machine gives the kernel of a collective the number of its call.
pub const NUMBER: &str = "round";

/// Returns whether an op is a collective, a send or a receive.
pub fn is(op: &str) -> bool {
    OPS.iter().any(|def| def.name == op)
}

const GROUP: ArgDoc =
    arg("group", "the ranks that take part, ascending").ints().or("all ranks of the program");
const GROUP_INDEX: ArgDoc =
    arg("group_index", "tells groups of the same ranks apart").int().or("0");
const SPLITS: ArgDoc =
    arg("splits", "rows along the first dimension of each rank's part").ints().or("equal parts");
const REDUCTION: ArgDoc =
    arg("op", "\"sum\", \"product\", \"min\", \"max\" or \"mean\"").text().or("\"sum\"");
const EACH: &[ArgDoc] =
    &[arg("x", "any shape, without overlapping elements; overwritten; any number of them")];
const PAIR: &[ArgDoc] = &[
    arg("out", "without overlapping elements; overwritten"),
    arg("x", "out's dtype; the same shape on all ranks"),
];

const ALLREDUCE: Def = Def::new(
    "allreduce_",
    "replaces each tensor by its reduction over all ranks, in rank order",
    EACH,
    &[REDUCTION, GROUP, GROUP_INDEX],
    |call| {
        group(call)?;
        reduces(call, "allreduce_")?;
        in_place(call, "allreduce_", Access::ReadWrite)
    },
)
.many(1)
.complex();

const REDUCE: Def = Def::new(
    "reduce_",
    "replaces each tensor of the root by its reduction over all ranks, in rank order",
    EACH,
    &[arg("root", "the rank that gets the reductions").int(), REDUCTION, GROUP, GROUP_INDEX],
    |call| {
        group(call)?;
        rank(call, "root")?;
        reduces(call, "reduce_")?;
        in_place(call, "reduce_", Access::ReadWrite)
    },
)
.many(1)
.complex();

const BROADCAST: Def = Def::new(
    "broadcast_",
    "replaces the tensors of all ranks by those of the root",
    EACH,
    &[arg("root", "the rank whose tensors are sent").int(), GROUP, GROUP_INDEX],
    |call| {
        group(call)?;
        rank(call, "root")?;
        in_place(call, "broadcast_", Access::ReadWrite)
    },
)
.many(1)
.complex()
.unsigned();

const ALLGATHER: Def = Def::new(
    "allgather_",
    "concatenates the tensors of all ranks into out, in rank order",
    PAIR,
    &[SPLITS, GROUP, GROUP_INDEX],
    |call| {
        splits(call, "allgather_", "splits", Some(&call.inputs[0]))?;
        pair(call, "allgather_")
    },
)
.complex()
.unsigned();

const REDUCE_SCATTER: Def = Def::new(
    "reduce_scatter_",
    "reduces the tensors of all ranks and writes this rank's part to out",
    PAIR,
    &[REDUCTION, SPLITS, GROUP, GROUP_INDEX],
    |call| {
        reduces(call, "reduce_scatter_")?;
        splits(call, "reduce_scatter_", "splits", Some(&call.inputs[1]))?;
        pair(call, "reduce_scatter_")
    },
)
.complex();

const ALLTOALL: Def = Def::new(
    "alltoall_",
    "sends part k of x to rank k, along the first dimension",
    PAIR,
    &[
        arg("output_splits", "rows received from each rank").ints().or("equal parts"),
        arg("input_splits", "rows sent to each rank").ints().or("equal parts"),
        GROUP,
        GROUP_INDEX,
    ],
    |call| {
        splits(call, "alltoall_", "output_splits", Some(&call.inputs[0]))?;
        splits(call, "alltoall_", "input_splits", Some(&call.inputs[1]))?;
        pair(call, "alltoall_")
    },
)
.complex()
.unsigned();

const GATHER: Def = Def::new(
    "gather_to_",
    "concatenates the tensors of all ranks into out of the root, in rank order",
    &[
        arg("x", "any shape"),
        arg("out", "x's dtype, without overlapping elements; overwritten; on the root alone"),
    ],
    &[arg("root", "the rank that gets the tensors").int(), SPLITS, GROUP, GROUP_INDEX],
    |call| {
        splits(call, "gather_to_", "splits", call.inputs.get(1))?;
        rooted(call, "gather_to_", Access::Read, Access::Write)
    },
)
.optional(1)
.complex()
.unsigned();

const SCATTER: Def = Def::new(
    "scatter_from_",
    "writes this rank's part of the root's tensor to out",
    &[
        arg("out", "without overlapping elements; overwritten"),
        arg("x", "out's dtype; on the root alone"),
    ],
    &[arg("root", "the rank whose tensor is cut").int(), SPLITS, GROUP, GROUP_INDEX],
    |call| {
        splits(call, "scatter_from_", "splits", call.inputs.get(1))?;
        rooted(call, "scatter_from_", Access::Write, Access::Read)
    },
)
.optional(1)
.complex()
.unsigned();

const BARRIER: Def = Def::new(
    "barrier_",
    "waits until every rank of the group has got here; what uses the tensors waits too",
    &[arg("x", "any shape; any number of them; unchanged")],
    &[GROUP, GROUP_INDEX],
    |call| {
        group(call)?;
        Ok(Signature {
            accesses: SmallVec::from_elem(Access::ReadWrite, call.inputs.len()),
            outputs: (0..call.inputs.len()).map(OutputSpec::Same).collect(),
            workspace: 0,
        })
    },
)
.many(1)
.complex()
.unsigned();

const SEND: Def = Def::new(
    "send",
    "sends tensors to another rank without waiting for their receipt",
    &[arg("x", "any shape; any number of them")],
    &[
        arg("to", "the rank that receives them").int(),
        arg("tag", "distinguishes messages between the same ranks").int().or("0"),
    ],
    |call| {
        rank(call, "to")?;
        call.attrs.int("tag")?;
        Ok(Signature {
            accesses: SmallVec::from_elem(Access::Read, call.inputs.len()),
            outputs: SmallVec::new(),
            workspace: 0,
        })
    },
)
.many(1)
.complex()
.unsigned();

const RECV: Def = Def::new(
    "recv_",
    "waits for the tensors that another rank sends and writes them to x",
    EACH,
    &[
        arg("from", "the rank that sends them").int(),
        arg("tag", "distinguishes messages between the same ranks").int().or("0"),
    ],
    |call| {
        rank(call, "from")?;
        call.attrs.int("tag")?;
        in_place(call, "recv_", Access::Write)
    },
)
.many(1)
.complex()
.unsigned();

/// Checks the arguments that name a group, as far as one rank's call shows them.
fn group(call: CallSpec<'_>) -> Result<()> {
    // The number of ranks is known to a machine alone.
    ProcessGroup::check(call.attrs)
}

fn rank(call: CallSpec<'_>, name: &str) -> Result<()> {
    match required(name, call.attrs.int(name)?)? {
        0.. => Ok(()),
        other => {
            Err(refused("a collective", format!("{name}: expected a rank, 0 or more, got {other}")))
        }
    }
}

fn reduces(call: CallSpec<'_>, op: &str) -> Result<()> {
    let reduction = ReduceOp::of(call.attrs)?;
    for x in call.inputs {
        if x.dtype.is_complex() && !matches!(reduction, ReduceOp::Sum | ReduceOp::Mean) {
            let message = format!("op: complex numbers have a sum and a mean, got {}", x.brief());
            return Err(refused(op, message));
        }
        if reduction == ReduceOp::Mean && !x.dtype.is_inexact() {
            return Err(refused(op, format!("op: mean expects floats, got {}", x.brief())));
        }
        if x.dtype == DType::Bool && !matches!(reduction, ReduceOp::Min | ReduceOp::Max) {
            return Err(refused(op, format!("expected numbers, got {}", x.brief())));
        }
    }
    Ok(())
}

/// Checks splits, which sum up to the rows of the tensor that they divide.
fn splits(call: CallSpec<'_>, op: &str, name: &str, of: Option<&TensorSpec>) -> Result<()> {
    let Some(splits) = call.attrs.ints(name)? else { return Ok(()) };
    let rows = of.map(|of| of.shape().first().copied().unwrap_or(1) as i128);
    let total: i128 = splits.iter().map(|&s| i128::from(s)).sum();
    if splits.iter().any(|s| *s < 0) || rows.is_some_and(|rows| total != rows) {
        let rows = rows.map_or_else(String::new, |rows| format!(", {rows} row(s) in total"));
        return Err(refused(op, format!("{name}: expected 0 or more each{rows}, got {splits:?}")));
    }
    Ok(())
}

/// Returns the signature of a collective whose second tensor exists on the root alone.
fn rooted(call: CallSpec<'_>, op: &str, first: Access, second: Access) -> Result<Signature> {
    group(call)?;
    rank(call, "root")?;
    let [one, others @ ..] = call.inputs else { return Err(refused(op, "expected a tensor")) };
    if let Some(other) = others.iter().find(|other| other.dtype != one.dtype) {
        let (one, other) = (one.brief(), other.brief());
        return Err(refused(op, format!("expected one dtype, got {one} and {other}")));
    }
    let accesses: SmallVec<[Access; 4]> =
        [first, second].into_iter().take(call.inputs.len()).collect();
    for (x, access) in call.inputs.iter().zip(&accesses) {
        if access.writes() && x.layout.may_overlap_itself() {
            return Err(overlapping(op, x));
        }
    }
    let written = (0..accesses.len()).filter(|&k| accesses[k].writes());
    Ok(Signature { outputs: written.map(OutputSpec::Same).collect(), accesses, workspace: 0 })
}

fn overlapping(op: &str, x: &TensorSpec) -> millstream_types::Error {
    refused(op, format!("{x} has overlapping elements and cannot be written; pass another"))
}

fn in_place(call: CallSpec<'_>, op: &str, access: Access) -> Result<Signature> {
    if let Some(x) = call.inputs.iter().find(|x| x.layout.may_overlap_itself()) {
        return Err(overlapping(op, x));
    }
    Ok(Signature {
        accesses: SmallVec::from_elem(access, call.inputs.len()),
        outputs: (0..call.inputs.len()).map(OutputSpec::Same).collect(),
        workspace: 0,
    })
}

fn pair(call: CallSpec<'_>, op: &str) -> Result<Signature> {
    group(call)?;
    let (out, x) = (&call.inputs[0], &call.inputs[1]);
    if out.dtype != x.dtype {
        return Err(refused(
            op,
            format!("expected one dtype, got {} and {}", out.brief(), x.brief()),
        ));
    }
    if out.layout.may_overlap_itself() {
        return Err(overlapping(op, out));
    }
    Ok(Signature {
        accesses: SmallVec::from_iter([Access::Write, Access::Read]),
        outputs: SmallVec::from_iter([OutputSpec::Same(0)]),
        workspace: 0,
    })
}
