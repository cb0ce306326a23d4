//! Lowers ops whose results are weighted sums of elements at fixed positions along each dimension:
//! reflected and replicated padding, and upsampling. Each dimension is a gather of positions, and
//! their gradient an addition at the same positions.
//!
//! Source: `UpSample.h` of PyTorch for the positions and weights.

use millstream_types::{AttrValue, Attrs, DType};

use super::columns::columns;
use super::functions::{apply, cast};
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;

/// The positions that results read, and their weights; without weights, 1.
type Tap = (Vec<i64>, Option<Vec<f64>>);

/// The taps along one dimension.
struct Taps {
    dim: usize,
    length: usize,
    taps: Vec<Tap>,
}

/// Lowers an op; `None` if it is none of these.
pub(super) fn resampled(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
) -> Lowered<Option<Made>> {
    if name == "im2col" || name == "col2im" {
        return columns(import, name == "col2im", given).map(|made| Some(vec![Some(made)]));
    }
    let (plain, backward) = match name.strip_suffix("_backward") {
        Some(plain) => (plain, true),
        None => (name, false),
    };
    let taps = if let Some((mode, _)) = plain.split_once("_pad") {
        if !["reflection", "replication"].contains(&mode) || !plain.ends_with('d') {
            return Ok(None);
        }
        let x = given.tensor(import, "self")?;
        let shape = import.spec(x).shape().to_vec();
        padded(&shape, &given.ints("padding")?.unwrap_or_default(), mode == "reflection")?
    } else if plain == "_adaptive_avg_pool3d" {
        let x = given.tensor(import, "self")?;
        let shape = import.spec(x).shape().to_vec();
        let to = match backward {
            true => {
                let grad = given.tensor(import, "grad_output")?;
                import.spec(grad).shape()[shape.len().saturating_sub(3)..].to_vec()
            }
            false => lengths(&given.ints("output_size")?.unwrap_or_default())?,
        };
        averaged(&shape, &to)?
    } else {
        let Some(mode) = Mode::of(plain) else { return Ok(None) };
        let x = given.tensor(import, if backward { "grad_output" } else { "self" })?;
        let dtype = import.spec(x).dtype;
        let shape = match backward {
            true => lengths(&given.ints("input_size")?.unwrap_or_default())?,
            false => import.spec(x).shape().to_vec(),
        };
        upsampled(mode, &shape, dtype, given)?
    };
    let made = if backward {
        let grad = given.tensor(import, "grad_output")?;
        spread(import, grad, &taps)?
    } else {
        let x = given.tensor(import, "self")?;
        gathered(import, x, &taps)?
    };
    Ok(Some(vec![Some(made)]))
}

fn lengths(of: &[i64]) -> Lowered<Vec<usize>> {
    let lengths: Option<_> = of.iter().map(|&d| usize::try_from(d).ok()).collect();
    lengths.ok_or_else(|| Refusal::Wrong(format!("impossible shape {of:?}")))
}

/// Returns the type that is computed in: f32 for 16-bit floats.
pub(super) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// Returns the weights as a tensor that broadcasts over the dimensions behind `dim`.
fn weights(import: &mut Import<'_>, of: &[f64], dtype: DType, behind: usize) -> Lowered<Val> {
    let list = import.numbers(of.iter().map(|&v| crate::number::Number::Float(v)), dtype)?;
    let shape = [vec![of.len() as i64], vec![1; behind]].concat();
    one_call(import, "view", &[list], Attrs::new().with("size", shape))
}

pub(super) fn positions(import: &mut Import<'_>, of: &[i64]) -> Lowered<Val> {
    import.numbers(of.iter().map(|&v| crate::number::Number::Int(v.into())), DType::I64)
}

/// Computes the results, a dimension at a time.
fn gathered(import: &mut Import<'_>, x: Val, all: &[Taps]) -> Lowered<Val> {
    let dtype = import.spec(x).dtype;
    let weighted = all.iter().any(|taps| taps.taps.iter().any(|tap| tap.1.is_some()));
    let mut x = if weighted { cast(import, x, wide(dtype))? } else { x };
    for taps in all {
        let behind = import.spec(x).shape().len() - taps.dim - 1;
        let mut sum: Option<Val> = None;
        for (at, share) in &taps.taps {
            let index = positions(import, at)?;
            let dim = Attrs::new().with("dim", taps.dim as i64);
            let mut part = one_call(import, "index_select", &[x, index], dim)?;
            if let Some(share) = share {
                let share = weights(import, share, wide(dtype), behind)?;
                part = apply(import, "mul", &[part, share])?;
            }
            sum = Some(match sum {
                None => part,
                Some(sum) => apply(import, "add", &[sum, part])?,
            });
        }
        x = sum.unwrap_or(x);
    }
    if all.is_empty() { apply(import, "clone", &[x]) } else { cast(import, x, dtype) }
}

/// Computes the gradient, a dimension at a time.
fn spread(import: &mut Import<'_>, grad: Val, all: &[Taps]) -> Lowered<Val> {
    let dtype = import.spec(grad).dtype;
    let mut grad = cast(import, grad, wide(dtype))?;
    for taps in all.iter().rev() {
        let mut shape: Vec<i64> = import.spec(grad).shape().iter().map(|&d| d as i64).collect();
        let behind = shape.len() - taps.dim - 1;
        shape[taps.dim] = taps.length as i64;
        let zeros =
            Attrs::new().with("shape", shape).with("value", 0i64).with("dtype", wide(dtype));
        let target = one_call(import, "full", &[], zeros)?;
        for (at, share) in &taps.taps {
            let index = positions(import, at)?;
            let mut part = grad;
            if let Some(share) = share {
                let share = weights(import, share, wide(dtype), behind)?;
                part = apply(import, "mul", &[part, share])?;
            }
            let dim = Attrs::new().with("dim", taps.dim as i64);
            import.call("index_add_", &[target, index, part], dim)?;
        }
        grad = target;
    }
    cast(import, grad, dtype)
}

/// Returns the taps of padding by reflected or replicated elements.
fn padded(shape: &[usize], padding: &[i64], reflect: bool) -> Lowered<Vec<Taps>> {
    let mut all = Vec::new();
    for (k, pair) in padding.chunks(2).enumerate() {
        let (dim, &[before, after]) = (shape.len().checked_sub(k + 1), pair) else {
            return Err(Refusal::Wrong(format!("padding {padding:?}: expected pairs")));
        };
        let dim = dim.ok_or_else(|| Refusal::Wrong(format!("padding {padding:?} of {shape:?}")))?;
        let length = shape[dim] as i64;
        let position = |at: i64| match reflect {
            true if at < 0 => -at,
            true if at >= length => 2 * (length - 1) - at,
            _ => at.clamp(0, (length - 1).max(0)),
        };
        let at: Vec<i64> = (-before..length + after).map(position).collect();
        if at.iter().any(|at| !(0..length).contains(at)) {
            return Err(Refusal::Wrong(format!("padding {padding:?} of {shape:?}")));
        }
        all.push(Taps { dim, length: length as usize, taps: vec![(at, None)] });
    }
    Ok(all)
}

/// Returns the taps of means over windows that cover each dimension.
fn averaged(shape: &[usize], to: &[usize]) -> Lowered<Vec<Taps>> {
    let first = shape.len().checked_sub(to.len());
    let first = first.ok_or_else(|| Refusal::Wrong(format!("{to:?} from {shape:?}")))?;
    let mut all = Vec::new();
    for (k, &count) in to.iter().enumerate() {
        let length = shape[first + k];
        if length == 0 || count == 0 {
            return Err(unsupported("means of no elements"));
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
        all.push(Taps { dim: first + k, length, taps: (0..most).map(tap).collect() });
    }
    Ok(all)
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
    /// Linear and cubic, over as many elements as a result covers.
    LinearMean,
    CubicMean,
}

impl Mode {
    fn of(name: &str) -> Option<Mode> {
        let kind = name.strip_prefix('_').unwrap_or(name).strip_prefix("upsample_")?;
        let kind = match kind.ends_with("_aa") {
            true => kind,
            false => kind.trim_end_matches(['1', '2', '3', 'd']),
        };
        Some(match kind {
            "nearest" => Mode::Nearest,
            "nearest_exact" => Mode::NearestExact,
            "linear" | "bilinear" | "trilinear" => Mode::Linear,
            "bicubic" => Mode::Cubic,
            "bilinear2d_aa" => Mode::LinearMean,
            "bicubic2d_aa" => Mode::CubicMean,
            _ => return None,
        })
    }
}

/// Returns the taps of upsampling from this shape.
fn upsampled(
    mode: Mode,
    shape: &[usize],
    dtype: DType,
    given: &NodeArgs<'_>,
) -> Lowered<Vec<Taps>> {
    let to = lengths(&given.ints("output_size")?.unwrap_or_default())?;
    let corners = given.scalar("align_corners")? == Some(AttrValue::Bool(true));
    let first = shape.len().checked_sub(to.len()).filter(|first| *first == 2);
    let first = first.ok_or_else(|| Refusal::Wrong(format!("{to:?} from {shape:?}")))?;
    // The trailing arguments are the factors of the dimensions, by whatever names.
    let names: &[&str] = match to.len() {
        1 => &["scales"],
        2 => &["scales_h", "scales_w"],
        _ => &["scales_d", "scales_h", "scales_w"],
    };
    let nearest = matches!(mode, Mode::Nearest | Mode::NearestExact);
    if !nearest && !dtype.is_float() {
        return Err(unsupported(format!("interpolation of {dtype}")));
    }
    let single = nearest || dtype != DType::F64;
    let mut all = Vec::new();
    for (k, &count) in to.iter().enumerate() {
        let length = shape[first + k];
        if length == 0 || count == 0 {
            return Err(unsupported("upsampling from or to no elements"));
        }
        let factor = match given.get(names[k]) {
            Some((_, Arg::Float(v))) if *v > 0.0 => Some(*v),
            Some((_, Arg::Int(v))) if *v > 0 => Some(*v as f64),
            _ => None,
        };
        let taps = taps(mode, length, count, factor, corners, single);
        all.push(Taps { dim: first + k, length, taps });
    }
    Ok(all)
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
        Mode::LinearMean | Mode::CubicMean => covering(mode, length, count, step),
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
    let width = if mode == Mode::LinearMean { 1.0 } else { 2.0 } * step.max(1.0);
    let weight = |x: f64| match mode {
        Mode::LinearMean => (1.0 - x.abs()).max(0.0),
        _ if x.abs() < 2.0 => cubic(x.abs(), -0.5),
        _ => 0.0,
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
