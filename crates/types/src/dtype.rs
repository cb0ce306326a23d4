//! Element types.

use std::str::FromStr;

use crate::error::{Error, Result};
use crate::nearest::did_you_mean;

/// The type of a tensor's elements.
///
/// ```
/// # use millstream_types::*;
/// assert_eq!("bf16".parse(), Ok(DType::BF16));
/// assert_eq!((DType::BF16.size(), DType::BF16.to_string()), (2, "bf16".to_owned()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// Two's complement, 64 bits.
    I64,
    /// Two's complement, 32 bits.
    I32,
    /// Two's complement, 16 bits.
    I16,
    /// Two's complement, 8 bits.
    I8,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits; see [`DType::is_wide_unsigned`].
    U16,
    /// Unsigned, 32 bits; see [`DType::is_wide_unsigned`].
    U32,
    /// Unsigned, 64 bits; see [`DType::is_wide_unsigned`].
    U64,
    /// One byte, 0 or 1.
    Bool,
    /// A complex number: two binary32, the real part first.
    C64,
    /// A complex number: two binary64, the real part first.
    C128,
}

crate::names! {
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(DType::F32.name(), "f32");
    /// ```
    DType:
    F32 "f32", F64 "f64", F16 "f16", BF16 "bf16", I64 "i64", I32 "i32", I16 "i16", I8 "i8",
    U8 "u8", U16 "u16", U32 "u32", U64 "u64", Bool "bool", C64 "c64", C128 "c128"
}

impl DType {
    /// The dtypes of real numbers that have arithmetic, and bool, in the same order.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(DType::REAL.contains(&DType::Bool) && !DType::REAL.contains(&DType::C64));
    /// assert!(DType::REAL.iter().all(|dtype| !dtype.is_wide_unsigned()));
    /// ```
    pub const REAL: [DType; 10] = [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::BF16,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U8,
        DType::Bool,
    ];

    /// Returns the size of one element in bytes, which is also the alignment of its storage.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!((DType::F16.size(), DType::C128.size()), (2, 16));
    /// ```
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            DType::C128 => 16,
            DType::F64 | DType::I64 | DType::U64 | DType::C64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// Returns whether elements are floating-point numbers.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(DType::BF16.is_float() && !DType::C64.is_float());
    /// ```
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
    }

    /// Returns whether elements are complex numbers.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(DType::C64.is_complex());
    /// ```
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    /// Returns whether elements are rounded: floats and complex numbers.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(DType::F32.is_inexact() && DType::C64.is_inexact() && !DType::I64.is_inexact());
    /// ```
    #[inline]
    pub const fn is_inexact(self) -> bool {
        self.is_float() || self.is_complex()
    }

    /// Returns the dtype of the two parts of a complex number; any other dtype itself.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!((DType::C128.part(), DType::I64.part()), (DType::F64, DType::I64));
    /// ```
    pub const fn part(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// Returns the complex dtype that holds the values of this one without loss of precision beyond
    /// that of c64: c128 for f64 and c128, else c64.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!((DType::F32.complex(), DType::F64.complex()), (DType::C64, DType::C128));
    /// ```
    pub const fn complex(self) -> DType {
        match self {
            DType::F64 | DType::C128 => DType::C128,
            _ => DType::C64,
        }
    }

    /// Returns whether elements are integers; booleans are not integers.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(DType::U8.is_int() && !DType::Bool.is_int());
    /// ```
    #[inline]
    pub const fn is_int(self) -> bool {
        matches!(self, DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8)
            || self.is_wide_unsigned()
    }

    /// Returns whether elements are unsigned integers of more than 8 bits, which have no
    /// arithmetic: they are stored, moved, converted and compared, as in PyTorch.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(DType::U16.is_wide_unsigned() && !DType::U8.is_wide_unsigned());
    /// ```
    #[inline]
    pub const fn is_wide_unsigned(self) -> bool {
        matches!(self, DType::U16 | DType::U32 | DType::U64)
    }

    /// Returns the dtype that holds values of both, as PyTorch promotes two tensors of one or more
    /// dimensions: bool < integers < floats < complex numbers; u8 with a signed integer gives the
    /// next wider signed integer; f16 with bf16 gives f32. u16, u32 and u64 promote with floats
    /// alone; with any other dtype there is none.
    ///
    /// Source: <https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc>.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(DType::U8.promote(DType::I8), Some(DType::I16));
    /// assert_eq!(DType::F16.promote(DType::BF16), Some(DType::F32));
    /// assert_eq!(DType::U16.promote(DType::I32), None);
    /// ```
    pub fn promote(self, other: DType) -> Option<DType> {
        if self == other {
            return Some(self);
        }
        if !self.is_wide_unsigned() && !other.is_wide_unsigned() {
            return Some(self.join(other));
        }
        [self, other].into_iter().find(|dtype| dtype.is_float())
    }

    /// As [`DType::promote`], of two dtypes that are not wide unsigned integers and not equal.
    fn join(self, other: DType) -> DType {
        use DType::*;
        if self.is_complex() || other.is_complex() {
            return match (self.complex(), other.complex()) {
                (C64, C64) => C64,
                _ => C128,
            };
        }
        if self.is_float() || other.is_float() {
            return match (self, other) {
                (F64, _) | (_, F64) => F64,
                (F32, _) | (_, F32) => F32,
                (F16, BF16) | (BF16, F16) => F32,
                (F16, _) | (_, F16) => F16,
                _ => BF16,
            };
        }
        match (self, other) {
            (Bool, x) | (x, Bool) => x,
            (I64, _) | (_, I64) => I64,
            (I32, _) | (_, I32) => I32,
            (I16, _) | (_, I16) => I16,
            // The only remaining pair is i8 with u8.
            _ => I16,
        }
    }
}

impl FromStr for DType {
    type Err = Error;

    fn from_str(text: &str) -> Result<DType> {
        DType::ALL.into_iter().find(|d| d.name() == text).ok_or_else(|| Error::Unknown {
            what: "dtype",
            name: text.to_owned(),
            help: elsewhere(text)
                .map(|dtype| format!("it is called '{dtype}' here"))
                .or_else(|| did_you_mean(text, DType::ALL.map(DType::name)))
                .or_else(|| Some(format!("there are {}", DType::ALL.map(DType::name).join(", ")))),
        })
    }
}

/// Returns the dtype that other libraries call by this name.
fn elsewhere(text: &str) -> Option<DType> {
    let lower = text.to_ascii_lowercase();
    let name = lower.rsplit('.').next().unwrap_or_default();
    Some(match name {
        "float32" | "float" | "single" | "fp32" => DType::F32,
        "float64" | "double" | "fp64" => DType::F64,
        "float16" | "half" | "fp16" => DType::F16,
        "bfloat16" | "bfloat" => DType::BF16,
        "int64" | "long" | "longlong" | "int" => DType::I64,
        "int32" => DType::I32,
        "int16" | "short" => DType::I16,
        "int8" | "char" => DType::I8,
        "uint8" | "byte" | "uchar" => DType::U8,
        "uint16" | "ushort" => DType::U16,
        "uint32" => DType::U32,
        "uint64" => DType::U64,
        "boolean" | "bool_" | "pred" | "i1" => DType::Bool,
        "complex64" | "cfloat" => DType::C64,
        "complex128" | "cdouble" | "complex" => DType::C128,
        _ => return DType::ALL.into_iter().find(|dtype| dtype.name() == name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_and_parse_round_trip() {
        for d in DType::ALL {
            assert_eq!(d.name().parse::<DType>(), Ok(d));
        }
        let err = |name: &str| name.parse::<DType>().unwrap_err().to_string();
        assert_eq!(err("f33"), "unknown dtype 'f33'; did you mean 'f32'?");
        assert!(err("fixed").contains("'fixed'; there are f32, f64, "), "{}", err("fixed"));
    }

    #[test]
    fn names_of_other_libraries_are_translated() {
        for (name, dtype) in [
            ("float32", DType::F32),
            ("torch.bfloat16", DType::BF16),
            ("half", DType::F16),
            ("int64", DType::I64),
            ("Double", DType::F64),
            ("F32", DType::F32),
        ] {
            let err = name.parse::<DType>().unwrap_err().to_string();
            assert_eq!(err, format!("unknown dtype '{name}'; it is called '{dtype}' here"));
        }
    }

    #[test]
    fn promotion_is_commutative_and_idempotent() {
        for a in DType::ALL {
            assert_eq!(a.promote(a), Some(a));
            for b in DType::ALL {
                assert_eq!(a.promote(b), b.promote(a), "{a} {b}");
                let Some(both) = a.promote(b) else {
                    assert!(a.is_wide_unsigned() || b.is_wide_unsigned(), "{a} {b}");
                    assert!(!a.is_float() && !b.is_float(), "{a} {b}");
                    continue;
                };
                assert_eq!(both.promote(a), Some(both), "{a} {b}");
            }
        }
        assert_eq!(DType::I8.promote(DType::U8), Some(DType::I16));
        assert_eq!(DType::F16.promote(DType::I64), Some(DType::F16));
        assert_eq!(DType::F16.promote(DType::BF16), Some(DType::F32));
        assert_eq!(DType::Bool.promote(DType::U8), Some(DType::U8));
        assert_eq!(DType::C64.promote(DType::F64), Some(DType::C128));
        assert_eq!(DType::C64.promote(DType::I64), Some(DType::C64));
        assert_eq!(DType::C64.promote(DType::BF16), Some(DType::C64));
        assert_eq!(DType::U64.promote(DType::BF16), Some(DType::BF16));
        for other in [DType::I64, DType::U8, DType::U32, DType::Bool, DType::C64] {
            assert_eq!(DType::U16.promote(other), None, "{other}");
        }
    }
}
