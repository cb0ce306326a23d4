//! Flips, rolls, triangles and padding.
//!
//! | op | result |
//! |---|---|
//! | `flip(x; dims)` | the order of elements reversed along dimensions |
//! | `roll(x; shifts, dims)` | elements shifted along dimensions, from the end back to the start |
//! | `triu(x; diagonal=0)`, `tril(x; diagonal=0)` | zero below, above a diagonal of each matrix |
//! | `triu_(x; diagonal=0)`, `tril_(x; diagonal=0)` | the same in place |
//! | `constant_pad_nd(x; pad, value=0)` | padded with a value; cut where pad is negative |
//!
//! Sources: <https://docs.pytorch.org/docs/stable/generated/torch.roll.html>,
//! <https://docs.pytorch.org/docs/stable/generated/torch.triu.html>,
//! <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pad.html>.

use millstream_types::{Access, Dims, Layout, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::{Scalar, dimension, required};
use crate::def::{Def, arg, refused};
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};
use crate::views::dims::named_once;
use crate::views::narrow;

pub(crate) const OPS: &[Def] = &[FLIP, ROLL, TRIU, TRIL, TRIU_, TRIL_, CONSTANT_PAD_ND];

const FLIP: Def = Def::new(
    "flip",
    "x with the order of elements reversed along dimensions",
    &[arg("x", "any shape")],
    &[arg("dims", "the dimensions").ints()],
    |call| {
        let x = &call.inputs[0];
        named_once(&required("dims", call.attrs.ints("dims")?)?, x.layout.rank())?;
        Ok(Signature::reads(1, TensorSpec::new(x.dtype, layouts::preserved(x)?)?))
    },
)
.complex()
.unsigned();

const ROLL: Def = Def::new(
    "roll",
    "x with elements shifted along dimensions, from the end back to the start",
    &[arg("x", "any shape")],
    &[
        arg("shifts", "the shift for each dimension").ints(),
        arg("dims", "the dimensions").ints().or("x as one row"),
    ],
    roll,
)
.complex()
.unsigned();

fn roll(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    let shifts = required("shifts", call.attrs.ints("shifts")?)?;
    let dims = call.attrs.ints("dims")?.unwrap_or_default();
    if shifts.is_empty() || (dims.len() != shifts.len() && (!dims.is_empty() || shifts.len() > 1)) {
        let message = format!("expected a shift for each dimension, got {shifts:?} for {dims:?}");
        return Err(refused("roll", message));
    }
    if x.layout.rank() == 0 && !dims.is_empty() {
        return Err(refused("roll", "expected one or more dimensions, got none"));
    }
    let dims = dims.iter().map(|&dim| dimension(dim, x.layout.rank()));
    let dims = dims.collect::<Result<SmallVec<[usize; 4]>>>()?;
    if x.numel() == 0 {
        return Ok(Signature::reads(1, TensorSpec::new(x.dtype, layouts::preserved(x)?)?));
    }
    // As in PyTorch, each dimension is the concatenation of its two parts in reverse order.
    let mut layout = x.layout.clone();
    for (&dim, &shift) in dims.iter().zip(&shifts) {
        let length = x.shape()[dim];
        let start = roll_start(length, shift);
        let tail = narrow(&layout, dim, start, length - start)?;
        layout = layouts::joined([&tail, &narrow(&layout, dim, 0, start)?], x.shape())?;
    }
    if dims.is_empty() {
        layout = Layout::contiguous(x.shape())?;
    }
    Ok(Signature::reads(1, TensorSpec::new(x.dtype, layout)?))
}

/// Returns the index of the element that a roll by `shift` moves to the start of a dimension.
pub fn roll_start(length: usize, shift: i64) -> usize {
    match i64::try_from(length) {
        Ok(length) if length > 0 => (length - shift.rem_euclid(length)) as usize % length as usize,
        _ => 0,
    }
}

const DIAGONAL: &[ArgDoc] =
    &[arg("diagonal", "the offset from the main diagonal, negative below it").int().or("0")];
const MATRICES: &[ArgDoc] = &[arg("x", "two or more dimensions")];
const MATRICES_IN_PLACE: &[ArgDoc] =
    &[arg("x", "two or more dimensions, without overlapping elements; changed in place")];

const TRIU: Def = Def::new(
    "triu",
    "the upper triangles of matrices: zero below a diagonal",
    MATRICES,
    DIAGONAL,
    |call| triangle("triu", call),
)
.complex()
.unsigned();

const TRIL: Def = Def {
    name: "tril",
    summary: "the lower triangles of matrices: zero above a diagonal",
    rule: |call| triangle("tril", call),
    ..TRIU
};

fn triangle(op: &str, call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    call.attrs.int("diagonal")?;
    if x.layout.rank() < 2 {
        let message = format!("expected two or more dimensions, got {}", x.brief());
        return Err(refused(op, message));
    }
    Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, x.shape())?))
}

const TRIU_: Def = Def {
    name: "triu_",
    summary: "sets the elements below a diagonal of matrices to zero, in place",
    inputs: MATRICES_IN_PLACE,
    rule: |call| triangle_in_place("triu_", call),
    ..TRIU
};

const TRIL_: Def = Def {
    name: "tril_",
    summary: "sets the elements above a diagonal of matrices to zero, in place",
    inputs: MATRICES_IN_PLACE,
    rule: |call| triangle_in_place("tril_", call),
    ..TRIU
};

fn triangle_in_place(op: &str, call: CallSpec<'_>) -> Result<Signature> {
    triangle(op, call)?;
    let x = &call.inputs[0];
    if x.layout.may_overlap_itself() {
        let message =
            format!("{x} has overlapping elements and cannot be changed in place; pass a copy");
        return Err(refused(op, message));
    }
    Ok(Signature {
        accesses: SmallVec::from_iter([Access::ReadWrite]),
        outputs: SmallVec::from_iter([OutputSpec::Same(0)]),
        workspace: 0,
    })
}

const CONSTANT_PAD_ND: Def = Def::new(
    "constant_pad_nd",
    "x padded with a value before and after its last dimensions",
    &[arg("x", "any shape")],
    &[
        arg(
            "pad",
            "the numbers of elements before and after, in pairs from the last dimension on; \
             negative numbers remove elements",
        )
        .ints(),
        arg("value", "the value").number().or("0"),
    ],
    pad,
)
.complex()
.unsigned();

fn pad(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    let value = Scalar::of(call.attrs, "value")?.unwrap_or(Scalar::Int(0));
    // The fraction is dropped for integers, as in `cast`; a value out of range is refused.
    let whole = match value {
        Scalar::Float(v) if x.dtype.is_int() => Scalar::Float(v.trunc()),
        other => other,
    };
    if !whole.fits(x.dtype) {
        return Err(refused("constant_pad_nd", format!("{} cannot hold {value}", x.dtype)));
    }
    let pads = pads("constant_pad_nd", x.shape(), &required("pad", call.attrs.ints("pad")?)?)?;
    let shape: Dims = pads.iter().map(|p| p.shape).collect();
    if pads.iter().all(|p| p.before == 0 && p.shape == p.kept) {
        // Without padding, the result is a copy of the remaining part in its own layout, as in
        // PyTorch.
        let mut layout = x.layout.clone();
        for (k, p) in pads.iter().enumerate() {
            layout = narrow(&layout, k, p.start, p.kept)?;
        }
        let layout = layouts::preserved(&TensorSpec::new(x.dtype, layout)?)?;
        return Ok(Signature::reads(1, TensorSpec::new(x.dtype, layout)?));
    }
    let layout = layouts::joined([&x.layout], &shape)?;
    Ok(Signature::reads(1, TensorSpec::new(x.dtype, layout)?))
}

/// The padding of one dimension.
#[derive(Clone, Copy, Debug)]
pub struct Pad {
    /// The first element kept.
    pub start: usize,
    /// The number of elements kept.
    pub kept: usize,
    /// The number of padded elements before them.
    pub before: usize,
    /// The length of the result.
    pub shape: usize,
}

/// Returns the padding of each dimension by the argument `pad`.
///
/// # Errors
/// Fails if the list has an odd length or more pairs than dimensions, or if it removes more
/// elements than there are.
pub fn pads(op: &str, shape: &[usize], pad: &[i64]) -> Result<SmallVec<[Pad; 4]>> {
    if !pad.len().is_multiple_of(2) || pad.len() / 2 > shape.len() {
        let message = format!(
            "pad: expected pairs of numbers for at most {} dimensions, got {pad:?}",
            shape.len()
        );
        return Err(refused(op, message));
    }
    let count = |n: i64| usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
    let split = |n: i64| if n < 0 { (count(n), 0) } else { (0, count(n)) };
    let of = |(k, &length): (usize, &usize)| {
        let at = 2 * (shape.len() - 1 - k);
        let (start, before) = split(pad.get(at).copied().unwrap_or(0));
        let (cut, after) = split(pad.get(at + 1).copied().unwrap_or(0));
        let kept = length.checked_sub(start).and_then(|left| left.checked_sub(cut));
        let kept = kept.ok_or_else(|| {
            refused(
                op,
                format!(
                    "pad: expected to remove at most {length} elements of a dimension, got {pad:?}"
                ),
            )
        })?;
        let shape = kept.saturating_add(before).saturating_add(after);
        Ok(Pad { start, kept, before, shape })
    };
    shape.iter().enumerate().map(of).collect()
}
