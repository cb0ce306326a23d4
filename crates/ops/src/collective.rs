//! Collectives: ops in which all ranks of a program take part.
//!
//! | op | what it does |
//! |---|---|
//! | `allreduce_(x...; op="sum", round)` | each x becomes the reduction over all ranks |
//! | `broadcast_(x...; root, round)` | each x becomes that of the root |
//! | `allgather_(out, x; round)` | out becomes the x of all ranks, in rank order |
//! | `reduce_scatter_(out, x; op="sum", round)` | out becomes this rank's part of the reduced x |
//! | `alltoall_(out, x; output_splits, input_splits, round)` | part k of x goes to rank k |
//! | `send(x...; to, tag)`, `recv_(x...; from, tag)` | from one rank to another |
//!
//! `round` numbers the collectives in program order; ranks match collectives by round, not by
//! arrival. Reductions combine in rank order, so all ranks get the same bits. A send does not wait
//! for its receiver.
//!
//! Source of the semantics: <https://docs.pytorch.org/docs/stable/distributed.html>.

use millstream_types::{Access, DType, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::required;
use crate::def::{Arity, Def, arg, refused};
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

pub(crate) const OPS: &[Def] =
    &[ALLREDUCE, BROADCAST, ALLGATHER, REDUCE_SCATTER, ALLTOALL, SEND, RECV];

/// Returns whether an op is a collective, a send or a receive.
pub fn is(op: &str) -> bool {
    OPS.iter().any(|def| def.name == op)
}

const ROUND: ArgDoc =
    arg("round", "the number of this collective in program order, from 0; the same on all ranks")
        .int();
const REDUCTION: ArgDoc =
    arg("op", "\"sum\", \"product\", \"min\", \"max\" or \"mean\"").text().or("\"sum\"");
const EACH: &[ArgDoc] =
    &[arg("x", "any shape, without overlapping elements; overwritten; any number of them")];
const PAIR: &[ArgDoc] = &[
    arg("out", "without overlapping elements; overwritten"),
    arg("x", "out's dtype; the same shape on all ranks"),
];

/// A reduction over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// The sum divided by the number of ranks.
    Mean,
}

impl ReduceOp {
    /// Returns the reduction that the argument `op` names; the sum by default.
    ///
    /// # Errors
    /// Fails if `op` is not the name of a reduction.
    pub fn of(attrs: &millstream_types::Attrs) -> Result<ReduceOp> {
        use millstream_types::{AttrValue, Error};
        match attrs.get("op") {
            None => Ok(ReduceOp::Sum),
            Some(AttrValue::Str(name)) => match name.as_str() {
                "sum" => Ok(ReduceOp::Sum),
                "product" => Ok(ReduceOp::Product),
                "min" => Ok(ReduceOp::Min),
                "max" => Ok(ReduceOp::Max),
                "mean" => Ok(ReduceOp::Mean),
                _ => Err(Error::Unknown {
                    what: "reduction",
                    name: name.clone(),
                    help: millstream_types::nearest::did_you_mean(
                        name,
                        ["sum", "product", "min", "max", "mean"],
                    ),
                }),
            },
            Some(other) => Err(Error::Invalid {
                what: "argument",
                message: format!("op: expected the name of a reduction, got {other}"),
            }),
        }
    }
}

const ALLREDUCE: Def = Def {
    name: "allreduce_",
    summary: "replaces each tensor by its reduction over all ranks, in rank order",
    inputs: EACH,
    attrs: &[REDUCTION, ROUND],
    arity: Arity::Many(1),
    rule: |call| {
        round(call)?;
        reduces(call, "allreduce_", &call.inputs[0])?;
        in_place(call, "allreduce_", Access::ReadWrite)
    },
};

const BROADCAST: Def = Def {
    name: "broadcast_",
    summary: "replaces the tensors of all ranks by those of the root",
    inputs: EACH,
    attrs: &[arg("root", "the rank whose tensors are sent").int(), ROUND],
    arity: Arity::Many(1),
    rule: |call| {
        round(call)?;
        rank(call, "root")?;
        in_place(call, "broadcast_", Access::ReadWrite)
    },
};

const ALLGATHER: Def = Def {
    name: "allgather_",
    summary: "concatenates the tensors of all ranks into out, in rank order",
    inputs: PAIR,
    attrs: &[ROUND],
    arity: Arity::Listed,
    rule: |call| pair(call, "allgather_"),
};

const REDUCE_SCATTER: Def = Def {
    name: "reduce_scatter_",
    summary: "reduces the tensors of all ranks and writes this rank's part to out",
    inputs: PAIR,
    attrs: &[REDUCTION, ROUND],
    arity: Arity::Listed,
    rule: |call| {
        reduces(call, "reduce_scatter_", &call.inputs[1])?;
        pair(call, "reduce_scatter_")
    },
};

const ALLTOALL: Def = Def {
    name: "alltoall_",
    summary: "sends part k of x to rank k, along the first dimension",
    inputs: PAIR,
    attrs: &[
        arg("output_splits", "rows received from each rank").ints().or("equal parts"),
        arg("input_splits", "rows sent to each rank").ints().or("equal parts"),
        ROUND,
    ],
    arity: Arity::Listed,
    rule: |call| {
        for (name, tensor) in
            [("output_splits", &call.inputs[0]), ("input_splits", &call.inputs[1])]
        {
            let Some(splits) = call.attrs.ints(name)? else { continue };
            let rows = tensor.shape().first().copied().unwrap_or(1) as i128;
            let total: i128 = splits.iter().map(|&s| i128::from(s)).sum();
            if splits.iter().any(|s| *s < 0) || total != rows {
                let message = format!(
                    "{name}: expected 0 or more each, {rows} row(s) in total, got {splits:?}"
                );
                return Err(refused("alltoall_", message));
            }
        }
        pair(call, "alltoall_")
    },
};

const SEND: Def = Def {
    name: "send",
    summary: "sends tensors to another rank without waiting for their receipt",
    inputs: &[arg("x", "any shape; any number of them")],
    attrs: &[
        arg("to", "the rank that receives them").int(),
        arg("tag", "distinguishes messages between the same ranks").int().or("0"),
    ],
    arity: Arity::Many(1),
    rule: |call| {
        rank(call, "to")?;
        call.attrs.int("tag")?;
        Ok(Signature {
            accesses: SmallVec::from_elem(Access::Read, call.inputs.len()),
            outputs: SmallVec::new(),
            workspace: 0,
        })
    },
};

const RECV: Def = Def {
    name: "recv_",
    summary: "waits for the tensors that another rank sends and writes them to x",
    inputs: EACH,
    attrs: &[
        arg("from", "the rank that sends them").int(),
        arg("tag", "distinguishes messages between the same ranks").int().or("0"),
    ],
    arity: Arity::Many(1),
    rule: |call| {
        rank(call, "from")?;
        call.attrs.int("tag")?;
        in_place(call, "recv_", Access::Write)
    },
};

fn round(call: CallSpec<'_>) -> Result<()> {
    match required("round", call.attrs.int("round")?)? {
        0.. => Ok(()),
        other => Err(refused("a collective", format!("round: expected 0 or more, got {other}"))),
    }
}

fn rank(call: CallSpec<'_>, name: &str) -> Result<()> {
    match required(name, call.attrs.int(name)?)? {
        0.. => Ok(()),
        other => {
            Err(refused("a collective", format!("{name}: expected a rank, 0 or more, got {other}")))
        }
    }
}

fn reduces(call: CallSpec<'_>, op: &str, x: &TensorSpec) -> Result<()> {
    let reduction = ReduceOp::of(call.attrs)?;
    if reduction == ReduceOp::Mean && !x.dtype.is_float() {
        return Err(refused(op, format!("op: mean expects floats, got {}", x.brief())));
    }
    if x.dtype == DType::Bool && !matches!(reduction, ReduceOp::Min | ReduceOp::Max) {
        return Err(refused(op, format!("expected numbers, got {}", x.brief())));
    }
    Ok(())
}

fn in_place(call: CallSpec<'_>, op: &str, access: Access) -> Result<Signature> {
    if let Some(x) = call.inputs.iter().find(|x| x.layout.may_overlap_itself()) {
        return Err(refused(
            op,
            format!("{x} has overlapping elements and cannot be written; pass a copy"),
        ));
    }
    Ok(Signature {
        accesses: SmallVec::from_elem(access, call.inputs.len()),
        outputs: (0..call.inputs.len()).map(OutputSpec::Same).collect(),
        workspace: 0,
    })
}

fn pair(call: CallSpec<'_>, op: &str) -> Result<Signature> {
    round(call)?;
    let (out, x) = (&call.inputs[0], &call.inputs[1]);
    if out.dtype != x.dtype {
        return Err(refused(
            op,
            format!("expected one dtype, got {} and {}", out.brief(), x.brief()),
        ));
    }
    if out.layout.may_overlap_itself() {
        return Err(refused(
            op,
            format!("{out} has overlapping elements and cannot be written; pass another"),
        ));
    }
    Ok(Signature {
        accesses: SmallVec::from_iter([Access::Write, Access::Read]),
        outputs: SmallVec::from_iter([OutputSpec::Same(0)]),
        workspace: 0,
    })
}
