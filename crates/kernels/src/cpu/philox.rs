//! The random bits of the ops in `millstream_ops::random`: Philox 4x32 with 10 rounds.
//!
//! Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3.

/// The multipliers of a round.
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];

/// What the key grows by after each round.
const STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// Returns the block of this counter.
#[inline(always)]
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut a, mut b, mut c, mut d], [mut k0, mut k1]) = (counter, key);
    for _ in 0..10 {
        let first = u64::from(MULTIPLIERS[0]) * u64::from(a);
        let second = u64::from(MULTIPLIERS[1]) * u64::from(c);
        (a, b, c, d) = (
            (second >> 32) as u32 ^ b ^ k0,
            second as u32,
            (first >> 32) as u32 ^ d ^ k1,
            first as u32,
        );
        (k0, k1) = (k0.wrapping_add(STEPS[0]), k1.wrapping_add(STEPS[1]));
    }
    [a, b, c, d]
}

/// The random bits of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct RandomBits {
    pub(super) seed: u64,
    pub(super) offset: u64,
}

impl RandomBits {
    /// Returns the four words of a block.
    #[inline(always)]
    pub(super) fn words(self, block: u64) -> [u32; 4] {
        let halves = |v: u64| [v as u32, (v >> 32) as u32];
        let ([a, b], [c, d]) = (halves(block), halves(self.offset));
        philox([a, b, c, d], halves(self.seed))
    }
}

/// Returns both long words of a block.
#[inline(always)]
pub(super) fn long_words([a, b, c, d]: [u32; 4]) -> [u64; 2] {
    [u64::from(a) | u64::from(b) << 32, u64::from(c) | u64::from(d) << 32]
}

/// Returns a number from 0 up to 1, of 2⁵³ steps.
#[inline(always)]
pub(super) fn fraction(x: u64) -> f64 {
    (x >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of the authors' library, Random123 (kat_vectors, philox4x32 10).
    #[test]
    fn blocks_are_the_published_ones() {
        let all = u32::MAX;
        for (counter, key, expected) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([all; 4], [all; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox(counter, key), expected, "{counter:x?} {key:x?}");
        }
    }

    #[test]
    fn the_offset_is_the_high_half_of_the_counter() {
        let bits = RandomBits { seed: 0x299f_31d0_a409_3822, offset: 0x0370_7344_1319_8a2e };
        assert_eq!(bits.words(0x85a3_08d3_243f_6a88)[0], 0xd16c_fe09);
    }
}
