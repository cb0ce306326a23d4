//! Conversions between f16 and f32 without branches and calls, so that loops are vectorised on
//! processors without such instructions too. The bits are those of the crate `half`.

use half::f16;

/// Converts to f32, exactly. A NaN becomes quiet.
#[inline(always)]
pub(crate) fn widen(v: f16) -> f32 {
    let bits = u32::from(v.to_bits());
    let sign = (bits & 0x8000) << 16;
    // The bits in the places of f32, with an exponent that is 112 too low. The product is exact,
    // also of a subnormal number.
    let value = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((112 + 127) << 23);
    let special = bits & 0x7c00 == 0x7c00;
    let quiet = if bits & 0x03ff == 0 { 0 } else { 0x0040_0000 };
    let value = if special { value.to_bits() | 0x7f80_0000 | quiet } else { value.to_bits() };
    f32::from_bits(sign | value)
}

/// Rounds to the nearest f16, ties to even. A NaN becomes quiet and keeps its upper bits.
#[inline(always)]
pub(crate) fn narrow(v: f32) -> f16 {
    let bits = v.to_bits();
    let sign = bits >> 16 & 0x8000;
    let size = bits & 0x7fff_ffff;
    // Normal: adds just under half of the last place, and one more if the last bit is odd.
    let normal = size.wrapping_add(0xfff + (size >> 13 & 1)).wrapping_sub(112 << 23) >> 13;
    // Subnormal: the last bit of the sum has the value of the least f16.
    let subnormal = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let nan = 0x7e00 | size >> 13 & 0x03ff;
    let result = if size < 113 << 23 { subnormal } else { normal };
    // From 65520 on; greater numbers round to infinity.
    let result = if size >= 0x477f_f000 { 0x7c00 } else { result };
    let result = if size > 0x7f80_0000 { nan } else { result };
    f16::from_bits((sign | result) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_is_widened_as_by_half() {
        for bits in 0..=u16::MAX {
            let v = f16::from_bits(bits);
            assert_eq!(widen(v).to_bits(), v.to_f32().to_bits(), "{bits:#x}");
        }
    }

    #[test]
    fn numbers_are_rounded_as_by_half() {
        let patterns = (0..=u32::MAX).step_by(251);
        // Every f16, the ties between neighbours, and the numbers beside them.
        let near = (0..=u16::MAX).flat_map(|bits| {
            let bits = f16::from_bits(bits).to_f32().to_bits();
            [0x1000, 0, 0x0fff, 0x1001, 1].map(|add| bits.wrapping_add(add))
        });
        for bits in patterns.chain(near) {
            let v = f32::from_bits(bits);
            assert_eq!(narrow(v).to_bits(), f16::from_f32(v).to_bits(), "{bits:#x}");
        }
    }
}
