//! Products of strided tensors as calls of cuBLAS.
//!
//! What cuBLAS can walk is used where it lies: matrices by rows or by columns, each row or column any
//! distance from the next, and batches in equal steps. What it cannot walk is copied to scratch memory
//! first. A batch of several dimensions that are not walked as one becomes several calls.

use anyhow::{Result, ensure};
use smallvec::SmallVec;

use millstream_ep::cuda::{Gemm, Matrices, Native, Scratch};
use millstream_ops::matmul::Product;
use millstream_types::layout::{contiguous_strides, numel};
use millstream_types::{DType, Dims};

use super::copy;
use crate::context::RawTensor;

/// The most calls for one product, unless copies of its operands do not help.
const CALLS: usize = 16;

/// Which dimensions a tensor has beside those of the batch: rows, columns.
type Has = (bool, bool);

/// A tensor as a batch of matrices: where they begin, and their strides in elements.
#[derive(Clone)]
struct Batch {
    data: *mut u8,
    dtype: DType,
    /// Of the batch's dimensions; zero where the operand is broadcast.
    strides: Dims,
    rows: usize,
    columns: usize,
    row: usize,
    column: usize,
}

impl Batch {
    fn new(tensor: &RawTensor<'_>, batch_rank: usize, (rows, columns): Has) -> Batch {
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
        // Where no step is taken its length may be anything.
        let column = if columns == 1 { 1 } else { column };
        Batch { data: tensor.data, dtype: tensor.dtype, strides, rows, columns, row, column }
    }

    /// Whether the matrices lie by columns, and the distance from one row or column to the next; none
    /// if they lie otherwise.
    fn leading(&self) -> Option<(bool, usize)> {
        // `length` elements one behind the other, `times` times.
        let lies = |length: usize, stride: usize, times: usize, leading: usize| {
            let leading = if times <= 1 { length.max(1) } else { leading };
            ((length <= 1 || stride == 1) && leading >= length.max(1)).then_some(leading)
        };
        let by_rows = lies(self.columns, self.column, self.rows, self.row);
        let by_columns = || lies(self.rows, self.row, self.columns, self.column);
        by_rows.map(|l| (false, l)).or_else(|| by_columns().map(|l| (true, l)))
    }

    /// `count` matrices, each `step` elements from the last, as one matrix, the rows of each below those
    /// of the one before; none if they do not lie so.
    fn stacked(&self, count: usize, step: usize) -> Option<Batch> {
        let row = if self.rows == 1 { step } else { self.row };
        let rows = self.rows * count;
        (self.column == 1 && self.rows * row == step && row >= self.columns).then(|| Batch {
            rows,
            row,
            ..self.clone()
        })
    }

    /// The matrices that begin at `offset` elements, each `step` from the last.
    fn matrices(&self, offset: usize, step: usize) -> Result<Matrices> {
        let Some((by_columns, leading)) = self.leading() else {
            anyhow::bail!("a matrix that cuBLAS cannot walk");
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
/// The tensors are valid until the product has run, which is ordered against all other uses of them.
/// `out` names no element twice and shares none with `x` or `y`.
pub(super) unsafe fn multiply(
    native: &Native,
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
    let rank = batch.len();
    // A lone dimension of x is a row, one of y a column.
    let has = [(rows, true), (true, columns)];
    let to = Batch::new(&out, rank, (rows, columns));
    if to.leading().is_none() {
        let data = scratch.take(out.numel() * out.dtype.size())?;
        let strides = contiguous_strides(out.shape)?;
        let walked = RawTensor { data, strides: &strides, ..out };
        // SAFETY: the caller's promise; scratch memory of the call's that is as large.
        return unsafe {
            if beta != 0.0 {
                copy::strided(native, out, walked)?;
            }
            multiply(native, scratch, [x, y, walked], alpha, beta)?;
            copy::strided(native, walked, out)
        };
    }
    if k == 0 {
        // Nothing is added, which a product of zeros says to cuBLAS without doubt.
        let bytes = m.max(n) * x.dtype.size();
        let data = scratch.take(bytes)?;
        // SAFETY: as long as said, and the call's own.
        unsafe { native.fill(data, 0, bytes)? };
        let of = |rows, columns| Batch {
            data,
            dtype: x.dtype,
            strides: Dims::from_elem(0, rank),
            rows,
            columns,
            row: columns,
            column: 1,
        };
        // SAFETY: the caller's promise, and scratch memory of the call's.
        return unsafe { launch(native, batch, [of(m, 1), of(1, n), to], alpha, beta) };
    }
    let [x, y] = [0, 1].map(|side| ([x, y][side], has[side]));
    let [by_x, by_y] = [x, y].map(|(tensor, has)| Batch::new(&tensor, rank, has));
    let many = join(batch, [&by_x, &by_y, &to]).calls() > CALLS;
    let mut walked = |of: Batch, (tensor, has): (RawTensor<'_>, Has)| -> Result<Batch> {
        if of.leading().is_some() && (!many || is_dense(&tensor)?) {
            return Ok(of);
        }
        // SAFETY: the caller's promise.
        let data = unsafe { dense(native, scratch, &tensor)? };
        let strides = contiguous_strides(tensor.shape)?;
        Ok(Batch::new(&RawTensor { data, strides: &strides, ..tensor }, rank, has))
    };
    let (from_x, from_y) = (walked(by_x, x)?, walked(by_y, y)?);
    // SAFETY: the caller's promise; copies are in scratch memory of the call's.
    unsafe { launch(native, batch, [from_x, from_y, to], alpha, beta) }
}

fn is_dense(tensor: &RawTensor<'_>) -> Result<bool> {
    Ok(tensor.strides == contiguous_strides(tensor.shape)?.as_slice())
}

/// A copy of a tensor without gaps, row-major.
///
/// # Safety
/// The tensor is valid until the copy has run, which is ordered after all writes of it.
pub(super) unsafe fn dense(
    native: &Native,
    scratch: &mut Scratch<'_>,
    tensor: &RawTensor<'_>,
) -> Result<*mut u8> {
    let data = scratch.take(tensor.numel() * tensor.dtype.size())?;
    let strides = contiguous_strides(tensor.shape)?;
    // SAFETY: the caller's promise, and memory of the call's of the same size.
    unsafe { copy::strided(native, *tensor, RawTensor { data, strides: &strides, ..*tensor })? };
    Ok(data)
}

/// A dimension of a batch: its length, and the strides of x, y and the result.
type Dimension = (usize, [usize; 3]);

/// The dimensions of a batch, those that are walked as one joined.
struct Joined(SmallVec<[Dimension; 4]>);

fn join(batch: &[usize], of: [&Batch; 3]) -> Joined {
    let mut joined = Joined(SmallVec::new());
    for (k, &length) in batch.iter().enumerate().filter(|(_, length)| **length != 1) {
        let strides = of.map(|of| of.strides[k]);
        match joined.0.last_mut() {
            Some((before, outer)) if *outer == strides.map(|stride| stride * length) => {
                (*before, *outer) = (*before * length, strides);
            }
            _ => joined.0.push((length, strides)),
        }
    }
    joined
}

impl Joined {
    /// The longest dimension, all of whose matrices are one call: its length and strides.
    fn take_longest(&mut self) -> Dimension {
        let longest = (0..self.0.len()).max_by_key(|&k| self.0[k].0);
        longest.map_or((1, [0; 3]), |k| self.0.remove(k))
    }

    /// How many matrices there are.
    fn count(&self) -> usize {
        self.0.iter().map(|(length, _)| length).product()
    }

    /// How many calls it takes.
    fn calls(mut self) -> usize {
        self.take_longest();
        self.count()
    }

    /// Where matrix `number` begins in operand `k`, in elements.
    fn offset(&self, mut number: usize, k: usize) -> usize {
        let mut offset = 0;
        for (length, strides) in self.0.iter().rev() {
            offset += number % length * strides[k];
            number /= length;
        }
        offset
    }
}

/// # Safety
/// As for [`multiply`].
unsafe fn launch(
    native: &Native,
    batch: &[usize],
    [mut x, y, mut out]: [Batch; 3],
    alpha: f64,
    beta: f64,
) -> Result<()> {
    let mut joined = join(batch, [&x, &y, &out]);
    let (mut count, mut steps) = joined.take_longest();
    // Many left matrices and the same right one for all are one matrix, if they lie so.
    if count > 1
        && steps[1] == 0
        && let (Some(all_x), Some(all_out)) =
            (x.stacked(count, steps[0]), out.stacked(count, steps[2]))
    {
        (x, out, count, steps) = (all_x, all_out, 1, [0; 3]);
    }
    for number in 0..joined.count() {
        let at = |of: &Batch, k: usize| of.matrices(joined.offset(number, k), steps[k]);
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
