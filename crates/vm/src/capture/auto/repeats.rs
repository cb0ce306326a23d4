//! Repeats in a sequence of tokens, found as the sequence grows.
//!
//! At each token, the last `k` tokens are looked up among all earlier runs of `k` tokens, for
//! several `k`. While the answers lie at a constant distance, the sequence repeats what lies that
//! distance back. Runs of few tokens find short repeats, such as a layer of a model; runs of many
//! find the step of a program that holds many equal layers, as only a whole step back such a run
//! occurs again. A token costs a look-up for each `k`, whatever the length of the sequence, and
//! what is found depends on nothing but the tokens.
//!
//! Tokens between two breaks are compared as a whole, too, with those between any two earlier
//! breaks.

use std::collections::{HashMap, HashSet};

/// The lengths of the runs that are looked up.
const LENGTHS: [usize; 4] = [8, 32, 128, 512];

/// How many tokens are kept.
const HISTORY: usize = 1 << 15;

/// The shortest repeat that is reported: a launch costs as much as a few calls.
pub(super) const SHORTEST: usize = 16;

/// The longest repeat that is reported.
pub(super) const LONGEST: usize = HISTORY / 2;

/// The base of the hashes of runs, as polynomials modulo 2^64: an odd number with bits all over.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The repetition of what lies a constant distance back.
#[derive(Clone, Copy, Default)]
struct Run {
    distance: u64,
    length: u64,
}

/// The runs of one length.
struct Scale {
    length: usize,
    /// `BASE` to the power of `length`.
    power: u64,
    /// The number of tokens up to the end of the newest run with this hash.
    ends: HashMap<u64, u64>,
    run: Run,
}

/// A growing sequence of tokens, in which repeats are found.
pub(super) struct Repeats {
    /// The last tokens, and the hash of all tokens up to each, by number modulo the capacity.
    tokens: Vec<(u64, u64)>,
    /// The number of tokens so far.
    count: u64,
    scales: [Scale; LENGTHS.len()],
    /// The number of the last token before the current stretch: that of the last break.
    last_break: u64,
    /// The hashes of the stretches between breaks so far.
    stretches: HashSet<u64>,
}

impl Repeats {
    pub(super) fn new() -> Repeats {
        let scale = |length: usize| Scale {
            length,
            power: BASE.wrapping_pow(length as u32),
            ends: HashMap::new(),
            run: Run::default(),
        };
        let (tokens, stretches) = (Vec::new(), HashSet::new());
        Repeats { tokens, count: 0, scales: LENGTHS.map(scale), last_break: 0, stretches }
    }

    /// Returns the token of this number, and the hash up to it; the first token has number 1.
    fn at(&self, number: u64) -> (u64, u64) {
        match number {
            0 => (0, 0),
            _ => self.tokens[(number - 1) as usize % HISTORY],
        }
    }

    /// Whether the last `length` tokens repeat those `distance` back.
    fn repeats(&self, distance: u64, length: u64) -> bool {
        let last = (0..length).map(|k| self.count - k);
        distance + length <= self.count.min(HISTORY as u64)
            && last.into_iter().all(|n| self.at(n).0 == self.at(n - distance).0)
    }

    /// Adds a token that occurs once. Returns the stretch before it if it has occurred before, or
    /// else as [`Repeats::push`].
    pub(super) fn push_break(&mut self, token: u64) -> Option<Vec<u64>> {
        let (before, last) = (self.last_break, self.count);
        let length = last - before;
        let whole = (SHORTEST as u64..=LONGEST as u64).contains(&length).then(|| {
            let start = self.at(before).1.wrapping_mul(BASE.wrapping_pow(length as u32));
            self.at(last).1.wrapping_sub(start)
        });
        let is_known = whole.is_some_and(|hash| !self.stretches.insert(hash));
        if self.stretches.len() > HISTORY {
            self.stretches.clear();
        }
        let stretch = is_known.then(|| (before + 1..=last).map(|n| self.at(n).0).collect());
        let ended = self.push(token);
        self.last_break = self.count;
        stretch.or(ended)
    }

    /// Adds a token. Returns the longest repeat that it completes or ends, if there is one that is
    /// long enough.
    pub(super) fn push(&mut self, token: u64) -> Option<Vec<u64>> {
        let hash = self.at(self.count).1.wrapping_mul(BASE).wrapping_add(token);
        match self.tokens.len() {
            HISTORY => self.tokens[self.count as usize % HISTORY] = (token, hash),
            _ => self.tokens.push((token, hash)),
        }
        self.count += 1;
        // The last token of the repeat, and its length.
        let mut found: Option<(u64, u64)> = None;
        for (k, least) in LENGTHS.into_iter().enumerate() {
            let (ended, run) = self.extend(k);
            let ended = ended.filter(|run| run.length < whole(run.distance));
            let ended = ended.map(|run| (self.count - 1, run.length.min(run.distance)));
            // A run begins with the length of its scale, which may be more than a whole repeat.
            let length = whole(run.distance);
            let is_first =
                run.length == length || (run.length == least as u64 && run.length > length);
            let completed = is_first.then_some((self.count, length));
            for repeat in ended.into_iter().chain(completed) {
                let (_, length) = repeat;
                let is_kept = (SHORTEST as u64..=LONGEST as u64).contains(&length);
                if is_kept && found.is_none_or(|(_, longest)| length > longest) {
                    found = Some(repeat);
                }
            }
        }
        if self.count.is_multiple_of(HISTORY as u64) {
            self.forget();
        }
        let (last, length) = found?;
        Some((last - length + 1..=last).map(|number| self.at(number).0).collect())
    }

    /// Extends the run of a scale by the newest token. Returns the run that ended, and the one that
    /// now holds.
    fn extend(&mut self, scale: usize) -> (Option<Run>, Run) {
        let count = self.count;
        let Scale { length, power, run: before, .. } = self.scales[scale];
        let mut now = Run::default();
        if count >= length as u64 {
            let start = self.at(count - length as u64).1;
            let hash = self.at(count).1.wrapping_sub(start.wrapping_mul(power));
            if let Some(end) = self.scales[scale].ends.insert(hash, count) {
                let distance = count - end;
                let longer = Run { distance, length: before.length + 1 };
                now = match before.distance == distance {
                    true if self.repeats(distance, 1) => longer,
                    _ if self.repeats(distance, length as u64) => {
                        Run { distance, length: length as u64 }
                    }
                    _ => now,
                };
            }
        }
        self.scales[scale].run = now;
        let is_same = before.distance == now.distance && before.length < now.length;
        let ended = (!is_same && before.length > 0).then_some(before);
        (ended, now)
    }

    /// Removes what points to tokens that are no longer kept.
    fn forget(&mut self) {
        let oldest = self.count.saturating_sub(HISTORY as u64);
        for scale in &mut self.scales {
            scale.ends.retain(|_, end| *end > oldest + scale.length as u64);
        }
    }
}

/// Returns the tokens of a repeat of this distance: as many whole periods as make it long enough.
fn whole(distance: u64) -> u64 {
    match distance {
        0 => u64::MAX,
        _ => distance * (SHORTEST as u64).div_ceil(distance),
    }
}
