//! Matrix products by cuBLAS, whose library is looked for at the first one (`toolkit` says where).
//!
//! # One handle for each stream
//! A handle belongs to one stream and is made at the stream's first product. Changing the stream of a
//! handle makes cuBLAS forget its workspace, so that one handle per device would cost two calls more
//! per product. The workspace is given to the handle and is its stream's alone: two products that run
//! side by side never share one, and results do not depend on what else runs.
//!
//! # Numbers
//! f16 and bf16 are multiplied and added in f32, also where cuBLAS cuts the inner dimension, and
//! rounded once. f32 is computed as such unless TF32 is asked for, which keeps ten bits of each
//! factor's fraction. f64 is f64.
//!
//! Of the two interfaces the plain one is used and not cuBLASLt: what that adds is a bias or an
//! activation within the product, which no op asks for except `addmm` with a bias that is a row.
//!
//! Source: <https://docs.nvidia.com/cuda/cublas/>, "cublasSetStream", "cublasSetWorkspace",
//! "cublasGemmStridedBatchedEx", "Results reproducibility".

mod handle;
mod library;

use anyhow::{Result, ensure};

use millstream_types::DType;

pub(super) use handle::Handle;

/// As many matrices as a product has, in memory of the device's.
#[derive(Clone, Copy, Debug)]
pub struct Matrices {
    /// The address of the first element of the first one.
    pub data: *mut u8,
    /// The type of the elements.
    pub dtype: DType,
    /// Whether the elements of a column lie one behind the other, and not those of a row.
    pub by_columns: bool,
    /// Elements from one row, or column, to the next: no less than one has, and no less than 1.
    pub leading: usize,
    /// Elements from one matrix to the next; zero for the same one every time.
    pub step: usize,
}

/// For each of `batch` matrices: `out = alpha · x y + beta · out`.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    /// Rows of `x` and `out`.
    pub m: usize,
    /// Columns of `y` and `out`.
    pub n: usize,
    /// Columns of `x`, rows of `y`.
    pub k: usize,
    /// How many there are.
    pub batch: usize,
    /// The factor of the product.
    pub alpha: f64,
    /// The factor of what is there. With 0 it is not read.
    pub beta: f64,
    /// The left matrices, of f16, bf16, f32 or f64.
    pub x: Matrices,
    /// The right matrices, of the same dtype.
    pub y: Matrices,
    /// The results, of the same dtype or of f32.
    pub out: Matrices,
}

impl Gemm {
    /// Whether there is nothing to compute.
    fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.batch == 0
    }

    /// # Errors
    /// The matrices are none that can be multiplied here.
    fn check(&self) -> Result<()> {
        let Gemm { x, y, out, .. } = self;
        ensure!(x.dtype == y.dtype, "a product of {} and {}", x.dtype, y.dtype);
        ensure!(
            out.dtype == x.dtype || (out.dtype == DType::F32 && x.dtype != DType::F64),
            "a product of {} into {}",
            x.dtype,
            out.dtype
        );
        let fits = |of: &Matrices, rows: usize, columns: usize| {
            of.leading >= if of.by_columns { rows } else { columns }.max(1)
        };
        let fit = fits(x, self.m, self.k) && fits(y, self.k, self.n) && fits(out, self.m, self.n);
        ensure!(fit, "matrices that do not lie as they should: {self:?}");
        Ok(())
    }
}
