//! Memory of gradients that launches write again.
//!
//! A launch leaves a gradient in the memory of an earlier one where the program cannot tell: nobody
//! but its leaf has the tensor, no tape knows it, and nothing else lies in its storage. So a step
//! that drops its gradients, or sets them anew, writes each of them into one tensor. A step that
//! adds to a gradient reads the former one, and uses two by turns.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::InstructionsBuilder;
use millstream_runtime::tapes::tape::{FormalKind, Program};

use crate::handle::Tensor;
use crate::handle::leaf::Leaf;

/// The most tensors that are kept for a gradient.
const MAX_TENSORS: usize = 2;

/// An output whose tensors are kept.
pub(super) struct KeptOutput {
    pub(super) output: usize,
    formal: usize,
    /// Tensors of earlier launches, the oldest first.
    tensors: SmallVec<[Tensor; MAX_TENSORS]>,
}

/// A kept tensor that a launch writes again.
pub(super) struct WrittenAgain {
    pub(super) formal: usize,
    pub(super) tensor: Tensor,
    /// The leaf that held the tensor.
    leaf: Option<Arc<Leaf>>,
}

impl WrittenAgain {
    /// Gives the leaf its tensor back.
    pub(super) fn hold(&self) {
        if let Some(leaf) = &self.leaf {
            leaf.hold(Some(self.tensor.clone()));
        }
    }
}

impl KeptOutput {
    /// Describes an output that is a gradient. None if its tensors cannot be kept: a launch does
    /// not make it, or something else lies in its storage.
    pub(super) fn new(program: &Program, output: usize) -> Option<KeptOutput> {
        let spec = program.outputs.get(output)?;
        let formal = program.formals.get(spec.formal)?;
        let is_alone = program.outputs.iter().filter(|o| o.formal == spec.formal).count() == 1;
        let is_whole = formal.kind == FormalKind::Output && spec.spec == formal.spec;
        let formal = spec.formal;
        (is_alone && is_whole).then(|| KeptOutput { output, formal, tensors: SmallVec::new() })
    }

    /// Takes a tensor that a launch may write again. `replaced` are the leaves of which the launch
    /// sets the gradients, with the numbers of the outputs. Those of which one is enough go to
    /// `ended`, as no tensor may end under a lock.
    pub(super) fn take(
        &mut self,
        builder: &InstructionsBuilder,
        replaced: &[(usize, Arc<Leaf>)],
        ended: &mut Vec<Tensor>,
    ) -> Option<WrittenAgain> {
        let is_alone =
            |tensor: &Tensor| builder.is_sole_tensor(tensor.tensor_ref()).unwrap_or(false);
        let is_free = |tensor: &Tensor| tensor.holders() == Some(1) && is_alone(tensor);
        if let Some(at) = self.tensors.iter().position(is_free) {
            let tensor = self.tensors.remove(at);
            if let Some(other) = self.tensors.iter().position(is_free) {
                ended.push(self.tensors.remove(other));
            }
            return Some(WrittenAgain { formal: self.formal, tensor, leaf: None });
        }
        let leaves = replaced.iter().filter(|(output, _)| *output == self.output);
        let of_leaf = |(_, leaf): &(usize, Arc<Leaf>)| {
            let own = |tensor: &Tensor| is_alone(tensor) && leaf.take_from(tensor);
            Some((self.tensors.iter().position(own)?, leaf.clone()))
        };
        let (at, leaf) = { leaves }.find_map(of_leaf)?;
        let tensor = self.tensors.remove(at);
        Some(WrittenAgain { formal: self.formal, tensor, leaf: Some(leaf) })
    }

    /// Keeps the tensor that a launch has written. Returns one that is kept no longer.
    pub(super) fn keep(&mut self, outputs: &[Tensor]) -> Option<Tensor> {
        let tensor = outputs.get(self.output)?.clone();
        let is_full = self.tensors.len() == MAX_TENSORS;
        let oldest = is_full.then(|| self.tensors.remove(0));
        self.tensors.push(tensor);
        oldest
    }

    /// Gives up all tensors.
    pub(super) fn end(&mut self) -> SmallVec<[Tensor; MAX_TENSORS]> {
        std::mem::take(&mut self.tensors)
    }

    /// Whether the program has given a tensor for the output.
    pub(super) fn is_given(&self, given: &[Option<&Tensor>]) -> bool {
        given.get(self.formal).is_some_and(Option::is_some)
    }
}
