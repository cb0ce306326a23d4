//! Copies, fills and conversions.
//!
//! | op | result |
//! |---|---|
//! | `copy(x)` | a new dense tensor with the same elements, bit for bit |
//! | `cast(x; dtype)` | a new dense tensor of another dtype |
//! | `fill(x; value)` | every element of x becomes the value |
//!
//! `cast` from float to integer cuts towards zero; what is out of range becomes the nearest value
//! that is in range, and NaN becomes 0 (PyTorch leaves both undefined). Integers to narrower
//! integers keep the low bits. To bool is "not zero". To f16 and bf16 goes through f32, as in
//! PyTorch.

use smallvec::SmallVec;

use millstream_types::{Access, TensorSpec};

use crate::args::{Scalar, required};
use crate::def::{Def, arg, refused};
use crate::schema::{OutputSpec, Signature};

pub(crate) const COPY: Def = Def {
    name: "copy",
    summary: "a new dense tensor with the same elements; also from one device to another",
    inputs: &[arg("x", "any shape")],
    attrs: &[],
    rule: |call| {
        let x = &call.inputs[0];
        Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, x.shape())?))
    },
};

pub(crate) const CAST: Def = Def {
    name: "cast",
    summary: "the elements converted to another dtype; out of range saturates, NaN becomes 0",
    inputs: &[arg("x", "any shape")],
    attrs: &[arg("dtype", "the dtype to convert to")],
    rule: |call| {
        let dtype = required("dtype", call.attrs.dtype("dtype")?)?;
        Ok(Signature::reads(1, TensorSpec::contiguous(dtype, call.inputs[0].shape())?))
    },
};

pub(crate) const FILL: Def = Def {
    name: "fill",
    summary: "sets every element of x to a value, in place",
    inputs: &[arg("x", "any shape; overwritten")],
    attrs: &[arg("value", "a number that x's dtype can hold")],
    rule: |call| {
        let x = &call.inputs[0];
        let value = required("value", Scalar::of(call.attrs, "value")?)?;
        if !value.fits(x.dtype) {
            return Err(refused("fill", format!("{} cannot hold {value}", x.dtype)));
        }
        Ok(Signature {
            accesses: SmallVec::from_iter([Access::Write]),
            outputs: SmallVec::from_iter([OutputSpec::Same(0)]),
            workspace: 0,
        })
    },
};
