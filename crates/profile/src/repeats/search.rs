//! The search for repeats in a sequence of tokens.
//!
//! The sequence is read from left to right, and cut into phrases as Lempel and Ziv's compression
//! does: a phrase is the longest run of tokens that has occurred before. A loop is one phrase from
//! its second round on, which overlaps its own source. The source of a phrase is looked up by the
//! 512, 128, 32 and 8 tokens that it begins with, the longest ones first. Runs of few tokens find
//! short rounds, such as a layer of a model; runs of many find the step of a program that holds
//! many equal layers. So the time is proportional to the number of tokens.

use std::collections::HashMap;

/// The lengths of the runs that are looked up, the longest one first.
const LENGTHS: [usize; 4] = [512, 128, 32, 8];

/// The base of the hashes of runs, as polynomials modulo 2^64: an odd number with bits all over.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// A round that occurs several times.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Round {
    /// How many tokens it has.
    pub(super) length: usize,
    /// Where it begins, in ascending order. The rounds do not overlap.
    pub(super) starts: Vec<usize>,
}

impl Round {
    /// Adds a round, unless the last one is not over where it begins.
    fn add(&mut self, start: usize) {
        if self.starts.last().is_none_or(|last| last + self.length <= start) {
            self.starts.push(start);
        }
    }
}

/// A run of tokens that occurs before, at `source`.
struct Phrase {
    at: usize,
    length: usize,
    source: usize,
}

/// Returns the rounds that occur more than once, in the order of their first occurrence as a
/// repetition.
pub(super) fn rounds(tokens: &[u32]) -> Vec<Round> {
    let mut known: HashMap<&[u32], usize> = HashMap::new();
    let mut all: Vec<Round> = Vec::new();
    for Phrase { at, length, source } in phrases(tokens) {
        // A phrase behind its source, or over a part of it, is a loop that begins with the source.
        let is_loop = at - source <= length;
        let region = if is_loop { source } else { at }..at + length;
        let period = period(&tokens[region.clone()]);
        let round = &tokens[region.start..region.start + period];
        let index = *known.entry(round).or_insert(all.len());
        if index == all.len() {
            let starts = if is_loop { Vec::new() } else { vec![source] };
            all.push(Round { length: period, starts });
        }
        let last = region.end - period;
        region.step_by(period).take_while(|start| *start <= last).for_each(|s| all[index].add(s));
    }
    all.retain(|round| round.starts.len() > 1);
    all
}

/// Cuts the tokens into phrases. Tokens that begin no phrase are left out.
fn phrases(tokens: &[u32]) -> Vec<Phrase> {
    // The hash of all tokens before each position.
    let mut hashes = vec![0u64];
    hashes.extend(tokens.iter().scan(0u64, |hash, &token| {
        *hash = hash.wrapping_mul(BASE).wrapping_add(u64::from(token) + 1);
        Some(*hash)
    }));
    let powers = LENGTHS.map(|length| BASE.wrapping_pow(length as u32));
    let hash = |k: usize, at: usize| {
        hashes[at + LENGTHS[k]].wrapping_sub(hashes[at].wrapping_mul(powers[k]))
    };
    let mut k = 0;
    let first = LENGTHS.map(|length| {
        let mut first: HashMap<u64, usize> = HashMap::new();
        for at in 0..(tokens.len() + 1).saturating_sub(length) {
            first.entry(hash(k, at)).or_insert(at);
        }
        k += 1;
        first
    });
    let (mut phrases, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let source =
            (0..LENGTHS.len()).filter(|k| at + LENGTHS[*k] <= tokens.len()).find_map(|k| {
                let source = *first[k].get(&hash(k, at))?;
                (source < at).then_some(source)
            });
        let both = |source: usize| tokens[at..].iter().zip(&tokens[source..]);
        let length = source.map_or(0, |s| both(s).take_while(|(a, b)| a == b).count());
        match source {
            // Equal hashes of other runs are possible, if hardly.
            Some(source) if length >= LENGTHS[LENGTHS.len() - 1] => {
                phrases.push(Phrase { at, length, source });
                at += length;
            }
            _ => at += 1,
        }
    }
    phrases
}

/// Returns the length of the shortest round of which the tokens consist, the last one perhaps in
/// part; that of all tokens if it fits into them only once. The failure function of Knuth, Morris
/// and Pratt.
fn period(tokens: &[u32]) -> usize {
    let mut borders = vec![0usize];
    let mut border = 0;
    for k in 1..tokens.len() {
        while border > 0 && tokens[k] != tokens[border] {
            border = borders[border - 1];
        }
        border += usize::from(tokens[k] == tokens[border]);
        borders.push(border);
    }
    let period = tokens.len() - border;
    if 2 * period <= tokens.len() { period } else { tokens.len() }
}
