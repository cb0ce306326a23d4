//! Values of u16, u32 and u64, which have no element types: words whose low bits are the element.

use millstream_ops::args::Scalar;
use millstream_types::DType;

/// Returns the word that holds an element of u16, u32 or u64, of which it has the low bits.
pub(crate) fn zero_extended(word: i64, dtype: DType) -> u64 {
    word.cast_unsigned() & (u64::MAX >> (64 - 8 * dtype.size()))
}

/// Converts a number to u16, u32 or u64 as `cast` does: towards zero, saturated, NaN to 0.
pub(crate) fn saturated(v: f64, dtype: DType) -> u64 {
    (v as u64).min(zero_extended(-1, dtype))
}

/// Returns a scalar argument as it is converted to a dtype by `dispatch!`: for u16, u32 and u64
/// as an integer whose low bits are those of the element.
pub(crate) fn scalar_for(v: Scalar, dtype: DType) -> Scalar {
    match v {
        Scalar::Float(v) if dtype.is_wide_unsigned() => {
            Scalar::Int(saturated(v, dtype).cast_signed())
        }
        v => v,
    }
}
