//! Composite pools: over three dimensions, adaptive maxima, and gradients. A pool over three
//! dimensions is a pool over the last two and then one over the first.
//!
//! Long because of its table.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::{along, ints, wide};
use super::{Calls, Composite, Given, Symbol, op, several, table, wrong};

table! {
    op("avg_pool3d", "the means of windows over three dimensions", X3, MEANS, means);
    op("avg_pool3d_backward", "the gradient of `avg_pool3d`", GRAD_X, MEANS, means_backward);
    several("max_pool3d_with_indices",
        "the maxima of windows over three dimensions, and their indices", X3, MAXIMA, 2, maxima);
    op("max_pool3d_with_indices_backward", "the gradient of `max_pool3d_with_indices`",
        GRAD_INDICES, MAXIMA, |calls, given| {
        maxima_backward(calls, given, 3)
    });
    several("adaptive_max_pool2d",
        "the maxima of windows that cover two dimensions, and their indices", X, TO, 2,
        adaptive_maxima);
    several("adaptive_max_pool3d",
        "the maxima of windows that cover three dimensions, and their indices", X, TO, 2,
        adaptive_maxima);
    op("adaptive_max_pool2d_backward", "the gradient of `adaptive_max_pool2d`", GRAD_INDICES, &[],
        |calls, given| {
        maxima_backward(calls, given, 2)
    });
    op("adaptive_max_pool3d_backward", "the gradient of `adaptive_max_pool3d`", GRAD_INDICES, &[],
        |calls, given| {
        maxima_backward(calls, given, 3)
    });
    op("max_unpool2d", "zeros, and the elements of x at their indices in two dimensions", INDICES,
        TO, |calls, given| {
        unpool(calls, given, 2)
    });
    op("max_unpool3d", "zeros, and the elements of x at their indices in three dimensions",
        INDICES, UNPOOL3, |calls, given| {
        unpool(calls, given, 3)
    });
    several("fractional_max_pool2d",
        "the maxima of windows at random distances over two dimensions, and their indices",
        SAMPLES, FRACTIONAL, 2, |calls, given| {
        fractional(calls, given, 2)
    });
    several("fractional_max_pool3d",
        "the maxima of windows at random distances over three dimensions, and their indices",
        SAMPLES, FRACTIONAL, 2, |calls, given| {
        fractional(calls, given, 3)
    });
    op("fractional_max_pool2d_backward", "the gradient of `fractional_max_pool2d`", GRAD_INDICES,
        FRACTIONAL, |calls, given| {
        fractional_backward(calls, given, 2)
    });
    op("fractional_max_pool3d_backward", "the gradient of `fractional_max_pool3d`", GRAD_INDICES,
        FRACTIONAL, |calls, given| {
        fractional_backward(calls, given, 3)
    });
}

const X: &[ArgDoc] = &[arg("x", "the dimensions of the windows last")];
const X3: &[ArgDoc] = &[arg("x", "[...,d,h,w]")];
const GRAD_X: &[ArgDoc] = &[arg("grad", "the shape of the result"), arg("x", "[...,d,h,w]")];
const GRAD_INDICES: &[ArgDoc] = &[
    arg("grad", "the shape of the result"),
    arg("x", "the operand"),
    arg("indices", "the indices"),
];
const INDICES: &[ArgDoc] = &[arg("x", "the maxima"), arg("indices", "their indices")];
const SAMPLES: &[ArgDoc] =
    &[arg("x", "[...,h,w] or [...,d,h,w]"), arg("samples", "[n,c,dimensions], from 0 to 1")];
const KERNEL: ArgDoc = arg("kernel_size", "the lengths of a window").ints();
const STRIDE: ArgDoc = arg("stride", "the distances of windows").ints().or("the kernel's size");
const PADDING: ArgDoc = arg("padding", "elements around x").ints().or("0");
const CEIL: ArgDoc =
    arg("ceil_mode", "whether a last window may reach out of x").flag().or("false");
const MEANS: &[ArgDoc] = &[
    KERNEL,
    STRIDE,
    PADDING,
    CEIL,
    arg("count_include_pad", "whether padding counts as elements").flag().or("true"),
    arg("divisor_override", "the divisor of each sum").int().or("the number of elements"),
];
const DILATION: ArgDoc = arg("dilation", "the distances of a window's elements").ints().or("1");
const MAXIMA: &[ArgDoc] = &[KERNEL, STRIDE, PADDING, DILATION, CEIL];
const OUTPUT: ArgDoc = arg("output_size", "the lengths of the result").ints();
const TO: &[ArgDoc] = &[OUTPUT];
const UNPOOL3: &[ArgDoc] =
    &[OUTPUT, arg("stride", "").ints().ignored(), arg("padding", "").ints().ignored()];
const FRACTIONAL: &[ArgDoc] = &[KERNEL, OUTPUT];

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
    fn of(shape: &[usize], given: &Given<'_>) -> Result<Pool> {
        let shape = ints(shape);
        let (outer, &[d, h, w]) = shape.split_at(shape.len().saturating_sub(3)) else {
            return Err(wrong(format!("a pool over three dimensions of {shape:?}")));
        };
        let three = |name: &str, default: [i64; 3]| -> Result<[i64; 3]> {
            match given.ints(name)?.unwrap_or_default()[..] {
                [] => Ok(default),
                [one] => Ok([one; 3]),
                [a, b, c] => Ok([a, b, c]),
                ref other => Err(wrong(format!("{name}: {other:?}"))),
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
            ceil: given.flag("ceil_mode", false)?,
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

/// Returns the numbers of elements that the windows of a mean divide by, in the shape [d, h, w].
fn divisors(
    calls: &mut Calls<'_>,
    pool: &Pool,
    counts: [i64; 3],
    dtype: DType,
    given: &Given<'_>,
) -> Result<Symbol> {
    if let Some(divisor) = given.int("divisor_override")? {
        return calls.full(Vec::new(), divisor, dtype);
    }
    let with_padding = given.flag("count_include_pad", true)?;
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
            all.extend(of(2).map(|column| (depth * row * column) as f64));
        }
    }
    let list = calls.constant(&all, dtype)?;
    calls.reshape(list, &counts)
}

fn means(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let dtype = calls.dtype(x);
    // The sums of a narrower integer would wrap.
    if !dtype.is_float() && dtype != DType::I64 {
        return Err(wrong(format!("means of {dtype} over three dimensions")));
    }
    let pool = Pool::of(calls.spec(x).shape(), given)?;
    let x = calls.cast(x, wide(dtype))?;
    let x = calls.reshape(x, &pool.images())?;
    let sums = pool.of_images().with("divisor_override", 1i64);
    let sums = calls.one("avg_pool2d", &[x], sums)?;
    let [_, _, rows, columns] = calls.shape(sums)[..] else {
        return Err(wrong("no images"));
    };
    let lines = [pool.batch, 1, pool.lengths[0], rows * columns];
    let lines = calls.reshape(sums, &lines)?;
    let sums = pool.of_depth().with("divisor_override", 1i64);
    let sums = calls.one("avg_pool2d", &[lines], sums)?;
    let depth = calls.shape(sums)[2];
    let counts = [depth, rows, columns];
    let sums = calls.reshape(sums, &[&pool.outer[..], &counts].concat())?;
    let divisors = divisors(calls, &pool, counts, wide(dtype), given)?;
    let mut attrs = Attrs::new();
    if dtype == DType::I64 {
        attrs.set("rounding_mode", "trunc");
    }
    let made = calls.one("div", &[sums, divisors], attrs)?;
    calls.cast(made, dtype)
}

/// Returns a tensor of this shape whose elements do not matter.
fn shaped(calls: &mut Calls<'_>, shape: Vec<i64>, dtype: DType) -> Result<Symbol> {
    let zero = calls.full(Vec::new(), 0i64, dtype)?;
    calls.one("expand", &[zero], Attrs::new().with("size", shape))
}

fn means_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (grad, x) = (given.tensor("grad")?, given.tensor("x")?);
    let (dtype, shape) = (calls.dtype(x), calls.shape(x));
    let pool = Pool::of(calls.spec(x).shape(), given)?;
    let &[.., depth, rows, columns] = &calls.shape(grad)[..] else {
        return Err(wrong("a gradient without three dimensions"));
    };
    let grad = calls.cast(grad, wide(dtype))?;
    let divisors = divisors(calls, &pool, [depth, rows, columns], wide(dtype), given)?;
    let grad = calls.apply("div", &[grad, divisors])?;
    let grad = calls.reshape(grad, &[pool.batch, 1, depth, rows * columns])?;
    let like = vec![pool.batch, 1, pool.lengths[0], rows * columns];
    let like = shaped(calls, like, wide(dtype))?;
    let of_depth = pool.of_depth().with("divisor_override", 1i64);
    let grad = calls.one("avg_pool2d_backward", &[grad, like], of_depth)?;
    let grad = calls.reshape(grad, &[pool.batch, pool.lengths[0], rows, columns])?;
    let like = shaped(calls, pool.images(), wide(dtype))?;
    let of_images = pool.of_images().with("divisor_override", 1i64);
    let grad = calls.one("avg_pool2d_backward", &[grad, like], of_images)?;
    let grad = calls.reshape(grad, &shape)?;
    calls.cast(grad, dtype)
}

fn maxima(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let x = given.tensor("x")?;
    let pool = Pool::of(calls.spec(x).shape(), given)?;
    let x = calls.reshape(x, &pool.images())?;
    let op = "max_pool2d_with_indices";
    let [values, pixels] = calls.several(op, &[x], pool.of_images())?;
    let [_, _, rows, columns] = calls.shape(values)[..] else {
        return Err(wrong("no images"));
    };
    let (depth, area) = (pool.lengths[0], rows * columns);
    let lines = calls.reshape(values, &[pool.batch, 1, depth, area])?;
    let [values, places] = calls.several(op, &[lines], pool.of_depth())?;
    let counts = [calls.shape(values)[2], rows, columns];
    let shape = [&pool.outer[..], &counts].concat();
    let places = calls.reshape(places, &[pool.batch, counts[0] * area])?;
    let pixels = calls.reshape(pixels, &[pool.batch, depth * area])?;
    let pixel = calls.one("gather", &[pixels, places], along(1))?;
    let floor = Attrs::new().with("other", area).with("rounding_mode", "floor");
    let layer = calls.one("div", &[places], floor)?;
    let alpha = Attrs::new().with("alpha", pool.lengths[1] * pool.lengths[2]);
    let index = calls.one("add", &[pixel, layer], alpha)?;
    let values = calls.reshape(values, &shape)?;
    Ok(vec![values, calls.reshape(index, &shape)?])
}

/// Returns the gradients of maxima: each is added at its index.
fn maxima_backward(calls: &mut Calls<'_>, given: &Given<'_>, spatial: usize) -> Result<Symbol> {
    let (grad, x) = (given.tensor("grad")?, given.tensor("x")?);
    let index = given.tensor("indices")?;
    let shape = calls.shape(x);
    let (outer, inner) = shape.split_at(shape.len().saturating_sub(spatial));
    let (batch, count): (i64, i64) = (outer.iter().product(), inner.iter().product());
    let windows = calls.spec(grad).numel() as i64 / batch.max(1);
    let grad = calls.reshape(grad, &[batch, windows])?;
    let index = calls.reshape(index, &[batch, windows])?;
    let made = calls.full(vec![batch, count], 0i64, calls.dtype(x))?;
    calls.call("scatter_add_", &[made, index, grad], along(1))?;
    calls.reshape(made, &shape)
}

/// Returns the inverse of maxima with indices: zeros, and each element at its index.
fn unpool(calls: &mut Calls<'_>, given: &Given<'_>, spatial: usize) -> Result<Symbol> {
    let (x, index) = (given.tensor("x")?, given.tensor("indices")?);
    let shape = calls.shape(x);
    let (outer, inner) = shape.split_at(shape.len().saturating_sub(spatial));
    let to = given.ints("output_size")?.unwrap_or_default();
    let (batch, windows): (i64, i64) = (outer.iter().product(), inner.iter().product());
    let x_rows = calls.reshape(x, &[batch, windows])?;
    let index = calls.reshape(index, &[batch, windows])?;
    let made = calls.full(vec![batch, to.iter().product()], 0i64, calls.dtype(x))?;
    calls.call("scatter_", &[made, index, x_rows], along(1))?;
    let made = calls.reshape(made, &[outer, &to].concat())?;
    calls.apply("clone", &[made])
}

/// Returns maxima and indices of a shape without elements.
fn no_maxima(calls: &mut Calls<'_>, shape: Vec<i64>, dtype: DType) -> Result<Vec<Symbol>> {
    let mut made = Vec::new();
    for dtype in [dtype, DType::I64] {
        made.push(calls.full(shape.clone(), 0i64, dtype)?);
    }
    Ok(made)
}

/// Makes the elements of each window, the last of them repeated to the greatest length, a dimension
/// of their own, and reduces that.
fn adaptive_maxima(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let x = given.tensor("x")?;
    let to = given.ints("output_size")?.unwrap_or_default();
    let shape = calls.shape(x);
    let (outer, from) = shape.split_at(shape.len().saturating_sub(to.len()));
    let batch: i64 = outer.iter().product();
    if batch == 0 || to.contains(&0) {
        return no_maxima(calls, [outer, &to].concat(), calls.dtype(x));
    }
    if from.contains(&0) {
        return Err(wrong("maxima of windows without elements"));
    }
    // The positions of each window's elements, by dimension.
    let mut windows: Vec<Vec<Vec<i64>>> = Vec::new();
    for (&length, &count) in from.iter().zip(&to) {
        let bounds = (0..count).map(|at| (at * length / count, ((at + 1) * length - 1) / count));
        let most = bounds.clone().map(|(first, last)| last - first + 1).max().unwrap_or(1);
        let of = |(first, last): (i64, i64)| (0..most).map(|k| (first + k).min(last)).collect();
        windows.push(bounds.map(of).collect());
    }
    let mut gathered = calls.reshape(x, &[&[batch], from].concat())?;
    let mut split = vec![batch];
    for (k, windows) in windows.iter().enumerate() {
        let index = calls.positions(windows.iter().flatten().copied())?;
        let dim = Attrs::new().with("dim", (k + 1) as i64);
        gathered = calls.one("index_select", &[gathered, index], dim)?;
        split.extend([windows.len() as i64, windows[0].len() as i64]);
    }
    let n = windows.len() as i64;
    let order: Vec<i64> =
        [0].into_iter().chain((0..n).map(|k| 1 + 2 * k)).chain((0..n).map(|k| 2 + 2 * k)).collect();
    let gathered = calls.reshape(gathered, &split)?;
    let gathered = calls.one("permute", &[gathered], Attrs::new().with("dims", order))?;
    let count: i64 = to.iter().product();
    let lines = calls.reshape(gathered, &[batch, count, -1])?;
    let last = along(-1);
    let [values, chosen] = calls.several("max", &[lines], last.clone().with("keepdim", true))?;
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
    let index = calls.positions(each.into_iter().flatten())?;
    let index = calls.reshape(index, &[1, count, -1])?;
    let size = Attrs::new().with("size", vec![batch, -1, -1]);
    let index = calls.one("expand", &[index], size)?;
    let index = calls.one("gather", &[index, chosen], last)?;
    let shape = [outer, &to].concat();
    let values = calls.reshape(values, &shape)?;
    Ok(vec![values, calls.reshape(index, &shape)?])
}

/// Returns the argument of one length for each dimension.
fn each_length(given: &Given<'_>, name: &str, dims: usize) -> Result<Vec<i64>> {
    let list = given.ints(name)?.unwrap_or_default();
    Ok(if list.len() == 1 { vec![list[0]; dims] } else { list })
}

fn fractional(calls: &mut Calls<'_>, given: &Given<'_>, dims: usize) -> Result<Vec<Symbol>> {
    let attrs = Attrs::new()
        .with("kernel_size", each_length(given, "kernel_size", dims)?)
        .with("output_size", each_length(given, "output_size", dims)?);
    calls.call("fractional_max_pool", &[given.tensor("x")?, given.tensor("samples")?], attrs)
}

/// Returns the gradient of a pool: each gradient is added at the position of its maximum.
fn fractional_backward(calls: &mut Calls<'_>, given: &Given<'_>, dims: usize) -> Result<Symbol> {
    let (x, indices) = (given.tensor("x")?, given.tensor("indices")?);
    let grad = given.tensor("grad")?;
    let shape = calls.shape(x);
    let dtype = calls.dtype(grad);
    let outer = shape.len().checked_sub(dims);
    let outer = outer.ok_or_else(|| wrong(format!("expected {dims} dimensions or more")))?;
    let mut flat = shape[..outer].to_vec();
    flat.push(-1);
    let zeros = calls.full(shape.clone(), 0i64, dtype)?;
    let mut operands = Vec::new();
    for val in [zeros, indices, grad] {
        operands.push(calls.reshape(val, &flat)?);
    }
    let made = calls.one("scatter_add", &operands, along(-1))?;
    calls.reshape(made, &shape)
}
