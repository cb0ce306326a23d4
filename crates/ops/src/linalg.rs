//! Linear algebra: factorizations of matrices, and solutions by them, in the formats of LAPACK.
//!
//! Matrices are the last two dimensions; all others are batches, which broadcast where an op takes
//! several matrices. Dtypes are f32, f64, c64 and c128; everything is computed in f64 and rounded
//! once. Signs that a factorization leaves open are the kernel's: those of singular vectors and
//! eigenvectors.
//! `info` is 0, or the first step from 1 at which a factorization fails.
//!
//! Sources: the ops of the same names in <https://docs.pytorch.org/docs/stable/linalg.html>.

use millstream_types::{Access, DType, Dims, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::choice;
use crate::broadcast::broadcast;
use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const A: ArgDoc = arg("A", "[..,m,n]; f32, f64, c64 or c128");
const SQUARE: ArgDoc = arg("A", "[..,n,n]; f32, f64, c64 or c128");
const CHECK: ArgDoc =
    arg("check_errors", "whether the call fails where info is not 0").flag().or("false");
const LEFT: ArgDoc = arg("left", "whether A stands left of the unknown matrix").flag().or("true");
const PIVOTS: ArgDoc = arg("pivots", "i32; [..,min(m,n)]");

macro_rules! linalg {
    ($(($name:literal, $summary:literal, $inputs:expr, $attrs:expr, $rule:expr);)*) => {
        pub(crate) const OPS: &[Def] =
            &[$(Def::new($name, $summary, $inputs, $attrs, $rule).complex()),*];
    };
}

linalg! {
    ("linalg_cholesky_ex", "the Cholesky factor of A, and info", &[SQUARE],
     &[arg("upper", "the upper factor instead of the lower").flag().or("false"), CHECK], cholesky);
    ("linalg_lu_factor_ex", "the packed LU factors of A, the pivots from 1, and info", &[A],
     &[arg("pivot", "true: rows are exchanged").flag().or("true"), CHECK], lu_factors);
    ("lu_unpack", "the permutation, L and U of packed factors", &[arg("LU", "[..,m,n]"), PIVOTS],
     &[arg("unpack_data", "whether to return L and U").flag().or("true"),
       arg("unpack_pivots", "whether to return the permutation").flag().or("true")], unpacked);
    ("linalg_lu_solve", "the solution X of A X = B by the packed factors of A",
     &[arg("LU", "[..,n,n]"), PIVOTS, arg("B", "[..,n,k]")],
     &[LEFT, arg("adjoint", "whether the adjoint of A stands in its place").flag().or("false")],
     |call| solution(call, 2));
    ("linalg_solve_triangular", "the solution X of A X = B with a triangle of A",
     &[SQUARE, arg("B", "[..,n,k]")],
     &[arg("upper", "whether it is the upper triangle").flag().or("false"), LEFT,
       arg("unitriangular", "whether the diagonal counts as ones").flag().or("false")],
     |call| solution(call, 1));
    ("linalg_inv_ex", "the inverse of A, and info", &[SQUARE], &[CHECK], inverse);
    ("linalg_qr", "Q and R with A = Q R", &[A],
     &[arg("mode", "\"reduced\", \"complete\", or \"r\" without Q").text().or("reduced")], qr);
    ("geqrf", "the packed QR factors of A, and the factors of the reflections", &[A], &[],
     reflections);
    ("linalg_householder_product", "the first columns of the Q of packed factors",
     &[A, arg("tau", "[..,k]")], &[], |call| {
        matrices(call, 1)?;
        fresh(call, [like(&call.inputs[0], call.inputs[0].shape())?])
     });
    ("ormqr", "the product of the Q of packed factors with a matrix",
     &[A, arg("tau", "[..,k]"), arg("other", "[..,m,k]")],
     &[LEFT, arg("transpose", "whether the adjoint of Q stands in its place").flag().or("false")],
     |call| {
        matrices(call, 1)?;
        fresh(call, [like(&call.inputs[0], call.inputs[2].shape())?])
     });
    ("_linalg_svd", "U, the singular values, and the adjoint of V, with A = U S Vᴴ", &[A],
     &[arg("full_matrices", "whether U and V are square").flag().or("false"),
       arg("compute_uv", "whether to return U and V").flag().or("true"),
       arg("driver", "no effect").text().ignored()], singular);
    ("_linalg_eigh", "the eigenvalues of a symmetric A, ascending, and the eigenvectors", &[SQUARE],
     &[arg("UPLO", "the triangle that is read, \"L\" or \"U\"").text().or("L"),
       arg("compute_v", "whether to return the eigenvectors").flag().or("true")], eigen);
    ("linalg_eig", "the complex eigenvalues of A, and the eigenvectors of length 1", &[SQUARE],
     &[arg("compute_v", "whether to return the eigenvectors").flag().or("true")], general_eigen);
    ("linalg_matrix_exp", "e to the power of A", &[arg("A", "[..,n,n]; floats")], &[], |call| {
        match matrix(&call.inputs[0])? {
            (_, m, n) if m == n && call.inputs[0].dtype.is_inexact() => {}
            _ => {
                let message = format!("expected square matrices, got {}", call.inputs[0].brief());
                return refuse("shape", message);
            }
        }
        fresh(call, [like(&call.inputs[0], call.inputs[0].shape())?])
     });
    ("linalg_ldl_factor_ex", "the packed L D Lᵀ factors of a symmetric A, the pivots, and info",
     &[SQUARE], &[arg("hermitian", "whether A is Hermitian").flag().or("false"), CHECK],
     lu_factors);
    ("linalg_ldl_solve", "the solution X of A X = B by the packed L D Lᵀ factors of A",
     &[arg("LD", "[..,n,n]"), PIVOTS, arg("B", "[..,n,k]")],
     &[arg("hermitian", "whether A is Hermitian").flag().or("false")], |call| solution(call, 2));
    ("linalg_lstsq",
     "the least squares solution of A X = B, with residuals, ranks and singular values",
     &[A, arg("B", "[..,m,k] or [..,m]")],
     &[arg("rcond", "the least singular value that counts, relative to the greatest")
           .float()
           .optional(),
       arg("driver",
           "\"gelsy\", \"gels\", \"gelsd\" or \"gelss\", which differ in the results returned")
           .text()
           .or("gelsy")],
     least_squares);
}

/// Returns the lengths of the batches, the rows and the columns of an operand.
fn matrix(x: &TensorSpec) -> Result<(&[usize], usize, usize)> {
    match x.shape() {
        [batch @ .., m, n] => Ok((batch, *m, *n)),
        _ => refuse("shape", format!("expected matrices, got {}", x.brief())),
    }
}

/// Checks the first operands: matrices of one dtype.
fn matrices(call: CallSpec<'_>, count: usize) -> Result<()> {
    for x in &call.inputs[..count] {
        matrix(x)?;
        let (dtype, first) = (x.dtype, call.inputs[0].dtype);
        if !matches!(dtype.part(), DType::F32 | DType::F64) || dtype != first {
            let message = format!("expected f32, f64, c64 or c128, one for all, got {}", x.brief());
            return refuse("dtype", message);
        }
    }
    Ok(())
}

fn square(call: CallSpec<'_>) -> Result<()> {
    matrices(call, 1)?;
    let (_, m, n) = matrix(&call.inputs[0])?;
    match m == n {
        true => Ok(()),
        false => {
            refuse("shape", format!("expected square matrices, got {}", call.inputs[0].brief()))
        }
    }
}

fn like(x: &TensorSpec, shape: &[usize]) -> Result<TensorSpec> {
    TensorSpec::contiguous(x.dtype, shape)
}

/// Returns the spec of real values of x.
fn parts(x: &TensorSpec, shape: &[usize]) -> Result<TensorSpec> {
    TensorSpec::contiguous(x.dtype.part(), shape)
}

fn with(batch: &[usize], rest: &[usize]) -> Dims {
    batch.iter().chain(rest).copied().collect()
}

fn fresh(call: CallSpec<'_>, outputs: impl IntoIterator<Item = TensorSpec>) -> Result<Signature> {
    Ok(Signature {
        accesses: SmallVec::from_elem(Access::Read, call.inputs.len()),
        outputs: outputs.into_iter().map(OutputSpec::Fresh).collect(),
        workspace: 0,
    })
}

fn cholesky(call: CallSpec<'_>) -> Result<Signature> {
    square(call)?;
    let x = &call.inputs[0];
    call.attrs.bool("upper")?;
    call.attrs.bool("check_errors")?;
    let info = TensorSpec::contiguous(DType::I32, matrix(x)?.0)?;
    fresh(call, [like(x, x.shape())?, info])
}

fn inverse(call: CallSpec<'_>) -> Result<Signature> {
    cholesky(call)
}

fn lu_factors(call: CallSpec<'_>) -> Result<Signature> {
    matrices(call, 1)?;
    let x = &call.inputs[0];
    if call.attrs.bool("pivot")? == Some(false) {
        return refuse("argument", "pivot: expected true, as on PyTorch's CPU");
    }
    call.attrs.bool("check_errors")?;
    let (batch, m, n) = matrix(x)?;
    let pivots = TensorSpec::contiguous(DType::I32, &with(batch, &[m.min(n)]))?;
    let info = TensorSpec::contiguous(DType::I32, batch)?;
    fresh(call, [like(x, x.shape())?, pivots, info])
}

fn unpacked(call: CallSpec<'_>) -> Result<Signature> {
    matrices(call, 1)?;
    let x = &call.inputs[0];
    let (batch, m, n) = matrix(x)?;
    let (data, pivots) = (
        call.attrs.bool("unpack_data")?.unwrap_or(true),
        call.attrs.bool("unpack_pivots")?.unwrap_or(true),
    );
    let shape = |given: bool, rows: usize, columns: usize| match given {
        true => with(batch, &[rows, columns]),
        false => Dims::from_slice(&[0]),
    };
    let k = m.min(n);
    fresh(
        call,
        [
            like(x, &shape(pivots, m, m))?,
            like(x, &shape(data, m, k))?,
            like(x, &shape(data, k, n))?,
        ],
    )
}

/// Infers a solution for the matrices of the operand at `at`; the first is square.
fn solution(call: CallSpec<'_>, at: usize) -> Result<Signature> {
    square(call)?;
    let (a, b) = (&call.inputs[0], &call.inputs[at]);
    let (batch, n, _) = matrix(a)?;
    let (others, rows, columns) = matrix(b)?;
    let left = call.attrs.bool("left")?.unwrap_or(true);
    if b.dtype != a.dtype || (if left { rows } else { columns }) != n {
        let message = format!("{} does not fit {}", b.brief(), a.brief());
        return refuse("shape", message);
    }
    let shape = with(&broadcast(batch, others)?, &[rows, columns]);
    fresh(call, [like(a, &shape)?])
}

fn qr(call: CallSpec<'_>) -> Result<Signature> {
    matrices(call, 1)?;
    let x = &call.inputs[0];
    let (batch, m, n) = matrix(x)?;
    let mode = choice(call.attrs, "mode", &["reduced", "complete", "r"])?.unwrap_or("reduced");
    let k = if mode == "complete" { m } else { m.min(n) };
    let q = if mode == "r" { Dims::from_slice(&[0]) } else { with(batch, &[m, k]) };
    fresh(call, [like(x, &q)?, like(x, &with(batch, &[k, n]))?])
}

fn reflections(call: CallSpec<'_>) -> Result<Signature> {
    matrices(call, 1)?;
    let x = &call.inputs[0];
    let (batch, m, n) = matrix(x)?;
    fresh(call, [like(x, x.shape())?, like(x, &with(batch, &[m.min(n)]))?])
}

fn singular(call: CallSpec<'_>) -> Result<Signature> {
    matrices(call, 1)?;
    let x = &call.inputs[0];
    let (batch, m, n) = matrix(x)?;
    let full = call.attrs.bool("full_matrices")?.unwrap_or(false);
    let k = m.min(n);
    let (mut left, mut right) = match full {
        true => (with(batch, &[m, m]), with(batch, &[n, n])),
        false => (with(batch, &[m, k]), with(batch, &[k, n])),
    };
    if call.attrs.bool("compute_uv")? == Some(false) {
        (left, right) = (Dims::from_slice(&[0]), Dims::from_slice(&[0]));
    }
    fresh(call, [like(x, &left)?, parts(x, &with(batch, &[k]))?, like(x, &right)?])
}

fn eigen(call: CallSpec<'_>) -> Result<Signature> {
    square(call)?;
    let x = &call.inputs[0];
    choice(call.attrs, "UPLO", &["L", "U", "l", "u"])?;
    let (batch, n, _) = matrix(x)?;
    let vectors = match call.attrs.bool("compute_v")? {
        Some(false) => Dims::from_slice(&[0]),
        _ => Dims::from_slice(x.shape()),
    };
    fresh(call, [parts(x, &with(batch, &[n]))?, like(x, &vectors)?])
}

fn general_eigen(call: CallSpec<'_>) -> Result<Signature> {
    square(call)?;
    let x = &call.inputs[0];
    let (batch, n, _) = matrix(x)?;
    let vectors = match call.attrs.bool("compute_v")? {
        Some(false) => Dims::from_slice(&[0]),
        _ => Dims::from_slice(x.shape()),
    };
    let dtype = x.dtype.complex();
    let values = TensorSpec::contiguous(dtype, &with(batch, &[n]))?;
    fresh(call, [values, TensorSpec::contiguous(dtype, &vectors)?])
}

/// Returns whether the second operand of `linalg_lstsq` has vectors instead of matrices.
pub fn has_vectors(a: &[usize], b: &[usize]) -> bool {
    b.len() == 1 || (b.len() + 1 == a.len() && a.starts_with(b))
}

fn least_squares(call: CallSpec<'_>) -> Result<Signature> {
    matrices(call, 1)?;
    let (a, b) = (&call.inputs[0], &call.inputs[1]);
    call.attrs.float("rcond")?;
    let drivers = ["gelsy", "gels", "gelsd", "gelss"];
    let driver = choice(call.attrs, "driver", &drivers)?.unwrap_or("gelsy");
    let (batch, m, n) = matrix(a)?;
    let vectors = has_vectors(a.shape(), b.shape());
    let (others, rows, columns) = match b.shape() {
        [others @ .., rows] if vectors => (others, *rows, 1),
        [others @ .., rows, columns] => (others, *rows, *columns),
        _ => return refuse("shape", format!("{} does not fit {}", b.brief(), a.brief())),
    };
    if rows != m || b.dtype != a.dtype {
        return refuse("shape", format!("{} does not fit {}", b.brief(), a.brief()));
    }
    let all = broadcast(batch, others)?;
    let mut shape = with(&all, &[n]);
    if !vectors {
        shape.push(columns);
    }
    let none = Dims::from_slice(&[0]);
    let residuals = match m > n && driver != "gelsy" {
        true if vectors => with(&all, &[]),
        true => with(&all, &[columns]),
        false => none.clone(),
    };
    let ranks = if driver == "gels" { none.clone() } else { with(batch, &[]) };
    let values = match driver {
        "gelsd" | "gelss" => with(batch, &[m.min(n)]),
        _ => none,
    };
    let ranks = TensorSpec::contiguous(DType::I64, &ranks)?;
    fresh(call, [like(a, &shape)?, parts(a, &residuals)?, ranks, parts(a, &values)?])
}
