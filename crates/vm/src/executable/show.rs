//! The text of tapes, for people.

use std::fmt::{self, Display, Write};

use millstream_ops::OpRegistry;
use millstream_runtime::tapes::tape::{Action, Program, StepOperand, Tape};

/// Displays the tapes of a program: a line for each step.
pub(super) struct Shown<'a> {
    pub(super) program: &'a Program,
    pub(super) ops: &'a OpRegistry,
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, tape) in self.program.tapes.iter().enumerate() {
            writeln!(f, "tape {k} on {}", tape.key)?;
            for (step, action) in tape.steps.iter().enumerate() {
                let published = if tape.publishes[step] { "  (published)" } else { "" };
                writeln!(f, "  {:>4}  {}{published}", step + 1, self.action(tape, action))?;
            }
        }
        Ok(())
    }
}

impl Shown<'_> {
    fn action(&self, tape: &Tape, action: &Action) -> String {
        match action {
            Action::Call { kernel, call, .. } => {
                let call = &tape.calls[*call as usize];
                let op = call.op.and_then(|op| self.ops.get(op)).map_or("?", |op| op.name());
                let how = if kernel.is_some() { "" } else { " in context" };
                format!("{op}{how} {}", self.operands(&call.operands))
            }
            Action::Wait { tape, steps } => format!("wait for tape {tape} step {steps}"),
            Action::Record { event, .. } => format!("record event {event}"),
            Action::WaitOnDevice { event, tape, steps, .. } => {
                format!("wait on the device for event {event}, tape {tape} step {steps}")
            }
            Action::Read { call, into } => {
                let operands = self.operands(&tape.calls[*call as usize].operands);
                format!("read {operands} as result {into}")
            }
            Action::Callback { call, callback } => {
                let operands = self.operands(&tape.calls[*call as usize].operands);
                format!("callback {callback} {operands}")
            }
            Action::GlobalSync { .. } => "meet all ranks".to_owned(),
        }
    }

    /// Writes each operand as its access, its base and its offset in bytes.
    fn operands(&self, operands: &[StepOperand]) -> String {
        let mut text = String::from("(");
        for (k, operand) in operands.iter().enumerate() {
            let comma = if k == 0 { "" } else { ", " };
            let (base, offset) = (operand.address.base as usize, operand.address.offset);
            let base = match base.checked_sub(self.program.formals.len()) {
                None => self.program.name(base).to_owned(),
                Some(private) => format!("private {private}"),
            };
            // Writing to a string does not fail.
            let _ = write!(text, "{comma}{} {base}+{offset}", operand.access);
        }
        text + ")"
    }
}
