//! Seeded random elements. A seed produces the same bytes on every computer and in every later
//! version.
//!
//! # Numbers
//! All bits come from ChaCha with 8 rounds (Bernstein, "ChaCha, a variant of Salsa20", 2008). The
//! 256-bit key is the seed as 8 bytes, little-endian, then 24 zero bytes; `x` stands for the next
//! 64 bits. Elements are generated in row-major order of their indices, independent of the strides.
//!
//! - *Uniform, f64*: `u = (x >> 11) · 2⁻⁵³`; *f32, f16, bf16*: `u = (x >> 40) · 2⁻²⁴`. The element
//!   is `low + u · (high - low)` in f64, rounded to the dtype; rounding may produce `high`.
//! - *Uniform, integers*: from `low` to `high - 1`, unbiased, by multiplication and rejection
//!   (Lemire, "Fast random integer generation in an interval", 2019, arXiv:1805.10941).
//! - *Uniform, bool*: like integers from 0 to 1.
//! - *Normal*: in pairs, by Box and Muller ("A note on the generation of random normal deviates",
//!   1958, doi:10.1214/aoms/1177706645): with `u = ((x >> 11) + 1) · 2⁻⁵³` and
//!   `v = (x' >> 11) · 2⁻⁵³`, first `√(-2 ln u) · cos 2πv`, then `√(-2 ln u) · sin 2πv`. The
//!   logarithm, sine and cosine of the crate `libm` return the same bits on every computer; those
//!   of the system do not. The element is `mean + std · z`.

use millstream_types::DType;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::number::{Element, complex_element, float_element, int_element, read_float};

/// The distribution of random elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Floating-point numbers, uniform from `low` to below `high`.
    Uniform {
        /// The inclusive lower bound.
        low: f64,
        /// The exclusive upper bound, before values are rounded.
        high: f64,
    },
    /// Integers or booleans, uniform.
    Integers {
        /// The inclusive lower bound.
        low: i64,
        /// The exclusive upper bound; at most one more than the dtype's greatest value.
        high: i64,
    },
    /// Normally distributed floating-point numbers.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        std: f64,
    },
}

impl Distribution {
    /// Returns the distribution for inputs that nothing describes: fractions from 0 to 1, so that
    /// they are valid as variances and weights, and integers 0 and 1, so that they are valid as
    /// most indices.
    pub fn inputs(dtype: DType) -> Distribution {
        match dtype.is_inexact() {
            true => Distribution::Uniform { low: 0.0, high: 1.0 },
            false => Distribution::Integers { low: 0, high: 2 },
        }
    }
}

/// An endless sequence of random elements.
pub(crate) struct Elements {
    rng: ChaCha8Rng,
    dtype: DType,
    distribution: Distribution,
    /// The second number of a normal pair, for the next call.
    second: Option<f64>,
}

impl Elements {
    pub(crate) fn new(seed: u64, dtype: DType, distribution: Distribution) -> Elements {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Elements { rng: ChaCha8Rng::from_seed(key), dtype, distribution, second: None }
    }

    /// Draws a number from 0 to below 1 with 53 bits.
    fn unit(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 * (0.5f64).powi(53)
    }

    fn normal(&mut self) -> f64 {
        if let Some(z) = self.second.take() {
            return z;
        }
        let u = ((self.rng.next_u64() >> 11) + 1) as f64 * (0.5f64).powi(53);
        let angle = std::f64::consts::TAU * self.unit();
        let radius = (-2.0 * libm::log(u)).sqrt();
        self.second = Some(radius * libm::sin(angle));
        radius * libm::cos(angle)
    }

    /// Draws an integer from 0 to below `n`; `n` must not be 0.
    fn below(&mut self, n: u64) -> u64 {
        // Rejecting this many of the 2^64 values leaves the same number for each result.
        let rejected = n.wrapping_neg() % n;
        loop {
            let wide = u128::from(self.rng.next_u64()) * u128::from(n);
            if wide as u64 >= rejected {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Draws an element; of a complex one, the real part first.
    pub(crate) fn next_element(&mut self) -> Element {
        if self.dtype.is_complex() {
            let part = self.dtype.part();
            let [re, im] = [self.next_of(part), self.next_of(part)]
                .map(|element| read_float(element.bytes(), part));
            return complex_element(re, im, self.dtype);
        }
        self.next_of(self.dtype)
    }

    fn next_of(&mut self, dtype: DType) -> Element {
        match self.distribution {
            Distribution::Uniform { low, high } => {
                let u = match dtype {
                    DType::F64 => self.unit(),
                    _ => (self.rng.next_u64() >> 40) as f64 * (0.5f64).powi(24),
                };
                float_element(low + u * (high - low), dtype)
            }
            Distribution::Integers { low, high } => {
                // The distance of two i64 fits in u64; the wrapping difference is exact.
                let n = high.wrapping_sub(low) as u64;
                int_element(low.wrapping_add(self.below(n) as i64).into(), dtype)
            }
            Distribution::Normal { mean, std } => float_element(mean + std * self.normal(), dtype),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::read_int;

    fn floats(n: usize, dtype: DType, distribution: Distribution) -> Vec<f64> {
        let mut elements = Elements::new(7, dtype, distribution);
        (0..n).map(|_| read_float(elements.next_element().bytes(), dtype)).collect()
    }

    fn ints(n: usize, dtype: DType, low: i64, high: i64) -> Vec<i128> {
        let mut elements = Elements::new(7, dtype, Distribution::Integers { low, high });
        (0..n).map(|_| read_int(elements.next_element().bytes(), dtype)).collect()
    }

    /// These numbers are part of the format: if this test fails, correct the code, not the
    /// snapshot.
    #[test]
    fn the_numbers_are_stable() {
        let uniform = Distribution::Uniform { low: -1.0, high: 1.0 };
        let normal = Distribution::Normal { mean: 0.0, std: 1.0 };
        insta::assert_debug_snapshot!(
            "random",
            (
                floats(3, DType::F64, uniform),
                floats(3, DType::F32, uniform),
                floats(3, DType::F16, uniform),
                floats(3, DType::BF16, uniform),
                floats(4, DType::F64, normal),
                floats(4, DType::F32, normal),
                ints(8, DType::I64, -100, 100),
                ints(8, DType::I8, -128, 128),
                ints(8, DType::Bool, 0, 2),
            )
        );
    }

    #[test]
    fn distributions_have_the_documented_bounds_and_moments() {
        let u = floats(20_000, DType::F32, Distribution::Uniform { low: 2.0, high: 4.0 });
        assert!(u.iter().all(|x| (2.0..=4.0).contains(x)));
        assert!((u.iter().sum::<f64>() / 20_000.0 - 3.0).abs() < 0.02);
        let z = floats(20_000, DType::F64, Distribution::Normal { mean: 1.0, std: 2.0 });
        let mean = z.iter().sum::<f64>() / 20_000.0;
        let variance = z.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!((mean - 1.0).abs() < 0.06 && (variance - 4.0).abs() < 0.15, "{mean} {variance}");
        let n = ints(6_000, DType::I64, -1, 2);
        for value in -1..2 {
            let share = n.iter().filter(|&&x| x == value).count();
            assert!((1_850..2_150).contains(&share), "{value}: {share}");
        }
        let whole = ints(1_000, DType::I64, i64::MIN, i64::MAX);
        assert!(whole.iter().any(|x| *x < 0) && whole.iter().any(|x| *x > 0));
    }
}
