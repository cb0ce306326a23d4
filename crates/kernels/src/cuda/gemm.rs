//! Products of strided tensors by cuBLAS (GEMM).
//!
//! cuBLAS reads row-major and column-major matrices with any distance between rows or columns, and
//! batches with equal distances. Tensors with other strides are copied to scratch memory first. A
//! batch whose dimensions cannot be iterated as one becomes several calls.

use anyhow::{Result, ensure};
use smallvec::SmallVec;

use millstream_ep::cuda::{Gemm, Matrices, NativeStream, Scratch};
use millstream_ops::matmul::Product;
use millstream_types::layout::{contiguous_strides, numel};
use millstream_types::{DType, Dims};

use super::copy;
use super::matmul::multiply_integers;
use crate::context::RawTensor;

/// The number of calls of one product above which its operands are copied, if that helps.
const MAX_CALLS: usize = 16;

/// The maximal bytes of scratch memory for intermediate results, and the divisor of the device's
/// memory that also limits them.
const MAX_SCRATCH: usize = 256 << 20;
const MEMORY_SHARE: u64 = 64;

/// Returns the bytes of scratch memory that an op may take for intermediate results.
pub(super) fn max_scratch(native: &NativeStream) -> usize {
    usize::try_from(native.properties().memory / MEMORY_SHARE)
        .map_or(MAX_SCRATCH, |share| share.min(MAX_SCRATCH))
}

/// Whether a tensor has rows and columns, beside the dimensions of the batch.
type MatrixDims = (bool, bool);

/// A tensor as a batch of matrices: address, and strides in elements.
#[derive(Clone)]
struct MatrixBatch {
    data: *mut u8,
    dtype: DType,
    /// The strides of the batch; 0 where the operand is broadcast.
    strides: Dims,
    rows: usize,
    columns: usize,
    row: usize,
    column: usize,
}

impl MatrixBatch {
    fn new(tensor: &RawTensor<'_>, batch_rank: usize, (rows, columns): MatrixDims) -> MatrixBatch {
        let mut rest = tensor.shape.len();
        let mut last = |there: bool| match there {
            false => (1, 1),
            true => {
                rest -= 1;
                (tensor.shape[rest], tensor.strides[rest])
            }
        };
        let (columns, column) = last(columns);
        let (rows, row) = last(rows);
        let stride = |k: usize| match (k + rest).checked_sub(batch_rank) {
            Some(at) if tensor.shape[at] != 1 => tensor.strides[at],
            _ => 0,
        };
        let strides = (0..batch_rank).map(stride).collect();
        // The stride of a single column does not matter.
        let column = if columns == 1 { 1 } else { column };
        MatrixBatch { data: tensor.data, dtype: tensor.dtype, strides, rows, columns, row, column }
    }

    /// Returns whether the matrices are column-major, and their leading dimension. Returns none if
    /// they are neither row-major nor column-major.
    fn leading(&self) -> Option<(bool, usize)> {
        // `times` sequences of `length` contiguous elements.
        let leading_of = |length: usize, stride: usize, times: usize, leading: usize| {
            let leading = if times <= 1 { length.max(1) } else { leading };
            ((length <= 1 || stride == 1) && leading >= length.max(1)).then_some(leading)
        };
        let by_rows = leading_of(self.columns, self.column, self.rows, self.row);
        let by_columns = || leading_of(self.rows, self.row, self.columns, self.column);
        by_rows.map(|l| (false, l)).or_else(|| by_columns().map(|l| (true, l)))
    }

    /// Stacks the rows of `count` matrices, which are `step` elements apart, to one matrix. Returns
    /// none if the strides do not allow it.
    fn stacked(&self, count: usize, step: usize) -> Option<MatrixBatch> {
        let row = if self.rows == 1 { step } else { self.row };
        let rows = self.rows * count;
        (self.column == 1 && self.rows * row == step && row >= self.columns).then(|| MatrixBatch {
            rows,
            row,
            ..self.clone()
        })
    }

    /// Returns the matrices from `offset` on, `step` elements apart.
    fn matrices(&self, offset: usize, step: usize) -> Result<Matrices> {
        let Some((by_columns, leading)) = self.leading() else {
            anyhow::bail!("a matrix with strides that cuBLAS does not support");
        };
        let data = self.data.wrapping_add(offset * self.dtype.size());
        Ok(Matrices {
            data,
            dtype: self.dtype,
            column_major: by_columns,
            leading_dimension: leading,
            batch_stride: step,
        })
    }
}

/// Launches `out = alpha · x y + beta · out` for tensors of these shapes (see
/// [`Product`]).
///
/// # Errors
/// Shapes that do not fit, or an error of cuBLAS's or the driver's.
///
/// # Safety
/// The tensors are valid until the product has run, which is ordered against all other uses of
/// them. No two indices of `out` address the same element, and it shares none with `x` or `y`.
pub(super) unsafe fn multiply(
    native: &NativeStream,
    scratch: &mut Scratch<'_>,
    [x, y, out]: [RawTensor<'_>; 3],
    alpha: f64,
    beta: f64,
) -> Result<()> {
    let product = Product::new(x.shape, y.shape)?;
    let Product { ref batch, m, k, n } = product;
    let (rows, columns) = (x.shape.len() > 1, y.shape.len() > 1);
    let mut expected = batch.clone();
    expected.extend(rows.then_some(m));
    expected.extend(columns.then_some(n));
    ensure!(out.shape == expected.as_slice(), "{out:?}: schema and kernel disagree");
    if numel(out.shape) == 0 {
        return Ok(());
    }
    if !x.dtype.is_float() {
        // SAFETY: the caller's promise.
        return unsafe {
            multiply_integers(native, [x, y, out], [alpha, beta].map(|v| v as i64), out)
        };
    }
    let rank = batch.len();
    // A one-dimensional x is a row, a one-dimensional y is a column.
    let has = [(rows, true), (true, columns)];
    let to = MatrixBatch::new(&out, rank, (rows, columns));
    if to.leading().is_none() {
        let data = scratch.take(out.numel() * out.dtype.size())?;
        let strides = contiguous_strides(out.shape)?;
        let dense_out = RawTensor { data, strides: &strides, ..out };
        // SAFETY: the caller's promise; scratch memory of the call of the same size.
        return unsafe {
            if beta != 0.0 {
                copy::strided(native, out, dense_out)?;
            }
            multiply(native, scratch, [x, y, dense_out], alpha, beta)?;
            copy::strided(native, dense_out, out)
        };
    }
    if k == 0 {
        // The sum is empty. cuBLAS gets a product of zeros instead, for which its result is
        // defined.
        let bytes = m.max(n) * x.dtype.size();
        let data = scratch.take(bytes)?;
        // SAFETY: scratch memory of the call of this size.
        unsafe { native.fill(data, 0, bytes)? };
        let of = |rows, columns| MatrixBatch {
            data,
            dtype: x.dtype,
            strides: Dims::from_elem(0, rank),
            rows,
            columns,
            row: columns,
            column: 1,
        };
        // SAFETY: the caller's promise, and scratch memory of the call.
        return unsafe { launch(native, batch, [of(m, 1), of(1, n), to], alpha, beta) };
    }
    let [x, y] = [0, 1].map(|side| ([x, y][side], has[side]));
    let [x_batch, y_batch] = [x, y].map(|(tensor, has)| MatrixBatch::new(&tensor, rank, has));
    let many_calls = merge_batch(batch, [&x_batch, &y_batch, &to]).calls() > MAX_CALLS;
    let mut readable =
        |of: MatrixBatch, (tensor, has): (RawTensor<'_>, MatrixDims)| -> Result<MatrixBatch> {
            if of.leading().is_some() && (!many_calls || is_dense(&tensor)?) {
                return Ok(of);
            }
            // SAFETY: the caller's promise.
            let data = unsafe { dense(native, scratch, &tensor)? };
            let strides = contiguous_strides(tensor.shape)?;
            Ok(MatrixBatch::new(&RawTensor { data, strides: &strides, ..tensor }, rank, has))
        };
    let (x_batch, y_batch) = (readable(x_batch, x)?, readable(y_batch, y)?);
    // SAFETY: the caller's promise; copies are in scratch memory of the call.
    unsafe { launch(native, batch, [x_batch, y_batch, to], alpha, beta) }
}

fn is_dense(tensor: &RawTensor<'_>) -> Result<bool> {
    Ok(tensor.strides == contiguous_strides(tensor.shape)?.as_slice())
}

/// Copies a tensor to dense, row-major scratch memory. Returns its address.
///
/// # Safety
/// The tensor is valid until the copy has run, which is ordered after all writes of it.
pub(super) unsafe fn dense(
    native: &NativeStream,
    scratch: &mut Scratch<'_>,
    tensor: &RawTensor<'_>,
) -> Result<*mut u8> {
    let data = scratch.take(tensor.numel() * tensor.dtype.size())?;
    let strides = contiguous_strides(tensor.shape)?;
    // SAFETY: the caller's promise, and memory of the call of the same size.
    unsafe { copy::strided(native, *tensor, RawTensor { data, strides: &strides, ..*tensor })? };
    Ok(data)
}

/// A dimension of a batch: its length, and the strides of x, y and the result.
type Dimension = (usize, [usize; 3]);

/// The dimensions of a batch, merged where they can be iterated as one.
struct MergedBatch(SmallVec<[Dimension; 4]>);

fn merge_batch(batch: &[usize], of: [&MatrixBatch; 3]) -> MergedBatch {
    let mut merged = MergedBatch(SmallVec::new());
    for (k, &length) in batch.iter().enumerate().filter(|(_, length)| **length != 1) {
        let strides = of.map(|of| of.strides[k]);
        match merged.0.last_mut() {
            Some((before, outer)) if *outer == strides.map(|stride| stride * length) => {
                (*before, *outer) = (*before * length, strides);
            }
            _ => merged.0.push((length, strides)),
        }
    }
    merged
}

impl MergedBatch {
    /// Removes and returns the longest dimension. One call multiplies all of its matrices.
    fn take_longest(&mut self) -> Dimension {
        let longest = (0..self.0.len()).max_by_key(|&k| self.0[k].0);
        longest.map_or((1, [0; 3]), |k| self.0.remove(k))
    }

    /// Returns the number of matrices.
    fn count(&self) -> usize {
        self.0.iter().map(|(length, _)| length).product()
    }

    /// Returns the number of calls.
    fn calls(mut self) -> usize {
        self.take_longest();
        self.count()
    }

    /// Returns the offset of matrix `number` in operand `k`, in elements.
    fn offset(&self, mut number: usize, k: usize) -> usize {
        let mut offset = 0;
        for (length, strides) in self.0.iter().rev() {
            offset += number % length * strides[k];
            number /= length;
        }
        offset
    }
}

/// Calls cuBLAS for each matrix of the batch except its longest dimension.
///
/// # Safety
/// As for [`multiply`].
unsafe fn launch(
    native: &NativeStream,
    batch: &[usize],
    [mut x, y, mut out]: [MatrixBatch; 3],
    alpha: f64,
    beta: f64,
) -> Result<()> {
    let mut merged = merge_batch(batch, [&x, &y, &out]);
    let (mut count, mut steps) = merged.take_longest();
    // Left matrices that share the right one are stacked to one matrix, if their strides allow it.
    if count > 1
        && steps[1] == 0
        && let (Some(all_x), Some(all_out)) =
            (x.stacked(count, steps[0]), out.stacked(count, steps[2]))
    {
        (x, out, count, steps) = (all_x, all_out, 1, [0; 3]);
    }
    for number in 0..merged.count() {
        let at = |of: &MatrixBatch, k: usize| of.matrices(merged.offset(number, k), steps[k]);
        let gemm = Gemm {
            m: x.rows,
            n: y.columns,
            k: x.columns,
            batch: count,
            alpha,
            beta,
            x: at(&x, 0)?,
            y: at(&y, 1)?,
            out: at(&out, 2)?,
        };
        // SAFETY: the caller's promise.
        unsafe { native.gemm(&gemm)? };
    }
    Ok(())
}
