//! Elements of tensors as text.

use millstream_types::DType;

/// Returns the first elements of a tensor as text, at most `most` of them.
pub(crate) fn preview(bytes: &[u8], dtype: DType, most: usize) -> String {
    let size = dtype.size();
    let mut shown: Vec<String> =
        bytes.chunks_exact(size).take(most).map(|b| element(b, dtype)).collect();
    if bytes.len() / size > most {
        shown.push("…".to_owned());
    }
    shown.join(" ")
}

fn element(bytes: &[u8], dtype: DType) -> String {
    macro_rules! read {
        ($ty:ty) => {
            bytes
                .try_into()
                .map(<$ty>::from_ne_bytes)
                .map_or_else(|_| "?".into(), |v| format!("{v:?}"))
        };
    }
    match dtype {
        DType::F32 => read!(f32),
        DType::F64 => read!(f64),
        DType::I64 => read!(i64),
        DType::I32 => read!(i32),
        DType::I16 => read!(i16),
        DType::I8 => read!(i8),
        DType::U8 => read!(u8),
        DType::Bool => (bytes != [0]).to_string(),
        DType::F16 => half(bytes, 5),
        DType::BF16 => half(bytes, 8),
    }
}

/// Returns a 16-bit IEEE 754 number as text: a sign bit, `exponent_bits` of exponent, and the
/// fraction.
fn half(bytes: &[u8], exponent_bits: u32) -> String {
    let Ok(bits) = bytes.try_into().map(u16::from_ne_bytes) else { return "?".to_owned() };
    let fraction_bits = 15 - exponent_bits;
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / f64::from(1u32 << fraction_bits);
    let bias = (1 << (exponent_bits - 1)) - 1;
    let value = match exponent {
        0 => fraction * 2f64.powi(1 - bias),
        e if e == (1 << exponent_bits) - 1 => match fraction == 0.0 {
            true => f64::INFINITY,
            false => f64::NAN,
        },
        e => (1.0 + fraction) * 2f64.powi(e - bias),
    };
    format!("{:?}", sign * value)
}

#[cfg(test)]
mod tests {
    use super::preview;
    use millstream_types::DType;

    #[test]
    fn elements_read_as_they_are() {
        let f16 = [0x3c00u16, 0xc000, 0x7c00, 0x0001, 0x7bff].map(u16::to_ne_bytes).concat();
        assert_eq!(preview(&f16, DType::F16, 9), "1.0 -2.0 inf 5.960464477539063e-8 65504.0");
        let bf16 = [0x3f80u16, 0xff80, 0x4049].map(u16::to_ne_bytes).concat();
        assert_eq!(preview(&bf16, DType::BF16, 9), "1.0 -inf 3.140625");
        assert_eq!(preview(&[0, 1, 1], DType::Bool, 2), "false true …");
        assert_eq!(preview(&[255], DType::I8, 2), "-1");
        assert_eq!(preview(&[], DType::F64, 2), "");
    }
}
