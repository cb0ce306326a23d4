//! Learning rates.

use std::fmt;
use std::sync::{Arc, PoisonError};

use millstream_runtime::scope::origin;
use millstream_runtime::sync::Mutex;
use millstream_types::{DType, Result};

use crate::handle::Tensor;
use crate::handle::request::{self, Request, Verb};

use super::super::tape::no_grad;
use super::state::number;

/// A learning rate. Clones are the same rate.
///
/// On each device that uses it the rate is a tensor of one element, which [`Rate::set`] changes. So
/// a new rate takes effect in calls, in the replays of traced functions, and in executables.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
/// use optimisers::{Rate, Sgd, State, sgd};
/// let lr = Rate::from(0.5);
/// let settings = Sgd { lr: lr.clone(), ..Sgd::default() };
/// w.set_grad(&w.ones_like()?)?;
/// sgd(&[&w], &mut State::default(), &settings)?;
/// lr.set(0.25)?;
/// sgd(&[&w], &mut State::default(), &settings)?;
/// assert_eq!(w.to_vec::<f32>()?, [1.25, 2.25]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone)]
pub struct Rate(Arc<Mutex<Inner>>);

struct Inner {
    value: f64,
    /// Each is of another machine or device.
    tensors: Vec<Tensor>,
}

impl From<f64> for Rate {
    fn from(value: f64) -> Rate {
        Rate(Arc::new(Mutex::new(Inner { value, tensors: Vec::new() })))
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rate({})", self.get())
    }
}

impl Rate {
    /// Returns the rate.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// assert_eq!(optimisers::Rate::from(0.5).get(), 0.5);
    /// ```
    pub fn get(&self) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).value
    }

    /// Sets the rate of the next steps.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// let lr = optimisers::Rate::from(0.5);
    /// lr.set(0.25)?;
    /// assert_eq!(lr.get(), 0.25);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A recording runs on this thread, whose launches could not set the number; or a call is
    /// refused.
    #[track_caller]
    pub fn set(&self, value: f64) -> Result<()> {
        let origin = origin::caller();
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let set = Request::new(Verb::SetNumber { tensors: &inner.tensors }, &origin);
        request::submit(set, |_| {
            let fill = |tensor: &Tensor| no_grad(|| tensor.fill_(value).map(drop));
            crate::with_origin(&origin, || inner.tensors.iter().try_for_each(fill)).map(Some)
        })?;
        inner.value = value;
        Ok(())
    }

    /// Returns the rate as a tensor beside a parameter.
    pub(super) fn tensor(&self, parameter: &Tensor) -> Result<Tensor> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |tensor: &Tensor| tensor.machine().shared.tables.machine;
        let is_beside =
            |tensor: &&Tensor| of(tensor) == of(parameter) && tensor.device() == parameter.device();
        if let Some(tensor) = inner.tensors.iter().find(is_beside) {
            return Ok(tensor.clone());
        }
        let tensor = number(inner.value, DType::F64, parameter)?;
        inner.tensors.push(tensor.clone());
        Ok(tensor)
    }
}
