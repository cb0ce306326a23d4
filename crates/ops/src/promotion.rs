//! Type promotion: the common dtype of tensors and scalars.

use millstream_types::{DType, Error, Result};

use crate::args::Scalar;

/// Returns the category: bool < integers < floats < complex numbers.
fn category(dtype: DType) -> u8 {
    if dtype.is_complex() {
        3
    } else if dtype.is_float() {
        2
    } else if dtype.is_int() {
        1
    } else {
        0
    }
}

/// Returns the dtype that two dtypes promote to ([`DType::promote`]).
///
/// # Errors
/// There is none.
pub fn promote(a: DType, b: DType) -> Result<DType> {
    a.promote(b).ok_or_else(|| Error::Invalid {
        what: "dtype",
        message: format!(
            "{a} and {b} have no common dtype: u16, u32 and u64 promote with floats alone; convert \
             one of both first (cast)"
        ),
    })
}

/// Returns the dtype that any number of tensors, each given by dtype and number of dimensions, and
/// scalars promote to.
///
/// Beside a tensor with dimensions, one without counts only if its category is higher (bool <
/// integers < floats < complex numbers): `i8[3] + i64[]` is i8, `i8[3] + f32[]` is f32. Scalars
/// count like tensors without dimensions, at a lower priority; a fractional one counts as f32, a
/// whole one as i64.
///
/// Source: <https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc>.
///
/// # Errors
/// There is no such dtype ([`promote`]).
pub fn common_dtype(
    tensors: impl IntoIterator<Item = (DType, usize)>,
    numbers: impl IntoIterator<Item = Scalar>,
) -> Result<DType> {
    let join = |a: Option<DType>, b: DType| a.map_or(Ok(b), |a| promote(a, b)).map(Some);
    let (mut full, mut single, mut number) = (None, None, None);
    for (dtype, rank) in tensors {
        match rank {
            0 => single = join(single, dtype)?,
            _ => full = join(full, dtype)?,
        }
    }
    for value in numbers {
        let dtype = match value {
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => DType::F32,
            Scalar::Bool(_) => DType::Bool,
        };
        number = join(number, dtype)?;
    }
    let over = |higher: Option<DType>, lower: Option<DType>| match (higher, lower) {
        (Some(h), Some(l)) if category(l) > category(h) => promote(h, l).map(Some),
        (higher, lower) => Ok(higher.or(lower)),
    };
    Ok(over(full, over(single, number)?)?.unwrap_or(DType::Bool))
}

/// Returns the dtype of functions with fractional results: f32 for integers and bool.
pub fn floating(dtype: DType) -> DType {
    if dtype.is_inexact() { dtype } else { DType::F32 }
}

/// Returns whether an in-place op may store values of dtype `from` in a tensor of dtype `to`.
/// Complex numbers do not go into floats, floats do not go into integers, and only bool goes into
/// bool. A narrower dtype of the same category is allowed.
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
            ((C64, 1), (F64, 0), C64),
            ((F64, 1), (C64, 0), C128),
            ((C64, 1), (C128, 0), C64),
            ((U16, 1), (I64, 0), U16),
            ((U64, 1), (F32, 0), F32),
            ((U32, 1), (F16, 1), F16),
            ((U16, 1), (Bool, 0), U16),
        ] {
            assert_eq!(common_dtype([a, b], []), Ok(expected), "{a:?} {b:?}");
            assert_eq!(common_dtype([b, a], []), Ok(expected), "{b:?} {a:?}");
        }
    }

    #[test]
    fn many_tensors_and_numbers() {
        let (int, float) = (Scalar::Int(2), Scalar::Float(2.5));
        assert_eq!(common_dtype([(I8, 1), (F32, 0), (F16, 1)], []), Ok(F16));
        assert_eq!(common_dtype([(I8, 1), (F64, 0)], []), Ok(F64));
        assert_eq!(common_dtype([(I8, 1)], [int]), Ok(I8));
        assert_eq!(common_dtype([(Bool, 1)], [int]), Ok(I64));
        assert_eq!(common_dtype([(I8, 0)], [int, float]), Ok(F32));
        assert_eq!(common_dtype([(BF16, 0)], [float]), Ok(BF16));
        assert_eq!(common_dtype([(U8, 1)], [Scalar::Bool(true)]), Ok(U8));
    }

    #[test]
    fn wide_unsigned_integers_promote_with_floats_alone() {
        for (a, b) in [((U16, 1), (I32, 1)), ((U64, 0), (U8, 0)), ((Bool, 1), (U32, 0))] {
            let error = common_dtype([a, b], []).unwrap_err().to_string();
            assert!(error.contains("have no common dtype"), "{error}");
        }
        assert!(common_dtype([(U16, 1), (C64, 1)], []).is_err());
        let numbers = |number| common_dtype([(U16, 1)], [number]);
        assert_eq!(numbers(Scalar::Int(-1)), Ok(U16));
        assert_eq!(numbers(Scalar::Float(0.5)), Ok(F32));
    }

    #[test]
    fn storing() {
        assert!(can_store(F64, F16) && can_store(I64, U8) && can_store(Bool, I8));
        assert!(can_store(I64, F16));
        assert!(!can_store(F16, I64) && !can_store(I8, Bool) && !can_store(F32, Bool));
    }
}
