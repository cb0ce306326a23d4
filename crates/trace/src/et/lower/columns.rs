//! Lowers windows of images as columns, and sums of columns: `im2col` and `col2im`.

use millstream_types::Attrs;

use super::composed::reshaped;
use super::functions::cast;
use super::one_call;
use super::resampled::{positions, wide};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};

fn dim(k: i64) -> Attrs {
    Attrs::new().with("dim", k)
}

fn pair(given: &NodeArgs<'_>, name: &str, default: i64) -> Lowered<[i64; 2]> {
    match given.ints(name)?.unwrap_or_default()[..] {
        [] => Ok([default; 2]),
        [one] => Ok([one; 2]),
        [a, b] => Ok([a, b]),
        ref other => Err(Refusal::Wrong(format!("'{name}': {other:?}"))),
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

/// Lowers `im2col`, or with `sums` `col2im`.
pub(super) fn columns(import: &mut Import<'_>, sums: bool, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let (kernel, stride) = (pair(given, "kernel_size", 1)?, pair(given, "stride", 1)?);
    let (padding, dilation) = (pair(given, "padding", 0)?, pair(given, "dilation", 1)?);
    let shape: Vec<i64> = import.spec(x).shape().iter().map(|&d| d as i64).collect();
    let batched = shape.len() == if sums { 3 } else { 4 };
    let batch = if batched { shape[0] } else { 1 };
    let (channels, image) = match (sums, &shape[usize::from(batched)..]) {
        (true, &[rows, _]) => {
            (rows / (kernel[0] * kernel[1]).max(1), pair(given, "output_size", 0)?)
        }
        (false, &[channels, height, width]) => (channels, [height, width]),
        _ => return Err(Refusal::Wrong(format!("columns of {shape:?}"))),
    };
    if kernel.contains(&0) || stride.contains(&0) {
        return Err(unsupported("columns of no elements"));
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
            return Err(unsupported("columns of no elements"));
        }
        let shape = result[usize::from(!batched)..].to_vec();
        let dtype = import.spec(x).dtype;
        let zeros = Attrs::new().with("shape", shape).with("value", 0i64).with("dtype", dtype);
        return one_call(import, "full", &[], zeros);
    }
    match sums {
        true => windows.sums(import, x, batched),
        false => windows.columns(import, x, batched),
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
    fn swapped(&self, import: &mut Import<'_>, x: Val) -> Lowered<Val> {
        one_call(import, "transpose", &[x], Attrs::new().with("dim0", 3i64).with("dim1", 4i64))
    }

    fn columns(&self, import: &mut Import<'_>, x: Val, batched: bool) -> Lowered<Val> {
        let ([height, width], [rows, columns]) = (self.kernel, self.counts);
        let x = reshaped(import, x, &self.image_shape())?;
        let [above, left] = self.padding;
        let pad = Attrs::new().with("pad", vec![left, left, above, above]);
        let mut x = one_call(import, "constant_pad_nd", &[x], pad)?;
        for (k, at) in self.at.iter().enumerate() {
            let index = positions(import, at)?;
            x = one_call(import, "index_select", &[x, index], dim(2 + k as i64))?;
        }
        let x = reshaped(import, x, &[self.batch, self.channels, height, rows, width, columns])?;
        let x = self.swapped(import, x)?;
        let row_major = Attrs::new().with("memory_format", "contiguous");
        let x = one_call(import, "clone", &[x], row_major)?;
        let joined = self.columns_shape();
        reshaped(import, x, if batched { &joined } else { &joined[1..] })
    }

    fn sums(&self, import: &mut Import<'_>, x: Val, batched: bool) -> Lowered<Val> {
        let dtype = import.spec(x).dtype;
        let ([height, width], [rows, columns]) = (self.kernel, self.counts);
        let x = cast(import, x, wide(dtype))?;
        let x = reshaped(import, x, &[self.batch, self.channels, height, width, rows, columns])?;
        let x = self.swapped(import, x)?;
        let taps = [self.batch, self.channels, height * rows, width * columns];
        let mut x = reshaped(import, x, &taps)?;
        for k in [1, 0] {
            let mut shape: Vec<i64> = import.spec(x).shape().iter().map(|&d| d as i64).collect();
            shape[2 + k] = self.image[k] + 2 * self.padding[k];
            let zeros =
                Attrs::new().with("shape", shape).with("value", 0i64).with("dtype", wide(dtype));
            let target = one_call(import, "full", &[], zeros)?;
            let index = positions(import, &self.at[k])?;
            import.call("index_add_", &[target, index, x], dim(2 + k as i64))?;
            let part =
                dim(2 + k as i64).with("start", self.padding[k]).with("length", self.image[k]);
            x = one_call(import, "narrow", &[target], part)?;
        }
        let row_major = Attrs::new().with("memory_format", "contiguous");
        let x = one_call(import, "clone", &[x], row_major)?;
        let x = cast(import, x, dtype)?;
        let result = self.image_shape();
        reshaped(import, x, if batched { &result } else { &result[1..] })
    }
}
