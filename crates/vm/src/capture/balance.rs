//! Whether the replays of a capture pay.
//!
//! Counted, not timed, so that a program makes the same calls in every run. The unit is the
//! program's time for one eager call.

/// The cost of launching a segment, beside the calls in it.
const LAUNCH: i64 = 3;

/// The cost of each output of a segment: a tensor, which an eager call makes within its own time.
const OUTPUT: i64 = 1;

/// The cost of a resumption beside the launches before it: the function repeats their calls, which
/// are compared, and makes the others, which are noted.
const RESUMPTION: i64 = 16;

/// The loss at which a capture is given up, and the most that later losses can use up of earlier
/// gains.
const BOUND: i64 = 256;

/// Returns the gain of one launch of a segment over its calls.
pub(super) const fn of_segment(calls: usize, outputs: usize) -> i64 {
    calls as i64 - LAUNCH - OUTPUT * outputs as i64
}

/// The gain of a capture's replays so far.
#[derive(Debug, Default)]
pub(super) struct Balance {
    gained: i64,
    replays: u64,
    resumptions: u64,
}

impl Balance {
    /// Counts a replay, whose segments have gained this much.
    pub(super) fn count_replay(&mut self, gained: i64) {
        self.replays += 1;
        self.add(gained);
    }

    /// Counts a resumption behind segments with so many calls, which have gained this much.
    pub(super) fn count_resumption(&mut self, gained: i64, calls: usize) {
        self.resumptions += 1;
        self.add(gained - calls as i64 - RESUMPTION);
    }

    fn add(&mut self, gained: i64) {
        self.gained = self.gained.saturating_add(gained).min(BOUND);
    }

    /// Returns why the capture is to be given up, if it is.
    pub(super) fn loss(&self) -> Option<String> {
        let Balance { gained, replays, resumptions } = *self;
        (gained <= -BOUND).then(|| {
            format!(
                "replays do not pay: {replays} replays and {resumptions} resumptions cost \
                 about {} calls more than the calls that they replaced",
                -gained
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of calls after which a capture is given up, if it is within 10,000.
    fn given_up(mut count: impl FnMut(&mut Balance, usize)) -> Option<usize> {
        let mut balance = Balance::default();
        (0..10_000).position(|k| {
            count(&mut balance, k);
            balance.loss().is_some()
        })
    }

    #[test]
    fn long_segments_pay_and_short_ones_do_not() {
        assert_eq!(given_up(|b, _| b.count_replay(of_segment(20, 1))), None);
        assert_eq!(given_up(|b, _| b.count_replay(of_segment(4, 1))), None);
        assert!(given_up(|b, _| b.count_replay(2 * of_segment(1, 1))).is_some());
    }

    #[test]
    fn resumptions_outweigh_replays_that_gain_less() {
        let resumed = |b: &mut Balance| b.count_resumption(of_segment(10, 1), 10);
        assert!(given_up(|b, _| resumed(b)).unwrap() < 20);
        let every = |n: usize, gain: i64| {
            move |b: &mut Balance, k: usize| match k % n {
                0 => b.count_resumption(of_segment(10, 1), 10),
                _ => b.count_replay(gain),
            }
        };
        assert!(given_up(every(10, 1)).is_some());
        assert_eq!(given_up(every(100, 1)), None);
    }

    #[test]
    fn earlier_gains_do_not_pay_for_ever() {
        let mut balance = Balance::default();
        (0..100_000).for_each(|_| balance.count_replay(100));
        (0..40).for_each(|_| balance.count_resumption(0, 10));
        assert!(balance.loss().is_some());
    }
}
