//! A time that was measured several times.

use std::fmt;

use serde::Serialize;

use crate::summary::time;

/// The median of measured times, and their middle half.
///
/// ```
/// use millstream_profile::Spread;
///
/// let spread = Spread::of([1_200, 1_000, 9_000].into_iter()).unwrap();
/// assert_eq!(spread.to_string(), "1.20 us (median of 3, 1.00 us to 9.00 us)");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The median: of two in the middle the lower one.
    pub median: u64,
    /// The lower quartile; of up to four times the lowest.
    pub low: u64,
    /// The upper quartile; of up to four times the highest.
    pub high: u64,
    /// The number of times.
    pub count: usize,
}

impl Spread {
    /// Returns the spread of times in nanoseconds; none if there are none.
    pub fn of(times: impl Iterator<Item = u64>) -> Option<Spread> {
        let mut all: Vec<u64> = times.collect();
        all.sort_unstable();
        let last = all.len().checked_sub(1)?;
        let (low, high) = (all[last / 4], all[last - last / 4]);
        Some(Spread { median: all[last / 2], low, high, count: all.len() })
    }

    /// Returns the spread of a single time.
    pub const fn one(time: u64) -> Spread {
        Spread { median: time, low: time, high: time, count: 1 }
    }

    /// Returns whether a difference may be noise: whether it is within the middle half's width. A
    /// single time has no noise to compare with.
    pub const fn covers(&self, difference: u64) -> bool {
        self.count > 1 && difference <= self.high - self.low
    }

    /// Returns whether the middle halves of two have a time in common: then the difference of their
    /// medians may be noise.
    pub const fn overlaps(&self, other: &Spread) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { median, low, high, count } = *self;
        match count {
            1 => f.write_str(&time(median)),
            _ => {
                let (low, high) = (time(low), time(high));
                write!(f, "{} (median of {count}, {low} to {high})", time(median))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_half_decides_what_is_noise() {
        let of = |times: &[u64]| Spread::of(times.iter().copied()).unwrap();
        let [slow, fast] = [of(&[10, 11, 12, 13, 14, 90]), of(&[6, 7, 8, 9, 9, 100])];
        assert_eq!((slow.median, slow.low, slow.high), (12, 11, 14));
        assert!(!slow.overlaps(&fast), "one slow run changes nothing");
        assert!(slow.overlaps(&of(&[1, 12])));
        assert!(slow.covers(3) && !slow.covers(4) && !of(&[5]).covers(0));
        assert_eq!(Spread::of(std::iter::empty()), None);
        assert_eq!(of(&[5]).to_string(), "5 ns");
    }
}
