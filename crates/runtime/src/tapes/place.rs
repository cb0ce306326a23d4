//! Places in tapes, as reports of waits name them.

use millstream_ops::OpRegistry;
use millstream_types::Origin;

use super::run::Run;
use super::tape::{Action, Program, StepCall};

/// A step of a tape, as reports name it.
pub(crate) struct Place {
    /// The step and its tape, as in `sub, step 3 of tape 1`.
    pub(crate) name: String,
    /// The step's place in the recorded program; that of the step which comes after, if it is a
    /// wait.
    pub(crate) origin: Origin,
}

impl Program {
    /// Returns the place of the step with this number, counted from 0.
    pub(crate) fn place(&self, ops: &OpRegistry, tape: usize, step: usize) -> Place {
        let steps = &self.tapes[tape].steps;
        let call = |action: &Action| self.call_of(tape, action);
        let next = steps.iter().skip(step).find_map(call);
        let what = match (next, steps.get(step).map(call)) {
            (None, _) => "the end".to_owned(),
            (Some(next), Some(None)) => format!("a wait before {}", name(ops, next)),
            (Some(next), _) => name(ops, next).to_owned(),
        };
        let origin = next.map_or(Origin::Unknown, |call| call.origin.clone());
        Place { name: format!("{what}, step {} of tape {tape}", step + 1), origin }
    }

    /// Returns the tape that a step waits for, and the number of its steps that have to complete.
    pub(crate) fn awaited(&self, tape: usize, step: usize) -> Option<(usize, u32)> {
        match self.tapes[tape].steps.get(step)? {
            Action::Wait { tape, steps } | Action::WaitOnDevice { tape, steps, .. } => {
                Some((usize::from(*tape), *steps))
            }
            Action::Call { .. }
            | Action::Record { .. }
            | Action::Read { .. }
            | Action::Callback { .. }
            | Action::GlobalSync { .. } => None,
        }
    }

    /// Returns the part of a step that only its slow paths need; none for a wait by the host.
    pub(crate) fn call_of(&self, tape: usize, action: &Action) -> Option<&StepCall> {
        let call = match action {
            Action::Call { call, .. }
            | Action::Record { call, .. }
            | Action::WaitOnDevice { call, .. }
            | Action::Read { call, .. }
            | Action::Callback { call, .. }
            | Action::GlobalSync { call } => *call,
            Action::Wait { .. } => return None,
        };
        self.tapes[tape].calls.get(call as usize)
    }
}

impl Run {
    /// Describes a step of the launch, and the step that it waits for.
    pub(crate) fn describe(&self, ops: &OpRegistry, tape: u16, step: u32) -> String {
        let (tape, step) = (usize::from(tape), step as usize);
        let Place { name, origin } = self.program.place(ops, tape, step);
        let awaited = self.program.awaited(tape, step).map(|(source, steps)| {
            let Place { name, origin } = self.program.place(ops, source, steps as usize - 1);
            format!(" waits for {name} at {origin}")
        });
        let awaited = awaited.unwrap_or_default();
        format!("{name} at {origin}{awaited}, of the launch at {}", self.origin)
    }
}

fn name<'a>(ops: &'a OpRegistry, call: &StepCall) -> &'a str {
    call.op.and_then(|op| ops.get(op)).map_or(call.kind, |op| op.name())
}
