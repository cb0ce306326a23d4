//! How the calls that are held are made: by one launch, or one by one.

use millstream_types::{Error, Result};

use crate::api::handle::Tensor;
use crate::capture::note::{Action, Value};
use crate::capture::session::suspend;
use crate::emission::cancel;
use crate::sync::Ordering;

use super::held::Held;
use super::{Auto, State, is_out_of_memory};

impl Auto {
    /// Launches the sequence whose calls are all held.
    pub(super) fn replay(&self, state: &mut State) -> Result<()> {
        let Some(held) = &state.held else { return Ok(()) };
        let is_kept = |number: &usize| held.made[*number].dropped_at().is_none();
        let kept = (0..held.made.len()).filter(is_kept).map(|k| Value::Made(k as u32));
        let new: Vec<Value> = kept.filter(|v| !held.sequence.outputs.contains(v)).collect();
        if !new.is_empty() {
            let entry = held.entry;
            self.make_held(state, "a tensor is kept that was dropped before")?;
            if let Err(error) = state.entries.keep_also(entry, &self.machine, &new) {
                state.report.count(format!("not captured: {error}"));
            }
            return Ok(());
        }
        let launched = {
            let _own = suspend();
            held.sequence.launch(held)
        };
        match launched {
            Ok(outputs) => {
                let steps = held.steps() as u64;
                for (value, tensor) in outputs {
                    if let Value::Made(number) = value {
                        held.made[number as usize].set(Ok(tensor));
                    }
                }
                let released = self.release_all(held);
                state.report.replays += 1;
                state.report.replayed_calls += steps;
                let entry = held.entry;
                state.entries.note_replay(entry);
                self.end_held(state);
                released
            }
            Err(error) => self.make_held(state, &format!("the launch is refused: {error}")),
        }
    }

    /// Releases what a replayed sequence releases by hand.
    fn release_all(&self, held: &Held) -> Result<()> {
        for note in &held.sequence.notes {
            match note.action {
                Action::Release { tensor: Value::Made(number) } => {
                    held.made[number as usize].end(&note.origin);
                }
                Action::Release { tensor: Value::Input(number) } => {
                    let (tensor, _) = &held.outside[number as usize];
                    self.machine.release_now(tensor, None, &note.origin)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Ends the holding of calls, all of which have been made.
    fn end_held(&self, state: &mut State) {
        self.steps.store(0, Ordering::Relaxed);
        state.held = None;
    }

    /// Makes the calls that are held, one by one.
    ///
    /// # Errors
    /// Why the first one that failed did. Neither it nor those behind it have results.
    pub(super) fn make_held(&self, state: &mut State, reason: &str) -> Result<()> {
        let Some(held) = state.held.take() else { return Ok(()) };
        let _own = suspend();
        state.report.made_singly += held.steps() as u64;
        state.report.count(format!("made one by one: {reason}"));
        let given_up = state.entries.fail(held.entry);
        given_up.into_iter().for_each(|reason| state.report.count(reason));
        // No call within a cancellation's scope is held; this thread may be in one by now.
        let made = cancel::outside(|| self.make_all(state, &held));
        if let Err(error) = &made {
            held.made.iter().filter(|d| d.is_waiting()).for_each(|d| d.set(Err(error.clone())));
        }
        self.end_held(state);
        made
    }

    fn make_all(&self, state: &mut State, held: &Held) -> Result<()> {
        let mut dropped: Vec<(u32, usize)> = (0..held.made.len())
            .filter_map(|number| Some((held.made[number].dropped_at()?, number)))
            .collect();
        dropped.sort_unstable();
        let mut dropped = dropped.into_iter().peekable();
        let mut tensors: Vec<Option<Tensor>> = vec![None; held.made.len()];
        for step in 0..held.steps() {
            let is_due = |(at, _): &(u32, usize)| *at as usize <= step;
            while let Some((_, number)) = dropped.next_if(is_due) {
                tensors[number] = None;
            }
            let tensor = |value: Value| {
                let tensor = match value {
                    Value::Input(number) => held.outside.get(number as usize).map(|(t, _)| t),
                    Value::Made(number) => tensors.get(number as usize).and_then(Option::as_ref),
                    Value::Outside(_) | Value::Gradient(_) => None,
                };
                let unknown = || Error::Internal { message: format!("{value} was not made") };
                tensor.cloned().ok_or_else(unknown)
            };
            let emit = || held.sequence.emit(&self.machine, step, tensor);
            let results = match emit() {
                Err(error) if is_out_of_memory(&error) && state.give_up_all() => emit(),
                results => results,
            }?;
            let note = &held.sequence.notes[step];
            if let Action::Release { tensor: Value::Made(number) } = note.action {
                held.made[number as usize].end(&note.origin);
            }
            for (result, tensor) in note.results.iter().zip(results) {
                if let Value::Made(number) = result.value
                    && tensors[number as usize].is_none()
                {
                    held.made[number as usize].set(Ok(tensor.clone()));
                    tensors[number as usize] = Some(tensor);
                }
            }
        }
        Ok(())
    }
}
