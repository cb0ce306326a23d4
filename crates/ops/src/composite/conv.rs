//! Windows of images as columns, and sums of columns.

use millstream_types::{Attrs, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::{along, wide};
use super::{Calls, Composite, Given, Symbol, op, table, wrong};

table! {
    op("im2col", "the windows of images as columns", IMAGES, WINDOWS, |calls, given| {
        columns(calls, given, false)
    });
    op("col2im", "images of which each element is the sum of its elements in columns", COLUMNS,
        SUMS, |calls, given| {
        columns(calls, given, true)
    });
}

const IMAGES: &[ArgDoc] = &[arg("x", "[n,c,h,w] or [c,h,w]")];
const COLUMNS: &[ArgDoc] = &[arg("x", "[n,k,windows] or [k,windows]")];
const KERNEL: ArgDoc = arg("kernel_size", "the lengths of a window").ints();
const DILATION: ArgDoc = arg("dilation", "the distances of a window's elements").ints().or("1");
const PADDING: ArgDoc = arg("padding", "zeros around the images").ints().or("0");
const STRIDE: ArgDoc = arg("stride", "the distances of windows").ints().or("1");
const WINDOWS: &[ArgDoc] = &[KERNEL, DILATION, PADDING, STRIDE];
const SUMS: &[ArgDoc] = &[
    arg("output_size", "the height and width of the images").ints(),
    KERNEL,
    DILATION,
    PADDING,
    STRIDE,
];

fn pair(given: &Given<'_>, name: &str, default: i64) -> Result<[i64; 2]> {
    match given.ints(name)?.unwrap_or_default()[..] {
        [] => Ok([default; 2]),
        [one] => Ok([one; 2]),
        [a, b] => Ok([a, b]),
        ref other => Err(wrong(format!("{name}: {other:?}"))),
    }
}

/// The windows of a batch of images.
struct Windows {
    batch: i64,
    channels: i64,
    image: [i64; 2],
    padding: [i64; 2],
    kernel: [i64; 2],
    counts: [i64; 2],
    /// For each dimension, the position in the padded image of each element of each window.
    at: [Vec<i64>; 2],
}

/// Returns the columns of images, or with `sums` the images of columns.
fn columns(calls: &mut Calls<'_>, given: &Given<'_>, sums: bool) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let (kernel, stride) = (pair(given, "kernel_size", 1)?, pair(given, "stride", 1)?);
    let (padding, dilation) = (pair(given, "padding", 0)?, pair(given, "dilation", 1)?);
    let shape = calls.shape(x);
    let batched = shape.len() == if sums { 3 } else { 4 };
    let batch = if batched { shape[0] } else { 1 };
    let (channels, image) = match (sums, &shape[usize::from(batched)..]) {
        (true, &[rows, _]) => {
            (rows / (kernel[0] * kernel[1]).max(1), pair(given, "output_size", 0)?)
        }
        (false, &[channels, height, width]) => (channels, [height, width]),
        _ => return Err(wrong(format!("columns of {shape:?}"))),
    };
    if kernel.contains(&0) || stride.contains(&0) {
        return Err(wrong("columns of no elements"));
    }
    let mut counts = [0; 2];
    let at = [0, 1].map(|k| {
        let reach = image[k] + 2 * padding[k] - dilation[k] * (kernel[k] - 1) - 1;
        counts[k] = if reach < 0 { 0 } else { reach / stride[k] + 1 };
        let (count, step, by) = (counts[k], stride[k], dilation[k]);
        let of = |tap: i64| (0..count).map(move |window| window * step + tap * by);
        (0..kernel[k]).flat_map(of).collect::<Vec<i64>>()
    });
    let windows = Windows { batch, channels, image, padding, kernel, counts, at };
    if shape.contains(&0) {
        let result = match sums {
            true => windows.image_shape().to_vec(),
            false => windows.columns_shape().to_vec(),
        };
        if !result.contains(&0) {
            return Err(wrong("columns of no elements"));
        }
        let shape = result[usize::from(!batched)..].to_vec();
        let dtype = calls.dtype(x);
        let zeros = Attrs::new().with("shape", shape).with("value", 0i64).with("dtype", dtype);
        return calls.one("full", &[], zeros);
    }
    match sums {
        true => windows.sums(calls, x, batched),
        false => windows.columns(calls, x, batched),
    }
}

impl Windows {
    /// Returns the shape of a batch of columns.
    fn columns_shape(&self) -> [i64; 3] {
        let ([height, width], [rows, columns]) = (self.kernel, self.counts);
        [self.batch, self.channels * height * width, rows * columns]
    }

    /// Returns the shape of a batch of images.
    fn image_shape(&self) -> [i64; 4] {
        [self.batch, self.channels, self.image[0], self.image[1]]
    }

    /// Exchanges the dimensions of windows and of the elements in them.
    fn swapped(&self, calls: &mut Calls<'_>, x: Symbol) -> Result<Symbol> {
        calls.transpose(x, 3, 4)
    }

    fn columns(&self, calls: &mut Calls<'_>, x: Symbol, batched: bool) -> Result<Symbol> {
        let ([height, width], [rows, columns]) = (self.kernel, self.counts);
        let x = calls.reshape(x, &self.image_shape())?;
        let [above, left] = self.padding;
        let pad = Attrs::new().with("pad", vec![left, left, above, above]);
        let mut x = calls.one("constant_pad_nd", &[x], pad)?;
        for (k, at) in self.at.iter().enumerate() {
            let index = calls.positions(at.iter().copied())?;
            x = calls.one("index_select", &[x, index], along(2 + k as i64))?;
        }
        let x = calls.reshape(x, &[self.batch, self.channels, height, rows, width, columns])?;
        let x = self.swapped(calls, x)?;
        let x = calls.contiguous(x)?;
        let joined = self.columns_shape();
        calls.reshape(x, if batched { &joined } else { &joined[1..] })
    }

    fn sums(&self, calls: &mut Calls<'_>, x: Symbol, batched: bool) -> Result<Symbol> {
        let dtype = calls.dtype(x);
        let ([height, width], [rows, columns]) = (self.kernel, self.counts);
        let x = calls.cast(x, wide(dtype))?;
        let x = calls.reshape(x, &[self.batch, self.channels, height, width, rows, columns])?;
        let x = self.swapped(calls, x)?;
        let taps = [self.batch, self.channels, height * rows, width * columns];
        let mut x = calls.reshape(x, &taps)?;
        for k in [1, 0] {
            let mut shape = calls.shape(x);
            shape[2 + k] = self.image[k] + 2 * self.padding[k];
            let target = calls.full(shape, 0i64, wide(dtype))?;
            let index = calls.positions(self.at[k].iter().copied())?;
            calls.call("index_add_", &[target, index, x], along(2 + k as i64))?;
            let part =
                along(2 + k as i64).with("start", self.padding[k]).with("length", self.image[k]);
            x = calls.one("narrow", &[target], part)?;
        }
        let x = calls.contiguous(x)?;
        let x = calls.cast(x, dtype)?;
        let result = self.image_shape();
        calls.reshape(x, if batched { &result } else { &result[1..] })
    }
}
