//! Lowers pooling over three dimensions, and adaptive maxima. A pool over three dimensions is a
//! pool over the last two and then one over the first.

use millstream_types::{AttrValue, Attrs, DType};

use super::composed::reshaped;
use super::functions::{apply, cast};
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::number::Number;

/// Lowers an op; `None` if it is none of these.
pub(super) fn pool(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
) -> Lowered<Option<Made>> {
    Ok(Some(match name {
        "avg_pool3d" => vec![Some(means(import, given)?)],
        "avg_pool3d_backward" => vec![Some(means_backward(import, given)?)],
        "max_pool3d_with_indices" => maxima(import, given)?,
        "adaptive_max_pool2d" | "adaptive_max_pool3d" => adaptive_maxima(import, given)?,
        "max_unpool2d" | "max_unpool3d" => vec![Some(unpool(import, name, given)?)],
        "max_pool3d_with_indices_backward"
        | "adaptive_max_pool2d_backward"
        | "adaptive_max_pool3d_backward" => vec![Some(maxima_backward(import, name, given)?)],
        _ => return Ok(None),
    }))
}

pub(super) fn ints(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|&d| d as i64).collect()
}

/// The lengths of a pool over three dimensions.
struct Pool {
    /// All lengths before the spatial ones, and their product.
    outer: Vec<i64>,
    batch: i64,
    lengths: [i64; 3],
    kernel: [i64; 3],
    stride: [i64; 3],
    padding: [i64; 3],
    dilation: [i64; 3],
    ceil: bool,
}

impl Pool {
    fn of(shape: &[usize], given: &NodeArgs<'_>) -> Lowered<Pool> {
        let shape = ints(shape);
        let (outer, &[d, h, w]) = shape.split_at(shape.len().saturating_sub(3)) else {
            return Err(Refusal::Wrong(format!("a pool over three dimensions of {shape:?}")));
        };
        let three = |name: &str, default: [i64; 3]| -> Lowered<[i64; 3]> {
            match given.ints(name)?.unwrap_or_default()[..] {
                [] => Ok(default),
                [one] => Ok([one; 3]),
                [a, b, c] => Ok([a, b, c]),
                ref other => Err(Refusal::Wrong(format!("'{name}': {other:?}"))),
            }
        };
        let kernel = three("kernel_size", [1; 3])?;
        Ok(Pool {
            outer: outer.to_vec(),
            batch: outer.iter().product(),
            lengths: [d, h, w],
            kernel,
            stride: three("stride", kernel)?,
            padding: three("padding", [0; 3])?,
            dilation: three("dilation", [1; 3])?,
            ceil: given.scalar("ceil_mode")? == Some(AttrValue::Bool(true)),
        })
    }

    /// Returns the arguments of the pool over the last two dimensions.
    fn of_images(&self) -> Attrs {
        let last = |of: &[i64; 3]| of[1..].to_vec();
        self.attrs(
            last(&self.kernel),
            last(&self.stride),
            last(&self.padding),
            last(&self.dilation),
        )
    }

    /// Returns the arguments of the pool over the first dimension.
    fn of_depth(&self) -> Attrs {
        let [k, s, p, d] = [self.kernel[0], self.stride[0], self.padding[0], self.dilation[0]];
        self.attrs(vec![k, 1], vec![s, 1], vec![p, 0], vec![d, 1])
    }

    fn attrs(&self, kernel: Vec<i64>, stride: Vec<i64>, padding: Vec<i64>, by: Vec<i64>) -> Attrs {
        let attrs = Attrs::new()
            .with("kernel_size", kernel)
            .with("stride", stride)
            .with("padding", padding)
            .with("ceil_mode", self.ceil);
        if by == [1, 1] { attrs } else { attrs.with("dilation", by) }
    }

    fn images(&self) -> Vec<i64> {
        vec![self.batch, self.lengths[0], self.lengths[1], self.lengths[2]]
    }
}

fn lengths(import: &Import<'_>, x: Val) -> Vec<i64> {
    ints(import.spec(x).shape())
}

fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// Returns the numbers of elements that the windows of a mean divide by, in the shape [d, h, w].
fn divisors(
    import: &mut Import<'_>,
    pool: &Pool,
    counts: [i64; 3],
    dtype: DType,
    given: &NodeArgs<'_>,
) -> Lowered<Val> {
    if let Some(divisor) = given.int("divisor_override")? {
        return import.number(Number::Int(divisor.into()), dtype);
    }
    let with_padding = given.scalar("count_include_pad")? != Some(AttrValue::Bool(false));
    let of = |k: usize| {
        let (length, padding) = (pool.lengths[k], pool.padding[k]);
        (0..counts[k]).map(move |at| {
            let start = at * pool.stride[k] - padding;
            let end = (start + pool.kernel[k]).min(length + padding);
            match with_padding {
                true => end - start,
                false => end.min(length) - start.max(0),
            }
        })
    };
    let mut all = Vec::new();
    for depth in of(0) {
        for row in of(1) {
            all.extend(of(2).map(|column| Number::Int((depth * row * column).into())));
        }
    }
    let list = import.numbers(all, dtype)?;
    reshaped(import, list, &counts)
}

fn means(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let dtype = import.spec(x).dtype;
    // The sums of a narrower integer would wrap.
    if !dtype.is_float() && dtype != DType::I64 {
        return Err(unsupported(format!("means of {dtype} over three dimensions")));
    }
    let pool = Pool::of(import.spec(x).shape(), given)?;
    let x = cast(import, x, wide(dtype))?;
    let x = reshaped(import, x, &pool.images())?;
    let sums = pool.of_images().with("divisor_override", 1i64);
    let sums = one_call(import, "avg_pool2d", &[x], sums)?;
    let [_, _, rows, columns] = lengths(import, sums)[..] else {
        return Err(unsupported("no images"));
    };
    let lines = [pool.batch, 1, pool.lengths[0], rows * columns];
    let lines = reshaped(import, sums, &lines)?;
    let sums = pool.of_depth().with("divisor_override", 1i64);
    let sums = one_call(import, "avg_pool2d", &[lines], sums)?;
    let depth = lengths(import, sums)[2];
    let counts = [depth, rows, columns];
    let sums = reshaped(import, sums, &[&pool.outer[..], &counts].concat())?;
    let divisors = divisors(import, &pool, counts, wide(dtype), given)?;
    let mut attrs = Attrs::new();
    if dtype == DType::I64 {
        attrs.set("rounding_mode", "trunc");
    }
    let made = one_call(import, "div", &[sums, divisors], attrs)?;
    cast(import, made, dtype)
}

/// Returns a tensor of this shape whose elements do not matter.
fn shaped(import: &mut Import<'_>, shape: Vec<i64>, dtype: DType) -> Lowered<Val> {
    let zero = import.number(Number::Int(0), dtype)?;
    one_call(import, "expand", &[zero], Attrs::new().with("size", shape))
}

fn means_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (grad, x) = (given.tensor(import, "grad_output")?, given.tensor(import, "self")?);
    let (dtype, shape) = (import.spec(x).dtype, lengths(import, x));
    let pool = Pool::of(import.spec(x).shape(), given)?;
    let &[.., depth, rows, columns] = &lengths(import, grad)[..] else {
        return Err(Refusal::Wrong("a gradient without three dimensions".to_owned()));
    };
    let grad = cast(import, grad, wide(dtype))?;
    let divisors = divisors(import, &pool, [depth, rows, columns], wide(dtype), given)?;
    let grad = apply(import, "div", &[grad, divisors])?;
    let grad = reshaped(import, grad, &[pool.batch, 1, depth, rows * columns])?;
    let like = vec![pool.batch, 1, pool.lengths[0], rows * columns];
    let like = shaped(import, like, wide(dtype))?;
    let of_depth = pool.of_depth().with("divisor_override", 1i64);
    let grad = one_call(import, "avg_pool2d_backward", &[grad, like], of_depth)?;
    let grad = reshaped(import, grad, &[pool.batch, pool.lengths[0], rows, columns])?;
    let like = shaped(import, pool.images(), wide(dtype))?;
    let of_images = pool.of_images().with("divisor_override", 1i64);
    let grad = one_call(import, "avg_pool2d_backward", &[grad, like], of_images)?;
    let grad = reshaped(import, grad, &shape)?;
    cast(import, grad, dtype)
}

fn maxima(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let x = given.tensor(import, "self")?;
    let pool = Pool::of(import.spec(x).shape(), given)?;
    let x = reshaped(import, x, &pool.images())?;
    let op = "max_pool2d_with_indices";
    let [values, pixels] = import.call(op, &[x], pool.of_images())?[..] else {
        return Err(unsupported("a pool returns no pair"));
    };
    let [_, _, rows, columns] = lengths(import, values)[..] else {
        return Err(unsupported("no images"));
    };
    let (depth, area) = (pool.lengths[0], rows * columns);
    let lines = reshaped(import, values, &[pool.batch, 1, depth, area])?;
    let [values, places] = import.call(op, &[lines], pool.of_depth())?[..] else {
        return Err(unsupported("a pool returns no pair"));
    };
    let counts = [lengths(import, values)[2], rows, columns];
    let shape = [&pool.outer[..], &counts].concat();
    let places = reshaped(import, places, &[pool.batch, counts[0] * area])?;
    let pixels = reshaped(import, pixels, &[pool.batch, depth * area])?;
    let pixel = one_call(import, "gather", &[pixels, places], Attrs::new().with("dim", 1i64))?;
    let floor = Attrs::new().with("other", area).with("rounding_mode", "floor");
    let layer = one_call(import, "div", &[places], floor)?;
    let alpha = Attrs::new().with("alpha", pool.lengths[1] * pool.lengths[2]);
    let index = one_call(import, "add", &[pixel, layer], alpha)?;
    let values = reshaped(import, values, &shape)?;
    Ok(vec![Some(values), Some(reshaped(import, index, &shape)?)])
}

/// Lowers the gradients of maxima: each is added at its index.
fn maxima_backward(import: &mut Import<'_>, name: &str, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (grad, x) = (given.tensor(import, "grad_output")?, given.tensor(import, "self")?);
    let index = given.tensor(import, "indices")?;
    let spatial = if name.contains("2d") { 2 } else { 3 };
    let shape = lengths(import, x);
    let (outer, inner) = shape.split_at(shape.len().saturating_sub(spatial));
    let (batch, count): (i64, i64) = (outer.iter().product(), inner.iter().product());
    let windows = import.spec(grad).numel() as i64 / batch.max(1);
    let grad = reshaped(import, grad, &[batch, windows])?;
    let index = reshaped(import, index, &[batch, windows])?;
    let zeros = Attrs::new()
        .with("shape", vec![batch, count])
        .with("value", 0i64)
        .with("dtype", import.spec(x).dtype);
    let made = one_call(import, "full", &[], zeros)?;
    import.call("scatter_add_", &[made, index, grad], Attrs::new().with("dim", 1i64))?;
    reshaped(import, made, &shape)
}

/// Lowers the inverse of maxima with indices: zeros, and each element at its index.
fn unpool(import: &mut Import<'_>, name: &str, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, index) = (given.tensor(import, "self")?, given.tensor(import, "indices")?);
    let spatial = if name.contains("2d") { 2 } else { 3 };
    let shape = lengths(import, x);
    let (outer, inner) = shape.split_at(shape.len().saturating_sub(spatial));
    let to = given.ints("output_size")?.unwrap_or_default();
    let (batch, windows): (i64, i64) = (outer.iter().product(), inner.iter().product());
    let x_rows = reshaped(import, x, &[batch, windows])?;
    let index = reshaped(import, index, &[batch, windows])?;
    let zeros = Attrs::new()
        .with("shape", vec![batch, to.iter().product()])
        .with("value", 0i64)
        .with("dtype", import.spec(x).dtype);
    let made = one_call(import, "full", &[], zeros)?;
    import.call("scatter_", &[made, index, x_rows], Attrs::new().with("dim", 1i64))?;
    let made = reshaped(import, made, &[outer, &to].concat())?;
    apply(import, "clone", &[made])
}

/// Returns maxima and indices of a shape without elements.
fn no_maxima(import: &mut Import<'_>, shape: Vec<i64>, dtype: DType) -> Lowered<Made> {
    let mut made = Vec::new();
    for dtype in [dtype, DType::I64] {
        let attrs = Attrs::new().with("shape", shape.clone()).with("value", 0i64);
        made.push(Some(one_call(import, "full", &[], attrs.with("dtype", dtype))?));
    }
    Ok(made)
}

/// Lowers adaptive maxima: the elements of each window, the last of them repeated to the greatest
/// length, become a dimension of their own.
fn adaptive_maxima(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let x = given.tensor(import, "self")?;
    let to = given.ints("output_size")?.unwrap_or_default();
    let shape = lengths(import, x);
    let (outer, from) = shape.split_at(shape.len().saturating_sub(to.len()));
    let batch: i64 = outer.iter().product();
    if batch == 0 || to.contains(&0) {
        return no_maxima(import, [outer, &to].concat(), import.spec(x).dtype);
    }
    if from.contains(&0) {
        return Err(Refusal::Wrong("maxima of windows without elements".to_owned()));
    }
    // The positions of each window's elements, by dimension.
    let mut windows: Vec<Vec<Vec<i64>>> = Vec::new();
    for (&length, &count) in from.iter().zip(&to) {
        let bounds = (0..count).map(|at| (at * length / count, ((at + 1) * length - 1) / count));
        let most = bounds.clone().map(|(first, last)| last - first + 1).max().unwrap_or(1);
        let of = |(first, last): (i64, i64)| (0..most).map(|k| (first + k).min(last)).collect();
        windows.push(bounds.map(of).collect());
    }
    let mut gathered = reshaped(import, x, &[&[batch], from].concat())?;
    let mut split = vec![batch];
    for (k, windows) in windows.iter().enumerate() {
        let flat = windows.iter().flatten().map(|&at| Number::Int(at.into()));
        let index = import.numbers(flat, DType::I64)?;
        let dim = Attrs::new().with("dim", (k + 1) as i64);
        gathered = one_call(import, "index_select", &[gathered, index], dim)?;
        split.extend([windows.len() as i64, windows[0].len() as i64]);
    }
    let n = windows.len() as i64;
    let order: Vec<i64> =
        [0].into_iter().chain((0..n).map(|k| 1 + 2 * k)).chain((0..n).map(|k| 2 + 2 * k)).collect();
    let gathered = reshaped(import, gathered, &split)?;
    let gathered = one_call(import, "permute", &[gathered], Attrs::new().with("dims", order))?;
    let count: i64 = to.iter().product();
    let lines = reshaped(import, gathered, &[batch, count, -1])?;
    let last = Attrs::new().with("dim", -1i64);
    let [values, chosen] = import.call("max", &[lines], last.clone().with("keepdim", true))?[..]
    else {
        return Err(unsupported("max returns no pair"));
    };
    // The index of each element of each window in x.
    let mut each: Vec<Vec<i64>> = vec![vec![0]];
    for (windows, &length) in windows.iter().zip(from) {
        let longer = each.iter().flat_map(|before| {
            windows.iter().map(move |window| {
                let join = |&b: &i64| window.iter().map(move |&at| b * length + at);
                before.iter().flat_map(join).collect::<Vec<i64>>()
            })
        });
        each = longer.collect();
    }
    let flat = each.into_iter().flatten().map(|at| Number::Int(at.into()));
    let index = import.numbers(flat, DType::I64)?;
    let index = reshaped(import, index, &[1, count, -1])?;
    let size = Attrs::new().with("size", vec![batch, -1, -1]);
    let index = one_call(import, "expand", &[index], size)?;
    let index = one_call(import, "gather", &[index, chosen], last)?;
    let shape = [outer, &to].concat();
    let values = reshaped(import, values, &shape)?;
    Ok(vec![Some(values), Some(reshaped(import, index, &shape)?)])
}
