//! Elements as plain numbers, rounded to dtypes by plain conversions.

use half::{bf16, f16};
use millstream_types::DType;

/// An element in the reference computation.
#[derive(Clone, Copy, Debug)]
pub enum Num {
    /// An integer or a boolean.
    Int(i128),
    /// A floating-point number.
    Float(f64),
}
use Num::{Float, Int};

impl PartialEq for Num {
    /// NaN equals NaN; zeros of either sign are equal.
    fn eq(&self, other: &Num) -> bool {
        match (*self, *other) {
            (Int(a), Int(b)) => a == b,
            (Float(a), Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            _ => false,
        }
    }
}

/// Returns the value that storing a number in a dtype leaves.
pub fn rounded(v: Num, dtype: DType) -> Num {
    let to_int = |low: i128, high: i128, bits: u32| match v {
        Int(v) => {
            let low_bits = v & ((1 << bits) - 1);
            Int(if low_bits > high { low_bits - (1 << bits) } else { low_bits })
        }
        Float(v) if v.is_nan() => Int(0),
        Float(v) if v <= low as f64 => Int(low),
        Float(v) if v >= high as f64 => Int(high),
        Float(v) => Int(v.trunc() as i128),
    };
    let to_f32 = match v {
        Int(v) => v as f32,
        Float(v) => v as f32,
    };
    match dtype {
        DType::F64 | DType::C128 => match v {
            Int(v) => Float(v as f64),
            Float(v) => Float(v),
        },
        DType::F32 | DType::C64 => Float(f64::from(to_f32)),
        DType::F16 => Float(f16::from_f32(to_f32).to_f64()),
        DType::BF16 => Float(bf16::from_f32(to_f32).to_f64()),
        DType::I64 => to_int(i64::MIN.into(), i64::MAX.into(), 64),
        DType::I32 => to_int(i32::MIN.into(), i32::MAX.into(), 32),
        DType::I16 => to_int(i16::MIN.into(), i16::MAX.into(), 16),
        DType::I8 => to_int(i8::MIN.into(), i8::MAX.into(), 8),
        DType::U8 => to_int(0, 255, 8),
        DType::U16 => to_int(0, u16::MAX.into(), 16),
        DType::U32 => to_int(0, u32::MAX.into(), 32),
        DType::U64 => to_int(0, u64::MAX.into(), 64),
        DType::Bool => match v {
            Int(v) => Int(i128::from(v != 0)),
            Float(v) => Int(i128::from(v != 0.0)),
        },
    }
}

/// Returns values of a dtype, including all special ones.
pub fn samples(dtype: DType) -> Vec<Num> {
    let floats = [
        0.0,
        1.0,
        -1.5,
        f64::NAN,
        2.25,
        f64::INFINITY,
        -0.0,
        300.7,
        -70000.25,
        f64::NEG_INFINITY,
        1e-3,
        65504.0,
        1e30,
    ];
    let ints = [0, 1, -1, 7, i128::from(i64::MAX), i128::from(i64::MIN), 100, -100, 255, 1 << 24];
    match dtype {
        d if d.is_float() => floats.iter().map(|&v| rounded(Float(v), d)).collect(),
        d => ints.iter().map(|&v| rounded(Int(v), d)).collect(),
    }
}
