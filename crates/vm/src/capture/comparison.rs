//! Comparisons of runs with different sizes: the numbers that change in proportion to the size.

use std::sync::Arc;

use millstream_types::Origin;

use super::gradients::Found;
use super::note::{Note, Place, Value};
use super::numbers::{CompiledList, Numbers};
use super::replay::Node;
use super::run::Run;

/// A run with a size.
pub(super) struct Sample {
    pub(super) size: usize,
    /// Where its inputs lay.
    pub(super) inputs: Vec<Place>,
    pub(super) run: Run,
    pub(super) node: Arc<Node>,
}

impl Sample {
    /// Returns the executables of its segments, by the number of guards before.
    pub(super) fn executables(&self) -> Vec<Option<CompiledList>> {
        let list = |node: &Node| Some(CompiledList::of(&node.segment.as_ref()?.executable));
        self.node.all().map(list).collect()
    }
}

/// How two runs differ.
pub(super) struct Difference {
    pub(super) what: String,
    pub(super) origin: Origin,
}

impl Difference {
    fn new(what: impl Into<String>) -> Difference {
        Difference { what: what.into(), origin: Origin::Unknown }
    }

    /// Returns the difference of two calls.
    fn of([was, now]: [Option<&Note>; 2], sizes: [usize; 2]) -> Difference {
        let text = |note: Option<&Note>| match note {
            Some(note) => format!("`{}`", note.action),
            None => "no call".to_owned(),
        };
        let (was_text, now_text) = (text(was), text(now));
        let what = match was_text == now_text {
            true => format!("{now_text}, whose elements or results differ otherwise"),
            false => {
                format!("{was_text} with size {}, {now_text} with size {}", sizes[0], sizes[1])
            }
        };
        let origin = now.or(was).map_or(Origin::Unknown, |note| note.origin.clone());
        Difference { what, origin }
    }
}

/// The comparison of two runs.
pub(super) struct Comparison<'a> {
    /// The second run's size less the first one's.
    pub(super) distance: i64,
    pub(super) slopes: Vec<i64>,
    /// The slopes that are expected.
    pub(super) expected: Option<&'a [i64]>,
}

impl Comparison<'_> {
    /// Whether both are one but for numbers that change in proportion. Notes their slopes.
    pub(super) fn fits<T: Numbers>(
        &mut self,
        was: &T,
        now: &T,
        is_equal: impl Fn(&T, &T) -> bool,
    ) -> bool {
        let (Ok(before), Ok(after)) = (was.numbers(), now.numbers()) else { return false };
        let mut given = after.iter().copied();
        let mut replaced = was.clone();
        let same_numbers = replaced.replace(&mut |number| given.next().unwrap_or(number));
        if before.len() != after.len() || same_numbers.is_err() || !is_equal(&replaced, now) {
            return false;
        }
        before.iter().zip(&after).all(|(was, now)| {
            let change = now.wrapping_sub(*was);
            let slope = change / self.distance;
            let expected = self.expected.and_then(|all| all.get(self.slopes.len()).copied());
            self.slopes.push(slope);
            change % self.distance == 0 && expected.is_none_or(|expected| expected == slope)
        })
    }
}

/// Returns the gradients that a run has found, by the number of guards before.
pub(super) fn conditions(run: &Run) -> Vec<&[Found]> {
    run.gradients.iter().map(|found| &found.conditions[..]).collect()
}

/// Returns the first place of each storage among the places of a run. Inputs come first.
fn storages(sample: &Sample) -> Vec<usize> {
    let found = sample.run.gradients.iter().flat_map(|found| &found.places);
    let alive = sample.run.guards.iter().flat_map(|guard| &guard.alive);
    let others = found.chain(alive).map(|(_, place)| place);
    let all: Vec<u64> = sample.inputs.iter().chain(others).map(|place| place.storage).collect();
    all.iter().map(|own| all.iter().position(|other| other == own).unwrap_or(0)).collect()
}

/// Returns by how much the numbers of two runs change where the size grows by one.
///
/// # Errors
/// They have no template in common, or none with the expected slopes.
pub(super) fn slopes(
    was: &Sample,
    now: &Sample,
    expected: Option<&[i64]>,
) -> std::result::Result<Vec<i64>, Difference> {
    let sizes = [was.size, now.size];
    let distance = now.size as i64 - was.size as i64;
    let mut comparison = Comparison { distance, slopes: Vec::new(), expected };
    for (k, (a, b)) in was.inputs.iter().zip(&now.inputs).enumerate() {
        if !comparison.fits(&a.spec, &b.spec, |a, b| a == b) {
            return Err(Difference::new(format!(
                "input {k} is {} with size {}, {} with size {}",
                a.spec, was.size, b.spec, now.size
            )));
        }
    }
    let same_call = |a: &Note, b: &Note| a.action == b.action && a.results == b.results;
    let (a, b) = (&was.run, &now.run);
    for k in 0..a.notes.len().max(b.notes.len()) {
        let notes = [a.notes.get(k), b.notes.get(k)];
        let fits = match notes {
            [Some(a), Some(b)] => comparison.fits(a, b, same_call),
            _ => false,
        };
        if !fits {
            return Err(Difference::of(notes, sizes));
        }
    }
    // Reads are notes, so both runs have the same number of them.
    for (a, b) in a.guards.iter().zip(&b.guards) {
        let read = was.run.notes.get(a.notes);
        let differs = |what: &str| Difference {
            what: format!("{what} at a read"),
            origin: read.map_or(Origin::Unknown, |note| note.origin.clone()),
        };
        if a.bytes != b.bytes {
            return Err(differs("other elements"));
        }
        let is_equal = |a: &Place, b: &Place| {
            (&a.spec, a.bytes, &a.device, a.is_leaf) == (&b.spec, b.bytes, &b.device, b.is_leaf)
        };
        let mut pairs = a.alive.iter().zip(&b.alive);
        let mut fits = |(a, b): (&(Value, Place), &(Value, Place))| {
            a.0 == b.0 && comparison.fits(&a.1, &b.1, is_equal)
        };
        if a.alive.len() != b.alive.len() || !pairs.all(&mut fits) {
            return Err(differs("other tensors that the function holds"));
        }
    }
    let mut outside = a.outside.iter().zip(&b.outside);
    if a.outside.len() != b.outside.len() || !outside.all(|((a, _), (b, _))| a.is_same(b)) {
        return Err(Difference::new("other tensors from elsewhere"));
    }
    if conditions(a) != conditions(b) || a.results != b.results || a.left != b.left {
        return Err(Difference::new("other results or gradients"));
    }
    let draws = |run: &Run| -> Vec<_> { run.generators.iter().map(|d| d.states.len()).collect() };
    let mut generators = a.generators.iter().zip(&b.generators);
    if draws(a) != draws(b) || !generators.all(|(a, b)| a.generator.is_same(&b.generator)) {
        return Err(Difference::new("other draws from generators"));
    }
    if storages(was) != storages(now) {
        return Err(Difference::new("tensors in common memory"));
    }
    Ok(comparison.slopes)
}
