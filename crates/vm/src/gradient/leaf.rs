//! Tensors with a gradient: the leaves of a computation.

use std::sync::Arc;

use millstream_runtime::scope::origin;
use millstream_types::{Error, Result};

use crate::handle::Tensor;
use crate::handle::leaf::Leaf;
use crate::handle::request::{self, Request, Verb};

impl Leaf {
    /// Returns the gradient as the program reads it.
    #[track_caller]
    pub(super) fn get(self: &Arc<Leaf>) -> Option<Tensor> {
        let origin = origin::caller();
        let read = Request::new(Verb::ReadGradient { leaf: self }, &origin);
        request::submit(read, |_| Ok(self.held())).ok().flatten()
    }

    /// Sets the gradient as the program does.
    #[track_caller]
    pub(super) fn set(self: &Arc<Leaf>, gradient: Option<Tensor>) {
        let origin = origin::caller();
        let set = Request::new(Verb::SetGradient { leaf: self }, &origin);
        // No layer refuses it.
        let _ = request::submit(set, |_| {
            self.hold(gradient);
            Ok(Some(()))
        });
    }
}

impl Tensor {
    /// Makes the tensor one with a gradient, and returns it: tapes note the calls that depend on
    /// it, and [`Tape::backward`](crate::Tape::backward) gives its gradient to
    /// [`Tensor::grad`]. PyTorch's `requires_grad_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// assert!(w.requires_grad());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The elements are neither floats nor complex numbers.
    #[track_caller]
    pub fn with_grad(self) -> Result<Tensor> {
        if !self.dtype().is_inexact() {
            let message =
                format!("expected floats or complex numbers, got {}", self.spec().brief());
            return Err(Error::Invalid { what: "gradient", message }.at(&origin::caller()));
        }
        let leaf = self.leaf_slot().get_or_init(|| Arc::new(Leaf::of(&self)));
        let origin = origin::caller();
        let begin = Request::new(Verb::BeginLeaf { tensor: &self, leaf }, &origin);
        request::submit(begin, |_| Ok(Some(())))?;
        Ok(self)
    }

    /// Returns whether the tensor was made one with a gradient.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// assert!(w.requires_grad() && !x.requires_grad());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn requires_grad(&self) -> bool {
        self.leaf_slot().get().is_some()
    }

    /// Returns the gradient: the sum of those of all backward passes since
    /// [`Tensor::zero_grad`], none before the first.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// assert!(w.grad().is_none());
    /// let tape = machine.tape();
    /// tape.backward(&w.pow(2)?.sum(..)?)?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [4.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn grad(&self) -> Option<Tensor> {
        self.leaf_slot().get()?.get()
    }

    /// Sets the gradient, as for gradients that are summed over ranks.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// w.set_grad(&w.ones_like()?)?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor has no gradient, or one of another shape or dtype.
    #[track_caller]
    pub fn set_grad(&self, gradient: &Tensor) -> Result<()> {
        let Some(leaf) = self.leaf_slot().get() else {
            let message = "the tensor has no gradient; make it one with `with_grad`".to_owned();
            return Err(Error::Invalid { what: "gradient", message }.at(&origin::caller()));
        };
        if gradient.shape() != self.shape() || gradient.dtype() != self.dtype() {
            let (own, given) = (self.spec().brief(), gradient.spec().brief());
            let message = format!("expected the gradient of {own}, got {given}");
            return Err(Error::Invalid { what: "gradient", message }.at(&origin::caller()));
        }
        leaf.set(Some(gradient.clone()));
        Ok(())
    }

    /// Drops the gradient.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// let tape = machine.tape();
    /// tape.backward(&w.sum(..)?)?;
    /// w.zero_grad();
    /// assert!(w.grad().is_none());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn zero_grad(&self) {
        if let Some(leaf) = self.leaf_slot().get() {
            leaf.set(None);
        }
    }
}
