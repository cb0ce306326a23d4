//! Reductions of segments of a dimension, fractional pooling, and the loss of alignments.
//!
//! | op | results |
//! |---|---|
//! | `segment_reduce(data, lengths; reduce, axis, initial)` | a reduction of each segment |
//! | `fractional_max_pool(x, samples; kernel_size, output_size)` | maxima, and their positions |
//! | `_ctc_loss(log_probs, targets; …)` | losses of sequences, and their forward variables |
//!
//! Sources: <https://docs.pytorch.org/docs/stable/generated/torch.segment_reduce.html>;
//! B. Graham, "Fractional max-pooling", arXiv:1412.6071 (2014); A. Graves and others,
//! "Connectionist temporal classification", ICML 2006.

use millstream_types::{Access, DType, Dims, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::{choice, required};
use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const SEGMENTS: &[ArgDoc] = &[
    arg("reduce", "\"sum\", \"mean\", \"max\", \"min\" or \"prod\"").text(),
    arg("axis", "the dimension of the segments; lengths has those up to it").int().or("0"),
    arg("initial", "the value to start with").float().optional(),
];
const DATA: ArgDoc = arg("data", "any shape; floats");
const LENGTHS: ArgDoc = arg("lengths", "the lengths of the segments; i64 or i32");
const CTC: &[ArgDoc] = &[
    arg("max_target_length", "the greatest number of labels of a sequence").int(),
    arg("blank", "the class of the blank label").int().or("0"),
    arg("zero_infinity", "whether gradients of infinite losses are 0").flag().or("false"),
];
const INPUT_LENGTHS: ArgDoc = arg("input_lengths", "[n]: the length of each sequence");
const TARGET_LENGTHS: ArgDoc = arg("target_lengths", "[n]: the number of labels of each");
const LOG_PROBS: ArgDoc = arg("log_probs", "[time,n,classes]; f32 or f64");
const TARGETS: ArgDoc = arg("targets", "[n,labels], or all labels in one dimension");
const POOL: &[ArgDoc] = &[
    arg("kernel_size", "the lengths of a window").ints(),
    arg("output_size", "the lengths of the result").ints(),
];

pub(crate) const OPS: &[Def] = &[
    Def::new(
        "segment_reduce",
        "a reduction of each segment of a dimension",
        &[DATA, LENGTHS],
        SEGMENTS,
        |call| {
            let (data, lengths) = (&call.inputs[0], &call.inputs[1]);
            let axis = axis(call, data, lengths)?;
            let mut shape = Dims::from_slice(data.shape());
            shape[axis] = lengths.shape()[axis];
            Ok(Signature::reads(2, TensorSpec::contiguous(data.dtype, &shape)?))
        },
    ),
    Def::new(
        "segment_reduce_backward",
        "the gradient of a reduction of segments",
        &[arg("grad", "the gradient of out"), arg("out", "the result"), DATA, LENGTHS],
        SEGMENTS,
        |call| {
            let data = &call.inputs[2];
            axis(call, data, &call.inputs[3])?;
            Ok(Signature::reads(4, TensorSpec::contiguous(data.dtype, data.shape())?))
        },
    ),
    Def::new(
        "fractional_max_pool",
        "the maxima of windows whose positions a sample determines, and their positions",
        &[arg("x", "[..,c,spatial..]; floats"), arg("samples", "[n,c,d] of numbers from 0 to 1")],
        POOL,
        pool,
    ),
    Def::new(
        "_ctc_loss",
        "the loss of each sequence over all alignments, and the forward variables",
        &[LOG_PROBS, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS],
        CTC,
        |call| {
            let (x, most) = sequences(call, 0)?;
            let &[time, count, _] = x.shape() else { return refuse("shape", x.brief()) };
            let variables = TensorSpec::contiguous(x.dtype, &[count, time, 2 * most + 1])?;
            let mut signature = Signature::reads(4, TensorSpec::contiguous(x.dtype, &[count])?);
            signature.outputs.push(OutputSpec::Fresh(variables));
            Ok(signature)
        },
    ),
    Def::new(
        "_ctc_loss_backward",
        "the gradient of the loss of alignments",
        &[
            arg("grad", "the gradient of the losses"),
            LOG_PROBS,
            TARGETS,
            INPUT_LENGTHS,
            TARGET_LENGTHS,
            arg("losses", "the losses"),
        ],
        CTC,
        |call| {
            let (x, _) = sequences(call, 1)?;
            Ok(Signature::reads(6, TensorSpec::contiguous(x.dtype, x.shape())?))
        },
    ),
];

fn axis(call: CallSpec<'_>, data: &TensorSpec, lengths: &TensorSpec) -> Result<usize> {
    let reduce = choice(call.attrs, "reduce", &["sum", "mean", "max", "min", "prod"])?;
    required("reduce", reduce)?;
    call.attrs.float("initial")?;
    let axis = call.attrs.int("axis")?.unwrap_or(0);
    let whole = matches!(lengths.dtype, DType::I64 | DType::I32);
    let fits = |axis: usize| {
        axis + 1 == lengths.shape().len()
            && axis < data.shape().len()
            && lengths.shape()[..axis] == data.shape()[..axis]
    };
    match usize::try_from(axis) {
        Ok(axis) if fits(axis) && whole && data.dtype.is_float() => Ok(axis),
        _ => {
            let message =
                format!("{} does not fit {} at axis {axis}", lengths.brief(), data.brief());
            refuse("shape", message)
        }
    }
}

fn pool(call: CallSpec<'_>) -> Result<Signature> {
    let (x, samples) = (&call.inputs[0], &call.inputs[1]);
    let kernel = required("kernel_size", call.attrs.ints("kernel_size")?)?;
    let output = required("output_size", call.attrs.ints("output_size")?)?;
    let dims = output.len();
    let wrong = || refuse("shape", format!("{} with samples {}", x.brief(), samples.brief()));
    if !(dims + 1..=dims + 2).contains(&x.shape().len()) || !x.dtype.is_float() {
        return wrong();
    }
    let outer = x.shape().len() - dims;
    let fits = |k: usize| {
        let length = x.shape()[outer + k] as i64;
        kernel.get(k).is_some_and(|&size| size > 0 && output[k] > 0)
            && output[k] + kernel[k] - 1 <= length
    };
    let planes: usize = x.shape()[..outer].iter().product();
    if samples.numel() != planes * dims || !(0..dims).all(fits) || samples.dtype != x.dtype {
        return wrong();
    }
    let mut shape = Dims::from_slice(&x.shape()[..outer]);
    shape.extend(output.iter().map(|&length| length as usize));
    let mut signature = Signature::reads(2, TensorSpec::contiguous(x.dtype, &shape)?);
    signature.outputs.push(OutputSpec::Fresh(TensorSpec::contiguous(DType::I64, &shape)?));
    signature.accesses = SmallVec::from_elem(Access::Read, 2);
    Ok(signature)
}

/// Checks the sequences of a loss; returns the probabilities and the greatest number of labels.
fn sequences(call: CallSpec<'_>, at: usize) -> Result<(&TensorSpec, usize)> {
    let (x, targets) = (&call.inputs[at], &call.inputs[at + 1]);
    let lengths = &call.inputs[at + 2..at + 4];
    let most = required("max_target_length", call.attrs.int("max_target_length")?)?;
    call.attrs.bool("zero_infinity")?;
    let blank = call.attrs.int("blank")?.unwrap_or(0);
    let &[_, count, classes] = x.shape() else {
        return refuse("shape", format!("expected [time,n,classes], got {}", x.brief()));
    };
    let room = match *targets.shape() {
        [rows, _] => rows == count,
        [_] => true,
        _ => false,
    };
    let fits = lengths.iter().all(|l| l.shape() == [count] && l.dtype == DType::I64)
        && (0..classes as i64).contains(&blank);
    let dtypes = matches!(x.dtype, DType::F32 | DType::F64) && !targets.dtype.is_float();
    match usize::try_from(most) {
        Ok(most) if fits && room && dtypes => Ok((x, most)),
        _ => refuse("shape", format!("{} with targets {}", x.brief(), targets.brief())),
    }
}
