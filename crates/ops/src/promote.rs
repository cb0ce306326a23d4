//! The dtype that two tensors are computed in.

use millstream_types::DType;

/// Bool below integers below floats.
fn category(dtype: DType) -> u8 {
    if dtype.is_float() {
        2
    } else if dtype.is_int() {
        1
    } else {
        0
    }
}

/// The dtype that two tensors, each given by dtype and number of dimensions, promote to.
///
/// A tensor of no dimensions counts, beside one that has some, only if it is of a higher category
/// (bool < integers < floats): `i8[3] + i64[]` is i8, `i8[3] + f32[]` is f32.
///
/// Source: <https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc>.
pub fn result_dtype(a: (DType, usize), b: (DType, usize)) -> DType {
    let (full, scalar) = match (a.1 == 0, b.1 == 0) {
        (false, true) => (a.0, b.0),
        (true, false) => (b.0, a.0),
        _ => return a.0.promote(b.0),
    };
    if category(scalar) > category(full) { full.promote(scalar) } else { full }
}

/// Whether values of dtype `from` may be stored in place in a tensor of dtype `to`: floats do not
/// go into integers, and nothing but bool goes into bool. A narrower dtype of the same category is
/// fine.
///
/// Source: the documentation of `torch.can_cast`,
/// <https://docs.pytorch.org/docs/stable/generated/torch.can_cast.html>.
pub fn can_store(from: DType, to: DType) -> bool {
    category(from) <= category(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType::*;

    #[test]
    fn tensors_without_dimensions() {
        for (a, b, expected) in [
            ((I8, 1), (I64, 0), I8),
            ((I64, 0), (I8, 1), I8),
            ((I8, 1), (U8, 0), I8),
            ((I8, 1), (U8, 2), I16),
            ((I8, 0), (U8, 0), I16),
            ((I8, 1), (F32, 0), F32),
            ((I64, 3), (F16, 0), F16),
            ((F16, 1), (F64, 0), F16),
            ((F16, 1), (BF16, 0), F16),
            ((F16, 0), (BF16, 0), F32),
            ((Bool, 1), (I64, 0), I64),
            ((Bool, 1), (Bool, 0), Bool),
            ((F32, 1), (Bool, 0), F32),
        ] {
            assert_eq!(result_dtype(a, b), expected, "{a:?} {b:?}");
            assert_eq!(result_dtype(b, a), expected, "{b:?} {a:?}");
        }
    }

    #[test]
    fn storing() {
        assert!(can_store(F64, F16) && can_store(I64, U8) && can_store(Bool, I8));
        assert!(can_store(I64, F16));
        assert!(!can_store(F16, I64) && !can_store(I8, Bool) && !can_store(F32, Bool));
    }
}
