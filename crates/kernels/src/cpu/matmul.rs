//! The kernel of `matmul`.
//!
//! The shape of the result alone decides its division into tiles, and one thread computes a tile;
//! results therefore do not depend on the number of threads. The `gemm` crate computes floats, with
//! its own threads off. f16 and bf16 are converted to f32 by blocks, multiplied there, and rounded
//! once; the f16 of the `gemm` crate would round the sum between blocks of the inner dimension.

use anyhow::{Result, ensure};
use half::{bf16, f16};
use millstream_ops::args::Scalar;
use millstream_ops::matmul::Product;
use millstream_types::layout::numel;
use millstream_types::{DType, Dims};
use num_complex::Complex;

use super::Kernel;
use super::conversion::{Steps, convert_block, dense_steps};
use super::copy::convert;
use super::element::{Element, dispatch, from_scalar};
use super::memory::{Buffer, expect_dtype};
use super::number::Number;
use super::strided::Address;
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[("matmul", matmul)];

/// The rows and columns of tiles, the best first. Each tile packs its columns of y anew, where they
/// do not follow one another in memory, so few tiles should share columns.
/// A tile of a narrow matrix is longer, with as many elements.
const SIZES: [(usize, usize); 5] = [(512, 512), (512, 256), (512, 128), (256, 128), (128, 128)];

/// The number of tiles that a size must leave to be chosen, so that threads have equal shares.
const SHARES: usize = 6;

/// The number of multiplications in a task. Smaller tiles are grouped into one task.
const TASK: usize = 1 << 16;

/// The most rows or columns, and the most terms of a sum, of a block of f16 or bf16 that is
/// converted at once. Smaller blocks are converted more often, and in shorter pieces of memory.
const BLOCK: usize = 512;
const DEPTH: usize = 512;

/// A batch of matrices: the address of the first, and their strides in elements.
struct Matrices {
    data: Address,
    /// The strides of the batch dimensions; zero where the operand is broadcast.
    batch: Dims,
    row: isize,
    column: isize,
}

impl Matrices {
    /// Splits the dimensions of a tensor. `rows` and `columns` state which matrix dimensions it
    /// has.
    fn new(tensor: &RawTensor<'_>, batch_rank: usize, rows: bool, columns: bool) -> Matrices {
        let mut rest = tensor.shape.len();
        // The stride of a dimension of length 1 is arbitrary. A stride of 1 enables the fast paths
        // of `gemm`.
        let mut last = |there: bool| match there {
            false => 1,
            true => {
                rest -= 1;
                if tensor.shape[rest] == 1 { 1 } else { tensor.strides[rest] as isize }
            }
        };
        let column = last(columns);
        let row = last(rows);
        let stride = |k: usize| match (k + rest).checked_sub(batch_rank) {
            Some(at) if tensor.shape[at] != 1 => tensor.strides[at],
            _ => 0,
        };
        let batch = (0..batch_rank).map(stride).collect();
        Matrices { data: Address(tensor.data), batch, row, column }
    }

    fn steps(&self) -> Steps {
        [self.row, self.column]
    }

    /// Returns the address of element (`row`, `column`) of matrix `number` of a batch of this
    /// shape.
    fn at<T>(&self, batch: &[usize], mut number: usize, row: usize, column: usize) -> *mut T {
        // An operand without elements may have any strides; its address is not used.
        let step = |at: usize, stride: isize| at.wrapping_mul(stride as usize);
        let mut offset = step(row, self.row).wrapping_add(step(column, self.column));
        for (&length, &stride) in batch.iter().zip(&self.batch).rev() {
            offset = offset.wrapping_add((number % length).wrapping_mul(stride));
            number /= length;
        }
        self.data.0.cast::<T>().wrapping_add(offset)
    }
}

/// Returns the rows and columns of a tile of `count` products of m rows and n columns: the largest
/// of which there are enough. It depends on nothing but the shape.
fn tile(count: usize, m: usize, n: usize) -> (usize, usize) {
    let of = |(rows, columns): (usize, usize)| {
        let long = |side, across, other| if other < across { side * across / other } else { side };
        (long(rows, columns, n).min(m), long(columns, rows, m).min(n))
    };
    let enough = |&(rows, columns): &(usize, usize)| {
        count.saturating_mul(m.div_ceil(rows)).saturating_mul(n.div_ceil(columns)) >= SHARES
    };
    let all = SIZES.map(of);
    all.into_iter().find(enough).unwrap_or(all[SIZES.len() - 1])
}

/// One tile: its size and the addresses of its operands.
struct Tile<T> {
    m: usize,
    n: usize,
    k: usize,
    x: *const T,
    y: *const T,
    out: *mut T,
}

/// The factors of a product: `out = beta * out + alpha * product`.
#[derive(Clone, Copy)]
struct Scale<T> {
    alpha: T,
    /// `None`: the old content of the output is not read.
    beta: Option<T>,
}

impl<T: Element> Scale<T> {
    fn of(alpha: Scalar, beta: Option<Scalar>) -> Scale<T> {
        Scale { alpha: from_scalar(alpha), beta: beta.map(from_scalar) }
    }
}

/// A product with operands laid out as matrices.
struct Multiply<'a> {
    product: &'a Product,
    x: Matrices,
    y: Matrices,
    out: Matrices,
    dtype: DType,
}

impl<'a> Multiply<'a> {
    /// # Safety
    /// The tensors have the shapes of the product, and are operands of the call or memory that it
    /// alone uses, valid and aligned; `out` does not overlap itself or the other two.
    ///
    /// # Errors
    /// Fails if dtypes differ or the output has another shape.
    unsafe fn new(product: &'a Product, [x, y, out]: [&RawTensor<'_>; 3]) -> Result<Multiply<'a>> {
        expect_dtype(y, x.dtype)?;
        expect_dtype(out, x.dtype)?;
        let (rows, columns) = (x.shape.len() > 1, y.shape.len() > 1);
        let mut expected = product.batch.clone();
        expected.extend(rows.then_some(product.m));
        expected.extend(columns.then_some(product.n));
        ensure!(out.shape == expected.as_slice(), "{out:?}: schema and kernel disagree");
        let rank = product.batch.len();
        Ok(Multiply {
            product,
            x: Matrices::new(x, rank, rows, true),
            // A one-dimensional y is a single column.
            y: Matrices::new(y, rank, true, columns),
            out: Matrices::new(out, rank, rows, columns),
            dtype: x.dtype,
        })
    }

    /// Divides the product into tiles and calls `multiply` for each.
    fn tiles<T: Element>(&self, ctx: &KernelCtx<'_>, multiply: impl Fn(Tile<T>) + Sync + Send) {
        assert_eq!(T::DTYPE, self.dtype);
        let &Product { ref batch, m, k, n } = self.product;
        let count = numel(batch);
        if count == 0 || m == 0 || n == 0 {
            return;
        }
        let (rows, columns) = tile(count, m, n);
        let (down, across) = (m.div_ceil(rows), n.div_ceil(columns));
        let tiles = count * down * across;
        let work = rows.saturating_mul(columns).saturating_mul(k.max(1));
        let at_once = TASK.div_ceil(work);
        ctx.for_each(tiles.div_ceil(at_once), |task| {
            for tile in task * at_once..tiles.min((task + 1) * at_once) {
                let (number, tile) = (tile / (down * across), tile % (down * across));
                let (row, column) = (tile / across * rows, tile % across * columns);
                multiply(Tile {
                    m: rows.min(m - row),
                    n: columns.min(n - column),
                    k,
                    x: self.x.at(batch, number, row, 0),
                    y: self.y.at(batch, number, 0, column),
                    out: self.out.at(batch, number, row, column),
                });
            }
        });
    }

    /// Computes a product of f32, f64, or complex numbers of these.
    fn floats<T: Element>(&self, ctx: &KernelCtx<'_>, scale: Scale<T>) {
        let steps = [&self.x, &self.y, &self.out].map(Matrices::steps);
        // SAFETY: the tile lies in the matrices, which are valid by the contract of `new`, and no
        // other tile reads or writes its part of the output.
        self.tiles::<T>(ctx, |tile| unsafe { multiply_tile(tile, steps, scale) });
    }

    /// Computes a product of f16 or bf16 in f32, of which blocks of the operands are converted just
    /// before they are multiplied.
    fn halves<T: Element>(&self, ctx: &KernelCtx<'_>, scale: Scale<f32>) {
        let steps = [&self.x, &self.y, &self.out].map(Matrices::steps);
        let [x, y, out] = steps;
        let all = |n: usize| (0..n).step_by(BLOCK).map(move |at| (at, BLOCK.min(n - at)));
        self.tiles::<T>(ctx, |t| {
            for (row, m) in all(t.m) {
                for (column, n) in all(t.n) {
                    let tile = Tile {
                        m,
                        n,
                        k: t.k,
                        x: t.x.wrapping_offset(row as isize * x[0]),
                        y: t.y.wrapping_offset(column as isize * y[1]),
                        out: t
                            .out
                            .wrapping_offset(row as isize * out[0] + column as isize * out[1]),
                    };
                    // SAFETY: as in `floats`.
                    unsafe { multiply_halves(tile, steps, scale) };
                }
            }
        });
    }

    /// Computes a product of integers.
    fn integers<T: Number>(&self, ctx: &KernelCtx<'_>, scale: Scale<T::Wide>) {
        let Multiply { x, y, out, .. } = self;
        self.tiles::<T>(ctx, |t| {
            for i in 0..t.m as isize {
                for j in 0..t.n as isize {
                    let mut sum = <T::Wide as Element>::ZERO;
                    for l in 0..t.k as isize {
                        let x = t.x.wrapping_offset(i * x.row + l * x.column);
                        let y = t.y.wrapping_offset(l * y.row + j * y.column);
                        // SAFETY: elements of the tile; see `floats`.
                        let (x, y) = unsafe { (*x, *y) };
                        sum = T::plus(sum, T::times(x.widen(), y.widen()));
                    }
                    let to = t.out.wrapping_offset(i * out.row + j * out.column);
                    sum = T::times(scale.alpha, sum);
                    // SAFETY: as above, and no other tile reads or writes here.
                    unsafe {
                        if let Some(beta) = scale.beta {
                            sum = T::plus(T::times(beta, (*to).widen()), sum);
                        }
                        *to = T::narrow(sum);
                    }
                }
            }
        });
    }
}

/// Computes a tile of floats with the `gemm` crate.
///
/// # Safety
/// The tile's matrices, with these steps, are valid; nothing else accesses its output.
unsafe fn multiply_tile<T: Element>(t: Tile<T>, [x, y, out]: [Steps; 3], scale: Scale<T>) {
    let (read, beta) = (scale.beta.is_some(), scale.beta.unwrap_or(T::ZERO));
    let alone = gemm::Parallelism::None;
    // SAFETY: guaranteed by the caller.
    unsafe {
        gemm::gemm(
            t.m,
            t.n,
            t.k,
            t.out,
            out[1],
            out[0],
            read,
            t.x,
            x[1],
            x[0],
            t.y,
            y[1],
            y[0],
            beta,
            scale.alpha,
            false,
            false,
            false,
            alone,
        );
    }
}

/// Computes a tile of f16 or bf16: adds up products of blocks in f32, and rounds the sums once.
///
/// # Safety
/// As for `multiply_tile`.
unsafe fn multiply_halves<T: Element>(t: Tile<T>, [x, y, out]: [Steps; 3], scale: Scale<f32>) {
    let Tile { m, n, .. } = t;
    let most = t.k.min(DEPTH);
    let [mut x_block, mut y_block, mut sums] = [m * most, most * n, m * n].map(Buffer::<f32>::new);
    let sums_steps = dense_steps(out, [m, n]);
    let mut scale = scale;
    if scale.beta.is_some() {
        // SAFETY: guaranteed by the caller; the sums are as many as the elements of the tile.
        unsafe { convert_block([m, n], (t.out, out), (sums.as_mut_ptr(), sums_steps)) };
    }
    // Without terms, the sums are zeros and the old content.
    for depth in (0..t.k.max(1)).step_by(DEPTH) {
        let k = DEPTH.min(t.k - depth);
        let (x_steps, y_steps) = (dense_steps(x, [m, k]), dense_steps(y, [k, n]));
        let from_x = t.x.wrapping_offset(depth as isize * x[1]);
        let from_y = t.y.wrapping_offset(depth as isize * y[0]);
        // SAFETY: guaranteed by the caller; the buffers hold the elements of their blocks.
        unsafe {
            convert_block([m, k], (from_x, x), (x_block.as_mut_ptr(), x_steps));
            convert_block([k, n], (from_y, y), (y_block.as_mut_ptr(), y_steps));
            let (x, y, out) = (x_block.as_ptr(), y_block.as_ptr(), sums.as_mut_ptr());
            multiply_tile(Tile { m, n, k, x, y, out }, [x_steps, y_steps, sums_steps], scale);
        }
        scale.beta = Some(1.0);
    }
    // SAFETY: as above.
    unsafe { convert_block([m, n], (sums.as_ptr(), sums_steps), (t.out, out)) };
}

/// `matmul(x, y)`.
fn matmul(ctx: &KernelCtx<'_>) -> Result<()> {
    let all = [ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?];
    // SAFETY: operands of the call; the last is its output.
    unsafe { multiply(ctx, all, Scalar::Int(1), None) }
}

/// `out = alpha * x y`, plus a factor times a bias of the shape of `out`.
///
/// # Safety
/// All are operands of the call, and `out` is its output.
///
/// # Errors
/// Fails if shapes or dtypes differ.
pub(crate) unsafe fn multiply(
    ctx: &KernelCtx<'_>,
    [x, y, out]: [RawTensor<'_>; 3],
    alpha: Scalar,
    bias: Option<(RawTensor<'_>, Scalar)>,
) -> Result<()> {
    let product = Product::new(x.shape, y.shape)?;
    let beta = bias.map(|(_, beta)| beta);
    // SAFETY: guaranteed by the caller. The bias becomes the old content of the output.
    let multiply = unsafe {
        if let Some((bias, _)) = bias {
            convert(ctx, bias, out)?;
        }
        Multiply::new(&product, [&x, &y, &out])
    }?;
    match x.dtype {
        DType::F32 => multiply.floats::<f32>(ctx, Scale::of(alpha, beta)),
        DType::F64 => multiply.floats::<f64>(ctx, Scale::of(alpha, beta)),
        DType::F16 => multiply.halves::<f16>(ctx, Scale::of(alpha, beta)),
        DType::BF16 => multiply.halves::<bf16>(ctx, Scale::of(alpha, beta)),
        DType::C64 => multiply.floats::<Complex<f32>>(ctx, Scale::of(alpha, beta)),
        DType::C128 => multiply.floats::<Complex<f64>>(ctx, Scale::of(alpha, beta)),
        DType::Bool => anyhow::bail!("no product of bool: schema and kernel disagree"),
        _ => dispatch!(x.dtype, T => multiply.integers::<T>(ctx, Scale::of(alpha, beta))),
    }
    Ok(())
}
