//! Seeded random numbers, equal on all devices.
//!
//! | op | result |
//! |---|---|
//! | `uniform(; shape, from=0, to=1)`, `uniform_(x)` | from `from` up to `to` |
//! | `normal(; shape, mean=0, std=1)`, `normal_(x)` | normally distributed |
//! | `exponential(; shape, lambd=1)`, `exponential_(x)` | exponentially distributed |
//! | `randint(; shape, low=0, high)`, `randint_(x)` | whole numbers from `low` to `high - 1` |
//! | `bernoulli(x; p)`, `bernoulli_(x; p)` | 1 with probability p, else 0 |
//!
//! All take a `seed` and an `offset`. The offset distinguishes calls with one seed. It may be a
//! tensor, which the program changes between calls. With `whole` and `first`, the result is a part
//! of a larger one: it has the elements that a call with the shape `whole` has from the indices
//! `first` on.
//!
//! # Numbers
//! All bits come from Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy
//! as 1, 2, 3", SC 2011). The key is the seed; the counter of block b is b in its low 64 bits and
//! the offset in its high 64 bits. Elements are numbered in row-major order of their indices,
//! independent of strides and devices; those of a part by their indices in the whole.
//!
//! - A *word* w of element k is word `k % 4` of block `k / 4`; a *long word* x is words
//!   `2 (k % 2)` (the low half) and `2 (k % 2) + 1` of block `k / 2`.
//! - *Uniform*: `u = x >> 11` of 2⁵³ steps for f64; else the top bits of w, as many as the dtype's
//!   precision has (24, 11, 8). The element is `from + u (to - from)` in f64, rounded.
//! - *Normal*: by Box and Muller, with `r = √(-2 ln(1 - u))` and `θ = 2π v`, where u and v are
//!   those of both long words of block `k / 2`: `r cos θ` for even k, `r sin θ` for odd k, in f64.
//! - *Exponential*: `-ln(1 - u) / lambd` in f64, with u of the long word.
//! - *Integers*: `low + x mod (high - low)`.
//! - *Bernoulli*: whether `w · 2⁻³² < p`.
//!
//! Logarithms and sines may differ between devices in the last bits of f64.

use smallvec::SmallVec;

use millstream_types::{Access, Attrs, DType, Dims, Layout, Result, TensorSpec};

use crate::args::required;
use crate::create::lengths;
use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

/// The argument that selects the random numbers, and the one that distinguishes calls.
pub const SEED: &str = "seed";
/// See [`SEED`].
pub const OFFSET: &str = "offset";

pub(crate) const SEED_DOC: ArgDoc = arg(SEED, "selects the numbers").int().or("0").patchable();
pub(crate) const OFFSET_DOC: ArgDoc =
    arg(OFFSET, "distinguishes calls with one seed; 0 if neither is given")
        .int()
        .instead_of("offset")
        .patchable();
pub(crate) const OFFSET_NUMBER: ArgDoc =
    arg(OFFSET, "distinguishes calls with one seed").int().or("0");
pub(crate) const OFFSET_TENSOR: ArgDoc =
    arg("offset", "an i64 without dimensions, in place of the argument");

/// The argument with the lengths of the tensor that the result is a part of.
pub const WHOLE: &str = "whole";
/// The argument with the indices in that tensor at which the part begins.
pub const FIRST: &str = "first";

pub(crate) const WHOLE_DOC: ArgDoc =
    arg(WHOLE, "the lengths of the tensor that the result is a part of").ints().optional();
pub(crate) const FIRST_DOC: ArgDoc =
    arg(FIRST, "with whole: the indices at which the part begins").ints().optional();

const SHAPE: ArgDoc = arg("shape", "the lengths of the dimensions").ints();
const DTYPE: ArgDoc = arg("dtype", "the dtype").dtype().or("f32");
const FROM: ArgDoc = arg("from", "the lower bound").float().or("0");
const TO: ArgDoc = arg("to", "the upper bound, reached only by rounding").float().or("1");
const MEAN: ArgDoc = arg("mean", "the mean").float().or("0");
const STD: ArgDoc = arg("std", "the standard deviation, 0 or more").float().or("1");
const LAMBDA: ArgDoc = arg("lambd", "the rate, above 0").float().or("1");
const LOW: ArgDoc = arg("low", "the least number").int().or("0");
const HIGH: ArgDoc = arg("high", "one past the greatest number").int();
const TARGET: ArgDoc = arg("x", "any shape, without overlapping elements; overwritten");

/// Defines a distribution's op that returns a new tensor, and the one in place.
macro_rules! distribution {
    (
        $new:literal, $in_place:literal, $summary:literal, [$($attr:expr),*], $dtype:expr,
        $check:expr
    ) => {
        [
            Def::new(
                $new,
                concat!("a new tensor of ", $summary),
                &[OFFSET_TENSOR],
                &[SHAPE, $($attr,)* $dtype, SEED_DOC, OFFSET_DOC, WHOLE_DOC, FIRST_DOC],
                |call| created(call, $check),
            )
            .optional(0),
            Def::new(
                $in_place,
                concat!("sets the elements of x to ", $summary, ", in place"),
                &[TARGET, OFFSET_TENSOR],
                &[$($attr,)* SEED_DOC, OFFSET_DOC, WHOLE_DOC, FIRST_DOC],
                |call| written(call, $check),
            )
            .optional(1),
        ]
    };
}

const UNIFORM: [Def; 2] = distribution!(
    "uniform",
    "uniform_",
    "random numbers, uniform between two bounds",
    [FROM, TO],
    DTYPE,
    uniform
);
const NORMAL: [Def; 2] = distribution!(
    "normal",
    "normal_",
    "normally distributed random numbers",
    [MEAN, STD],
    DTYPE,
    normal
);
const EXPONENTIAL: [Def; 2] = distribution!(
    "exponential",
    "exponential_",
    "exponentially distributed random numbers",
    [LAMBDA],
    DTYPE,
    exponential
);
const INTEGERS: [Def; 2] = distribution!(
    "randint",
    "randint_",
    "random whole numbers, uniform",
    [LOW, HIGH],
    arg("dtype", "the dtype").dtype().or("i64"),
    integers
);

const BERNOULLI: Def = Def::new(
    "bernoulli",
    "1 with a probability, else 0, for each element of x",
    &[arg("x", "any shape; floats, the probabilities, unless p is given"), OFFSET_TENSOR],
    &[
        arg("p", "the probability").float().or("the elements of x"),
        SEED_DOC,
        OFFSET_DOC,
        WHOLE_DOC,
        FIRST_DOC,
    ],
    |call| {
        let x = &call.inputs[0];
        check_offset(call, 1)?;
        if probability(call)?.is_none() && !x.dtype.is_float() {
            return refuse("dtype", format!("expected floats or p, got {}", x.brief()));
        }
        check_part(call, x.shape())?;
        let spec = TensorSpec::new(x.dtype, layouts::preserved(x)?)?;
        Ok(Signature::reads(call.inputs.len(), spec))
    },
)
.optional(1);

const BERNOULLI_: Def = Def::new(
    "bernoulli_",
    "sets each element of x to 1 with a probability, else to 0, in place",
    &[TARGET, OFFSET_TENSOR],
    &[arg("p", "the probability").float().or("0.5"), SEED_DOC, OFFSET_DOC, WHOLE_DOC, FIRST_DOC],
    |call| {
        written(call, |_, call| {
            probability(call)?;
            Ok(())
        })
    },
)
.optional(1);

pub(crate) const OPS: &[&[Def]] =
    &[&UNIFORM, &NORMAL, &EXPONENTIAL, &INTEGERS, &[BERNOULLI, BERNOULLI_]];

/// Checks the arguments of a distribution for a dtype.
type Check = fn(DType, CallSpec<'_>) -> Result<()>;

fn created(call: CallSpec<'_>, check: Check) -> Result<Signature> {
    let shape = required("shape", lengths(call, "shape")?)?;
    check_offset(call, 0)?;
    let whole = call.attrs.int("high").is_ok_and(|high| high.is_some());
    let dtype = call.attrs.dtype("dtype")?;
    let dtype = dtype.unwrap_or(if whole { DType::I64 } else { DType::F32 });
    check(dtype, call)?;
    check_part(call, &shape)?;
    let spec = TensorSpec::new(dtype, Layout::contiguous(&shape)?)?;
    Ok(Signature::reads(call.inputs.len(), spec))
}

fn written(call: CallSpec<'_>, check: Check) -> Result<Signature> {
    let x = &call.inputs[0];
    check_offset(call, 1)?;
    check(x.dtype, call)?;
    check_part(call, x.shape())?;
    if x.layout.may_overlap_itself() {
        let message =
            format!("{x} has overlapping elements and cannot be changed in place; pass a copy");
        return refuse("target", message);
    }
    let mut accesses = SmallVec::from_elem(Access::Read, call.inputs.len());
    accesses[0] = Access::Write;
    let outputs = SmallVec::from_iter([OutputSpec::Same(0)]);
    Ok(Signature { accesses, outputs, workspace: 0 })
}

/// Checks the seed, and the offset: an argument, or the tensor at this position.
pub(crate) fn check_offset(call: CallSpec<'_>, at: usize) -> Result<()> {
    call.attrs.int(SEED)?;
    let number = call.attrs.int(OFFSET)?;
    let Some(tensor) = call.inputs.get(at) else { return Ok(()) };
    if number.is_some() {
        return refuse("argument", "offset: expected a number or a tensor, got both");
    }
    if tensor.dtype != DType::I64 || !tensor.shape().is_empty() {
        return refuse("offset", format!("expected an i64[], got {}", tensor.brief()));
    }
    Ok(())
}

/// A part of a tensor whose elements are numbered in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of its first element.
    pub first: u64,
    /// The difference of the numbers of neighbours in each dimension.
    pub steps: Dims,
}

/// Returns the part that a call draws, of this shape; none if it draws the whole.
///
/// ```
/// use millstream_ops::random::part;
/// use millstream_types::Attrs;
///
/// let attrs = Attrs::new().with("whole", vec![4i64, 6]).with("first", vec![2i64, 3]);
/// let part = part(&attrs, &[2, 3])?.expect("a part");
/// assert_eq!((part.first, &part.steps[..]), (15, &[6, 1][..]));
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// One of `whole` and `first` is missing, or the part is not within the whole.
pub fn part(attrs: &Attrs, shape: &[usize]) -> Result<Option<Part>> {
    let (whole, first) = match (attrs.ints(WHOLE)?, attrs.ints(FIRST)?) {
        (None, None) => return Ok(None),
        (Some(whole), Some(first)) => (whole, first),
        _ => return refuse("argument", "expected both whole and first, or neither"),
    };
    let numbers = |list: &[i64]| list.iter().map(|&n| usize::try_from(n).ok()).collect();
    let within = |whole: &Dims, first: &Dims| {
        whole.len() == shape.len()
            && first.len() == shape.len()
            && (0..shape.len())
                .all(|k| first[k].checked_add(shape[k]).is_some_and(|end| end <= whole[k]))
    };
    match (numbers(&whole), numbers(&first)) {
        (Some(lengths), Some(start)) if within(&lengths, &start) => {
            let steps = Dims::from_slice(Layout::contiguous(&lengths)?.strides());
            let first = start.iter().zip(&steps).map(|(at, step)| (at * step) as u64).sum();
            Ok(Some(Part { first, steps }))
        }
        _ => refuse(
            "argument",
            format!("expected a part within whole {whole:?}, got {shape:?} from {first:?} on"),
        ),
    }
}

/// Checks the part that a call draws.
pub(crate) fn check_part(call: CallSpec<'_>, shape: &[usize]) -> Result<()> {
    part(call.attrs, shape).map(drop)
}

/// Returns the argument `p`.
pub(crate) fn probability(call: CallSpec<'_>) -> Result<Option<f64>> {
    match call.attrs.float("p")? {
        Some(p) if !(0.0..=1.0).contains(&p) => {
            refuse("argument", format!("p: expected a probability from 0 to 1, got {p}"))
        }
        given => Ok(given),
    }
}

fn floats(dtype: DType) -> Result<()> {
    match dtype.is_float() {
        true => Ok(()),
        false => refuse("dtype", format!("expected floats, got {dtype}")),
    }
}

fn finite(call: CallSpec<'_>, name: &str, default: f64) -> Result<f64> {
    match call.attrs.float(name)?.unwrap_or(default) {
        v if v.is_finite() => Ok(v),
        v => refuse("argument", format!("{name}: expected a finite number, got {v}")),
    }
}

fn uniform(dtype: DType, call: CallSpec<'_>) -> Result<()> {
    floats(dtype)?;
    let (from, to) = (finite(call, "from", 0.0)?, finite(call, "to", 1.0)?);
    match from <= to {
        true => Ok(()),
        false => refuse("argument", format!("from, to: expected from <= to, got {from}, {to}")),
    }
}

fn normal(dtype: DType, call: CallSpec<'_>) -> Result<()> {
    floats(dtype)?;
    finite(call, "mean", 0.0)?;
    match finite(call, "std", 1.0)? {
        std if std < 0.0 => {
            refuse("argument", format!("std: expected a number of 0 or more, got {std}"))
        }
        _ => Ok(()),
    }
}

fn exponential(dtype: DType, call: CallSpec<'_>) -> Result<()> {
    floats(dtype)?;
    match finite(call, "lambd", 1.0)? {
        rate if rate <= 0.0 => {
            refuse("argument", format!("lambd: expected a number above 0, got {rate}"))
        }
        _ => Ok(()),
    }
}

fn integers(_: DType, call: CallSpec<'_>) -> Result<()> {
    let low = call.attrs.int("low")?.unwrap_or(0);
    let high = required("high", call.attrs.int("high")?)?;
    match low < high {
        true => Ok(()),
        false => refuse("argument", format!("low, high: expected low < high, got {low}, {high}")),
    }
}
