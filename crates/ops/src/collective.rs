//! Operations in which all ranks of a program take part.
//!
//! | op | what it does |
//! |---|---|
//! | `allreduce_(x...; op="sum", round)` | each x becomes the sum, product, greatest, least or mean of all ranks' |
//! | `broadcast_(x...; root, round)` | each x becomes the root's |
//! | `allgather_(out, x; round)` | out becomes all ranks' x, rank by rank |
//! | `reduce_scatter_(out, x; op="sum", round)` | out becomes this rank's part of the sum of all x |
//! | `alltoall_(out, x; output_splits, input_splits, round)` | part k of x goes to rank k |
//! | `send(x...; to, tag)`, `recv_(x...; from, tag)` | from one rank to another |
//!
//! `round` numbers the operations that all ranks take part in, in the order of the program: ranks
//! that come to the same round mean the same one. Sums are in the order of the ranks, so all ranks
//! have the same bits. A send does not wait for its receiver.
//!
//! Source of the meanings: <https://docs.pytorch.org/docs/stable/distributed.html>.

use millstream_types::{Access, DType, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::required;
use crate::def::{Arity, Def, arg, refused};
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

pub(crate) const OPS: &[Def] =
    &[ALLREDUCE, BROADCAST, ALLGATHER, REDUCE_SCATTER, ALLTOALL, SEND, RECV];

/// Whether an op is one of these.
pub fn is(op: &str) -> bool {
    OPS.iter().any(|def| def.name == op)
}

const ROUND: ArgDoc = arg("round", "which operation of all ranks this is, from 0 in program order");
const REDUCTION: ArgDoc = arg("op", "sum, product, min, max or mean; sum unless given");
const EACH: &[ArgDoc] = &[arg("x", "any shape, no element twice; overwritten; any number of them")];
const PAIR: &[ArgDoc] = &[
    arg("out", "no element twice; overwritten"),
    arg("x", "of out's dtype; all ranks' have the same shape"),
];

/// How elements of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The least of them.
    Min,
    /// The greatest of them.
    Max,
    /// Their sum divided by how many there are.
    Mean,
}

impl Reduction {
    /// The reduction that the argument `op` names.
    ///
    /// # Errors
    /// It names none.
    pub fn of(attrs: &millstream_types::Attrs) -> Result<Reduction> {
        use millstream_types::{AttrValue, Error};
        match attrs.get("op") {
            None => Ok(Reduction::Sum),
            Some(AttrValue::Str(name)) => match name.as_str() {
                "sum" => Ok(Reduction::Sum),
                "product" => Ok(Reduction::Product),
                "min" => Ok(Reduction::Min),
                "max" => Ok(Reduction::Max),
                "mean" => Ok(Reduction::Mean),
                _ => Err(Error::Unknown {
                    what: "reduction",
                    name: name.clone(),
                    nearest: millstream_types::nearest::nearest(
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
    summary: "combines each tensor with those of all ranks, in the order of the ranks",
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
    summary: "gives all ranks the root's tensors",
    inputs: EACH,
    attrs: &[arg("root", "the rank whose tensors they are"), ROUND],
    arity: Arity::Many(1),
    rule: |call| {
        round(call)?;
        rank(call, "root")?;
        in_place(call, "broadcast_", Access::ReadWrite)
    },
};

const ALLGATHER: Def = Def {
    name: "allgather_",
    summary: "puts all ranks' tensors into one, rank by rank",
    inputs: PAIR,
    attrs: &[ROUND],
    arity: Arity::Listed,
    rule: |call| pair(call, "allgather_"),
};

const REDUCE_SCATTER: Def = Def {
    name: "reduce_scatter_",
    summary: "combines all ranks' tensors and keeps this rank's part",
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
    summary: "gives part k of a tensor to rank k, along the first dimension",
    inputs: PAIR,
    attrs: &[
        arg("output_splits", "rows from each rank; equal parts unless given"),
        arg("input_splits", "rows for each rank; equal parts unless given"),
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
                let message = format!("{name}: {splits:?} do not share out {rows} row(s)");
                return Err(refused("alltoall_", message));
            }
        }
        pair(call, "alltoall_")
    },
};

const SEND: Def = Def {
    name: "send",
    summary: "sends tensors to another rank, and does not wait until they are received",
    inputs: &[arg("x", "any shape; any number of them")],
    attrs: &[
        arg("to", "the rank that receives them"),
        arg("tag", "tells messages apart; 0 unless given"),
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
    summary: "waits for tensors that another rank sends",
    inputs: EACH,
    attrs: &[
        arg("from", "the rank that sends them"),
        arg("tag", "tells messages apart; 0 unless given"),
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
        other => Err(refused("a collective", format!("{name}: expected a rank, got {other}"))),
    }
}

fn reduces(call: CallSpec<'_>, op: &str, x: &TensorSpec) -> Result<()> {
    let reduction = Reduction::of(call.attrs)?;
    if reduction == Reduction::Mean && !x.dtype.is_float() {
        return Err(refused(op, format!("a mean of {} is no {}", x.brief(), x.dtype)));
    }
    if x.dtype == DType::Bool && !matches!(reduction, Reduction::Min | Reduction::Max) {
        return Err(refused(op, format!("expected numbers, got {}", x.brief())));
    }
    Ok(())
}

fn in_place(call: CallSpec<'_>, op: &str, access: Access) -> Result<Signature> {
    if let Some(x) = call.inputs.iter().find(|x| x.layout.may_overlap_itself()) {
        return Err(refused(op, format!("{x} names elements more than once")));
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
        return Err(refused(op, format!("{} from {}: dtypes differ", out.brief(), x.brief())));
    }
    if out.layout.may_overlap_itself() {
        return Err(refused(op, format!("{out} names elements more than once")));
    }
    Ok(Signature {
        accesses: SmallVec::from_iter([Access::Write, Access::Read]),
        outputs: SmallVec::from_iter([OutputSpec::Same(0)]),
        workspace: 0,
    })
}
