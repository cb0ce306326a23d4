//! The proof that two lists compute the same operations on the same data.
//!
//! A list is read in its order, which every run agrees with on whatever two instructions conflict
//! about: that is what [`check`](crate::check()) has shown. So the content of a storage is a
//! function of the list, and two lists do the same if these are the same in both:
//!
//! 1. *Outputs.* The content of every output external at the end, as an expression of ops over the
//!    first contents of externals.
//! 2. *Side effects.* The callbacks, reads, collectives, launches, sections, global syncs and calls
//!    that write nothing; and the values that each uses.
//! 3. *Order of side effects.* What happens before what in the first list does so in the second.
//!
//! Ops are functions of their operands' values, layouts and arguments; a call of `fused` is the
//! calls of its program. Memory, streams, waits, views, and when tensors begin and end do not
//! enter. Memory that is read before it is written has no value; any two of those are the same.
//!
//! | module | holds |
//! |---|---|
//! | `values` | value numbers |
//! | `reading` | the walk over one list |

mod reading;
mod values;

use std::collections::BTreeSet;
use std::fmt;

use millstream_instructions::InstructionList;
use millstream_instructions::passes::Outputs;
use millstream_instructions::text::Named;
use millstream_types::{Origin, StreamMode};
use rustc_hash::FxHashMap;

use crate::check;
use crate::clock::Clock;
use crate::violation::Site;
use reading::{Reading, SideEffect, read, read_after};
use values::{Side, Value, Values};

/// The first difference between two lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// What differs: an output, a side effect, an order.
    pub what: String,
    /// The first instruction of the first list that the second one lacks or does otherwise.
    pub before: Option<Site>,
    /// That of the second list.
    pub after: Option<Site>,
    /// The place in the program of the instruction of the first list; else of the second.
    pub origin: Origin,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for (name, site) in [("before", &self.before), ("after", &self.after)] {
            match site {
                Some(site) => write!(f, "\n  {name}: {site}")?,
                None => write!(f, "\n  {name}: nothing")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Difference {}

/// Accepts two lists that compute the same operations on the same data, for all that can be
/// observed of them. Both are lists that [`check`](crate::check()) accepts.
///
/// # Errors
/// The first difference.
pub fn same_operations(
    before: &InstructionList,
    after: &InstructionList,
    outputs: &Outputs,
) -> Result<(), Box<Difference>> {
    Comparison { before, after, values: Values::default() }.run(outputs, &FxHashMap::default())
}

/// Accepts two lists, of which one runs once and the other in each launch, that together compute
/// what a list does: `once` has no side effect, and the externals called `results` get the content
/// from it that they have at the end of the list; from these contents on, `rest` does the same
/// operations as the list, with the same externals at its end.
///
/// # Errors
/// The first difference.
pub fn same_when_folded(
    whole: &InstructionList,
    once: &InstructionList,
    rest: &InstructionList,
    results: &BTreeSet<String>,
) -> Result<(), Box<Difference>> {
    let values = Values::default();
    let mut folded = Comparison { before: whole, after: once, values };
    let (_, made) = folded.read_both(&FxHashMap::default())?;
    if let Some(effect) = made.side_effects.first() {
        let what = format!("{} is made once", effect.name);
        return Err(folded.difference(what, None, Some(effect.index)));
    }
    let made = once.externals.iter().zip(made.finals);
    let made: FxHashMap<String, Value> =
        made.map(|(external, value)| (external.name.clone(), value)).collect();
    let made = results.iter().map(|name| {
        let missing = || folded.difference(format!("{name:?} is not made"), None, None);
        Ok((name.clone(), made.get(name).copied().ok_or_else(missing)?))
    });
    let contents = made.collect::<Result<FxHashMap<_, _>, Box<Difference>>>()?;
    let mut launched = Comparison { before: whole, after: rest, values: folded.values };
    launched.run(&Outputs::All, &contents)
}

struct Comparison<'a> {
    before: &'a InstructionList,
    after: &'a InstructionList,
    values: Values,
}

impl Comparison<'_> {
    fn list(&self, side: Side) -> &InstructionList {
        match side {
            Side::Before => self.before,
            Side::After => self.after,
        }
    }

    fn site(&self, side: Side, index: usize) -> Option<Site> {
        let list = self.list(side);
        let instruction = list.instructions.get(index)?;
        Some(Site { index, line: Named(instruction, &list.ops).to_string() })
    }

    fn difference(
        &self,
        what: String,
        before: Option<usize>,
        after: Option<usize>,
    ) -> Box<Difference> {
        let site = |side, index: Option<usize>| self.site(side, index?);
        let origin = |side, index: Option<usize>| {
            let origin = &self.list(side).instructions.get(index?)?.origin;
            (!origin.is_unknown()).then(|| origin.clone())
        };
        let of_before = origin(Side::Before, before);
        Box::new(Difference {
            what,
            before: site(Side::Before, before),
            after: site(Side::After, after),
            origin: of_before.or_else(|| origin(Side::After, after)).unwrap_or_default(),
        })
    }

    /// Returns the difference of two values: the instructions that make the first part of them that
    /// is not made alike.
    fn of_values(&self, what: String, before: Value, after: Value) -> Box<Difference> {
        let [before, after] = self.values.first_difference(before, after);
        self.difference(what, before, after)
    }

    /// Reads both lists, the second one from these contents of externals on.
    fn read_both(
        &mut self,
        contents: &FxHashMap<String, Value>,
    ) -> Result<(Reading, Reading), Box<Difference>> {
        let first = read(self.before, Side::Before, &mut self.values)
            .map_err(|(index, what)| self.difference(what, Some(index), None))?;
        let second = read_after(self.after, Side::After, &mut self.values, contents)
            .map_err(|(index, what)| self.difference(what, None, Some(index)))?;
        Ok((first, second))
    }

    fn run(
        &mut self,
        outputs: &Outputs,
        contents: &FxHashMap<String, Value>,
    ) -> Result<(), Box<Difference>> {
        let of_launch = |list: &InstructionList| (list.scalars.clone(), list.generators.clone());
        if of_launch(self.before) != of_launch(self.after) {
            let what = "the scalars or generators that a launch gives".to_owned();
            return Err(self.difference(what, None, None));
        }
        let (first, second) = self.read_both(contents)?;
        let pairs = self.side_effects(&first, &second)?;
        self.order(&first, &second, &pairs)?;
        self.outputs(&first, &second, outputs)
    }

    /// Compares the side effects. Returns for each side effect of the first list its place in the
    /// second.
    fn side_effects(
        &self,
        first: &Reading,
        second: &Reading,
    ) -> Result<Vec<usize>, Box<Difference>> {
        let by_name: FxHashMap<&str, usize> =
            second.side_effects.iter().enumerate().map(|(k, e)| (e.name.as_str(), k)).collect();
        let mut pairs = Vec::new();
        for effect in &first.side_effects {
            let Some(&pair) = by_name.get(effect.name.as_str()) else {
                let what = format!("{} is gone", effect.name);
                return Err(self.difference(what, Some(effect.index), None));
            };
            let other = &second.side_effects[pair];
            if effect.value != other.value {
                let what = format!("{} is of other values", effect.name);
                return Err(self.of_values(what, effect.value, other.value));
            }
            pairs.push(pair);
        }
        if pairs.len() < second.side_effects.len() {
            let known: Vec<&str> = first.side_effects.iter().map(|e| e.name.as_str()).collect();
            let new = second.side_effects.iter().find(|e| !known.contains(&e.name.as_str()));
            if let Some(SideEffect { name, index, .. }) = new {
                return Err(self.difference(format!("{name} is new"), None, Some(*index)));
            }
        }
        Ok(pairs)
    }

    /// Checks that side effects that were ordered still are.
    fn order(
        &self,
        first: &Reading,
        second: &Reading,
        pairs: &[usize],
    ) -> Result<(), Box<Difference>> {
        if first.side_effects.len() < 2 {
            return Ok(());
        }
        let before = check::clocks(self.before);
        let after = check::clocks(self.after);
        let streams = &self.before.streams;
        let mut earlier: Vec<Vec<usize>> = vec![Vec::new(); streams.len()];
        for (k, effect) in first.side_effects.iter().enumerate() {
            let (Some(knows), Some(now)) =
                (before.get(&effect.index), after.get(&second.side_effects[pairs[k]].index))
            else {
                continue;
            };
            for (decl, earlier) in streams.iter().zip(&earlier) {
                let known =
                    |&&e: &&usize| is_before(self.before, &first.side_effects[e], effect, knows);
                let known = earlier.iter().rev().filter(known);
                // On an in-order stream the last one comes after the others.
                let most = if decl.mode == StreamMode::InOrder { 1 } else { usize::MAX };
                for &e in known.take(most) {
                    let (was, is) =
                        (&second.side_effects[pairs[e]], &second.side_effects[pairs[k]]);
                    if !is_before(self.after, was, is, now) {
                        let what = format!(
                            "{} came after {}, and no longer does",
                            effect.name, first.side_effects[e].name
                        );
                        let after = second.side_effects[pairs[k]].index;
                        return Err(self.difference(what, Some(effect.index), Some(after)));
                    }
                }
            }
            if let Some(stream) = earlier.get_mut(effect.at.stream.index()) {
                stream.push(k);
            }
        }
        Ok(())
    }

    fn outputs(
        &self,
        first: &Reading,
        second: &Reading,
        outputs: &Outputs,
    ) -> Result<(), Box<Difference>> {
        let header = |list: &InstructionList| {
            let one = |e: &millstream_instructions::External| {
                (e.name.clone(), e.spec.clone(), e.bytes, list.arenas.get(e.arena.index()).cloned())
            };
            list.externals.iter().map(one).collect::<Vec<_>>()
        };
        if header(self.before) != header(self.after) {
            return Err(self.difference("the externals differ".to_owned(), None, None));
        }
        for (k, external) in self.before.externals.iter().enumerate() {
            let (a, b) = (first.finals[k], second.finals[k]);
            if outputs.has(&external.name) && a != b {
                let what = format!("external {:?} ends with another content", external.name);
                return Err(self.of_values(what, a, b));
            }
        }
        Ok(())
    }
}

/// Whether one side effect happens before another, which knows this clock and what an in-order
/// stream ran before it.
fn is_before(
    list: &InstructionList,
    first: &SideEffect,
    second: &SideEffect,
    knows: &Clock,
) -> bool {
    let (stream, seq) = (second.at.stream, second.at.seq);
    let decl = list.streams.get(stream.index());
    let in_order = decl.is_some_and(|d| d.mode == StreamMode::InOrder);
    let on_stream = in_order && first.at.stream == stream && first.at.seq < seq;
    first.index < second.index && (on_stream || knows.covers(first.at))
}
