//! Dense matrices.

use std::ops::{Index, IndexMut};

use crate::number::Number;

/// A dense matrix, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix<T> {
    rows: usize,
    columns: usize,
    elements: Vec<T>,
}

impl<T: Number> Matrix<T> {
    /// Returns a matrix of zeros.
    pub fn zeros(rows: usize, columns: usize) -> Matrix<T> {
        Matrix { rows, columns, elements: vec![T::ZERO; rows * columns] }
    }

    /// Returns the square matrix with ones on its diagonal.
    pub fn identity(length: usize) -> Matrix<T> {
        Matrix::from_fn(length, length, |i, j| if i == j { T::ONE } else { T::ZERO })
    }

    /// Returns a matrix of these elements, in row-major order.
    ///
    /// # Panics
    /// The number of elements is not that of the matrix.
    pub fn from_rows(rows: usize, columns: usize, elements: Vec<T>) -> Matrix<T> {
        assert_eq!(elements.len(), rows * columns, "elements of a matrix {rows} by {columns}");
        Matrix { rows, columns, elements }
    }

    /// Returns a matrix whose elements are those of a function of row and column.
    pub fn from_fn(rows: usize, columns: usize, f: impl Fn(usize, usize) -> T) -> Matrix<T> {
        let all = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
        Matrix { rows, columns, elements: all.map(|(i, j)| f(i, j)).collect() }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the elements, in row-major order.
    pub fn elements(&self) -> &[T] {
        &self.elements
    }

    /// Returns the conjugate transpose.
    pub fn adjoint(&self) -> Matrix<T> {
        Matrix::from_fn(self.columns, self.rows, |i, j| self[(j, i)].conjugate())
    }

    /// Returns the transpose.
    pub fn transpose(&self) -> Matrix<T> {
        Matrix::from_fn(self.columns, self.rows, |i, j| self[(j, i)])
    }

    /// Returns the first rows and columns.
    pub fn leading(&self, rows: usize, columns: usize) -> Matrix<T> {
        Matrix::from_fn(rows, columns, |i, j| self[(i, j)])
    }

    /// Returns the product with another matrix, of as many rows as this one has columns.
    pub fn times(&self, other: &Matrix<T>) -> Matrix<T> {
        let mut product = Matrix::zeros(self.rows, other.columns);
        for i in 0..self.rows {
            for k in 0..self.columns {
                product.add_row(i, self[(i, k)], other.row(k), 0);
            }
        }
        product
    }

    /// Returns the elements of a row.
    pub fn row(&self, row: usize) -> &[T] {
        &self.elements[row * self.columns..(row + 1) * self.columns]
    }

    /// Exchanges two rows.
    pub fn swap(&mut self, a: usize, b: usize) {
        if a != b {
            for j in 0..self.columns {
                self.elements.swap(a * self.columns + j, b * self.columns + j);
            }
        }
    }

    /// Adds `factor` times `values` to a row, from the column `from` on.
    pub(crate) fn add_row(&mut self, row: usize, factor: T, values: &[T], from: usize) {
        let to = &mut self.elements[row * self.columns + from..(row + 1) * self.columns];
        for (to, &v) in to.iter_mut().zip(values) {
            *to += factor * v;
        }
    }
}

impl<T> Index<(usize, usize)> for Matrix<T> {
    type Output = T;

    fn index(&self, (row, column): (usize, usize)) -> &T {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        &self.elements[row * self.columns + column]
    }
}

impl<T> IndexMut<(usize, usize)> for Matrix<T> {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut T {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        &mut self.elements[row * self.columns + column]
    }
}
