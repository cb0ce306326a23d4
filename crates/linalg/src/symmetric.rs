//! Factors of symmetric or Hermitian indefinite matrices, by the method of Bunch and Kaufman.

use crate::matrix::Matrix;
use crate::number::Number;

/// Packed factors L and D of A = L D Lᵀ, or L D Lᴴ: D in the diagonal, and below it where a block
/// has two rows, L below. The upper triangle is zero.
#[derive(Clone, Debug)]
pub struct SymmetricFactors<T> {
    /// The factors.
    pub packed: Matrix<T>,
    /// The exchanged rows from 1; negative, twice, for a block of two rows.
    pub pivots: Vec<i32>,
    /// The first step from 1 whose block is zero; 0 if none is.
    pub singular_at: i32,
}

/// Returns the factors of the lower triangle.
///
/// Source: LAPACK, `sytf2` and `hetf2`.
pub fn symmetric_factors<T: Number>(mut a: Matrix<T>, hermitian: bool) -> SymmetricFactors<T> {
    let n = a.rows();
    for (i, j) in (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))) {
        a[(i, j)] = T::ZERO;
    }
    if hermitian {
        for k in 0..n {
            a[(k, k)] = T::real(a[(k, k)].real_part());
        }
    }
    let threshold = (1.0 + 17f64.sqrt()) / 8.0;
    let flip = |v: T| if hermitian { v.conjugate() } else { v };
    let (mut pivots, mut singular_at) = (vec![0i32; n], 0);
    let mut k = 0;
    while k < n {
        let diagonal = a[(k, k)].pivot_size();
        let below = (k + 1..n).fold(k, |best, i| {
            if best == k || a[(i, k)].pivot_size() > a[(best, k)].pivot_size() { i } else { best }
        });
        let column = if below > k { a[(below, k)].pivot_size() } else { 0.0 };
        let (mut width, mut pivot) = (1, k);
        if diagonal.max(column) == 0.0 || diagonal.is_nan() {
            if singular_at == 0 {
                singular_at = k as i32 + 1;
            }
            pivots[k] = k as i32 + 1;
            k += 1;
            continue;
        }
        if diagonal < threshold * column {
            let left = (k..below).map(|j| a[(below, j)].pivot_size()).fold(0.0, f64::max);
            let down = (below + 1..n).map(|i| a[(i, below)].pivot_size()).fold(0.0, f64::max);
            let row = left.max(down);
            if diagonal < threshold * column * (column / row) {
                pivot = below;
                if a[(below, below)].pivot_size() < threshold * row {
                    width = 2;
                }
            }
        }
        let own = k + width - 1;
        if pivot != own {
            exchange(&mut a, k, own, pivot, hermitian);
        }
        if width == 1 {
            eliminate_one(&mut a, k, flip);
            pivots[k] = pivot as i32 + 1;
        } else {
            eliminate_two(&mut a, k, flip);
            pivots[k] = -(pivot as i32 + 1);
            pivots[k + 1] = pivots[k];
        }
        k += width;
    }
    SymmetricFactors { packed: a, pivots, singular_at }
}

/// Exchanges two rows and columns of the rest from `k` on, within the lower triangle.
fn exchange<T: Number>(a: &mut Matrix<T>, k: usize, own: usize, pivot: usize, hermitian: bool) {
    let flip = |v: T| if hermitian { v.conjugate() } else { v };
    let n = a.rows();
    for i in pivot + 1..n {
        let value = a[(i, own)];
        a[(i, own)] = a[(i, pivot)];
        a[(i, pivot)] = value;
    }
    for j in own + 1..pivot {
        let value = flip(a[(j, own)]);
        a[(j, own)] = flip(a[(pivot, j)]);
        a[(pivot, j)] = value;
    }
    a[(pivot, own)] = flip(a[(pivot, own)]);
    let value = a[(own, own)];
    a[(own, own)] = a[(pivot, pivot)];
    a[(pivot, pivot)] = value;
    if own > k {
        let value = a[(own, k)];
        a[(own, k)] = a[(pivot, k)];
        a[(pivot, k)] = value;
    }
}

fn eliminate_one<T: Number>(a: &mut Matrix<T>, k: usize, flip: impl Fn(T) -> T) {
    let n = a.rows();
    let pivot = a[(k, k)];
    let column: Vec<T> = (k + 1..n).map(|i| a[(i, k)]).collect();
    for j in k + 1..n {
        let factor = flip(column[j - k - 1]) / pivot;
        for i in j..n {
            a[(i, j)] -= column[i - k - 1] * factor;
        }
    }
    for i in k + 1..n {
        a[(i, k)] /= pivot;
    }
}

fn eliminate_two<T: Number>(a: &mut Matrix<T>, k: usize, flip: impl Fn(T) -> T) {
    let n = a.rows();
    let (first, off, second) = (a[(k, k)], a[(k + 1, k)], a[(k + 1, k + 1)]);
    let determinant = first * second - off * flip(off);
    for j in k + 2..n {
        // The row j of L: (a_jk, a_jk+1) times the inverse of the block.
        let (x, y) = (a[(j, k)], a[(j, k + 1)]);
        let left = (x * second - y * off) / determinant;
        let right = (y * first - x * flip(off)) / determinant;
        for i in j..n {
            let change = a[(i, k)] * flip(left) + a[(i, k + 1)] * flip(right);
            a[(i, j)] -= change;
        }
        a[(j, k)] = left;
        a[(j, k + 1)] = right;
    }
}

/// Returns the matrix X of A X = B, with the factors of A.
pub fn symmetric_solve<T: Number>(
    packed: &Matrix<T>,
    pivots: &[i32],
    mut b: Matrix<T>,
    hermitian: bool,
) -> Matrix<T> {
    let flip = |v: T| if hermitian { v.conjugate() } else { v };
    let n = packed.rows();
    let target = |pivot: i32| (pivot.unsigned_abs() as usize).saturating_sub(1).min(n - 1);
    let mut blocks = Vec::new();
    let mut k = 0;
    while k < n {
        let width = if pivots[k] < 0 && k + 1 < n { 2 } else { 1 };
        blocks.push((k, width));
        b.swap(k + width - 1, target(pivots[k]));
        for column in k..k + width {
            let own = b.row(column).to_vec();
            for i in k + width..n {
                b.add_row(i, -packed[(i, column)], &own, 0);
            }
        }
        for j in 0..b.columns() {
            if width == 1 {
                b[(k, j)] /= packed[(k, k)];
                continue;
            }
            let (first, off, second) = (packed[(k, k)], packed[(k + 1, k)], packed[(k + 1, k + 1)]);
            let determinant = first * second - off * flip(off);
            let (x, y) = (b[(k, j)], b[(k + 1, j)]);
            b[(k, j)] = (second * x - flip(off) * y) / determinant;
            b[(k + 1, j)] = (first * y - off * x) / determinant;
        }
        k += width;
    }
    for (k, width) in blocks.into_iter().rev() {
        for column in k..k + width {
            for i in k + width..n {
                let (factor, row) = (flip(packed[(i, column)]), b.row(i).to_vec());
                b.add_row(column, -factor, &row, 0);
            }
        }
        b.swap(k + width - 1, target(pivots[k]));
    }
    b
}
