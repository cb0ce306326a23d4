//! Converts numbers of a file to elements of a dtype, and elements to numbers.

use half::{bf16, f16};
use millstream_types::DType;

/// A number as written in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// `true` or `false`.
    Bool(bool),
    /// An integer: a number without a decimal point and exponent.
    Int(i128),
    /// Any other number.
    Float(f64),
}

/// The bytes of one element, in native byte order.
#[derive(Clone, Copy)]
pub(crate) struct Element {
    bytes: [u8; 16],
    len: usize,
}

impl Element {
    pub(crate) fn new(bytes: &[u8]) -> Element {
        let mut padded = [0; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        Element { bytes: padded, len: bytes.len() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Converts the parts of a complex number to an element.
pub(crate) fn complex_element(re: f64, im: f64, dtype: DType) -> Element {
    let parts = [re, im].map(|part| float_element(part, dtype.part()));
    Element::new(&[parts[0].bytes(), parts[1].bytes()].concat())
}

/// Converts an element of a complex dtype to its parts.
pub(crate) fn read_complex(bytes: &[u8], dtype: DType) -> (f64, f64) {
    let (re, im) = bytes.split_at(bytes.len() / 2);
    (read_float(re, dtype.part()), read_float(im, dtype.part()))
}

/// Converts a floating-point number to an element; of a complex dtype, one without imaginary part.
/// Values for f16 and bf16 are rounded to f32
/// first, as PyTorch does; every rounding is to nearest, ties to even.
pub(crate) fn float_element(value: f64, dtype: DType) -> Element {
    match dtype {
        DType::C64 | DType::C128 => complex_element(value, 0.0, dtype),
        DType::F64 => Element::new(&value.to_ne_bytes()),
        DType::F16 => Element::new(&f16::from_f32(value as f32).to_ne_bytes()),
        DType::BF16 => Element::new(&bf16::from_f32(value as f32).to_ne_bytes()),
        _ => Element::new(&(value as f32).to_ne_bytes()),
    }
}

/// Returns the least and the greatest value of an integer dtype or of bool.
pub(crate) const fn int_range(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.size();
    match dtype {
        DType::Bool => (0, 1),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => (0, (1 << bits) - 1),
        _ => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// Converts an integer within the dtype's range to an element.
pub(crate) fn int_element(value: i128, dtype: DType) -> Element {
    match dtype.size() {
        8 => Element::new(&(value as i64).to_ne_bytes()),
        4 => Element::new(&(value as i32).to_ne_bytes()),
        2 => Element::new(&(value as i16).to_ne_bytes()),
        _ => Element::new(&[value as u8]),
    }
}

impl Number {
    /// Converts the number to an element of this dtype.
    pub(crate) fn element(self, dtype: DType) -> Result<Element, String> {
        if dtype.is_inexact() {
            let value = match self {
                Number::Int(n) => n as f64,
                Number::Float(x) => x,
                Number::Bool(_) => {
                    return Err(format!("expected a number for {dtype}, got {self}"));
                }
            };
            let element = float_element(value, dtype);
            let part = &element.bytes()[..dtype.part().size()];
            return match read_float(part, dtype.part()).is_infinite() && value.is_finite() {
                true => Err(format!("{self} is out of range for {dtype}")),
                false => Ok(element),
            };
        }
        let (low, high) = int_range(dtype);
        match self {
            Number::Int(n) if (low..=high).contains(&n) => Ok(int_element(n, dtype)),
            Number::Bool(b) if dtype == DType::Bool => Ok(int_element(i128::from(b), dtype)),
            _ if dtype == DType::Bool => Err(format!("expected true or false, got {self}")),
            _ => Err(format!("expected an integer from {low} to {high} for {dtype}, got {self}")),
        }
    }

    /// Parses the names of the floating-point numbers that JSON cannot write.
    pub(crate) fn parse_word(word: &str) -> Option<Number> {
        match word {
            "inf" => Some(Number::Float(f64::INFINITY)),
            "-inf" => Some(Number::Float(f64::NEG_INFINITY)),
            "nan" => Some(Number::Float(f64::NAN)),
            _ => None,
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Bool(b) => write!(f, "{b}"),
            Number::Int(n) => write!(f, "{n}"),
            Number::Float(x) => write!(f, "{x:?}"),
        }
    }
}

/// Converts an element of a floating-point dtype to a number.
pub(crate) fn read_float(bytes: &[u8], dtype: DType) -> f64 {
    match (dtype, bytes) {
        (DType::F64, &[a, b, c, d, e, f, g, h]) => f64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        (DType::F16, &[a, b]) => f16::from_ne_bytes([a, b]).to_f64(),
        (DType::BF16, &[a, b]) => bf16::from_ne_bytes([a, b]).to_f64(),
        (_, &[a, b, c, d]) => f64::from(f32::from_ne_bytes([a, b, c, d])),
        _ => f64::NAN,
    }
}

/// Converts an element of an integer dtype or of bool to a number.
pub(crate) fn read_int(bytes: &[u8], dtype: DType) -> i128 {
    let signed = i128::from(match *bytes {
        [a] => i64::from(i8::from_ne_bytes([a])),
        [a, b] => i64::from(i16::from_ne_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_ne_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => i64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    });
    match dtype {
        DType::I64 | DType::I32 | DType::I16 | DType::I8 => signed,
        _ => signed.rem_euclid(1 << (8 * dtype.size())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        for (number, dtype, fits) in [
            (Number::Int(255), DType::U8, true),
            (Number::Int(256), DType::U8, false),
            (Number::Int(-1), DType::U8, false),
            (Number::Int(-128), DType::I8, true),
            (Number::Int(i128::from(i64::MAX) + 1), DType::I64, false),
            (Number::Int(i128::from(i64::MIN)), DType::I64, true),
            (Number::Int(i128::from(u64::MAX)), DType::U64, true),
            (Number::Int(i128::from(u64::MAX) + 1), DType::U64, false),
            (Number::Int(-1), DType::U16, false),
            (Number::Float(1.0), DType::I32, false),
            (Number::Float(65504.0), DType::F16, true),
            (Number::Float(65520.0), DType::F16, false),
            (Number::Float(1e39), DType::F32, false),
            (Number::Float(f64::INFINITY), DType::F16, true),
            (Number::Int(1), DType::Bool, true),
            (Number::Int(2), DType::Bool, false),
            (Number::Bool(true), DType::F32, false),
        ] {
            assert_eq!(number.element(dtype).is_ok(), fits, "{number} as {dtype}");
        }
    }

    #[test]
    fn elements_read_back() {
        for dtype in DType::ALL {
            let element = Number::Int(1).element(dtype).unwrap();
            assert_eq!(element.bytes().len(), dtype.size());
            let back = match dtype.is_inexact() {
                true => read_float(&element.bytes()[..dtype.part().size()], dtype.part()),
                false => read_int(element.bytes(), dtype) as f64,
            };
            assert_eq!(back, 1.0, "{dtype}");
        }
        assert_eq!(read_int(Number::Int(-2).element(DType::I8).unwrap().bytes(), DType::I8), -2);
        assert_eq!(read_int(Number::Int(200).element(DType::U8).unwrap().bytes(), DType::U8), 200);
        let most = Number::Int(i128::from(u64::MAX)).element(DType::U64).unwrap();
        assert_eq!(read_int(most.bytes(), DType::U64), i128::from(u64::MAX));
    }
}
