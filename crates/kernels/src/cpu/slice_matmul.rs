//! Matrix products of slices.

use super::real::Real;

/// The number of rows of the left matrix up to which a product is computed row by row, without
/// blocking.
const FEW: usize = 3;

/// A matrix in a slice, with its strides.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    row: usize,
    column: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// Returns a row-major matrix with `step` elements between rows.
    pub(crate) fn new(data: &'a [T], rows: usize, columns: usize, step: usize) -> Matrix<'a, T> {
        let end = if rows == 0 || columns == 0 { 0 } else { (rows - 1) * step + columns };
        assert!(end <= data.len() && columns <= step.max(1), "a matrix outside of its elements");
        Matrix { data, rows, columns, row: step, column: 1 }
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the transposed matrix.
    pub(crate) fn transposed(self) -> Matrix<'a, T> {
        let Matrix { data, rows, columns, row, column } = self;
        Matrix { data, rows: columns, columns: rows, row: column, column: row }
    }
}

/// Computes `out = x y`, or `out += x y` if `keep`; `out` is dense and row-major.
pub(crate) fn multiply<T: Real>(out: &mut [T], x: Matrix<'_, T>, y: Matrix<'_, T>, keep: bool) {
    assert!(out.len() == x.rows * y.columns, "matrices that do not fit");
    // SAFETY: out has as many rows of as many columns, by the assertion, and is borrowed
    // exclusively.
    unsafe { multiply_to(out.as_mut_ptr(), y.columns, x, y, keep) }
}

/// As [`multiply`], to a matrix with `step` elements between its rows.
///
/// # Safety
/// `out` is valid for reads and writes of the rows of x, with the columns of y each, and nothing
/// else accesses these elements.
pub(crate) unsafe fn multiply_to<T: Real>(
    out: *mut T,
    step: usize,
    x: Matrix<'_, T>,
    y: Matrix<'_, T>,
    keep: bool,
) {
    let (m, k, n) = (x.rows, x.columns, y.columns);
    assert!(y.rows == k && (n <= step || m <= 1), "matrices that do not fit");
    if m == 0 || n == 0 {
        return;
    }
    let by_row = m <= FEW && y.column == 1;
    if by_row || k == 0 {
        for i in 0..m {
            // SAFETY: guaranteed by the caller.
            let out = unsafe { std::slice::from_raw_parts_mut(out.add(i * step), n) };
            if !keep {
                out.fill(T::ZERO);
            }
            for l in 0..k {
                let factor = x.data[i * x.row + l * x.column];
                for (to, &v) in out.iter_mut().zip(&y.data[l * y.row..l * y.row + n]) {
                    *to += factor * v;
                }
            }
        }
        return;
    }
    // SAFETY: `Matrix::new` has checked that all elements of x and y lie in their slices; the rest
    // is guaranteed by the caller. Without `keep` the old elements of out are not read.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out,
            1,
            step as isize,
            keep,
            x.data.as_ptr(),
            x.column as isize,
            x.row as isize,
            y.data.as_ptr(),
            y.column as isize,
            y.row as isize,
            T::ONE,
            T::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
