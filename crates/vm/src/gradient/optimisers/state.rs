//! What an optimiser keeps between steps.

use std::collections::BTreeMap;

use millstream_runtime::scope::origin;
use millstream_types::{DType, Error, Result};

use crate::handle::Tensor;
use crate::handle::request;

use super::super::tape::no_grad;

/// What an optimiser keeps between steps, as tensors: up to two of each parameter, and for each
/// device the number of steps. Steps change them in place, so the replays of a traced function or
/// of an executable change the same state as calls.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
/// use optimisers::{Adam, State, adam};
/// let mut state = State::default(); // kept between the steps
/// for _ in 0..2 {
///     w.set_grad(&w.ones_like()?)?;
///     adam(&[&w], &mut state, &Adam::default())?;
/// }
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct State {
    pub(super) first: Vec<Option<Tensor>>,
    pub(super) second: Vec<Option<Tensor>>,
    /// Each lies on another device.
    steps: Vec<Tensor>,
}

/// Makes a tensor of state, outside of captures and recordings: they only use it.
pub(super) fn outside(make: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    request::outside(|| no_grad(make))
}

/// Makes a number of state beside a tensor.
///
/// # Errors
/// A call is refused.
pub(super) fn number(value: f64, dtype: DType, beside: &Tensor) -> Result<Tensor> {
    outside(|| {
        let number = Tensor::zeros((), dtype, beside)?;
        number.fill_(value)?;
        Ok(number)
    })
}

/// Returns the tensor of a place, which is made if there is none.
pub(super) fn kept(
    place: &mut Option<Tensor>,
    make: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    match place {
        Some(tensor) => Ok(tensor.clone()),
        None => Ok(place.insert(outside(make)?).clone()),
    }
}

impl State {
    /// Returns the tensors with their names, as [`Tensor::save`] takes them.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// use optimisers::{Adam, State, adam};
    /// let mut state = State::default();
    /// w.set_grad(&w.ones_like()?)?;
    /// adam(&[&w], &mut state, &Adam::default())?;
    /// let names: Vec<String> = state.tensors().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["first.0", "second.0", "steps.0"]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn tensors(&self) -> impl Iterator<Item = (String, &Tensor)> {
        let first = self.first.iter().map(Option::as_ref).enumerate();
        let second = self.second.iter().map(Option::as_ref).enumerate();
        let steps = self.steps.iter().map(Some).enumerate();
        let all = (first.map(|place| ("first", place)))
            .chain(second.map(|place| ("second", place)))
            .chain(steps.map(|place| ("steps", place)));
        all.filter_map(|(kind, (k, tensor))| Some((format!("{kind}.{k}"), tensor?)))
    }

    /// Gives the state the elements of [`State::tensors`], such as of a file. The tensors that the
    /// state has stay the same ones, so that captures and executables go on with the new elements.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// use optimisers::{Adam, State, adam};
    /// let (mut state, mut other) = (State::default(), State::default());
    /// w.set_grad(&w.ones_like()?)?;
    /// adam(&[&w], &mut state, &Adam::default())?;
    /// let saved = state.tensors().map(|(name, tensor)| (name, tensor.clone())).collect();
    /// other.load(&[&w], &saved)?;
    /// assert_eq!(other.tensors().count(), 3);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor that the state has is missing, a name is of no parameter, or a shape is another.
    #[track_caller]
    pub fn load(
        &mut self,
        parameters: &[&Tensor],
        tensors: &BTreeMap<String, Tensor>,
    ) -> Result<()> {
        let origin = origin::caller();
        let invalid = |message: String| Error::Invalid { what: "state", message }.at(&origin);
        self.reserve(parameters.len());
        self.begin_counts(parameters)?;
        let mut loaded = 0;
        let mut load = |name: String, place: &mut Option<Tensor>, beside: &Tensor| {
            match (tensors.get(&name), &place) {
                (None, None) => return Ok(()),
                (None, Some(_)) => {
                    return Err(invalid(format!("{name:?} is missing among the given tensors")));
                }
                (Some(given), Some(own)) => {
                    own.copy_(&given.to(own.device())?)?;
                }
                (Some(given), None) => *place = Some(given.to(beside.device())?.copy()?),
            }
            loaded += 1;
            Ok(())
        };
        no_grad(|| {
            for (k, parameter) in parameters.iter().enumerate() {
                load(format!("first.{k}"), &mut self.first[k], parameter)?;
                load(format!("second.{k}"), &mut self.second[k], parameter)?;
            }
            for (k, steps) in self.steps.iter().enumerate() {
                if tensors.contains_key(&format!("steps.{k}")) {
                    load(format!("steps.{k}"), &mut Some(steps.clone()), steps)?;
                }
            }
            Ok(())
        })?;
        if loaded == tensors.len() {
            return Ok(());
        }
        let names: Vec<&str> = tensors.keys().map(String::as_str).collect();
        let (given, count) = (names.join(", "), parameters.len());
        Err(invalid(format!("expected the state of {count} parameters, got {given}")))
    }

    pub(super) fn reserve(&mut self, parameters: usize) {
        self.first.resize(parameters, None);
        self.second.resize(parameters, None);
    }

    /// Makes the step counts of the parameters' devices that have none.
    fn begin_counts(&mut self, parameters: &[&Tensor]) -> Result<()> {
        for parameter in parameters {
            if !self.steps.iter().any(|steps| steps.device() == parameter.device()) {
                self.steps.push(number(0.0, DType::F64, parameter)?);
            }
        }
        Ok(())
    }

    /// Counts a step, unless a number is 1.
    pub(super) fn count_step(
        &mut self,
        parameters: &[&Tensor],
        unless: Option<&Tensor>,
    ) -> Result<()> {
        self.begin_counts(parameters)?;
        self.steps.iter().try_for_each(|steps| {
            steps.add_(1)?;
            unless.map_or(Ok(()), |unless| steps.sub_(unless).map(drop))
        })
    }

    /// Returns the step count beside a parameter.
    pub(super) fn steps(&self, parameter: &Tensor) -> Result<&Tensor> {
        let beside = self.steps.iter().find(|steps| steps.device() == parameter.device());
        beside.ok_or_else(|| Error::Internal { message: "a device without a step count".into() })
    }
}
