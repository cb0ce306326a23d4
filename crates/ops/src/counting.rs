//! Positions in sorted sequences, histograms, distinct elements, frequent elements.
//!
//! | op | results |
//! |---|---|
//! | `searchsorted(sorted, x; right)` | where x fits into a sorted sequence |
//! | `histc(x; bins, min, max)` | the numbers of elements in bins of one width |
//! | `unique(x; dim, consecutive)` | distinct elements, their positions, their counts |
//! | `mode(x; dim, keepdim)` | the most frequent elements along a dimension, and an index |
//! | `nonzero_static(x; size, fill_value)` | the first indices of nonzero elements |
//!
//! NaN is greater than every number, and each NaN is distinct.
//!
//! Source: the ops of the same names in <https://docs.pytorch.org/docs/stable/torch.html>.

use millstream_types::{Access, DType, Dims, TensorSpec};
use smallvec::SmallVec;

use crate::args::{Scalar, dimension, required};
use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::schema::{OutputSpec, Signature};

pub(crate) const OPS: &[Def] = &[SEARCH, HISTOGRAM, UNIQUE, MODE, NONZERO];

const SEARCH: Def = Def::new(
    "searchsorted",
    "the positions at which the elements of x keep a sorted sequence sorted",
    &[
        arg("sorted", "[n], or x's shape but for the last dimension; sorted along that"),
        arg("x", "any shape"),
    ],
    &[
        arg("right", "the position after equal elements instead of before").flag().or("false"),
        arg("out_int32", "i32 instead of i64").flag().or("false"),
    ],
    |call| {
        let (sorted, x) = (&call.inputs[0], &call.inputs[1]);
        call.attrs.bool("right")?;
        let narrow = call.attrs.bool("out_int32")?.unwrap_or(false);
        let lines = |shape: &[usize]| shape.split_last().map(|(_, rest)| Dims::from_slice(rest));
        let fits = match sorted.shape().len() {
            0 => false,
            1 => true,
            rank => rank == x.shape().len() && lines(sorted.shape()) == lines(x.shape()),
        };
        if !fits {
            let message = format!("{} does not fit {}", sorted.brief(), x.brief());
            return refuse("shape", message);
        }
        let dtype = if narrow { DType::I32 } else { DType::I64 };
        Ok(Signature::reads(2, TensorSpec::contiguous(dtype, x.shape())?))
    },
);

const HISTOGRAM: Def = Def::new(
    "histc",
    "the numbers of elements in bins of one width",
    &[arg("x", "any shape; numbers")],
    &[
        arg("bins", "the number of bins").int().or("100"),
        arg("min", "the start of the first bin").number().or("0"),
        arg(
            "max",
            "the end of the last, included; the least and greatest element if not above min",
        )
        .number()
        .optional(),
    ],
    |call| {
        let x = &call.inputs[0];
        let bins = call.attrs.int("bins")?.unwrap_or(100);
        let (least, most) = (Scalar::of(call.attrs, "min")?, Scalar::of(call.attrs, "max")?);
        let Some(bins) = usize::try_from(bins).ok().filter(|&bins| bins > 0) else {
            return refuse("argument", format!("bins: expected 1 or more, got {bins}"));
        };
        if x.dtype == DType::Bool {
            return refuse("dtype", format!("expected numbers, got {}", x.brief()));
        }
        if range(least) > range(most) {
            return refuse("argument", "min, max: expected min <= max");
        }
        Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, &[bins])?))
    },
);

/// Returns a bound of `histc`.
pub fn range(bound: Option<Scalar>) -> f64 {
    match bound {
        None => 0.0,
        Some(Scalar::Int(v)) => v as f64,
        Some(Scalar::Float(v)) => v,
        Some(Scalar::Bool(v)) => f64::from(u8::from(v)),
    }
}

const UNIQUE: Def = Def::new(
    "unique",
    "the distinct elements or slices of x, the position of each, and their counts",
    &[arg("x", "any shape")],
    &[
        arg("dim", "0: slices along the first dimension").int().or("all"),
        arg("consecutive", "only of neighbours one is dropped, else the result is sorted")
            .flag()
            .or("false"),
        arg("return_inverse", "whether to return positions, else an empty tensor")
            .flag()
            .or("false"),
        arg("return_counts", "whether to return counts, else an empty tensor").flag().or("false"),
    ],
    |call| {
        let x = &call.inputs[0];
        call.attrs.bool("consecutive")?;
        let flag = |name| Ok(call.attrs.bool(name)?.unwrap_or(false));
        let sliced = call.attrs.int("dim")?;
        let values = match (sliced, x.shape()) {
            (None, _) => TensorSpec::contiguous(x.dtype, &[x.numel()])?,
            (Some(0), [_, ..]) => TensorSpec::contiguous(x.dtype, x.shape())?,
            (Some(dim), _) => {
                return refuse("argument", format!("dim: expected 0, got {dim} for {}", x.brief()));
            }
        };
        let length = values.shape()[0];
        let inverse: Dims = match (flag("return_inverse")?, sliced) {
            (false, _) => Dims::from_slice(&[0]),
            (true, None) => Dims::from_slice(x.shape()),
            (true, Some(_)) => Dims::from_slice(&[length]),
        };
        let inverse = OutputSpec::Fresh(TensorSpec::contiguous(DType::I64, &inverse)?);
        let counts = match flag("return_counts")? {
            true => OutputSpec::Bounded(TensorSpec::contiguous(DType::I64, &[length])?),
            false => OutputSpec::Fresh(TensorSpec::contiguous(DType::I64, &[0])?),
        };
        Ok(Signature {
            accesses: SmallVec::from_iter([Access::Read]),
            outputs: SmallVec::from_iter([OutputSpec::Bounded(values), inverse, counts]),
            workspace: 0,
        })
    },
)
.unsigned();

const MODE: Def = Def::new(
    "mode",
    "the most frequent element along a dimension, the least of several, and an index",
    &[arg("x", "any shape")],
    &[
        arg("dim", "the dimension, negative from the end").int().or("-1"),
        arg("keepdim", "keep the dimension with length 1").flag().or("false"),
    ],
    |call| {
        let x = &call.inputs[0];
        let dim = dimension(call.attrs.int("dim")?.unwrap_or(-1), x.layout.rank())?;
        let keep = call.attrs.bool("keepdim")?.unwrap_or(false);
        let mut shape = Dims::from_slice(x.shape());
        if shape.get(dim) == Some(&0) {
            return refuse("shape", format!("expected elements along {dim}, got {}", x.brief()));
        }
        if let Some(length) = shape.get_mut(dim) {
            *length = 1;
            if !keep {
                shape.remove(dim);
            }
        }
        let outputs = [x.dtype, DType::I64].map(|dtype| TensorSpec::contiguous(dtype, &shape));
        let [values, indices] = outputs;
        Ok(Signature {
            accesses: SmallVec::from_iter([Access::Read]),
            outputs: SmallVec::from_iter([OutputSpec::Fresh(values?), OutputSpec::Fresh(indices?)]),
            workspace: 0,
        })
    },
);

const NONZERO: Def = Def::new(
    "nonzero_static",
    "the indices of the first nonzero elements, a row for each, and then fill_value",
    &[arg("x", "any shape")],
    &[
        arg("size", "the number of rows").int(),
        arg("fill_value", "the elements of rows without an index").number().or("-1"),
    ],
    |call| {
        let x = &call.inputs[0];
        let size = required("size", call.attrs.int("size")?)?;
        call.attrs.int("fill_value")?;
        let Ok(size) = usize::try_from(size) else {
            return refuse("argument", format!("size: expected 0 or more, got {size}"));
        };
        Ok(Signature::reads(1, TensorSpec::contiguous(DType::I64, &[size, x.layout.rank()])?))
    },
)
.complex();
