//! Matrix products by cuBLAS. The first product searches for the library (`toolkit`) and loads it.
//!
//! # One handle per stream
//! A stream's first product creates the stream's handle. One handle per device would cost two more
//! calls per product, because cuBLAS resets the workspace when a handle's stream changes. Each
//! handle has its own workspace: two concurrent products never share one, and results do not depend
//! on other work.
//!
//! # Precision
//! f16 and bf16 are multiplied and added in f32, even if cuBLAS splits the inner dimension, and
//! rounded once. f32 is computed in f32 unless the configuration allows TF32, which keeps ten bits
//! of each factor's fraction. f64 is computed in f64.
//!
//! This module uses the plain interface of cuBLAS, not cuBLASLt: cuBLASLt adds a bias or an
//! activation to the product, and the only op with such a need is `addmm` with a bias row.
//!
//! Source: <https://docs.nvidia.com/cuda/cublas/>, "cublasSetStream", "cublasSetWorkspace",
//! "cublasGemmStridedBatchedEx", "Results reproducibility".

mod handle;
mod library;

use anyhow::{Result, ensure};

use millstream_types::DType;

pub(super) use handle::Handle;

/// A batch of matrices in device memory.
#[derive(Clone, Copy, Debug)]
pub struct Matrices {
    /// The address of the first element of the first matrix.
    pub data: *mut u8,
    /// The type of the elements.
    pub dtype: DType,
    /// Whether the elements of a column are adjacent. If false, the elements of a row are.
    pub column_major: bool,
    /// The distance in elements from one column to the next, or from one row to the next if
    /// row-major: at least the length of one, and at least 1.
    pub leading_dimension: usize,
    /// The distance in elements from one matrix to the next. Zero repeats one matrix.
    pub batch_stride: usize,
}

/// A batch of matrix products: `out = alpha · x y + beta · out` for each of `batch` matrices.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    /// Rows of `x` and `out`.
    pub m: usize,
    /// Columns of `y` and `out`.
    pub n: usize,
    /// Columns of `x`, rows of `y`.
    pub k: usize,
    /// The number of products.
    pub batch: usize,
    /// The factor of the product.
    pub alpha: f64,
    /// The factor of the previous content of `out`. If it is 0, the content is not read.
    pub beta: f64,
    /// The left matrices, of f16, bf16, f32 or f64.
    pub x: Matrices,
    /// The right matrices, of the same dtype.
    pub y: Matrices,
    /// The results, of the same dtype or of f32.
    pub out: Matrices,
}

impl Gemm {
    /// Returns whether the results have no elements.
    fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.batch == 0
    }

    /// Checks dtypes and leading dimensions.
    ///
    /// # Errors
    /// cuBLAS does not support the matrices.
    fn check(&self) -> Result<()> {
        let Gemm { x, y, out, .. } = self;
        ensure!(
            x.dtype == y.dtype,
            "the factors of a matrix product must have one dtype, not {} and {}",
            x.dtype,
            y.dtype
        );
        ensure!(
            out.dtype == x.dtype || (out.dtype == DType::F32 && x.dtype != DType::F64),
            "a matrix product of {} cannot have a result of {}",
            x.dtype,
            out.dtype
        );
        let fits = |matrices: &Matrices, rows: usize, columns: usize| {
            let length = if matrices.column_major { rows } else { columns };
            matrices.leading_dimension >= length.max(1)
        };
        let fit = fits(x, self.m, self.k) && fits(y, self.k, self.n) && fits(out, self.m, self.n);
        ensure!(fit, "a leading dimension is smaller than its matrix: {self:?}");
        Ok(())
    }
}
