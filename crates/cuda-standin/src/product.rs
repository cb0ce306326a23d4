//! Matrix products as cuBLAS counts them, by columns, computed by the host's own kernels.
//!
//! `c = alpha · op(a) op(b) + beta · c`: `op(a)` is m by k, `op(b)` k by n, and element (i, j) of a
//! matrix lies at `i + j · leading`.

use std::ffi::{c_int, c_void};
use std::fmt;

use anyhow::{Context, Result};

use millstream_types::{Attrs, DType};

use crate::call::{Call, Operand};
use crate::state::Answer;
use crate::{kernels, status};

/// A batch of matrices.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    address: u64,
    data_type: c_int,
    leading: i64,
    step: i64,
    turn: c_int,
}

/// A batch of products.
pub(crate) struct Product {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    /// Of `a` and `b`, and of `c`.
    dtypes: [DType; 2],
    alpha: f64,
    beta: f64,
    compute: c_int,
}

impl Matrix {
    pub(crate) fn new(
        address: u64,
        data_type: c_int,
        leading: i64,
        step: i64,
        turn: c_int,
    ) -> Matrix {
        Matrix { address, data_type, leading, step, turn }
    }
}

fn dtype(data_type: c_int) -> Answer<DType> {
    match data_type {
        0 => Ok(DType::F32),
        1 => Ok(DType::F64),
        2 => Ok(DType::F16),
        14 => Ok(DType::BF16),
        _ => Err(status::NOT_SUPPORTED),
    }
}

impl Product {
    /// Checks what the library checks.
    ///
    /// # Errors
    /// The status that the library answers.
    ///
    /// # Safety
    /// The factors are null or of the type that is computed in.
    pub(crate) unsafe fn new(
        dimensions: [i64; 4],
        [a, b, c]: [Matrix; 3],
        [alpha, beta]: [*const c_void; 2],
        compute: c_int,
    ) -> Answer<Product> {
        let turned = |of: &Matrix| of.turn == 1;
        if alpha.is_null() || beta.is_null() || [a, b].iter().any(|of| ![0, 1].contains(&of.turn)) {
            return Err(status::INVALID_VALUE);
        }
        let mut lengths = [0; 4];
        for (to, from) in lengths.iter_mut().zip(dimensions) {
            *to = usize::try_from(from).map_err(|_| status::INVALID_VALUE)?;
        }
        let [m, n, k, batch] = lengths;
        let rows = [if turned(&a) { k } else { m }, if turned(&b) { n } else { k }, m];
        for (of, rows) in [a, b, c].iter().zip(rows) {
            if of.leading < rows.max(1) as i64 || of.step < 0 {
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
            // SAFETY: the caller's promise; it is not null.
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

    /// The matrices, as [`Product::span`] takes them: a, b, c.
    pub(crate) fn matrices(&self) -> [usize; 3] {
        [0, 1, 2]
    }

    /// Rows and columns of a matrix as they lie, and its dtype.
    fn lying(&self, which: usize) -> (&Matrix, usize, usize, DType) {
        let swap =
            |turn: c_int, rows, columns| if turn == 1 { (columns, rows) } else { (rows, columns) };
        let (of, (rows, columns), dtype) = match which {
            0 => (&self.a, swap(self.a.turn, self.m, self.k), self.dtypes[0]),
            1 => (&self.b, swap(self.b.turn, self.k, self.n), self.dtypes[0]),
            _ => (&self.c, (self.m, self.n), self.dtypes[1]),
        };
        (of, rows, columns, dtype)
    }

    /// The address of a matrix, and the bytes up to the end of its last element.
    pub(crate) fn span(&self, which: usize) -> (u64, u64) {
        let (of, rows, columns, dtype) = self.lying(which);
        if rows == 0 || columns == 0 {
            return (of.address, 0);
        }
        let last = (self.batch as u64 - 1) * of.step as u64
            + (columns as u64 - 1) * of.leading as u64
            + rows as u64;
        (of.address, last * dtype.size() as u64)
    }

    /// What the real one leaves undefined.
    pub(crate) fn undefined(&self) -> Option<String> {
        for which in self.matrices() {
            let (of, .., dtype) = self.lying(which);
            if !of.address.is_multiple_of(dtype.size() as u64) {
                return Some(format!("matrix {which} is not aligned"));
            }
        }
        // One behind the other, or side by side within their common rows.
        let (m, step, leading) = (self.m as i64, self.c.step, self.c.leading);
        let behind = step >= (self.n as i64 - 1) * leading + m;
        let beside = step >= m && (self.batch as i64 - 1) * step + m <= leading;
        if self.batch > 1 && !behind && !beside {
            return Some("results that lie over one another".to_owned());
        }
        let (to, bytes) = self.span(2);
        let over = [0, 1].into_iter().find(|&which| {
            let (from, length) = self.span(which);
            length > 0 && from < to + bytes && to < from + length
        });
        over.map(|which| format!("the result lies over matrix {which}"))
    }

    /// A matrix as rows and columns of cᵀ = op(b)ᵀ op(a)ᵀ, on the host.
    fn operand(&self, which: usize, address: usize) -> Operand {
        let (of, _, _, dtype) = self.lying(which);
        let (rows, columns, turn) = match which {
            0 => (self.k, self.m, of.turn),
            1 => (self.n, self.k, of.turn),
            _ => (self.n, self.m, 0),
        };
        let leading = of.leading as usize;
        let strides = if turn == 1 { [1, leading] } else { [leading, 1] };
        Operand {
            address: address as u64,
            dtype,
            shape: vec![self.batch, rows, columns],
            strides: vec![of.step as usize, strides[0], strides[1]],
        }
    }

    /// Computes the product. `addresses` says where the matrices lie on the host.
    ///
    /// # Errors
    /// The host's kernels'.
    pub(crate) fn run(&self, addresses: [usize; 3]) -> Result<()> {
        let [a, b, c] = [0, 1, 2].map(|which| self.operand(which, addresses[which]));
        let wide = match self.dtypes[0] {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        // Halves are multiplied in f32, and rounded once.
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
        host("baddbmm", all, attrs)?;
        if sums.dtype != c.dtype {
            host("cast", vec![sums, c], Attrs::new())?;
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

/// The operand in a wider type, in memory of its own.
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
    host("cast", vec![of, to.copied()], Attrs::new())?;
    Ok(to)
}

/// Runs a kernel of the host's on operands of the host's.
fn host(op: &str, operands: Vec<Operand>, attrs: Attrs) -> Result<()> {
    let addresses: Vec<usize> = operands.iter().map(|of| of.address as usize).collect();
    let call = Call { operands, attrs, workspace: (0, 0) };
    let kernel = kernels::registry().get("cpu", op).context("the host has no such kernel")?;
    kernels::run(kernel, &call, &addresses, (0, 0))
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turn = |of: &Matrix| if of.turn == 1 { "T" } else { "N" };
        let Product { m, n, k, batch, dtypes: [given, result], compute, .. } = self;
        write!(f, "{}{} {m}x{n}x{k}", turn(&self.a), turn(&self.b))?;
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
