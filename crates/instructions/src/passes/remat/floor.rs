//! The least memory in which a program can run, and why.

use super::program::{Buffer, Program};

/// Why a buffer is in memory at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Held {
    /// The step uses it.
    Used,
    /// It is the workspace of the step.
    Workspace,
    /// The call that computed it cannot be made again.
    NotAgain,
    /// An input of the call that computed it has changed before its next use.
    InputChanges,
}

impl Held {
    /// Returns the reason as a text.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Held::Used => "the call uses it",
            Held::Workspace => "the workspace of the call",
            Held::NotAgain => "the call that computes it cannot be made again",
            Held::InputChanges => {
                "an input of the call that computes it changes before its next use"
            }
        }
    }
}

/// The step that needs the most memory whatever is computed again.
#[derive(Clone, Debug, Default)]
pub(super) struct Floor {
    pub(super) bytes: u64,
    pub(super) step: usize,
    /// What it is held by: buffers, and `None` for the workspace.
    pub(super) held: Vec<(Option<usize>, u64, Held)>,
}

/// Returns the floor of an arena: no run needs less.
pub(super) fn floor(program: &Program, arena: usize) -> Floor {
    let count = program.steps.len();
    let mut change = vec![0i128; count + 1];
    for buffer in program.buffers.iter().filter(|b| b.arena == arena) {
        for (from, to) in spans(buffer) {
            change[from] += i128::from(buffer.bytes);
            change[to + 1] -= i128::from(buffer.bytes);
        }
    }
    let (mut live, mut floor) = (0, Floor::default());
    for (step, change) in change[..count].iter().enumerate() {
        live += change;
        let scratch = program.steps[step].scratch.filter(|(of, _)| *of == arena);
        let bytes = u64::try_from(live).unwrap_or(u64::MAX);
        let bytes = bytes.saturating_add(scratch.map_or(0, |(_, bytes)| bytes));
        if bytes > floor.bytes {
            (floor.bytes, floor.step) = (bytes, step);
        }
    }
    for (b, buffer) in program.buffers.iter().enumerate() {
        let is_here = buffer.arena == arena && buffer.bytes > 0;
        if is_here && let Some(held) = held(buffer, floor.step) {
            floor.held.push((Some(b), buffer.bytes, held));
        }
    }
    let scratch = program.steps.get(floor.step).and_then(|step| step.scratch);
    if let Some((_, bytes)) = scratch.filter(|(of, bytes)| *of == arena && *bytes > 0) {
        floor.held.push((None, bytes, Held::Workspace));
    }
    floor.held.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
    floor
}

/// Returns the steps, as ranges with both ends, at which a buffer is in memory in every run.
fn spans(buffer: &Buffer) -> Vec<(usize, usize)> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for (k, &step) in buffer.uses.iter().enumerate() {
        match spans.last_mut() {
            Some(last) if fixed_before(buffer, k).is_some() => last.1 = step,
            _ => spans.push((step, step)),
        }
    }
    spans
}

/// Returns why a buffer stays in memory until its use number `k` from the one before; none if it
/// need not.
fn fixed_before(buffer: &Buffer, k: usize) -> Option<Held> {
    let before = buffer.uses[k.checked_sub(1)?];
    let written = buffer.writers.partition_point(|w| w.step <= before);
    match buffer.recipe(written).and_then(<[_]>::last) {
        None => Some(Held::NotAgain),
        Some(last) => (last.deadline < buffer.uses[k]).then_some(Held::InputChanges),
    }
}

/// Returns why a buffer is in memory at a step; none if it need not be.
fn held(buffer: &Buffer, step: usize) -> Option<Held> {
    let next = buffer.uses.partition_point(|&used| used < step);
    match buffer.uses.get(next) {
        Some(&used) if used == step => Some(Held::Used),
        Some(_) => fixed_before(buffer, next),
        None => None,
    }
}
