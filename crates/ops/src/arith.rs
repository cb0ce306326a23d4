//! Elementwise arithmetic.
//!
//! | op | result | dtypes |
//! |---|---|---|
//! | `add(x, y; alpha=1)` | x + alpha · y | all; bool: or |
//! | `sub(x, y; alpha=1)` | x - alpha · y | all but bool |
//! | `mul(x, y)` | x · y | all; bool: and |
//! | `relu(x)` | 0 where x < 0, else x; NaN stays NaN | all but bool |
//! | `add_(x, y; alpha=1)` | x becomes x + alpha · y | as `add`, if x can hold the result |
//!
//! Operands are converted to the common dtype ([`result_dtype`]) first. Integers wrap, so that the
//! result is right modulo two to the number of bits, alpha included. f16 and bf16 are computed in
//! f32 and rounded once.

use smallvec::SmallVec;

use millstream_types::{Access, DType, Result, TensorSpec};

use crate::args::Scalar;
use crate::broadcast::broadcast;
use crate::def::{Def, arg, refused};
use crate::promote::{can_store, result_dtype};
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const XY: &[ArgDoc] = &[arg("x", "any shape"), arg("y", "a shape that broadcasts with x")];
const ALPHA: &[ArgDoc] = &[arg("alpha", "factor of y; 1 unless given; whole for integers")];

pub(crate) const ADD: Def = Def {
    name: "add",
    summary: "x + alpha * y, broadcast",
    inputs: XY,
    attrs: ALPHA,
    rule: |call| {
        let common = common(call);
        alpha(call, "add", common)?;
        elementwise(call, common)
    },
};

pub(crate) const SUB: Def = Def {
    name: "sub",
    summary: "x - alpha * y, broadcast",
    inputs: XY,
    attrs: ALPHA,
    rule: |call| {
        if call.inputs.iter().any(|s| s.dtype == DType::Bool) {
            let message = format!("bool cannot be subtracted: {}", briefs(call.inputs));
            return Err(refused("sub", message));
        }
        let common = common(call);
        alpha(call, "sub", common)?;
        elementwise(call, common)
    },
};

pub(crate) const MUL: Def = Def {
    name: "mul",
    summary: "x * y, broadcast",
    inputs: XY,
    attrs: &[],
    rule: |call| elementwise(call, common(call)),
};

pub(crate) const RELU: Def = Def {
    name: "relu",
    summary: "x where it is not below zero, else zero",
    inputs: &[arg("x", "any shape")],
    attrs: &[],
    rule: |call| {
        let x = &call.inputs[0];
        if x.dtype == DType::Bool {
            return Err(refused("relu", format!("expected numbers, got {}", x.brief())));
        }
        Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, x.shape())?))
    },
};

pub(crate) const ADD_: Def = Def {
    name: "add_",
    summary: "adds alpha * y to x in place; y counts as read in full before x is written",
    inputs: &[
        arg("x", "any shape, no element twice; changed in place"),
        arg("y", "broadcasts to x; may share x's memory"),
    ],
    attrs: ALPHA,
    rule: add_in_place,
};

fn add_in_place(call: CallSpec<'_>) -> Result<Signature> {
    let (x, y) = (&call.inputs[0], &call.inputs[1]);
    let common = common(call);
    alpha(call, "add_", common)?;
    if !can_store(common, x.dtype) {
        let message = format!("the sum is {common}, which {} cannot hold", x.brief());
        return Err(refused("add_", message));
    }
    if broadcast(x.shape(), y.shape())?.as_slice() != x.shape() {
        let message = format!("{} does not broadcast to {}", y.brief(), x.brief());
        return Err(refused("add_", message));
    }
    if x.layout.may_overlap_itself() {
        let message = format!("{x} names elements more than once and cannot be changed in place");
        return Err(refused("add_", message));
    }
    Ok(Signature {
        accesses: SmallVec::from_iter([Access::ReadWrite, Access::Read]),
        outputs: SmallVec::from_iter([OutputSpec::Same(0)]),
        workspace: 0,
    })
}

fn common(call: CallSpec<'_>) -> DType {
    let of = |s: &TensorSpec| (s.dtype, s.layout.rank());
    result_dtype(of(&call.inputs[0]), of(&call.inputs[1]))
}

fn elementwise(call: CallSpec<'_>, dtype: DType) -> Result<Signature> {
    let shape = broadcast(call.inputs[0].shape(), call.inputs[1].shape())?;
    Ok(Signature::reads(2, TensorSpec::contiguous(dtype, &shape)?))
}

/// Checks `alpha` as PyTorch does: floats only for floats, truth values only for bool.
fn alpha(call: CallSpec<'_>, op: &str, common: DType) -> Result<()> {
    match Scalar::of(call.attrs, "alpha")? {
        Some(v @ Scalar::Float(_)) if !common.is_float() => {
            Err(refused(op, format!("alpha: expected a whole number for {common}, got {v}")))
        }
        Some(v @ Scalar::Bool(_)) if common != DType::Bool => {
            Err(refused(op, format!("alpha: expected a number for {common}, got {v}")))
        }
        _ => Ok(()),
    }
}

fn briefs(specs: &[TensorSpec]) -> String {
    specs.iter().map(TensorSpec::brief).collect::<Vec<_>>().join(", ")
}
