//! QR factors by Householder reflections, in LAPACK's format.

use crate::matrix::Matrix;
use crate::number::Number;

/// Returns the packed factors, R in the upper triangle and the vectors below it, and the factors of
/// the reflections.
///
/// Source: LAPACK, `geqr2` and `larfg`.
pub fn qr_factors<T: Number>(mut a: Matrix<T>) -> (Matrix<T>, Vec<T>) {
    let count = a.rows().min(a.columns());
    let mut factors = Vec::with_capacity(count);
    for step in 0..count {
        let alpha = a[(step, step)];
        let below = (step + 1..a.rows()).map(|i| a[(i, step)].size().powi(2)).sum::<f64>().sqrt();
        if below == 0.0 && alpha.imaginary_part() == 0.0 {
            factors.push(T::ZERO);
            continue;
        }
        let length = alpha.size().hypot(below);
        let beta = if alpha.real_part() >= 0.0 { -length } else { length };
        let tau = (T::real(beta) - alpha) / T::real(beta);
        let scale = T::ONE / (alpha - T::real(beta));
        for i in step + 1..a.rows() {
            a[(i, step)] *= scale;
        }
        a[(step, step)] = T::real(beta);
        factors.push(tau);
        let vector = vector_of(&a, step);
        let columns = step + 1..a.columns();
        reflect(&mut a, &vector, tau.conjugate(), step, columns);
    }
    (a, factors)
}

/// Returns the vector of a step, from its own row on.
fn vector_of<T: Number>(packed: &Matrix<T>, step: usize) -> Vec<T> {
    (step..packed.rows()).map(|i| if i == step { T::ONE } else { packed[(i, step)] }).collect()
}

/// Multiplies columns, from the row `from` on, by the reflection I - τ v vᴴ.
fn reflect<T: Number>(
    a: &mut Matrix<T>,
    vector: &[T],
    tau: T,
    from: usize,
    columns: std::ops::Range<usize>,
) {
    for j in columns {
        let mut sum = T::ZERO;
        for (k, v) in vector.iter().enumerate() {
            sum += v.conjugate() * a[(from + k, j)];
        }
        let sum = tau * sum;
        for (k, &v) in vector.iter().enumerate() {
            a[(from + k, j)] -= v * sum;
        }
    }
}

/// Returns Q B, or Qᴴ B if `adjoint`, with the Q of packed factors. B has as many rows as they.
pub fn apply_q<T: Number>(
    packed: &Matrix<T>,
    factors: &[T],
    mut b: Matrix<T>,
    adjoint: bool,
) -> Matrix<T> {
    let columns = b.columns();
    let mut step_of = |step: usize| {
        let tau = if adjoint { factors[step].conjugate() } else { factors[step] };
        reflect(&mut b, &vector_of(packed, step), tau, step, 0..columns);
    };
    match adjoint {
        true => (0..factors.len()).for_each(&mut step_of),
        false => (0..factors.len()).rev().for_each(&mut step_of),
    }
    b
}

/// Returns the first columns of the Q of packed factors.
pub fn householder_product<T: Number>(
    packed: &Matrix<T>,
    factors: &[T],
    columns: usize,
) -> Matrix<T> {
    let start = Matrix::identity(packed.rows().max(columns)).leading(packed.rows(), columns);
    apply_q(packed, factors, start, false)
}
