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

use super::calls::{along, wide};
use super::{Calls, Composite, Given, Symbol, op, table, wrong};

/// Defines an op and its gradient for each way to pad or to resample.
macro_rules! pairs {
    ($operands:ident, $rule:ident, $rule_back:ident;
     $($name:literal, $summary:expr, $attrs:ident, $of_back:ident, $way:expr;)*) => {
        &[$(
            op($name, $summary, X, $attrs, |calls, given| $rule(calls, given, $way)),
            op(concat!($name, "_backward"), concat!("the gradient of `", $name, "`"), $operands,
                $of_back, |calls, given| $rule_back(calls, given, $way)),
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
    op("_adaptive_avg_pool3d", "the means of windows that cover three dimensions", X, TO, means);
    op("_adaptive_avg_pool3d_backward", "the gradient of `_adaptive_avg_pool3d`", GRAD_X, &[],
        means_backward);
    op("affine_grid_generator", "the positions that an affine map gives to each element of a grid",
        THETA, GRID, affine_grid);
    op("nms", "the numbers of the boxes that no better one covers, the best first", BOXES, COVERED,
        |calls, given| {
            let (boxes, scores) = (given.tensor("boxes")?, given.tensor("scores")?);
            let by_score = along(0).with("descending", true);
            let [_, order] = calls.several("sort", &[scores], by_score)?;
            let sorted = calls.one("index_select", &[boxes, order], along(0))?;
            let kept = calls.one("nms_mask", &[sorted], given.passed(&["iou_threshold"]))?;
            calls.apply("masked_select", &[order, kept])
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

fn pad(calls: &mut Calls<'_>, given: &Given<'_>, reflect: bool) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let padding = given.ints("padding")?.unwrap_or_default();
    let taps = padded(calls.spec(x).shape(), &padding, reflect)?;
    gathered(calls, x, &taps)
}

fn pad_backward(calls: &mut Calls<'_>, given: &Given<'_>, reflect: bool) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let padding = given.ints("padding")?.unwrap_or_default();
    let taps = padded(calls.spec(x).shape(), &padding, reflect)?;
    spread(calls, given.tensor("grad")?, &taps)
}

/// Maps the positions of a grid, from -1 to 1 along each dimension, the last one first.
fn affine_grid(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let theta = given.tensor("theta")?;
    let size = given.ints("size")?.unwrap_or_default();
    let dims = size.len().saturating_sub(2);
    let fits =
        calls.spec(theta).shape() == [size.first().map_or(0, |&n| n as usize), dims, dims + 1];
    if !(2..=3).contains(&dims) || !fits || size.iter().any(|&d| d < 0) {
        let theta = calls.spec(theta).brief();
        return Err(wrong(format!("size {size:?} does not fit theta, {theta}")));
    }
    let (dtype, corners) = (calls.dtype(theta), given.flag("align_corners", false)?);
    let (count, spatial) = (size[0], &size[2..]);
    let cells: i64 = spatial.iter().product();
    let shape = [&size[..1], spatial, &[dims as i64 + 1]].concat();
    let base = calls.full(shape, 1i64, dtype)?;
    for (k, &steps) in spatial.iter().rev().enumerate() {
        let bound = match (steps, corners) {
            (..=1, _) => 0.0,
            (_, true) => 1.0,
            (_, false) => (steps - 1) as f64 / steps as f64,
        };
        let attrs = Attrs::new().with("start", -bound).with("end", bound).with("steps", steps);
        let line = calls.one("linspace", &[], attrs.with("dtype", dtype))?;
        let line = calls.reshape(line, &[vec![steps], vec![1; k]].concat())?;
        let part = calls.one("select", &[base], along(-1).with("index", k as i64))?;
        calls.call("copy_", &[part, line], Attrs::new())?;
    }
    let base = calls.reshape(base, &[count, cells, dims as i64 + 1])?;
    let maps = calls.transpose(theta, 1, 2)?;
    let grid = calls.apply("matmul", &[base, maps])?;
    calls.reshape(grid, &[&size[..1], spatial, &[dims as i64]].concat())
}

fn means(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let to = lengths(&given.ints("output_size")?.unwrap_or_default())?;
    let taps = averaged(calls.spec(x).shape(), &to)?;
    gathered(calls, x, &taps)
}

fn means_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (grad, x) = (given.tensor("grad")?, given.tensor("x")?);
    let shape = calls.spec(x).shape();
    let to = calls.spec(grad).shape()[shape.len().saturating_sub(3)..].to_vec();
    let taps = averaged(shape, &to)?;
    spread(calls, grad, &taps)
}

fn upsample(calls: &mut Calls<'_>, given: &Given<'_>, mode: Mode) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let taps = upsampled(mode, calls.spec(x).shape(), calls.dtype(x), given)?;
    gathered(calls, x, &taps)
}

fn upsample_backward(calls: &mut Calls<'_>, given: &Given<'_>, mode: Mode) -> Result<Symbol> {
    let grad = given.tensor("grad")?;
    let shape = lengths(&given.ints("input_size")?.unwrap_or_default())?;
    let taps = upsampled(mode, &shape, calls.dtype(grad), given)?;
    spread(calls, grad, &taps)
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

fn lengths(of: &[i64]) -> Result<Vec<usize>> {
    let lengths: Option<_> = of.iter().map(|&d| usize::try_from(d).ok()).collect();
    lengths.ok_or_else(|| wrong(format!("impossible shape {of:?}")))
}

/// Returns the weights as a tensor that broadcasts over the dimensions behind `dim`.
fn weights(calls: &mut Calls<'_>, of: &[f64], dtype: DType, behind: usize) -> Result<Symbol> {
    let list = calls.constant(of, dtype)?;
    let shape = [vec![of.len() as i64], vec![1; behind]].concat();
    calls.one("view", &[list], Attrs::new().with("size", shape))
}

/// Computes the results, a dimension at a time.
fn gathered(calls: &mut Calls<'_>, x: Symbol, all: &[Taps]) -> Result<Symbol> {
    let dtype = calls.dtype(x);
    let weighted = all.iter().any(|taps| taps.taps.iter().any(|tap| tap.1.is_some()));
    let sums = if dtype == DType::U8 { DType::I32 } else { wide(dtype) };
    let mut x = if weighted { calls.cast(x, sums)? } else { x };
    for taps in all {
        let behind = calls.rank(x) - taps.dim - 1;
        let mut sum: Option<Symbol> = None;
        for (at, share) in &taps.taps {
            let index = calls.positions(at.iter().copied())?;
            let dim = Attrs::new().with("dim", taps.dim as i64);
            let mut part = calls.one("index_select", &[x, index], dim)?;
            if let Some(share) = share {
                let share = weights(calls, share, sums, behind)?;
                part = calls.apply("mul", &[part, share])?;
            }
            sum = Some(match sum {
                None => part,
                Some(sum) => calls.apply("add", &[sum, part])?,
            });
        }
        x = sum.unwrap_or(x);
        if let Some(bits) = taps.bits {
            x = calls.by("add", x, 1i64 << bits >> 1)?;
            x = calls.by("__rshift__", x, i64::from(bits))?;
            let bounds = Attrs::new().with("min", 0i64).with("max", 255i64);
            x = calls.one("clamp", &[x], bounds)?;
        }
    }
    if all.is_empty() { calls.apply("clone", &[x]) } else { calls.cast(x, dtype) }
}

/// Computes the gradient, a dimension at a time.
fn spread(calls: &mut Calls<'_>, grad: Symbol, all: &[Taps]) -> Result<Symbol> {
    let dtype = calls.dtype(grad);
    let mut grad = calls.cast(grad, wide(dtype))?;
    for taps in all.iter().rev() {
        let mut shape = calls.shape(grad);
        let behind = shape.len() - taps.dim - 1;
        shape[taps.dim] = taps.length as i64;
        let target = calls.full(shape, 0i64, wide(dtype))?;
        for (at, share) in &taps.taps {
            let index = calls.positions(at.iter().copied())?;
            let mut part = grad;
            if let Some(share) = share {
                let share = weights(calls, share, wide(dtype), behind)?;
                part = calls.apply("mul", &[part, share])?;
            }
            let dim = Attrs::new().with("dim", taps.dim as i64);
            calls.call("index_add_", &[target, index, part], dim)?;
        }
        grad = target;
    }
    calls.cast(grad, dtype)
}

/// Returns the taps of padding by reflected or replicated elements.
fn padded(shape: &[usize], padding: &[i64], reflect: bool) -> Result<Vec<Taps>> {
    let mut all = Vec::new();
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
fn upsampled(mode: Mode, shape: &[usize], dtype: DType, given: &Given<'_>) -> Result<Vec<Taps>> {
    let to = lengths(&given.ints("output_size")?.unwrap_or_default())?;
    let corners = given.flag("align_corners", false)?;
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
        let factor = given.attrs.float(names[k])?.filter(|factor| *factor > 0.0);
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
