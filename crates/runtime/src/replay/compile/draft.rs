//! Tapes under construction.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::{Kind, StreamDecl};
use millstream_types::Origin;

use super::graphs::awaited;
use crate::profile::recording::StepSource;
use crate::tapes::GROUP;
use crate::tapes::tape::{Action, Address, PackedAddress, StepCall, Tape};

/// The index of an instruction in the outermost list; for that of an executable which is launched
/// there, the index of the launch, and its own.
pub(super) type Source = (u32, Option<u32>);

/// For each tape, how many of its steps have completed.
pub(super) type Clock = SmallVec<[u32; 4]>;

/// Joins `other` to a clock.
pub(super) fn join(own: &mut Clock, other: &Clock) {
    for (own, other) in own.iter_mut().zip(other) {
        *own = (*own).max(*other);
    }
}

/// A tape under construction.
pub(super) struct Draft {
    pub(super) tape: Tape,
    pub(super) steps: Vec<Action>,
    pub(super) publishes: Vec<bool>,
    pub(super) sources: Vec<StepSource>,
    pub(super) addresses: Vec<Address>,
    pub(super) calls: Vec<StepCall>,
    pub(super) is_asynchronous: bool,
    /// What has completed before the tape's next step.
    pub(super) known: Clock,
    /// `known` from a number of steps on, each time that it has grown.
    pub(super) history: Vec<(u32, Clock)>,
}

impl Draft {
    pub(super) fn new(decl: &StreamDecl, on_host: Option<u16>, is_asynchronous: bool) -> Draft {
        let tape = Tape {
            key: decl.key.clone(),
            on_host,
            steps: Box::default(),
            publishes: Box::default(),
            sources: Arc::default(),
            addresses: Box::default(),
            calls: Box::default(),
        };
        Draft {
            tape,
            steps: Vec::new(),
            publishes: Vec::new(),
            sources: Vec::new(),
            addresses: Vec::new(),
            calls: Vec::new(),
            is_asynchronous,
            known: Clock::new(),
            history: Vec::new(),
        }
    }

    /// Adds a step for an instruction.
    pub(super) fn push(&mut self, action: Action, (instruction, inner): Source) {
        let awaits = awaited(&action);
        self.steps.push(action);
        self.sources.push(StepSource { instruction, inner, awaits });
        self.publishes.push(false);
    }

    /// Adds the addresses of a prepared call, in full groups: those of its operands, and that of
    /// its workspace if it has one. Returns where they are, and how many.
    pub(super) fn gather(&mut self, call: &StepCall) -> (u32, u8) {
        let first = self.addresses.len();
        self.addresses.extend(call.operands.iter().map(|o| o.address));
        self.addresses.extend(call.workspace.iter().map(|memory| memory.0));
        let count = self.addresses.len() - first;
        self.addresses
            .resize(first + count.next_multiple_of(GROUP), Address { base: 0, offset: 0 });
        (first as u32, count as u8)
    }

    /// Adds the rest of a call, and returns its number.
    pub(super) fn call(&mut self, call: StepCall) -> u32 {
        self.calls.push(call);
        self.calls.len() as u32 - 1
    }

    /// Notes that from the next step on so many steps of another tape have completed.
    pub(super) fn learn(&mut self, source: usize, steps: u32, brought: Option<&Clock>) {
        self.known[source] = self.known[source].max(steps);
        if let Some(brought) = brought {
            join(&mut self.known, brought);
        }
        self.history.push((self.steps.len() as u32, self.known.clone()));
    }

    /// Returns what had completed once the tape had made so many steps.
    pub(super) fn known_at(&self, steps: u32) -> Option<Clock> {
        let later = self.history.partition_point(|(from, _)| *from <= steps);
        Some(self.history.get(later.checked_sub(1)?)?.1.clone())
    }

    pub(super) fn finish(self) -> Tape {
        let Draft { tape, steps, publishes, sources, addresses, calls, .. } = self;
        // If one does not fit, all calls run in their contexts.
        let packed = |address: &Address| PackedAddress::new(*address);
        let addresses: Option<Box<[PackedAddress]>> = addresses.iter().map(packed).collect();
        let mut steps = steps;
        if addresses.is_none() {
            for step in &mut steps {
                if let Action::Call { kernel, .. } = step {
                    *kernel = None;
                }
            }
        }
        Tape {
            steps: steps.into(),
            publishes: publishes.into(),
            sources: sources.into(),
            addresses: addresses.unwrap_or_default(),
            calls: calls.into(),
            ..tape
        }
    }

    /// Adds the rest of a record or a wait, and returns its number.
    pub(super) fn order_call(&mut self, kind: Kind, origin: &Origin) -> u32 {
        self.call(StepCall {
            kind: kind.name(),
            op: None,
            operands: Box::default(),
            attrs: None,
            given: None,
            workspace: None,
            origin: origin.clone(),
            number: None,
        })
    }
}
