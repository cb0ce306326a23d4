//! Whether a timeline is proven, races, or is undecided.
//!
//! The order of a timeline of another program is partly unknown. Two uses that are unordered even
//! in the possible order of the [`list`](crate::list) are a *race*. If no two uses are unordered in
//! the certain order, and everything that touches memory is known, the timeline is *proven*.
//! Otherwise it is *undecided*.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use millstream_profile::model::NONE;
use millstream_profile::summary::plural;
use millstream_types::{Access, Point, TensorId};
use millstream_verify::{MOST_VIOLATIONS, Verdict as Verified, Violation, verify_beside_threads};

use crate::facts::{Fact, FactKind, Until};
use crate::list::{Knowledge, REUSE, TimelineList, list};
use crate::memory::is_placed;
use crate::{Timeline, Unknown};

/// The result for a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Everything is known, and ordered.
    Proven,
    /// Two uses are unordered, whatever is not known.
    Race,
    /// It depends on what is not known.
    Undecided,
}

/// A use of memory by an instruction of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Side {
    /// The instruction: work of a stream, or an op or call of a thread.
    pub instruction: u32,
    /// The access.
    pub access: Access,
    /// Whether a thread of the host makes it.
    pub by_host: bool,
}

/// Two uses of the same bytes that nothing orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The use that was submitted later.
    pub later: Side,
    /// The use that was submitted earlier.
    pub earlier: Side,
    /// The tensor of the later use, by its position in the profile.
    pub tensor: u32,
    /// The tensor of the earlier use, if its memory was freed and given out again.
    pub freed: Option<u32>,
    /// The bytes of the storage that both use.
    pub bytes: Range<u64>,
    /// The last instruction of the earlier use's stream that the later use comes after.
    pub known: Option<u32>,
    /// The calls that may order the two: waits that name no event or stream. Empty for a race, and
    /// where only the order between threads is not known.
    pub depends: Vec<u32>,
}

/// The verdict on a timeline.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The result.
    pub status: Status,
    /// The pairs of uses that race.
    pub races: Vec<Conflict>,
    /// The pairs of uses whose order depends on what is not known.
    pub undecided: Vec<Conflict>,
    /// What is not known.
    pub unknown: Unknown,
    /// The list of the certain order, and what the verifier says of it.
    pub certain: TimelineList,
    /// Its pairs and waits.
    pub verified: Verified,
}

/// Decides a timeline whose tensors are known.
///
/// # Errors
/// No kernel of the timeline has tensors, or it has more streams or tensors than a list.
pub fn verdict(timeline: &Timeline) -> Result<Verdict, String> {
    let deciding = Deciding::of(timeline);
    let certain = list(timeline, Knowledge::Certain)?;
    let verified = verify_beside_threads(&certain.list, certain.threads);
    let open = deciding.conflicts(&certain, &verified, true);
    let (mut races, mut undecided) = (Vec::new(), open);
    let mut unknown = timeline.facts.unknown.clone();
    unknown.reuse = unknown.reuse && may_be_reused(timeline)?;
    if !undecided.is_empty() {
        let possible = list(timeline, Knowledge::Possible)?;
        let verified = verify_beside_threads(&possible.list, possible.threads);
        // The tensors may be those of another iteration; a wait may be among what was not read.
        let is_doubtful = unknown.is_ambiguous || unknown.skipped > 0;
        let found = deciding.conflicts(&possible, &verified, is_doubtful);
        match is_doubtful {
            true => undecided = found,
            false => races = found,
        }
        let same = |a: &Conflict, b: &Conflict| {
            (a.later, a.earlier, a.tensor) == (b.later, b.earlier, b.tensor)
        };
        undecided.retain(|pair| !races.iter().any(|race| same(race, pair)));
    }
    let status = match (races.is_empty(), undecided.is_empty() && unknown.is_nothing()) {
        (false, _) => Status::Race,
        (true, true) => Status::Proven,
        (true, false) => Status::Undecided,
    };
    Ok(Verdict { status, races, undecided, unknown, certain, verified })
}

/// Returns whether work may have been given memory that earlier work still used: memory of another
/// stream that is not used any more, and whose last use is not known to be over.
fn may_be_reused(timeline: &Timeline) -> Result<bool, String> {
    let TimelineList { list, threads, .. } = list(timeline, Knowledge::Reuse)?;
    let found = verify_beside_threads(&list, threads).violations;
    let is_reuse = |violation: &Violation| {
        let Violation::Race { later, .. } = violation else { return false };
        let op = list.instructions[later.site.index].body.op();
        op.is_some_and(|op| list.ops.name(op) == REUSE)
    };
    Ok(found.len() >= MOST_VIOLATIONS || found.iter().any(is_reuse))
}

impl Verdict {
    /// Returns the verdict in one line: the result, and what it rests on or what is missing.
    pub fn line(&self) -> String {
        let TimelineList { list, positions, threads } = &self.certain;
        let uses = positions.iter().filter(|position| position.is_some()).count();
        let streams = list.streams.len().saturating_sub(*threads);
        let size = [
            plural(uses as u64, "instruction"),
            plural(streams as u64, "stream"),
            plural(self.verified.pairs, "pair"),
        ];
        let size = size.join(", ");
        let mut parts = Vec::new();
        match self.undecided.len() as u64 {
            0 => {}
            n => {
                let waits: HashSet<u32> =
                    self.undecided.iter().flat_map(|pair| pair.depends.iter().copied()).collect();
                let on = match waits.len() as u64 {
                    0 => "the order of threads".to_owned(),
                    n => format!("{} whose event or stream is not known", plural(n, "wait")),
                };
                let depend = if n == 1 { "depends" } else { "depend" };
                parts.push(format!("{} {depend} on {on}", plural(n, "pair")));
            }
        }
        parts.extend(self.unknown.parts());
        match self.status {
            Status::Proven => format!("proven: {size}"),
            Status::Race => {
                parts.insert(
                    0,
                    match self.races.len() {
                        1 => "1 pair of uses has no order".to_owned(),
                        n => format!("{n} pairs of uses have no order"),
                    },
                );
                format!("race: {}; {size}", parts.join("; "))
            }
            Status::Undecided => format!("undecided: {}; {size}", parts.join("; ")),
        }
    }
}

/// The facts of a timeline by the instructions that stand for them.
struct Deciding<'a> {
    timeline: &'a Timeline,
    facts: HashMap<u32, &'a Fact>,
    /// The waits whose event, stream or effect is not known.
    vague: Vec<&'a Fact>,
}

impl Deciding<'_> {
    fn of(timeline: &Timeline) -> Deciding<'_> {
        let all = &timeline.facts.all;
        let named: HashSet<u64> = all
            .iter()
            .filter_map(|fact| match fact.kind {
                FactKind::Record { call, stream: Some(_) } => Some(call),
                _ => None,
            })
            .collect();
        let is_known = |until: &Until| match until {
            Until::Record(call) => named.contains(call),
            Until::SomeRecord => false,
            Until::Work(_) | Until::Stream(_) => true,
            Until::Streams { is_certain, .. } => *is_certain,
        };
        let is_vague = |fact: &&Fact| match &fact.kind {
            FactKind::StreamWait { stream, until } => stream.is_none() || !is_known(until),
            FactKind::HostWait { until, is_certain } => !is_certain || !is_known(until),
            FactKind::Use(_) | FactKind::Work { .. } | FactKind::Record { .. } => false,
        };
        let vague = all.iter().filter(is_vague).collect();
        let uses = all.iter().filter(|fact| {
            matches!(fact.kind, FactKind::Use(_) | FactKind::Work { .. })
                && fact.instruction != NONE
        });
        Deciding { timeline, facts: uses.map(|fact| (fact.instruction, fact)).collect(), vague }
    }

    /// Returns the conflicts that the verifier found in a list.
    fn conflicts(&self, of: &TimelineList, found: &Verified, depends: bool) -> Vec<Conflict> {
        let conflict = |violation| self.conflict(of, violation, depends);
        found.violations.iter().filter_map(conflict).collect()
    }

    fn conflict(
        &self,
        of: &TimelineList,
        violation: &Violation,
        depends: bool,
    ) -> Option<Conflict> {
        let Violation::Race { bytes, later, earlier, missing, .. } = violation else { return None };
        let side = |used: &millstream_verify::violation::UseSite| {
            let index = used.site.index;
            let at = of.list.instructions[index].body.at()?;
            Some(Side {
                instruction: (*of.positions.get(index)?)?,
                access: used.access.unwrap_or(Access::Write),
                by_host: at.stream.index() < of.threads,
            })
        };
        let point = Point::new(missing.point.stream, missing.known);
        let upto = of.list.instructions.iter().position(|i| i.body.at() == Some(point));
        let (later_side, earlier_side) = (side(later)?, side(earlier)?);
        let profile = &self.timeline.profile;
        let tensor = |tensor: TensorId| tensor.0.checked_sub(profile.storages.len() as u32);
        let (tensor, before) = (tensor(later.tensor)?, tensor(earlier.tensor)?);
        let [storage, former] = [tensor, before].map(|k| profile.tensors[k as usize].storage);
        let placed = &profile.storages[storage as usize];
        let base = if is_placed(placed) { placed.offset } else { 0 };
        let bytes = bytes.clone().unwrap_or_default();
        let depends = match depends {
            true => self.between(earlier_side.instruction, later_side.instruction),
            false => Vec::new(),
        };
        Some(Conflict {
            later: later_side,
            earlier: earlier_side,
            tensor,
            freed: Some(before).filter(|_| storage != former),
            bytes: bytes.start.saturating_sub(base)..bytes.end.saturating_sub(base),
            known: upto.and_then(|index| of.positions[index]),
            depends,
        })
    }

    /// Returns the calls of vague waits between two uses.
    fn between(&self, earlier: u32, later: u32) -> Vec<u32> {
        let (Some(earlier), Some(later)) = (self.facts.get(&earlier), self.facts.get(&later))
        else {
            return Vec::new();
        };
        let between = |wait: &&&Fact| wait.end >= earlier.start && wait.start <= later.end;
        let waits = self.vague.iter().filter(between).map(|wait| wait.instruction);
        let mut waits: Vec<u32> = waits.filter(|k| *k != NONE).collect();
        waits.sort_unstable();
        waits.dedup();
        waits
    }
}
