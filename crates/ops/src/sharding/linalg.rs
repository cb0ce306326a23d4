//! The ways of linear algebra: batches of matrices.

use millstream_types::Result;

use super::{Parts, Rules, Way, Whole};

pub(super) const RULES: Rules = &[
    ("linalg_cholesky_ex", |whole| batches(whole, &[2], &[2, 0])),
    ("linalg_lu_factor_ex", |whole| batches(whole, &[2], &[2, 1, 0])),
    ("lu_unpack", |whole| batches(whole, &[2, 1], &[2, 2, 2])),
    ("linalg_lu_solve", |whole| batches(whole, &[2, 1, 2], &[2])),
    ("linalg_solve_triangular", |whole| batches(whole, &[2, 2], &[2])),
    ("linalg_inv_ex", |whole| batches(whole, &[2], &[2, 0])),
    ("linalg_qr", |whole| batches(whole, &[2], &[2, 2])),
    ("geqrf", |whole| batches(whole, &[2], &[2, 1])),
    ("linalg_householder_product", |whole| batches(whole, &[2, 1], &[2])),
    ("ormqr", |whole| batches(whole, &[2, 1, 2], &[2])),
    ("_linalg_svd", |whole| batches(whole, &[2], &[2, 1, 2])),
    ("_linalg_eigh", |whole| batches(whole, &[2], &[1, 2])),
    ("linalg_eig", |whole| batches(whole, &[2], &[1, 2])),
    ("linalg_matrix_exp", |whole| batches(whole, &[2], &[2])),
    ("linalg_ldl_factor_ex", |whole| batches(whole, &[2], &[2, 1, 0])),
    ("linalg_ldl_solve", |whole| batches(whole, &[2, 1, 2], &[2])),
    ("linalg_lstsq", |whole| {
        let vectors = crate::linalg::has_vectors(whole.shape(0), whole.shape(1));
        let core = if vectors { 1 } else { 2 };
        batches(whole, &[2, core], &[core, core - 1, 0, 1])
    }),
];

/// Every dimension but the last ones, which hold a matrix, a vector or a number of each tensor.
/// Tensors without the dimension are the same for the whole batch, or have no elements.
fn batches(whole: Whole<'_>, operands: &[usize], results: &[usize]) -> Result<Vec<Way>> {
    let shapes = (0..whole.inputs().len()).map(|k| whole.shape(k));
    let batch = |shape: &[usize], core: usize| shape.len().saturating_sub(core);
    let dims = shapes.clone().zip(operands).map(|(shape, core)| batch(shape, *core)).max();
    let ways = (0..dims.unwrap_or(0)).map(|from_end| {
        // Aligned at the last dimension of the batch.
        let own = |shape: &[usize], core: usize| {
            batch(shape, core).checked_sub(from_end + 1).map(|dim| (dim, shape[dim]))
        };
        let lengths = shapes.clone().zip(operands).filter_map(|(shape, core)| own(shape, *core));
        let length = lengths.map(|(_, length)| length).max().unwrap_or(1);
        let dim = |shape: &[usize], core: usize| {
            own(shape, core).filter(|(_, of)| *of == length).map(|(dim, _)| dim)
        };
        let result = |k: usize| whole.result(k).and_then(|(_, shape)| dim(&shape, results[k]));
        whole.along(|k| dim(whole.shape(k), operands[k]), result).parts(Parts::NotEmpty)
    });
    Ok(ways.filter(|way| way.results.iter().any(|sbp| sbp.dim().is_some())).collect())
}
