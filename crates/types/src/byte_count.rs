//! Numbers of bytes with units, as files and command lines state them.

use std::str::FromStr;

use crate::{Error, Result};

/// A number of bytes, parsed from a text with an optional unit: `512MiB`, `2GB`, `1.5G`, `4096`.
///
/// ```
/// # use millstream_types::*;
/// assert_eq!("1.5GiB".parse(), Ok(ByteCount(3 << 29)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(pub u64);

impl FromStr for ByteCount {
    type Err = Error;

    fn from_str(text: &str) -> Result<ByteCount> {
        let refused = |message: String| Error::Invalid { what: "number of bytes", message };
        let wrong = || refused(format!("expected one such as 512MiB, 1.5G or 4096, got '{text}'"));
        let lower = text.trim().to_ascii_lowercase();
        let end = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
        let (digits, unit) = lower.split_at(end);
        let unit = match unit.trim_start() {
            "" | "b" => 1,
            // Without a "B", as tools such as dd, head and docker write it: powers of two.
            "k" | "kib" | "ki" => 1 << 10,
            "m" | "mib" | "mi" => 1 << 20,
            "g" | "gib" | "gi" => 1 << 30,
            "t" | "tib" | "ti" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(wrong()),
        };
        let too_large = || refused(format!("'{text}' does not fit in 64 bits"));
        if let Ok(number) = digits.parse::<u64>() {
            return number.checked_mul(unit).map(ByteCount).ok_or_else(too_large);
        }
        let bytes = digits.parse::<f64>().map_err(|_| wrong())? * unit as f64;
        match bytes < u64::MAX as f64 {
            true if digits.bytes().any(|digit| digit.is_ascii_digit()) => {
                Ok(ByteCount(bytes as u64))
            }
            true => Err(wrong()),
            false => Err(too_large()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (text, bytes) in [
            ("512MiB", 512 << 20),
            ("2 GB", 2_000_000_000),
            ("4096", 4096),
            ("1B", 1),
            ("12M", 12 << 20),
            ("1.5GiB", 3 << 29),
            ("0.5 gb", 500_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(ByteCount(bytes)), "{text}");
        }
        for bad in ["", "MiB", "-1", ".", "1.2.3", "1XB", "99999999999TiB", "1e9", "NaN"] {
            assert!(bad.parse::<ByteCount>().is_err(), "{bad}");
        }
    }
}
