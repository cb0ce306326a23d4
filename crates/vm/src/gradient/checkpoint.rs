//! Checkpoints: regions whose calls are made again in the backward pass, instead of keeping what
//! their formulas need.

use std::sync::Arc;

use millstream_runtime::scope::origin;
use millstream_types::Result;

use crate::handle::Tensor;

use super::autocast;
use super::node::{Node, Region, Source};
use super::notes::Effects;
use super::tape::{Tape, no_grad, with_grad};

impl Tape {
    /// Runs a part of the computation and keeps its inputs alone. In the backward pass it runs
    /// again, to be differentiated. It may use tensors with a gradient from elsewhere. It has to
    /// compute the same both times: random calls need seeds of their own, not a generator's next.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// let tape = machine.tape();
    /// let y = tape.checkpoint(&[&w], |given| Ok(vec![(&given[0] * &given[0])?.exp()?]))?;
    /// tape.backward(&y[0].sum(..)?)?; // computes the region again
    /// assert!(w.grad().is_some());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// That of `region`.
    #[track_caller]
    pub fn checkpoint(
        &self,
        inputs: &[&Tensor],
        region: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    ) -> Result<Vec<Tensor>> {
        let origin = origin::caller();
        // A scope around it holds for both runs.
        let scope = autocast::current();
        let region: Region =
            Arc::new(move |given: &[Tensor]| autocast::within(scope, || region(given)));
        let given: Vec<Tensor> = inputs.iter().map(|&tensor| tensor.clone()).collect();
        let results = no_grad(|| region(&given))?;
        let mut notes = self.notes.borrow_mut();
        let attrs = Arc::default();
        let listed: Vec<Option<&Tensor>> = inputs.iter().map(|&tensor| Some(tensor)).collect();
        let node =
            notes.begin(Source::Checkpoint(region), "a checkpoint", &attrs, &listed, &origin);
        let effects = Effects { written: Vec::new(), views: vec![None; results.len()] };
        notes.end(Some(node), inputs, &results, &effects, "a checkpoint", &origin);
        drop(notes);
        Ok(results)
    }

    /// Runs a checkpoint's region on a tape of its own, and returns the gradients of its inputs.
    /// Leaves that it uses get theirs at once.
    pub(super) fn recompute(
        &self,
        region: &Region,
        node: &Node,
        gradients: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>> {
        let mut inputs = Vec::new();
        for kept in node.kept_inputs.iter().flatten() {
            inputs.push(self.notes.borrow().kept(kept, node)?);
        }
        let inner = self.machine.tape();
        let own: Vec<Tensor> = inputs
            .iter()
            .enumerate()
            .map(|(k, tensor)| {
                let copy = no_grad(|| tensor.detach())?;
                if node.inputs[k].is_some() { copy.with_grad() } else { Ok(copy) }
            })
            .collect::<Result<_>>()?;
        let results = with_grad(|| region(&own))?;
        let from: Vec<(&Tensor, &Tensor)> = results
            .iter()
            .zip(gradients)
            .filter_map(|(result, gradient)| Some((result, gradient.as_ref()?)))
            .filter(|(result, _)| inner.notes.borrow_mut().value(result).is_some())
            .collect();
        if !from.is_empty() {
            inner.backward_from(&from, false)?;
        }
        Ok(own.iter().map(Tensor::grad).collect())
    }
}
