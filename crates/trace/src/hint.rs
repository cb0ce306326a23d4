//! Elements that a program's hints define, so that large inputs need no file, and probes of the
//! outputs that such inputs lead to.
//!
//! # Numbers
//! For the input `NAME`, element `i` in row-major order, modulo 2⁶⁴:
//!
//! - the seed is the 64-bit FNV-1a hash of `NAME` (Fowler, Noll and Vo,
//!   <http://www.isthe.com/chongo/tech/comp/fnv>);
//! - `z` is output `i` of SplitMix64 from that seed (Steele, Lea and Flood, "Fast splittable
//!   pseudorandom number generators", 2014, doi:10.1145/2660193.2660195);
//! - `u = (z >> 40) · 2⁻²⁴`.
//!
//! | distribution | element |
//! |---|---|
//! | normal | `mean + std · √3 · (2u - 1)`: uniform, with this mean and deviation |
//! | uniform | `low + (high - low) · u` |
//! | integers | `low + (z >> 33) mod (high - low)` |
//!
//! Fractions are computed in f64 and rounded to f32, then to the dtype.

use millstream_types::{DType, TensorSpec};
use serde::Deserialize;

use crate::compare::{Comparison, Mismatch};
use crate::number::{Element, float_element, int_element, read_complex, read_float, read_int};
use crate::random::Distribution;

/// The deviation of a uniform number from -1 to 1 is the inverse of this, in the written digits.
const ROOT_OF_THREE: f64 = 1.7320508075688772;

/// The elements of an input that a hint defines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hint {
    seed: u64,
    distribution: Distribution,
}

impl Hint {
    /// Returns the hint for the input of this name.
    pub(crate) fn new(name: &str, distribution: Distribution) -> Hint {
        let hash = |h: u64, byte| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Hint { seed: name.bytes().fold(0xcbf2_9ce4_8422_2325, hash), distribution }
    }

    /// Returns whether the distribution is one of numbers of this dtype.
    pub(crate) fn fits(self, dtype: DType) -> bool {
        let is_integers = matches!(self.distribution, Distribution::Integers { .. });
        !dtype.is_complex() && is_integers != dtype.is_float()
    }

    /// Returns the elements in row-major order, without end.
    pub(crate) fn elements(self, dtype: DType) -> impl Iterator<Item = Element> {
        let Hint { seed, distribution } = self;
        (1u64..).map(move |i| element(seed, i, distribution, dtype))
    }
}

fn element(seed: u64, i: u64, distribution: Distribution, dtype: DType) -> Element {
    let z = seed.wrapping_add(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let z = z ^ (z >> 31);
    let u = (z >> 40) as f64 * (0.5f64).powi(24);
    let float = |value: f64| float_element((value as f32).into(), dtype);
    match distribution {
        Distribution::Normal { mean, std } => float(mean + std * ROOT_OF_THREE * (2.0 * u - 1.0)),
        Distribution::Uniform { low, high } => float(low + (high - low) * u),
        Distribution::Integers { low, high } => {
            let n = (high.wrapping_sub(low) as u64).max(1);
            int_element(low.wrapping_add(((z >> 33) % n) as i64).into(), dtype)
        }
    }
}

/// Facts about an output, where its elements are too many to be kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Probe {
    /// The mean of the elements.
    pub mean: f64,
    /// The square root of the mean of their squares.
    pub rms: f64,
    /// The greatest magnitude.
    pub max_abs: f64,
    /// The indices of some elements in row-major order, with their values.
    #[serde(default)]
    pub samples: Vec<(usize, f64)>,
}

impl Probe {
    /// Compares dense elements with the facts.
    pub(crate) fn compare(
        &self,
        actual: &[u8],
        spec: &TensorSpec,
        mut done: Comparison,
    ) -> Comparison {
        let (dtype, size) = (spec.dtype, spec.dtype.size());
        let value = |bytes: &[u8]| match dtype {
            _ if dtype.is_complex() => {
                let (re, im) = read_complex(bytes, dtype);
                re.hypot(im)
            }
            _ if dtype.is_float() => read_float(bytes, dtype),
            _ => read_int(bytes, dtype) as f64,
        };
        let (mut sum, mut squares, mut max) = (0.0, 0.0, 0.0f64);
        for element in actual.chunks_exact(size.max(1)) {
            let value = value(element);
            sum += value;
            squares += value * value;
            // A NaN stays: `f64::max` would drop it.
            max = if value.abs() > max || value.is_nan() { value.abs() } else { max };
        }
        let count = spec.numel().max(1) as f64;
        let facts = [
            ("their mean", sum / count, self.mean),
            ("their root mean square", (squares / count).sqrt(), self.rms),
            ("their greatest magnitude", max, self.max_abs),
        ];
        for (what, actual, expected) in facts {
            if !done.note(actual, expected) {
                let (actual, expected) = (format!("{actual:?}"), format!("{expected:?}"));
                done.first.get_or_insert(Mismatch::Fact { what, actual, expected });
            }
        }
        for &(index, expected) in &self.samples {
            let actual = actual.get(index * size..(index + 1) * size).map_or(f64::NAN, value);
            if !done.note(actual, expected) {
                let index = crate::element_iter::unravel_index(index, spec.shape());
                let (actual, expected) = (format!("{actual:?}"), format!("{expected:?}"));
                done.first.get_or_insert(Mismatch::Element { index, actual, expected });
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These numbers are part of the format: they were computed by another implementation.
    #[test]
    fn the_numbers_are_stable() {
        let floats = |name: &str, distribution| -> Vec<f64> {
            let elements = Hint::new(name, distribution).elements(DType::F32);
            elements.take(3).map(|e| read_float(e.bytes(), DType::F32)).collect()
        };
        let normal = Distribution::Normal { mean: 0.5, std: 2.0 };
        let uniform = Distribution::Uniform { low: 0.8, high: 1.2 };
        assert_eq!(
            floats("x", normal),
            [-1.5700900554656982, 2.63753604888916, 1.4929749965667725]
        );
        assert_eq!(
            floats("p.ln1.weight", uniform),
            [0.9801044464111328, 1.0569376945495605, 0.9424625039100647]
        );
        let integers = Hint::new("y", Distribution::Integers { low: 0, high: 1024 });
        let integers: Vec<i128> = integers
            .elements(DType::I64)
            .take(3)
            .map(|e| read_int(e.bytes(), DType::I64))
            .collect();
        assert_eq!(integers, [119, 469, 230]);
    }
}
