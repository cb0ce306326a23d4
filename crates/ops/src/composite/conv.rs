//! Windows of images as columns, and sums of columns.

use millstream_types::{Attrs, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, table};
use crate::formula::{Expr, wide, wrong};

table! {
    op("im2col", "the windows of images as columns", IMAGES, WINDOWS,
        |args| columns(args, false));
    op("col2im", "images of which each element is the sum of its elements in columns", COLUMNS,
        SUMS, |args| columns(args, true));
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

fn pair(args: Args<'_>, name: &str, default: i64) -> Result<[i64; 2]> {
    match args.ints(name)?.unwrap_or_default()[..] {
        [] => Ok([default; 2]),
        [one] => Ok([one; 2]),
        [a, b] => Ok([a, b]),
        ref other => Err(wrong(format!("{name}: {other:?}"))),
    }
}

/// The windows of a batch of images.
struct Windows {
    /// The shape of the images.
    images: [i64; 4],
    /// The shape of the columns.
    columns: [i64; 3],
    /// The number of dimensions that the operand and the result lack.
    lacking: usize,
    padding: [i64; 2],
    kernel: [i64; 2],
    counts: [i64; 2],
    /// For each dimension, the position in the padded image of each element of each window.
    at: [Vec<i64>; 2],
}

/// Returns the columns of images, or with `sums` the images of columns.
fn columns(args: Args<'_>, sums: bool) -> Result<Expr<'_>> {
    let x = args.tensor("x");
    let (kernel, stride) = (pair(args, "kernel_size", 1)?, pair(args, "stride", 1)?);
    let (padding, dilation) = (pair(args, "padding", 0)?, pair(args, "dilation", 1)?);
    let shape = x.shape()?;
    let lacking = usize::from(shape.len() != if sums { 3 } else { 4 });
    let batch = if lacking == 0 { shape[0] } else { 1 };
    let (channels, image) = match (sums, &shape[1 - lacking..]) {
        (true, &[rows, _]) => {
            (rows / (kernel[0] * kernel[1]).max(1), pair(args, "output_size", 0)?)
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
    let images = [batch, channels, image[0], image[1]];
    let columns = [batch, channels * kernel[0] * kernel[1], counts[0] * counts[1]];
    if shape.contains(&0) {
        let result = if sums { &images[..] } else { &columns[..] };
        if !result.contains(&0) {
            return Err(wrong("columns of no elements"));
        }
        return Ok(x.calls.full(result[lacking..].to_vec(), 0i64, x.dtype()));
    }
    let windows = Windows { images, columns, lacking, padding, kernel, counts, at };
    if sums { windows.sums(x) } else { Ok(windows.columns(x)) }
}

impl Windows {
    fn columns<'a>(&self, x: Expr<'a>) -> Expr<'a> {
        let ([height, width], [rows, columns]) = (self.kernel, self.counts);
        let [above, left] = self.padding;
        let pad = Attrs::new().with("pad", vec![left, left, above, above]);
        let mut x = x.reshape(&self.images).op("constant_pad_nd", pad);
        for (dim, at) in (2..).zip(&self.at) {
            x = x.index_select(dim, x.calls.positions(at.iter().copied()));
        }
        let x = x.reshape(&[self.images[0], self.images[1], height, rows, width, columns]);
        x.transpose(3, 4).contiguous().reshape(&self.columns[self.lacking..])
    }

    fn sums<'a>(&self, x: Expr<'a>) -> Result<Expr<'a>> {
        let (calls, dtype) = (x.calls, x.dtype());
        let ([height, width], [rows, columns]) = (self.kernel, self.counts);
        let [batch, channels, ..] = self.images;
        let x = x.cast(wide(dtype));
        let x = x.reshape(&[batch, channels, height, width, rows, columns]).transpose(3, 4);
        let mut x = x.reshape(&[batch, channels, height * rows, width * columns]);
        for k in [1, 0] {
            let (dim, length) = (2 + k as i64, self.images[2 + k]);
            let mut shape = x.shape()?;
            shape[2 + k] = length + 2 * self.padding[k];
            let target = calls.full(shape, 0i64, wide(dtype));
            target.index_add_(dim, calls.positions(self.at[k].iter().copied()), x);
            x = target.narrow(dim, self.padding[k], length);
        }
        Ok(x.contiguous().cast(dtype).reshape(&self.images[self.lacking..]))
    }
}
