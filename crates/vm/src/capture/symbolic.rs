//! Captures for sizes that the function did not run with.
//!
//! A call marks dimensions of its inputs whose size changes from call to call. Runs with different
//! sizes are compared: they have one *template* if they make the same calls, and each length,
//! stride, offset and integer argument is the same or a linear function of the size. Two runs give
//! the functions, and a third confirms them. Then the notes and the compiled lists for another size
//! are those of the first run with other numbers. The lists are checked by the schemas, placed and
//! proven; where they are not alike, the notes are compiled as those of a run are.
//!
//! A function may branch on its size, which no number of runs excludes. So a template holds from
//! the smallest size of a run to the largest, and for the sizes that the program has stated
//! (`Traced::sizes`). A run with a size outside that fits extends the template, and one that does
//! not fit ends it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use millstream_instructions::passes::{Effort, Owners};
use millstream_types::{Error, Origin, Result};

use crate::handle::Tensor;
use crate::handle::machine::Machine;

use super::comparison::{Comparison, Difference, Sample, conditions, slopes};
use super::key::Key;
use super::note::Place;
use super::numbers::{CompiledList, Numbers};
use super::replay::Node;
use super::segment::Segment;

/// The number of runs that confirm a template.
const RUNS: usize = 3;

/// The notes of the runs with any size.
pub(super) struct Template {
    first: Sample,
    /// By how much each number changes where the size grows by one.
    slopes: Vec<i64>,
    /// The lists of its segments, by the number of guards before, where they are alike, too.
    lists: Vec<Option<ListTemplate>>,
}

/// The compiled lists of a segment with any size.
struct ListTemplate {
    node: Arc<Node>,
    first: CompiledList,
    slopes: Vec<i64>,
    owners: Owners,
}

impl ListTemplate {
    /// Returns the templates of the segments of runs.
    fn of_runs(first: &Sample, later: &[Sample]) -> Vec<Option<ListTemplate>> {
        let lists: Vec<_> = later.iter().map(|run| (run.size, run.executables())).collect();
        let nodes = std::iter::successors(Some(&first.node), |node| node.next()).cloned();
        let template = |(number, (node, own)): (usize, (Arc<Node>, Option<CompiledList>))| {
            let own = own?;
            let mut slopes = None;
            for (size, lists) in &lists {
                let distance = *size as i64 - first.size as i64;
                let expected = slopes.as_deref();
                let mut comparison = Comparison { distance, slopes: Vec::new(), expected };
                if !comparison.fits(&own, lists.get(number)?.as_ref()?, |a, b| a == b) {
                    return None;
                }
                slopes = Some(comparison.slopes);
            }
            let executable = &node.segment.as_ref()?.executable;
            let owners = Owners::of(executable.list()).ok()??;
            Some(ListTemplate { node, first: own, slopes: slopes?, owners })
        };
        nodes.zip(first.executables()).enumerate().map(template).collect()
    }

    /// Compiles the segment for a size at this distance from that of the first run. Returns none if
    /// its list is to be made by the calls: a kernel may need more memory than a linear function of
    /// the size says.
    fn segment(&self, distance: i64) -> Option<Segment> {
        let mut resized = self.first.clone();
        resized.replace(&mut resize(&self.slopes, distance)).ok()?;
        if !self.owners.place(&mut resized.list, Effort::Usual) {
            return None;
        }
        let segment = self.node.segment.as_ref()?;
        let executable = segment.executable.resized(resized.list, resized.outputs).ok()?;
        Some(segment.resized(executable))
    }
}

/// Returns the function of numbers for a size at this distance.
fn resize(slopes: &[i64], distance: i64) -> impl FnMut(i64) -> i64 + use<'_> {
    let mut slopes = slopes.iter();
    move |number| {
        let slope = slopes.next().copied().unwrap_or(0);
        number.saturating_add(slope.saturating_mul(distance))
    }
}

/// What is known of the runs with inputs that differ in their marked sizes alone.
struct Candidate {
    /// The key of the calls, without the sizes.
    key: Key,
    /// Sizes whose calls are others: 0 and 1, for which ops and methods take shorter ways.
    own: Vec<usize>,
    progress: Progress,
}

enum Progress {
    /// Runs that are alike so far, each with another size.
    Runs(Vec<Sample>),
    /// The template, and the sizes from the smallest to the largest of a run.
    Confirmed(Arc<Template>, RangeInclusive<usize>),
    /// Each size has a capture of its own.
    Refused,
}

/// The templates of a function, by keys.
#[derive(Default)]
pub(super) struct Templates(Vec<Candidate>);

impl Template {
    /// Makes the capture for a size; none if the inputs lie otherwise than those of the runs.
    ///
    /// # Errors
    /// A call cannot be made with the size, with its place.
    pub(super) fn capture(
        &self,
        machine: &Machine,
        size: usize,
        inputs: &[Tensor],
        places: &[Place],
    ) -> Result<Option<Arc<Node>>> {
        let distance = size as i64 - self.first.size as i64;
        let mut number = resize(&self.slopes, distance);
        let mut own = self.first.inputs.clone();
        for (own, place) in own.iter_mut().zip(places) {
            own.spec.replace(&mut number)?;
            let (was, now) = (&own.spec.layout, &place.spec.layout);
            if was.shape() != now.shape() || was.strides() != now.strides() {
                return Ok(None);
            }
            // The notes name memory of an input by offsets of the first run.
            let size = place.spec.dtype.size() as u64;
            let behind = place.bytes.saturating_sub(now.offset() as u64 * size);
            (own.storage, own.bytes) = (place.storage, was.offset() as u64 * size + behind);
        }
        let mut run = self.first.run.clone();
        run.notes.iter_mut().try_for_each(|note| note.replace(&mut number))?;
        let alive = run.guards.iter_mut().flat_map(|guard| &mut guard.alive);
        alive.map(|(_, place)| place).try_for_each(|place| place.replace(&mut number))?;
        for place in run.places_mut() {
            let input = self.first.inputs.iter().position(|input| input.storage == place.storage);
            place.storage = input.map_or(place.storage, |k| own[k].storage);
        }
        let mut found = places.to_vec();
        if let Some(first) = run.gradients.first()
            && !first.conditions.iter().all(|g| g.find(inputs, &mut found).is_some())
        {
            return Ok(None);
        }
        let known = self.lists.iter().map(|list| list.as_ref()?.segment(distance)).collect();
        Node::of(machine, &run, known, &own).map(Some)
    }
}

/// Returns why sizes have captures of their own.
fn reason(sizes: &str, why: &str, origin: &Origin) -> String {
    let message = format!("{sizes}: {why}");
    Error::Invalid { what: "symbolic size", message }.at(origin).to_string()
}

impl Candidate {
    /// Returns the first run.
    fn first(&self) -> Option<&Sample> {
        match &self.progress {
            Progress::Runs(runs) => runs.first(),
            Progress::Confirmed(template, _) => Some(&template.first),
            Progress::Refused => None,
        }
    }

    /// Gives each size a capture of its own; or the size alone, if it is 0 or 1. Returns why.
    fn refuse(&mut self, size: usize, why: &str, origin: &Origin) -> String {
        if size <= 1 {
            self.own.push(size);
            return reason(&format!("size {size} has a capture of its own"), why, origin);
        }
        self.progress = Progress::Refused;
        reason("each size has a capture of its own", why, origin)
    }

    /// Adds a run. Returns why its size, or each, has a capture of its own from now on, if so.
    fn add(&mut self, sample: Sample) -> Option<String> {
        let size = sample.size;
        if self.own.contains(&size) {
            return None;
        }
        match &mut self.progress {
            Progress::Refused => None,
            Progress::Runs(runs) if runs.iter().any(|known| known.size == size) => None,
            Progress::Runs(runs) => {
                runs.push(sample);
                self.compare()
            }
            Progress::Confirmed(template, _) if template.first.size == size => None,
            Progress::Confirmed(template, sizes) => {
                match slopes(&template.first, &sample, Some(&template.slopes)) {
                    Ok(_) => {
                        *sizes = size.min(*sizes.start())..=size.max(*sizes.end());
                        None
                    }
                    Err(Difference { what, origin }) => Some(self.refuse(size, &what, &origin)),
                }
            }
        }
    }

    /// Compares the runs, and confirms a template once there are enough. Runs with the sizes 0 and
    /// 1 are left out if they differ from others.
    fn compare(&mut self) -> Option<String> {
        let mut reason = None;
        while let Progress::Runs(runs) = &mut self.progress
            && let Some((first, later)) = runs.split_first()
        {
            let mut known = None;
            let differs = later.iter().find_map(|run| match slopes(first, run, known.as_deref()) {
                Ok(slopes) => {
                    known = Some(slopes);
                    None
                }
                Err(difference) => Some((run.size, difference)),
            });
            match (differs, known) {
                (Some((size, Difference { what, origin })), _) => {
                    let small = runs.iter().position(|run| run.size <= 1);
                    let size = small.map_or(size, |at| runs.remove(at).size);
                    reason = Some(self.refuse(size, &what, &origin));
                }
                (None, Some(slopes)) if runs.len() >= RUNS => {
                    let sizes = runs.iter().map(|run| run.size);
                    let sizes = sizes.clone().min()?..=sizes.max()?;
                    let lists = ListTemplate::of_runs(first, later);
                    let template = Template { first: runs.swap_remove(0), slopes, lists };
                    let template = Arc::new(template);
                    self.progress = Progress::Confirmed(template, sizes);
                }
                _ => break,
            }
        }
        reason
    }
}

impl Templates {
    /// Returns the templates of a key that hold for a size. They differ in the gradients that the
    /// runs have found.
    pub(super) fn of(
        &self,
        key: &Key,
        size: usize,
        stated: Option<&RangeInclusive<usize>>,
    ) -> Vec<Arc<Template>> {
        let holds =
            |candidate: &&Candidate| candidate.key == *key && !candidate.own.contains(&size);
        let template = |candidate: &Candidate| match &candidate.progress {
            Progress::Confirmed(template, sizes) => {
                let is_in = sizes.contains(&size) || stated.is_some_and(|s| s.contains(&size));
                is_in.then(|| template.clone())
            }
            Progress::Runs(_) | Progress::Refused => None,
        };
        self.0.iter().filter(holds).filter_map(template).collect()
    }

    /// Adds a run, and keeps as many keys as are allowed. Returns why its size, or each, has a
    /// capture of its own from now on, if so.
    pub(super) fn add(&mut self, key: Key, sample: Sample, most: usize) -> Option<String> {
        let is_alike = |candidate: &Candidate| {
            let finds_same = |first: &Sample| conditions(&first.run) == conditions(&sample.run);
            candidate.key == key && candidate.first().is_none_or(finds_same)
        };
        let at = self.0.iter().position(is_alike);
        let candidate = match at {
            // The one used last stands at the end.
            Some(at) => self.0.remove(at),
            None => Candidate { key, own: Vec::new(), progress: Progress::Runs(Vec::new()) },
        };
        if self.0.len() >= most.max(1) {
            self.0.remove(0);
        }
        self.0.push(candidate);
        self.0.last_mut()?.add(sample)
    }

    /// Gives each size of a template a capture of its own; or the size alone, if it is 0 or 1.
    /// Returns why.
    pub(super) fn refuse(
        &mut self,
        template: &Arc<Template>,
        size: usize,
        error: &Error,
    ) -> Option<String> {
        let is_own = |candidate: &&mut Candidate| match &candidate.progress {
            Progress::Confirmed(own, _) => Arc::ptr_eq(own, template),
            Progress::Runs(_) | Progress::Refused => false,
        };
        let candidate = self.0.iter_mut().find(is_own)?;
        let why = format!("with size {size}: {error}");
        Some(candidate.refuse(size, &why, &Origin::Unknown))
    }
}
