//! What a run of a function has noted: all that its capture is made of.

use std::sync::Arc;

use millstream_types::{ScalarValue, StreamKey};

use crate::handle::Tensor;

use super::draws::Drawn;
use super::gradients::{Found, Left};
use super::note::{Note, Place, Returned, Value};
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
    /// The created streams that the run has used.
    pub(super) streams: Vec<StreamKey>,
    pub(super) results: Vec<Returned>,
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
    /// Takes the notes of a session. `places` are those of the inputs.
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
            streams: session.streams.clone(),
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
