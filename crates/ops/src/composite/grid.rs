//! Composites whose results are weighted sums of elements at fixed positions along each
//! dimension: reflected and replicated padding, and upsampling. Each dimension is a gather of
//! positions, and their gradient an addition at the same positions.
//!
//! Source: `UpSample.h` of PyTorch for the positions and weights.
//!
//! Long because of its table.

use std::f64::consts::PI;

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, table};
use crate::formula::{Expr, along, wide, wrong};

/// Defines an op and its gradient for each way to pad or to resample.
macro_rules! pairs {
    ($operands:ident, $rule:ident, $rule_back:ident;
     $($name:literal, $summary:expr, $attrs:ident, $of_back:ident, $way:expr;)*) => {
        &[$(
            op($name, $summary, X, $attrs, |args| $rule(args, $way)),
            op(concat!($name, "_backward"), concat!("the gradient of `", $name, "`"),
                $operands, $of_back, |args| $rule_back(args, $way)),
        )*]
    };
}

pub(crate) const PADDING: &[Composite] = pairs! {
    GRAD_X, pad, pad_backward;
    "reflection_pad1d", REFLECTED, PAD, PAD, true;
    "reflection_pad2d", REFLECTED, PAD, PAD, true;
    "reflection_pad3d", REFLECTED, PAD, PAD, true;
    "replication_pad1d", REPEATED, PAD, PAD, false;
    "replication_pad2d", REPEATED, PAD, PAD, false;
    "replication_pad3d", REPEATED, PAD, PAD, false;
};

pub(crate) const UPSAMPLING: &[Composite] = pairs! {
    GRAD, upsample, upsample_backward;
    "upsample_nearest1d", NEAREST, SCALES1_TO, SCALES1_BACK, Mode::Nearest;
    "upsample_nearest2d", NEAREST, SCALES2_TO, SCALES2_BACK, Mode::Nearest;
    "upsample_nearest3d", NEAREST, SCALES3_TO, SCALES3_BACK, Mode::Nearest;
    "_upsample_nearest_exact1d", EXACT, SCALES1_TO, SCALES1_BACK, Mode::NearestExact;
    "_upsample_nearest_exact2d", EXACT, SCALES2_TO, SCALES2_BACK, Mode::NearestExact;
    "_upsample_nearest_exact3d", EXACT, SCALES3_TO, SCALES3_BACK, Mode::NearestExact;
    "upsample_linear1d", LINEAR, CORNERS1_TO, CORNERS1_BACK, Mode::Linear;
    "upsample_bilinear2d", LINEAR, CORNERS2_TO, CORNERS2_BACK, Mode::Linear;
    "upsample_trilinear3d", LINEAR, CORNERS3_TO, CORNERS3_BACK, Mode::Linear;
    "upsample_bicubic2d", CUBIC, CORNERS2_TO, CORNERS2_BACK, Mode::Cubic;
    "_upsample_bilinear2d_aa", LINEAR_MEAN, CORNERS2_TO, CORNERS2_BACK, Mode::LinearMean;
    "_upsample_bicubic2d_aa", CUBIC_MEAN, CORNERS2_TO, CORNERS2_BACK, Mode::CubicMean;
    "_upsample_lanczos2d_aa", LANCZOS_MEAN, CORNERS2_TO, CORNERS2_BACK, Mode::LanczosMean;
};

table! {
    op("_adaptive_avg_pool3d", "the means of windows that cover three dimensions", X, TO,
        |args| {
        let (x, to) = (args.tensor("x"), lengths(args, "output_size")?);
        gathered(x, &averaged(x.spec()?.shape(), &to)?)
    });
    op("_adaptive_avg_pool3d_backward", "the gradient of `_adaptive_avg_pool3d`", GRAD_X, &[],
        |args| {
        let [grad, x] = args.tensors(["grad", "x"]);
        let (from, to) = (x.spec()?, grad.spec()?);
        let first = from.shape().len().saturating_sub(3);
        if to.shape().len() < from.shape().len() {
            return Err(wrong(FEW));
        }
        spread(grad, &averaged(from.shape(), &to.shape()[first..])?)
    });
    op("affine_grid_generator",
        "the positions that an affine map gives to each element of a grid", THETA, GRID,
        affine_grid);
    op("nms", "the numbers of the boxes that no better one covers, the best first", BOXES,
        COVERED, |args| {
        let [boxes, scores] = args.tensors(["boxes", "scores"]);
        let by_score = along(0).with("descending", true);
        let [_, order] = args.calls.several("sort", &[scores], by_score);
        let sorted = boxes.index_select(0, order);
        let kept = sorted.op("nms_mask", args.passed(&["iou_threshold"]));
        Ok(order.apply("masked_select", [kept]))
    });
}

const REFLECTED: &str = "x with its elements reflected around it";
const REPEATED: &str = "x with its outermost elements repeated around it";
const NEAREST: &str = "x resampled to other lengths by the nearest elements";
const EXACT: &str = "x resampled to other lengths by the nearest elements, by their centres";
const LINEAR: &str = "x resampled to other lengths by linear interpolation";
const CUBIC: &str = "x resampled to other lengths by cubic interpolation";
const LINEAR_MEAN: &str = "x resampled by linear means over as many elements as one covers";
const CUBIC_MEAN: &str = "x resampled by cubic means over as many elements as one covers";
const LANCZOS_MEAN: &str = "x resampled by Lanczos' means over as many elements as one covers";

const X: &[ArgDoc] = &[arg("x", "the dimensions that change last")];
const GRAD: &[ArgDoc] = &[arg("grad", "the shape of the result")];
const GRAD_X: &[ArgDoc] = &[arg("grad", "the shape of the result"), arg("x", "the operand")];
const THETA: &[ArgDoc] = &[arg("theta", "[n,dims,dims+1]: the maps")];
const BOXES: &[ArgDoc] = &[arg("boxes", "[n,4]: two corners of each"), arg("scores", "[n]")];
const COVERED: &[ArgDoc] =
    &[arg("iou_threshold", "the greatest share of the union that a better one covers").float()];
const GRID: &[ArgDoc] = &[
    arg("size", "[n,c,spatial..]: the shape of the samples").ints(),
    arg("align_corners", "whether -1 and 1 are the centres of the outermost elements").flag(),
];
const PAD: &[ArgDoc] =
    &[arg("padding", "elements before and after, for each dimension from the last").ints()];
const SIZE: ArgDoc = arg("output_size", "the new lengths").ints();
const INPUT: ArgDoc = arg("input_size", "the shape of the operand").ints();
const CORNERS: ArgDoc =
    arg("align_corners", "whether the outermost elements stay outermost").flag().or("false");
const fn factor(name: &'static str) -> ArgDoc {
    arg(name, "the factor of a length").float().or("the ratio of the lengths")
}
const DEPTH: ArgDoc = factor("scales_d");
const HEIGHT: ArgDoc = factor("scales_h");
const WIDTH: ArgDoc = factor("scales_w");
const TO: &[ArgDoc] = &[SIZE];
const SCALES1_TO: &[ArgDoc] = &[SIZE, factor("scales")];
const SCALES1_BACK: &[ArgDoc] = &[SIZE, INPUT, factor("scales")];
const CORNERS1_TO: &[ArgDoc] = &[SIZE, CORNERS, factor("scales")];
const CORNERS1_BACK: &[ArgDoc] = &[SIZE, INPUT, CORNERS, factor("scales")];
const SCALES2_TO: &[ArgDoc] = &[SIZE, HEIGHT, WIDTH];
const SCALES2_BACK: &[ArgDoc] = &[SIZE, INPUT, HEIGHT, WIDTH];
const CORNERS2_TO: &[ArgDoc] = &[SIZE, CORNERS, HEIGHT, WIDTH];
const CORNERS2_BACK: &[ArgDoc] = &[SIZE, INPUT, CORNERS, HEIGHT, WIDTH];
const SCALES3_TO: &[ArgDoc] = &[SIZE, DEPTH, HEIGHT, WIDTH];
const SCALES3_BACK: &[ArgDoc] = &[SIZE, INPUT, DEPTH, HEIGHT, WIDTH];
const CORNERS3_TO: &[ArgDoc] = &[SIZE, CORNERS, DEPTH, HEIGHT, WIDTH];
const CORNERS3_BACK: &[ArgDoc] = &[SIZE, INPUT, CORNERS, DEPTH, HEIGHT, WIDTH];

fn pad(args: Args<'_>, reflect: bool) -> Result<Expr<'_>> {
    gathered(args.tensor("x"), &padded(args, reflect)?)
}

fn pad_backward(args: Args<'_>, reflect: bool) -> Result<Expr<'_>> {
    spread(args.tensor("grad"), &padded(args, reflect)?)
}

fn upsample(args: Args<'_>, mode: Mode) -> Result<Expr<'_>> {
    let x = args.tensor("x");
    gathered(x, &upsampled(args, mode, x.spec()?.shape(), x.dtype())?)
}

fn upsample_backward(args: Args<'_>, mode: Mode) -> Result<Expr<'_>> {
    let (grad, shape) = (args.tensor("grad"), lengths(args, "input_size")?);
    spread(grad, &upsampled(args, mode, &shape, grad.dtype())?)
}

/// Maps the positions of a grid, from -1 to 1 along each dimension, the last one first.
fn affine_grid(args: Args<'_>) -> Result<Expr<'_>> {
    let (calls, theta) = (args.calls, args.tensor("theta"));
    let size = args.ints("size")?.unwrap_or_default();
    let dims = size.len().saturating_sub(2) as i64;
    let fits = theta.shape()? == [size.first().copied().unwrap_or(0), dims, dims + 1];
    if !(2..=3).contains(&dims) || !fits || size.iter().any(|&d| d < 0) {
        let theta = theta.spec()?.brief();
        return Err(wrong(format!("size {size:?} does not fit theta, {theta}")));
    }
    let (dtype, corners) = (theta.dtype(), args.flag("align_corners", false)?);
    let (count, spatial) = (size[0], &size[2..]);
    let base = calls.full([&[count], spatial, &[dims + 1]].concat(), 1i64, dtype);
    for (k, &steps) in spatial.iter().rev().enumerate() {
        let bound = match (steps, corners) {
            (..=1, _) => 0.0,
            (_, true) => 1.0,
            (_, false) => (steps - 1) as f64 / steps as f64,
        };
        let attrs = Attrs::new().with("start", -bound).with("end", bound).with("steps", steps);
        let line = calls.one("linspace", &[], attrs.with("dtype", dtype));
        let line = line.reshape(&[vec![steps], vec![1; k]].concat());
        base.select(-1, k as i64).apply("copy_", [line]);
    }
    let base = base.reshape(&[count, spatial.iter().product(), dims + 1]);
    let grid = base.matmul(theta.transpose(1, 2));
    Ok(grid.reshape(&[&[count], spatial, &[dims]].concat()))
}

/// The positions that results read, and their weights; without weights, 1.
type Tap = (Vec<i64>, Option<Vec<f64>>);

/// The taps along one dimension.
struct Taps {
    dim: usize,
    length: usize,
    taps: Vec<Tap>,
    /// Of bytes, the number of fraction bits of the weights, which are whole numbers.
    bits: Option<u32>,
}

/// Returns the shape that the argument of this name gives.
fn lengths(args: Args<'_>, name: &str) -> Result<Vec<usize>> {
    let of = args.ints(name)?.unwrap_or_default();
    let lengths: Option<_> = of.iter().map(|&d| usize::try_from(d).ok()).collect();
    lengths.ok_or_else(|| wrong(format!("impossible shape {of:?}")))
}

/// Multiplies by the weights of a tap, which broadcast over the dimensions behind its own.
fn weighted<'a>(x: Expr<'a>, weights: &Option<Vec<f64>>, behind: usize) -> Expr<'a> {
    let Some(weights) = weights else { return x };
    let shape = [vec![weights.len() as i64], vec![1; behind]].concat();
    let list = x.calls.constant(weights, x.dtype());
    x * list.op("view", Attrs::new().with("size", shape))
}

/// Computes the results, a dimension at a time.
fn gathered<'a>(x: Expr<'a>, all: &[Taps]) -> Result<Expr<'a>> {
    if all.is_empty() {
        return Ok(x.op("clone", Attrs::new()));
    }
    let dtype = x.dtype();
    let has_weights = all.iter().any(|taps| taps.taps.iter().any(|tap| tap.1.is_some()));
    let sums = if dtype == DType::U8 { DType::I32 } else { wide(dtype) };
    let mut x = if has_weights { x.cast(sums) } else { x };
    for Taps { dim, taps, bits, .. } in all {
        let behind = x.rank()? - dim - 1;
        let part = |(at, weights): &Tap| {
            let index = x.calls.positions(at.iter().copied());
            weighted(x.index_select(*dim as i64, index), weights, behind)
        };
        x = taps.iter().map(part).reduce(|sum, part| sum + part).unwrap_or(x);
        if let Some(bits) = *bits {
            x = (x + (1i64 << bits >> 1)).with("__rshift__", i64::from(bits), Attrs::new());
            x = x.op("clamp", Attrs::new().with("min", 0i64).with("max", 255i64));
        }
    }
    Ok(x.cast(dtype))
}

const FEW: &str = "grad: it has fewer dimensions than the operand";

/// Computes the gradient, a dimension at a time.
fn spread<'a>(grad: Expr<'a>, all: &[Taps]) -> Result<Expr<'a>> {
    let rank = grad.rank()?;
    if all.iter().any(|taps| taps.dim >= rank) {
        return Err(wrong(FEW));
    }
    let (calls, dtype) = (grad.calls, grad.dtype());
    let mut grad = grad.cast(wide(dtype));
    for taps in all.iter().rev() {
        let mut shape = grad.shape()?;
        let behind = rank - taps.dim - 1;
        shape[taps.dim] = taps.length as i64;
        let target = calls.full(shape, 0i64, wide(dtype));
        for (at, weights) in &taps.taps {
            let index = calls.positions(at.iter().copied());
            target.index_add_(taps.dim as i64, index, weighted(grad, weights, behind));
        }
        grad = target;
    }
    Ok(grad.cast(dtype))
}

/// Returns the taps of padding by reflected or replicated elements.
fn padded(args: Args<'_>, reflect: bool) -> Result<Vec<Taps>> {
    let (spec, padding) = (args.tensor("x").spec()?, args.ints("padding")?.unwrap_or_default());
    let (shape, mut all) = (spec.shape(), Vec::new());
    for (k, pair) in padding.chunks(2).enumerate() {
        let (dim, &[before, after]) = (shape.len().checked_sub(k + 1), pair) else {
            return Err(wrong(format!("padding {padding:?}: expected pairs")));
        };
        let dim = dim.ok_or_else(|| wrong(format!("padding {padding:?} of {shape:?}")))?;
        let length = shape[dim] as i64;
        let position = |at: i64| match reflect {
            true if at < 0 => -at,
            true if at >= length => 2 * (length - 1) - at,
            _ => at.clamp(0, (length - 1).max(0)),
        };
        let at: Vec<i64> = (-before..length + after).map(position).collect();
        if at.iter().any(|at| !(0..length).contains(at)) {
            return Err(wrong(format!("padding {padding:?} of {shape:?}")));
        }
        all.push(Taps { dim, length: length as usize, taps: vec![(at, None)], bits: None });
    }
    Ok(all)
}

/// Returns the taps of means over windows that cover each dimension.
fn averaged(shape: &[usize], to: &[usize]) -> Result<Vec<Taps>> {
    let first = shape.len().checked_sub(to.len());
    let first = first.ok_or_else(|| wrong(format!("{to:?} from {shape:?}")))?;
    let mut all = Vec::new();
    for (k, &count) in to.iter().enumerate() {
        let length = shape[first + k];
        if length == 0 || count == 0 {
            return Err(wrong("means of no elements"));
        }
        let windows: Vec<(usize, usize)> = (0..count)
            .map(|at| (at * length / count, ((at + 1) * length).div_ceil(count)))
            .collect();
        let most = windows.iter().map(|(start, end)| end - start).max().unwrap_or(1);
        let tap = |by: usize| {
            let at = windows.iter().map(|&(start, end)| (start + by).min(end - 1) as i64);
            let share = windows.iter().map(|&(start, end)| match start + by < end {
                true => 1.0 / (end - start) as f64,
                false => 0.0,
            });
            (at.collect(), Some(share.collect()))
        };
        all.push(Taps { dim: first + k, length, taps: (0..most).map(tap).collect(), bits: None });
    }
    Ok(all)
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
    /// Over as many elements as a result covers.
    LinearMean,
    CubicMean,
    LanczosMean,
}

/// Returns the taps of upsampling from this shape.
fn upsampled(args: Args<'_>, mode: Mode, shape: &[usize], dtype: DType) -> Result<Vec<Taps>> {
    let to = lengths(args, "output_size")?;
    let corners = args.flag("align_corners", false)?;
    let first = shape.len().checked_sub(to.len()).filter(|first| *first == 2);
    let first = first.ok_or_else(|| wrong(format!("{to:?} from {shape:?}")))?;
    let names: &[&str] = match to.len() {
        1 => &["scales"],
        2 => &["scales_h", "scales_w"],
        _ => &["scales_d", "scales_h", "scales_w"],
    };
    let nearest = matches!(mode, Mode::Nearest | Mode::NearestExact);
    let of_bytes = dtype == DType::U8 && to.len() == 2 && !nearest;
    if !nearest && !of_bytes && !dtype.is_float() {
        return Err(wrong(format!("interpolation of {dtype}")));
    }
    let single = nearest || (dtype != DType::F64 && !of_bytes);
    let mut all = Vec::new();
    for (k, &count) in to.iter().enumerate() {
        let length = shape[first + k];
        if length == 0 || count == 0 {
            return Err(wrong("upsampling from or to no elements"));
        }
        let factor = args.attrs.float(names[k])?.filter(|factor| *factor > 0.0);
        let mut taps = taps(mode, length, count, factor, corners, single);
        let bits = of_bytes.then(|| in_fixed_point(&mut taps));
        all.push(Taps { dim: first + k, length, taps, bits });
    }
    if of_bytes {
        // Bytes are rounded after each dimension, the last one first.
        all.reverse();
        all.retain(|taps| taps.length != to[taps.dim - first]);
    }
    Ok(all)
}

/// Makes the weights whole multiples of a fraction, as large as 16 bits hold; returns the number of
/// its bits. An element that is read several times has one weight.
fn in_fixed_point(taps: &mut [Tap]) -> u32 {
    for later in 1..taps.len() {
        let (before, rest) = taps.split_at_mut(later);
        let (at, Some(shares)) = &mut rest[0] else { continue };
        for (k, share) in shares.iter_mut().enumerate() {
            let same = before.iter_mut().find(|(other, _)| other[k] == at[k]);
            if let Some((_, Some(sums))) = same {
                sums[k] += std::mem::take(share);
            }
        }
    }
    let all = || taps.iter().filter_map(|tap| tap.1.as_ref()).flatten();
    let most = all().copied().fold(0.0, f64::max);
    let fits = |bits: &u32| most * f64::from(2u32 << bits) + 0.5 < 32768.0;
    let bits = (0..22).find(|bits| !fits(bits)).unwrap_or(22);
    for share in taps.iter_mut().filter_map(|tap| tap.1.as_mut()).flatten() {
        *share = (*share * f64::from(1u32 << bits)).round();
    }
    bits
}

/// Returns the taps of a dimension.
fn taps(
    mode: Mode,
    length: usize,
    count: usize,
    factor: Option<f64>,
    corners: bool,
    single: bool,
) -> Vec<Tap> {
    let last = length as i64 - 1;
    let clamped = |at: i64| at.clamp(0, last);
    // PyTorch computes positions in f32, those of f64 in f64 (except nearest ones).
    let rounded = |v: f64| if single { f64::from(v as f32) } else { v };
    let step = rounded(match factor {
        _ if corners && count > 1 => (length - 1) as f64 / (count - 1) as f64,
        _ if corners => 0.0,
        Some(factor) => 1.0 / factor,
        None => length as f64 / count as f64,
    });
    let source = |k: usize| match corners {
        true => rounded(step * k as f64),
        false => rounded(rounded(step * (k as f64 + 0.5)) - 0.5),
    };
    let each = |f: &dyn Fn(usize) -> i64| (0..count).map(f).collect::<Vec<i64>>();
    let shares = |f: &dyn Fn(usize) -> f64| Some((0..count).map(f).collect::<Vec<f64>>());
    match mode {
        Mode::Nearest => {
            vec![(each(&|k| clamped(rounded(k as f64 * step).floor() as i64)), None)]
        }
        Mode::NearestExact => {
            vec![(each(&|k| clamped(rounded((k as f64 + 0.5) * step).floor() as i64)), None)]
        }
        Mode::Linear => {
            let source = |k: usize| source(k).max(0.0);
            let low = |k: usize| clamped(source(k) as i64);
            let share = |k: usize| rounded(source(k) - low(k) as f64).clamp(0.0, 1.0);
            vec![
                (each(&low), shares(&|k| 1.0 - share(k))),
                (each(&|k| clamped(low(k) + 1)), shares(&share)),
            ]
        }
        Mode::LinearMean | Mode::CubicMean | Mode::LanczosMean => {
            covering(mode, length, count, step)
        }
        Mode::Cubic => {
            let low = |k: usize| source(k).floor() as i64;
            let share = |k: usize| rounded(source(k) - low(k) as f64);
            let tap = |by: i64| {
                let distance = move |t: f64| (t - by as f64).abs();
                (each(&|k| clamped(low(k) + by)), shares(&|k| cubic(distance(share(k)), -0.75)))
            };
            (-1..3).map(tap).collect()
        }
    }
}

/// Returns the taps of means over as many elements as a result covers.
fn covering(mode: Mode, length: usize, count: usize, step: f64) -> Vec<Tap> {
    let reach = match mode {
        Mode::LinearMean => 1.0,
        Mode::LanczosMean => 3.0,
        _ => 2.0,
    };
    let width = reach * step.max(1.0);
    let sinc = |x: f64| if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) };
    let weight = |x: f64| match mode {
        _ if x.abs() >= reach => 0.0,
        Mode::LinearMean => 1.0 - x.abs(),
        Mode::LanczosMean => sinc(x) * sinc(x / 3.0),
        _ => cubic(x.abs(), -0.5),
    };
    let mut windows = Vec::new();
    for k in 0..count {
        let center = step * (k as f64 + 0.5);
        let first = ((center - width + 0.5) as i64).max(0);
        let end = ((center + width + 0.5) as i64).min(length as i64);
        let of = |at: i64| weight((at as f64 - center + 0.5) / step.max(1.0));
        let weights: Vec<f64> = (first..end).map(of).collect();
        let sum: f64 = weights.iter().sum();
        let sum = if sum == 0.0 { 1.0 } else { sum };
        windows.push((first, weights.iter().map(|w| w / sum).collect::<Vec<f64>>()));
    }
    let most = windows.iter().map(|(_, shares)| shares.len()).max().unwrap_or(0);
    let tap = |by: usize| {
        let at = windows.iter().map(|(first, _)| (first + by as i64).min(length as i64 - 1));
        let shares = windows.iter().map(|(_, shares)| shares.get(by).copied().unwrap_or(0.0));
        (at.collect(), Some(shares.collect()))
    };
    (0..most).map(tap).collect()
}

/// Returns the weight at a distance, by R. Keys, "Cubic convolution interpolation", 1981.
fn cubic(distance: f64, slope: f64) -> f64 {
    let (x, a) = (distance, slope);
    match x <= 1.0 {
        true => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        false => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
    }
}
