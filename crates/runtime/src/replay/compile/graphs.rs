//! Which tapes are launched as a graph, and the order in which it captures their calls.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use millstream_instructions::ScalarDecl;
use millstream_types::{DeviceId, ScalarId, ScalarValue};

use crate::tapes::graph::{CapturePlan, CaptureStep, GraphPlan};
use crate::tapes::tape::{Action, StepCall, Tape};

/// Fewer calls are launched as fast without a graph.
const MIN_CALLS: usize = 2;

/// The tapes of one device.
type Group = SmallVec<[u16; 4]>;

/// Plans a graph for each device that can have one.
pub(super) fn plan(
    tapes: &[Tape],
    scalars: &[ScalarDecl],
    has_graphs: impl Fn(&DeviceId) -> bool,
) -> Vec<GraphPlan> {
    let mut groups: BTreeMap<&DeviceId, Group> = BTreeMap::new();
    for (number, tape) in tapes.iter().enumerate() {
        if tape.on_host.is_none() && !tape.steps.is_empty() && has_graphs(&tape.key.device) {
            groups.entry(&tape.key.device).or_default().push(number as u16);
        }
    }
    let all: Vec<&Group> = groups.values().collect();
    let plan = |(device, group): (&&DeviceId, &Group)| {
        let capture = capture(tapes, scalars, group, &all);
        GraphPlan { device: (*device).clone(), tapes: group.clone(), capture }
    };
    groups.iter().map(plan).collect()
}

/// Returns the step of another tape that a step waits for: the tape, and its number of steps.
pub(super) fn awaited(action: &Action) -> Option<(u16, u32)> {
    match action {
        Action::Wait { tape, steps } | Action::WaitOnDevice { tape, steps, .. } => {
            Some((*tape, *steps))
        }
        Action::Call { .. }
        | Action::Record { .. }
        | Action::Read { .. }
        | Action::Callback { .. }
        | Action::GlobalSync { .. } => None,
    }
}

/// Returns the floating-point numbers of each launch that a call uses. Kernels read whole ones from
/// the words of the graph.
fn floats(call: &StepCall, scalars: &[ScalarDecl]) -> impl Iterator<Item = u32> {
    let used = call.attrs.iter().flat_map(|attrs| attrs.scalars()).map(|used| used.scalar);
    let is_float = |id: &ScalarId| {
        let declared = scalars.get(id.index());
        declared.is_some_and(|scalar| matches!(scalar.value, ScalarValue::Float(_)))
    };
    used.filter(is_float).map(|id| id.0)
}

/// Plans the capture of a group of tapes, one of `groups`.
///
/// # Errors
/// The tapes cannot be a graph, for this reason.
fn capture(
    tapes: &[Tape],
    scalars: &[ScalarDecl],
    group: &Group,
    groups: &[&Group],
) -> Result<CapturePlan, String> {
    let steps_of = |tape: u16| &tapes[usize::from(tape)].steps;
    let mut before = BTreeSet::new();
    let mut positions = BTreeMap::new();
    let (mut bases, mut given, mut calls) = (BTreeSet::new(), BTreeSet::new(), 0);
    for &tape in group {
        let mut has_called = false;
        for (step, action) in steps_of(tape).iter().enumerate() {
            let place = || format!("tape {tape}, step {}", step + 1);
            match action {
                Action::Call { call, .. } => {
                    (has_called, calls) = (true, calls + 1);
                    let call = &tapes[usize::from(tape)].calls[*call as usize];
                    given.extend(floats(call, scalars));
                    bases.extend(call.operands.iter().map(|operand| operand.address.base));
                    bases.extend(call.workspace.iter().map(|memory| memory.0.base));
                }
                Action::Record { .. } => {}
                Action::Wait { .. } | Action::WaitOnDevice { .. } => {
                    let Some(until) = awaited(action) else { continue };
                    if group.contains(&until.0) {
                        let next = positions.len() as u32 + 1;
                        positions.entry(until).or_insert(next);
                    } else if has_called {
                        return Err(format!("{}: waits for tape {} amid calls", place(), until.0));
                    } else {
                        before.insert(until);
                    }
                }
                Action::Read { .. } => return Err(format!("{}: a read by the host", place())),
                Action::Callback { .. } => {
                    return Err(format!("{}: a function of the host", place()));
                }
                Action::GlobalSync { .. } => {
                    return Err(format!("{}: a barrier of all ranks", place()));
                }
            }
        }
    }
    if calls < MIN_CALLS {
        return Err(format!("fewer than {MIN_CALLS} calls need no graph"));
    }
    if let Some((tape, steps)) = before.iter().find(|until| follows(tapes, group, groups, **until))
    {
        return Err(format!(
            "it comes after tape {tape}, step {steps}, which comes after calls of its own"
        ));
    }
    let steps = order(tapes, group, &positions)?;
    let positions = positions.len() + group.len();
    let (before, bases) = (before.into_iter().collect(), bases.into_iter().collect());
    let floats = given.into_iter().collect();
    Ok(CapturePlan { before, steps, positions, bases, floats })
}

/// Returns whether a step of a tape outside comes after a step of the group. If another group may
/// be a graph, each of its steps comes after all that the graph waits for.
fn follows(tapes: &[Tape], group: &Group, groups: &[&Group], from: (u16, u32)) -> bool {
    let (mut seen, mut open) = (FxHashSet::default(), vec![from]);
    while let Some((tape, steps)) = open.pop() {
        if group.contains(&tape) {
            return true;
        }
        if seen.insert((tape, steps)) {
            let others = groups.iter().find(|other| other.contains(&tape));
            let whole = |other: &u16| (*other, tapes[usize::from(*other)].steps.len() as u32);
            open.extend(others.into_iter().flat_map(|others| others.iter()).map(whole));
            let earlier = tapes[usize::from(tape)].steps.iter().take(steps as usize);
            open.extend(earlier.filter_map(awaited));
        }
    }
    false
}

/// Orders the steps of a capture. All streams begin behind the first one, and it ends behind them.
/// `positions` numbers the awaited steps from 1; position 0 is the begin.
fn order(
    tapes: &[Tape],
    group: &[u16],
    positions: &BTreeMap<(u16, u32), u32>,
) -> Result<Vec<CaptureStep>, String> {
    let (first, others) = group.split_first().ok_or("no tapes")?;
    let mut steps = Vec::new();
    if !others.is_empty() {
        steps.push(CaptureStep::Record { tape: *first, position: 0 });
        steps.extend(others.iter().map(|tape| CaptureStep::Wait { tape: *tape, position: 0 }));
    }
    let mut done: BTreeMap<u16, u32> = group.iter().map(|tape| (*tape, 0)).collect();
    loop {
        let before: u32 = done.values().sum();
        for &tape in group {
            let actions = &tapes[usize::from(tape)].steps;
            for (step, action) in actions.iter().enumerate().skip(done[&tape] as usize) {
                let step = step as u32;
                if let Some(until) = awaited(action)
                    && let Some(position) = positions.get(&until)
                {
                    if done[&until.0] < until.1 {
                        break;
                    }
                    steps.push(CaptureStep::Wait { tape, position: *position });
                } else if matches!(action, Action::Call { .. }) {
                    steps.push(CaptureStep::Call { tape, step });
                }
                done.insert(tape, step + 1);
                if let Some(position) = positions.get(&(tape, step + 1)) {
                    steps.push(CaptureStep::Record { tape, position: *position });
                }
            }
        }
        if done.values().sum::<u32>() == before {
            break;
        }
    }
    if done.iter().any(|(tape, done)| (*done as usize) < tapes[usize::from(*tape)].steps.len()) {
        return Err("the tapes wait for each other".to_owned());
    }
    for (k, tape) in (1..).zip(others) {
        let end = (*tape, tapes[usize::from(*tape)].steps.len() as u32);
        let is_awaited = |position: &u32| {
            steps.contains(&CaptureStep::Wait { tape: *first, position: *position })
        };
        if positions.get(&end).is_some_and(is_awaited) {
            continue;
        }
        let position = positions.len() as u32 + k;
        steps.push(CaptureStep::Record { tape: *tape, position });
        steps.push(CaptureStep::Wait { tape: *first, position });
    }
    Ok(steps)
}
