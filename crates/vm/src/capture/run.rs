//! What a run of a function has noted: all that its capture is made of.

use std::sync::Arc;

use millstream_types::{AttrValue, Error, Layout, Result, ScalarValue, TensorSpec};

use crate::handle::Tensor;

use super::draws::Drawn;
use super::gradients::{Found, Left};
use super::note::{Action, Note, Place, Value};
use super::replay::Results;
use super::session::{Guard, Session};

/// The notes of a run, without the run.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) notes: Vec<Note>,
    pub(super) guards: Vec<Guard>,
    /// The gradients that the run has found, by the number of guards before.
    pub(super) gradients: Vec<FoundGradients>,
    pub(super) outside: Vec<(Tensor, Place)>,
    pub(super) generators: Vec<Drawn>,
    /// The scalars of the call, by name.
    pub(super) arguments: Vec<(String, ScalarValue)>,
    pub(super) results: Vec<Value>,
    /// The gradients that the run has left.
    pub(super) left: Arc<[Left]>,
}

/// The gradients that a run has found behind a number of guards.
#[derive(Clone)]
pub(super) struct FoundGradients {
    /// What a replay has to find.
    pub(super) conditions: Vec<Found>,
    /// Where they lie.
    pub(super) places: Vec<(Value, Place)>,
}

impl Run {
    /// Takes the notes of a session. `places` are those of the inputs, and of gradients that were
    /// found before.
    pub(super) fn of(session: &mut Session, places: &[Place], (results, left): Results) -> Run {
        let mut places = places.to_vec();
        let found = (0..=session.guards.len()).map(|number| FoundGradients {
            conditions: session.gradients.found(number, &session.inputs, &mut places),
            places: session.gradients.places(number).collect(),
        });
        Run {
            gradients: found.collect(),
            notes: std::mem::take(&mut session.notes),
            guards: std::mem::take(&mut session.guards),
            outside: session.outside.clone(),
            generators: session.draws.generators.clone(),
            arguments: session.arguments.clone(),
            results,
            left: left.into(),
        }
    }

    /// Returns the places of tensors that are neither inputs nor from elsewhere.
    pub(super) fn places_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        let found = self.gradients.iter_mut().flat_map(|found| &mut found.places);
        let alive = self.guards.iter_mut().flat_map(|guard| &mut guard.alive);
        found.chain(alive).map(|(_, place)| place)
    }
}

/// Something with lengths, strides, offsets and integer arguments.
pub(super) trait Numbers: Clone {
    /// Replaces each number, in order.
    ///
    /// # Errors
    /// A layout is none any more.
    fn replace(&mut self, number: &mut dyn FnMut(i64) -> i64) -> Result<()>;

    /// Returns the numbers.
    fn numbers(&self) -> Result<Vec<i64>> {
        let mut all = Vec::new();
        self.clone().replace(&mut |number| {
            all.push(number);
            number
        })?;
        Ok(all)
    }
}

impl Numbers for TensorSpec {
    fn replace(&mut self, number: &mut dyn FnMut(i64) -> i64) -> Result<()> {
        let layout = &self.layout;
        let mut size = |old: &usize| {
            let new = number(*old as i64);
            let message = || format!("a length, stride or offset of {new}");
            let negative = |_| Error::Invalid { what: "traced function", message: message() };
            usize::try_from(new).map_err(negative)
        };
        let shape = layout.shape().iter().map(&mut size).collect::<Result<Vec<_>>>()?;
        let strides = layout.strides().iter().map(&mut size).collect::<Result<Vec<_>>>()?;
        let offset = size(&layout.offset())?;
        *self = TensorSpec::new(self.dtype, Layout::strided(&shape, &strides, offset)?)?;
        Ok(())
    }
}

/// Replaces a number of bytes.
fn replace_bytes(bytes: &mut u64, number: &mut dyn FnMut(i64) -> i64) {
    *bytes = number(*bytes as i64) as u64;
}

impl Numbers for Place {
    fn replace(&mut self, number: &mut dyn FnMut(i64) -> i64) -> Result<()> {
        replace_bytes(&mut self.bytes, number);
        self.spec.replace(number)
    }
}

impl Numbers for Note {
    fn replace(&mut self, number: &mut dyn FnMut(i64) -> i64) -> Result<()> {
        match &mut self.action {
            Action::Call { attrs, .. } => attrs.values_mut().for_each(|value| match value {
                AttrValue::Int(int) => *int = number(*int),
                AttrValue::Ints(ints) => ints.iter_mut().for_each(|int| *int = number(*int)),
                _ => {}
            }),
            Action::Empty { spec, bytes, .. } => {
                replace_bytes(bytes, number);
                spec.replace(number)?;
            }
            Action::View { spec, .. } | Action::Upload { spec, .. } => spec.replace(number)?,
            Action::Read { .. }
            | Action::RecordEvent { .. }
            | Action::WaitEvent { .. }
            | Action::WaitStream { .. }
            | Action::Barrier { .. }
            | Action::Touch { .. } => {}
        }
        self.results.iter_mut().try_for_each(|result| result.spec.replace(number))
    }
}
