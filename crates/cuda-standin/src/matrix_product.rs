//! The matrix products of cuBLAS, on column-major matrices, computed by the host's kernels.
//!
//! `c = alpha · op(a) op(b) + beta · c`: `op(a)` is m by k, `op(b)` k by n, and element (i, j) of a
//! matrix has the index `i + j · leading_dimension`.

use std::ffi::{c_int, c_void};
use std::fmt;

use anyhow::{Context, Result};

use millstream_types::{Attrs, DType};

use crate::call::{Call, Operand};
use crate::state::DriverResult;
use crate::{host_kernels, status};

/// A batch of matrices.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    address: u64,
    data_type: c_int,
    leading_dimension: i64,
    batch_stride: i64,
    transpose: c_int,
}

/// A batch of matrix products.
pub(crate) struct Product {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    /// The dtype of `a` and `b`, and the dtype of `c`.
    dtypes: [DType; 2],
    alpha: f64,
    beta: f64,
    compute: c_int,
}

impl Matrix {
    pub(crate) fn new(
        address: u64,
        data_type: c_int,
        leading_dimension: i64,
        batch_stride: i64,
        transpose: c_int,
    ) -> Matrix {
        Matrix { address, data_type, leading_dimension, batch_stride, transpose }
    }
}

fn dtype(data_type: c_int) -> DriverResult<DType> {
    match data_type {
        0 => Ok(DType::F32),
        1 => Ok(DType::F64),
        2 => Ok(DType::F16),
        14 => Ok(DType::BF16),
        _ => Err(status::NOT_SUPPORTED),
    }
}

impl Product {
    /// Creates a product after the checks of the library.
    ///
    /// # Errors
    /// The status that the library returns.
    ///
    /// # Safety
    /// The factors are null or point to a value of the type of the computation.
    pub(crate) unsafe fn new(
        dimensions: [i64; 4],
        [a, b, c]: [Matrix; 3],
        [alpha, beta]: [*const c_void; 2],
        compute: c_int,
    ) -> DriverResult<Product> {
        let is_transposed = |of: &Matrix| of.transpose == 1;
        if alpha.is_null()
            || beta.is_null()
            || [a, b].iter().any(|of| ![0, 1].contains(&of.transpose))
        {
            return Err(status::INVALID_VALUE);
        }
        let mut lengths = [0; 4];
        for (to, from) in lengths.iter_mut().zip(dimensions) {
            *to = usize::try_from(from).map_err(|_| status::INVALID_VALUE)?;
        }
        let [m, n, k, batch] = lengths;
        let rows =
            [if is_transposed(&a) { k } else { m }, if is_transposed(&b) { n } else { k }, m];
        for (of, rows) in [a, b, c].iter().zip(rows) {
            if of.leading_dimension < rows.max(1) as i64 || of.batch_stride < 0 {
                return Err(status::INVALID_VALUE);
            }
        }
        let (given, result) = (dtype(a.data_type)?, dtype(c.data_type)?);
        // 68 is f32, 77 f32 with factors in TF32, 70 f64.
        let supported = match (given, compute) {
            (DType::F64, 70) => result == DType::F64,
            (DType::F32, 68 | 77) => result == DType::F32,
            (DType::F16 | DType::BF16, 68) => [given, DType::F32].contains(&result),
            _ => false,
        };
        if !supported || b.data_type != a.data_type {
            return Err(status::NOT_SUPPORTED);
        }
        let factor = |at: *const c_void| match given {
            // SAFETY: guaranteed by the caller; the pointer is not null.
            DType::F64 => unsafe { *at.cast::<f64>() },
            // SAFETY: as above.
            _ => unsafe { *at.cast::<f32>() }.into(),
        };
        let (alpha, beta) = (factor(alpha), factor(beta));
        Ok(Product { m, n, k, batch, a, b, c, dtypes: [given, result], alpha, beta, compute })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.batch == 0
    }

    /// Returns the indices of the matrices for [`Product::span`]: a, b, c.
    pub(crate) fn matrices(&self) -> [usize; 3] {
        [0, 1, 2]
    }

    /// Returns a matrix, its rows and columns in memory, and its dtype.
    fn stored(&self, which: usize) -> (&Matrix, usize, usize, DType) {
        let swap = |transpose: c_int, rows, columns| {
            if transpose == 1 { (columns, rows) } else { (rows, columns) }
        };
        let (of, (rows, columns), dtype) = match which {
            0 => (&self.a, swap(self.a.transpose, self.m, self.k), self.dtypes[0]),
            1 => (&self.b, swap(self.b.transpose, self.k, self.n), self.dtypes[0]),
            _ => (&self.c, (self.m, self.n), self.dtypes[1]),
        };
        (of, rows, columns, dtype)
    }

    /// Returns the address of a matrix, and the bytes up to the end of its last element.
    pub(crate) fn span(&self, which: usize) -> (u64, u64) {
        let (of, rows, columns, dtype) = self.stored(which);
        if rows == 0 || columns == 0 {
            return (of.address, 0);
        }
        let last = (self.batch as u64 - 1) * of.batch_stride as u64
            + (columns as u64 - 1) * of.leading_dimension as u64
            + rows as u64;
        (of.address, last * dtype.size() as u64)
    }

    /// Returns why the real library leaves the product undefined. None if it is defined.
    pub(crate) fn undefined(&self) -> Option<String> {
        for which in self.matrices() {
            let (of, .., dtype) = self.stored(which);
            if !of.address.is_multiple_of(dtype.size() as u64) {
                return Some(format!("matrix {which} is not aligned"));
            }
        }
        // Consecutive results, or results side by side within common columns.
        let (m, stride, leading) = (self.m as i64, self.c.batch_stride, self.c.leading_dimension);
        let consecutive = stride >= (self.n as i64 - 1) * leading + m;
        let side_by_side = stride >= m && (self.batch as i64 - 1) * stride + m <= leading;
        if self.batch > 1 && !consecutive && !side_by_side {
            return Some("the results overlap one another".to_owned());
        }
        let (to, bytes) = self.span(2);
        let overlapped = [0, 1].into_iter().find(|&which| {
            let (from, length) = self.span(which);
            length > 0 && from < to + bytes && to < from + length
        });
        overlapped.map(|which| format!("the result overlaps matrix {which}"))
    }

    /// Returns a matrix as an operand of cᵀ = op(b)ᵀ op(a)ᵀ, on the host.
    fn operand(&self, which: usize, address: usize) -> Operand {
        let (of, _, _, dtype) = self.stored(which);
        let (rows, columns, transpose) = match which {
            0 => (self.k, self.m, of.transpose),
            1 => (self.n, self.k, of.transpose),
            _ => (self.n, self.m, 0),
        };
        let leading_dimension = of.leading_dimension as usize;
        let strides = if transpose == 1 { [1, leading_dimension] } else { [leading_dimension, 1] };
        Operand {
            address: address as u64,
            dtype,
            shape: vec![self.batch, rows, columns],
            strides: vec![of.batch_stride as usize, strides[0], strides[1]],
        }
    }

    /// Computes the product. `addresses` are the matrices' addresses on the host.
    ///
    /// # Errors
    /// The error of a host kernel.
    pub(crate) fn run(&self, addresses: [usize; 3]) -> Result<()> {
        let [a, b, c] = [0, 1, 2].map(|which| self.operand(which, addresses[which]));
        let wide = match self.dtypes[0] {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        // f16 and bf16 are multiplied in f32, and rounded once.
        let mut memory = Vec::new();
        let [x, y] = [b, a].map(|of| widened(&mut memory, of, wide));
        let (x, y) = (x?, y?);
        let sums = match c.dtype == wide {
            true => c.copied(),
            false => widened(&mut memory, c.copied(), wide)?,
        };
        let mut attrs = Attrs::new();
        attrs.set("alpha", self.alpha);
        attrs.set("beta", self.beta);
        let all = vec![sums.copied(), x, y, sums.copied()];
        run_host_kernel("baddbmm", all, attrs)?;
        if sums.dtype != c.dtype {
            run_host_kernel("cast", vec![sums, c], Attrs::new())?;
        }
        Ok(())
    }
}

impl Operand {
    fn copied(&self) -> Operand {
        let (shape, strides) = (self.shape.clone(), self.strides.clone());
        Operand { address: self.address, dtype: self.dtype, shape, strides }
    }
}

/// Returns the operand in a wider type, in memory appended to `memory`.
fn widened(memory: &mut Vec<Vec<u64>>, of: Operand, wide: DType) -> Result<Operand> {
    if of.dtype == wide {
        return Ok(of);
    }
    let [batch, rows, columns] = of.shape[..] else { anyhow::bail!("no batch of matrices") };
    let mut words = vec![0u64; (batch * rows * columns).max(1)];
    let to = Operand {
        address: words.as_mut_ptr() as u64,
        dtype: wide,
        shape: of.shape.clone(),
        strides: vec![rows * columns, columns, 1],
    };
    memory.push(words);
    run_host_kernel("cast", vec![of, to.copied()], Attrs::new())?;
    Ok(to)
}

/// Runs a host kernel on operands in host memory.
fn run_host_kernel(op: &str, operands: Vec<Operand>, attrs: Attrs) -> Result<()> {
    let addresses: Vec<usize> = operands.iter().map(|of| of.address as usize).collect();
    let call = Call { operands, attrs, workspace: (0, 0) };
    let kernel = host_kernels::registry().get("cpu", op).context("the host has no such kernel")?;
    host_kernels::run(kernel, &call, &addresses, (0, 0))
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transpose = |of: &Matrix| if of.transpose == 1 { "T" } else { "N" };
        let Product { m, n, k, batch, dtypes: [given, result], compute, .. } = self;
        write!(f, "{}{} {m}x{n}x{k}", transpose(&self.a), transpose(&self.b))?;
        if *batch != 1 {
            write!(f, " {batch} times")?;
        }
        write!(f, ", {given}")?;
        if given != result {
            write!(f, " to {result}")?;
        }
        match compute {
            77 => f.write_str(" by tf32"),
            _ => Ok(()),
        }
    }
}
