//! Replays that have left their capture, and the branches that they add to it.

use std::sync::{Arc, PoisonError};

use millstream_types::Result;

use crate::handle::Tensor;
use crate::handle::machine::Machine;

use super::note::Place;
use super::replay::{Before, Branch, Node, Results, Then};
use super::run::Run;
use super::session::{Prefix, Refusal, Session};

/// A replay that has left its capture.
pub(super) struct Resume {
    pub(super) prefix: Prefix,
    pub(super) outside: Vec<(Tensor, Place)>,
    pub(super) before: Before,
    /// The guard whose value is new, and the value; none if the branch is not to be captured.
    pub(super) guard: Option<(Arc<Node>, Vec<u8>)>,
}

/// The part of a capture that a resumed run adds.
pub(super) struct Addition {
    before: Before,
    guard: Option<(Arc<Node>, Vec<u8>)>,
}

impl Resume {
    /// Takes the resume apart: what the function repeats, the tensors from elsewhere, and what the
    /// run adds.
    pub(super) fn parts(self) -> (Prefix, Vec<(Tensor, Place)>, Addition) {
        let Resume { prefix, outside, before, guard } = self;
        (prefix, outside, Addition { before, guard })
    }
}

/// The most values of one read that are followed by captures of their own.
const MAX_BRANCHES: usize = 8;

impl Addition {
    /// Adds the rest of a run as a branch of its guard.
    ///
    /// # Errors
    /// A call cannot stand in an executable, with its place. The branch then stays without one.
    pub(super) fn add(
        self,
        machine: &Machine,
        session: &mut Session,
        results: std::result::Result<Results, Refusal>,
    ) -> Result<bool> {
        let Some((node, bytes)) = self.guard else { return Ok(false) };
        let Then::Read { branches, .. } = &node.then else { return Ok(false) };
        let is_full = || {
            let branches = branches.lock().unwrap_or_else(PoisonError::into_inner);
            let is_refused = |b: &Branch| b.bytes == bytes && b.node.is_none();
            branches.len() >= MAX_BRANCHES || branches.iter().any(is_refused)
        };
        if is_full() {
            return Ok(false);
        }
        let made = match results {
            Ok(results) => {
                let run = Run::of(session, &self.before.places, results);
                Node::of(machine, &run, Vec::new(), self.before)
            }
            // The tensors that it has made by now exist at its next call.
            Err(refusal) if refusal.may_pass => return Err(refusal.error()),
            Err(refusal) => Err(refusal.error()),
        };
        let (node, error) = match made {
            Ok(node) => (Some(Arc::new(node)), None),
            Err(error) => (None, Some(error)),
        };
        let branch = Branch { bytes, node };
        branches.lock().unwrap_or_else(PoisonError::into_inner).push(branch);
        error.map_or(Ok(true), Err)
    }
}
