//! Composite pools: over three dimensions, adaptive maxima, and gradients. A pool over three
//! dimensions is a pool over the last two and then one over the first.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, several, table};
use crate::formula::{Expr, along, wide, wrong};

table! {
    op("avg_pool3d", "the means of windows over three dimensions", X3, MEANS, means);
    op("avg_pool3d_backward", "the gradient of `avg_pool3d`", GRAD_X, MEANS, means_backward);
    several("max_pool3d_with_indices",
        "the maxima of windows over three dimensions, and their indices", X3, MAXIMA, 2, maxima);
    op("max_pool3d_with_indices_backward", "the gradient of `max_pool3d_with_indices`",
        GRAD_INDICES, MAXIMA, |args| maxima_backward(args, 3));
    several("adaptive_max_pool2d",
        "the maxima of windows that cover two dimensions, and their indices", X, TO, 2,
        adaptive_maxima);
    several("adaptive_max_pool3d",
        "the maxima of windows that cover three dimensions, and their indices", X, TO, 2,
        adaptive_maxima);
    op("adaptive_max_pool2d_backward", "the gradient of `adaptive_max_pool2d`", GRAD_INDICES,
        &[], |args| maxima_backward(args, 2));
    op("adaptive_max_pool3d_backward", "the gradient of `adaptive_max_pool3d`", GRAD_INDICES,
        &[], |args| maxima_backward(args, 3));
    op("max_unpool2d", "zeros, and the elements of x at their indices in two dimensions",
        INDICES, TO, |args| unpool(args, 2));
    op("max_unpool3d", "zeros, and the elements of x at their indices in three dimensions",
        INDICES, UNPOOL3, |args| unpool(args, 3));
    several("fractional_max_pool2d",
        "the maxima of windows at random distances over two dimensions, and their indices",
        SAMPLES, FRACTIONAL, 2, |args| fractional(args, 2));
    several("fractional_max_pool3d",
        "the maxima of windows at random distances over three dimensions, and their indices",
        SAMPLES, FRACTIONAL, 2, |args| fractional(args, 3));
    op("fractional_max_pool2d_backward", "the gradient of `fractional_max_pool2d`",
        GRAD_INDICES, FRACTIONAL, |args| fractional_backward(args, 2));
    op("fractional_max_pool3d_backward", "the gradient of `fractional_max_pool3d`",
        GRAD_INDICES, FRACTIONAL, |args| fractional_backward(args, 3));
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
    fn of(x: Expr<'_>, args: Args<'_>) -> Result<Pool> {
        let shape = x.shape()?;
        let (outer, &[d, h, w]) = shape.split_at(shape.len().saturating_sub(3)) else {
            return Err(wrong(format!("a pool over three dimensions of {shape:?}")));
        };
        let three = |name: &str, default: [i64; 3]| -> Result<[i64; 3]> {
            match args.ints(name)?.unwrap_or_default()[..] {
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
            ceil: args.flag("ceil_mode", false)?,
        })
    }

    /// Returns the arguments of the pool over the last two dimensions.
    fn of_images(&self) -> Attrs {
        self.attrs(|all, _| all[1..].to_vec())
    }

    /// Returns the arguments of the pool over the first dimension; the second one has no windows.
    fn of_depth(&self) -> Attrs {
        self.attrs(|all, of_one| vec![all[0], of_one])
    }

    /// Returns the arguments of a pool over two dimensions: `two` makes each of them from the
    /// lengths over three dimensions, and the length for a dimension without windows.
    fn attrs(&self, two: fn(&[i64; 3], i64) -> Vec<i64>) -> Attrs {
        let attrs = Attrs::new()
            .with("kernel_size", two(&self.kernel, 1))
            .with("stride", two(&self.stride, 1))
            .with("padding", two(&self.padding, 0))
            .with("ceil_mode", self.ceil);
        let dilation = two(&self.dilation, 1);
        if dilation == [1, 1] { attrs } else { attrs.with("dilation", dilation) }
    }

    fn images(&self) -> Vec<i64> {
        [&[self.batch], &self.lengths[..]].concat()
    }
}

/// Returns the numbers of elements that the windows of a mean divide by, in the shape [d, h, w].
fn divisors<'a>(args: Args<'a>, pool: &Pool, counts: [i64; 3], dtype: DType) -> Result<Expr<'a>> {
    if let Some(divisor) = args.int("divisor_override")? {
        return Ok(args.calls.full(Vec::new(), divisor, dtype));
    }
    let with_padding = args.flag("count_include_pad", true)?;
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
    Ok(args.calls.constant(&all, dtype).reshape(&counts))
}

fn means<'a>(args: Args<'a>) -> Result<Expr<'a>> {
    let x = args.tensor("x");
    let dtype = x.dtype();
    // The sums of a narrower integer would wrap.
    if !dtype.is_float() && dtype != DType::I64 {
        return Err(wrong(format!("means of {dtype} over three dimensions")));
    }
    let pool = Pool::of(x, args)?;
    let sums = |x: Expr<'a>, attrs: Attrs| x.op("avg_pool2d", attrs.with("divisor_override", 1));
    let images = sums(x.cast(wide(dtype)).reshape(&pool.images()), pool.of_images());
    let [_, _, rows, columns] = images.shape()?[..] else {
        return Err(wrong("no images"));
    };
    let lines = images.reshape(&[pool.batch, 1, pool.lengths[0], rows * columns]);
    let sums = sums(lines, pool.of_depth());
    let counts = [sums.shape()?[2], rows, columns];
    let sums = sums.reshape(&[&pool.outer[..], &counts].concat());
    let attrs = match dtype {
        DType::I64 => Attrs::new().with("rounding_mode", "trunc"),
        _ => Attrs::new(),
    };
    Ok(sums.with("div", divisors(args, &pool, counts, wide(dtype))?, attrs).cast(dtype))
}

fn means_backward<'a>(args: Args<'a>) -> Result<Expr<'a>> {
    let [grad, x] = args.tensors(["grad", "x"]);
    let (dtype, shape) = (x.dtype(), x.shape()?);
    let pool = Pool::of(x, args)?;
    let [.., depth, rows, columns] = grad.shape()?[..] else {
        return Err(wrong("a gradient without three dimensions"));
    };
    // The gradient of sums does not depend on the elements that were added.
    let sums_backward = |grad: Expr<'a>, shape: Vec<i64>, attrs: Attrs| {
        let like = args.calls.full(Vec::new(), 0, wide(dtype));
        let like = like.op("expand", Attrs::new().with("size", shape));
        grad.with("avg_pool2d_backward", like, attrs.with("divisor_override", 1))
    };
    let grad = grad.cast(wide(dtype));
    let grad = grad / divisors(args, &pool, [depth, rows, columns], wide(dtype))?;
    let lines = grad.reshape(&[pool.batch, 1, depth, rows * columns]);
    let like = vec![pool.batch, 1, pool.lengths[0], rows * columns];
    let grad = sums_backward(lines, like, pool.of_depth());
    let images = grad.reshape(&[pool.batch, pool.lengths[0], rows, columns]);
    Ok(sums_backward(images, pool.images(), pool.of_images()).reshape(&shape).cast(dtype))
}

fn maxima(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    let x = args.tensor("x");
    let pool = Pool::of(x, args)?;
    let pooled = |x, attrs| args.calls.several("max_pool2d_with_indices", &[x], attrs);
    let [values, pixels] = pooled(x.reshape(&pool.images()), pool.of_images());
    let [_, _, rows, columns] = values.shape()?[..] else {
        return Err(wrong("no images"));
    };
    let (depth, area) = (pool.lengths[0], rows * columns);
    let lines = values.reshape(&[pool.batch, 1, depth, area]);
    let [values, places] = pooled(lines, pool.of_depth());
    let counts = [values.shape()?[2], rows, columns];
    let shape = [&pool.outer[..], &counts].concat();
    let places = places.reshape(&[pool.batch, counts[0] * area]);
    let pixel = pixels.reshape(&[pool.batch, depth * area]).gather(1, places);
    let layer = places.with("div", area, Attrs::new().with("rounding_mode", "floor"));
    let alpha = Attrs::new().with("alpha", pool.lengths[1] * pool.lengths[2]);
    let index = pixel.with("add", layer, alpha);
    Ok(vec![values.reshape(&shape), index.reshape(&shape)])
}

/// Returns the gradients of maxima: each is added at its index.
fn maxima_backward(args: Args<'_>, spatial: usize) -> Result<Expr<'_>> {
    let [grad, x, index] = args.tensors(["grad", "x", "indices"]);
    let shape = x.shape()?;
    let (outer, inner) = shape.split_at(shape.len().saturating_sub(spatial));
    let (batch, count): (i64, i64) = (outer.iter().product(), inner.iter().product());
    let windows = grad.numel()? as i64 / batch.max(1);
    let [grad, index] = [grad, index].map(|x| x.reshape(&[batch, windows]));
    let made = args.calls.full(vec![batch, count], 0, x.dtype());
    args.calls.call("scatter_add_", &[made, index, grad], along(1));
    Ok(made.reshape(&shape))
}

/// Returns the inverse of maxima with indices: zeros, and each element at its index.
fn unpool(args: Args<'_>, spatial: usize) -> Result<Expr<'_>> {
    let [x, index] = args.tensors(["x", "indices"]);
    let shape = x.shape()?;
    let (outer, inner) = shape.split_at(shape.len().saturating_sub(spatial));
    let to = args.ints("output_size")?.unwrap_or_default();
    let (batch, windows): (i64, i64) = (outer.iter().product(), inner.iter().product());
    let [x, index] = [x, index].map(|x| x.reshape(&[batch, windows]));
    let made = args.calls.full(vec![batch, to.iter().product()], 0, x.dtype());
    args.calls.call("scatter_", &[made, index, x], along(1));
    Ok(made.reshape(&[outer, &to].concat()).apply("clone", []))
}

/// Makes the elements of each window, the last of them repeated to the greatest length, a dimension
/// of their own, and reduces that.
fn adaptive_maxima(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    let (x, calls) = (args.tensor("x"), args.calls);
    let to = args.ints("output_size")?.unwrap_or_default();
    if to.iter().any(|&length| length < 0) {
        return Err(wrong(format!("output_size: expected lengths of 0 or more, got {to:?}")));
    }
    let shape = x.shape()?;
    let (outer, from) = shape.split_at(shape.len().saturating_sub(to.len()));
    let shape = [outer, &to].concat();
    let batch: i64 = outer.iter().product();
    if batch == 0 || to.contains(&0) {
        return Ok([x.dtype(), DType::I64].map(|dtype| calls.full(shape.clone(), 0, dtype)).into());
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
    let mut gathered = x.reshape(&[&[batch], from].concat());
    let mut split = vec![batch];
    for (k, windows) in windows.iter().enumerate() {
        let index = calls.positions(windows.iter().flatten().copied());
        gathered = gathered.index_select((k + 1) as i64, index);
        split.extend([windows.len() as i64, windows[0].len() as i64]);
    }
    let n = windows.len() as i64;
    let order: Vec<i64> =
        [0].into_iter().chain((0..n).map(|k| 1 + 2 * k)).chain((0..n).map(|k| 2 + 2 * k)).collect();
    let gathered = gathered.reshape(&split).op("permute", Attrs::new().with("dims", order));
    let count: i64 = to.iter().product();
    let lines = gathered.reshape(&[batch, count, -1]);
    let [values, chosen] = calls.several("max", &[lines], along(-1).with("keepdim", true));
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
    let index = calls.positions(each.into_iter().flatten()).reshape(&[1, count, -1]);
    let index = index.op("expand", Attrs::new().with("size", vec![batch, -1, -1]));
    let index = index.gather(-1, chosen);
    Ok(vec![values.reshape(&shape), index.reshape(&shape)])
}

fn fractional(args: Args<'_>, dims: usize) -> Result<Vec<Expr<'_>>> {
    let mut attrs = Attrs::new();
    for name in ["kernel_size", "output_size"] {
        let list = args.ints(name)?.unwrap_or_default();
        attrs.set(name, if list.len() == 1 { vec![list[0]; dims] } else { list });
    }
    Ok(args.calls.call("fractional_max_pool", &args.tensors(["x", "samples"]), attrs))
}

/// Returns the gradient of a pool: each gradient is added at the position of its maximum.
fn fractional_backward(args: Args<'_>, dims: usize) -> Result<Expr<'_>> {
    let [x, indices, grad] = args.tensors(["x", "indices", "grad"]);
    let shape = x.shape()?;
    let outer = shape.len().checked_sub(dims);
    let outer = outer.ok_or_else(|| wrong(format!("expected {dims} dimensions or more")))?;
    let flat = [&shape[..outer], &[-1]].concat();
    let zeros = args.calls.full(shape.clone(), 0, grad.dtype());
    let [zeros, indices, grad] = [zeros, indices, grad].map(|x| x.reshape(&flat));
    Ok(zeros.scatter_add(-1, indices, grad).reshape(&shape))
}
