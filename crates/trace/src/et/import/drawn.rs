//! The results of random ops: those that the recording holds, and own numbers with all that
//! depends on them.

use millstream_types::{Access, Attrs, TensorSpec};

use super::{Import, Lowered, Refusal, Val, unsupported};
use crate::data::Data;
use crate::et::args::NodeArgs;
use crate::et::sidecar_notes::Place;
use crate::et::value::{Arg, Recorded};

impl Import<'_> {
    /// Returns whether the recording holds results of the current node.
    pub(crate) fn has_recorded_results(&self) -> bool {
        self.notes.has_results(self.node)
    }

    /// Returns a new tensor with the recorded elements of a result.
    pub(crate) fn recorded_result(
        &mut self,
        number: usize,
        results: &[Option<Recorded>],
    ) -> Lowered<Val> {
        let given = results.get(number).and_then(Option::as_ref);
        let given = given.ok_or_else(|| Refusal::Wrong(format!("it has no result {number}")))?;
        self.recorded(Place::Result(number), given)
    }

    /// Returns a new tensor with the recorded elements of an argument that the node writes.
    pub(crate) fn recorded_argument(&mut self, of: &NodeArgs<'_>, name: &str) -> Lowered<Val> {
        match of.get(name) {
            Some((at, Arg::Tensor(given))) => self.recorded(Place::Written(at), &given.clone()),
            _ => Err(Refusal::Wrong(format!("'{name}': expected a tensor"))),
        }
    }

    fn recorded(&mut self, place: Place, given: &Recorded) -> Lowered<Val> {
        let Some(sidecar) = self.notes.result(self.node, place) else {
            return Err(Refusal::Wrong(format!(
                "consts.json does not have {place}, {}",
                given.brief()
            )));
        };
        let sidecar = self.check_sidecar(sidecar, given)?;
        let spec = TensorSpec::contiguous(given.dtype, &given.shape)?;
        let data = self.constant(spec, Data::File(sidecar));
        self.apply("clone", &[data])
    }

    /// Refuses a random op without recorded results, unless it may draw own numbers.
    pub(crate) fn check_may_draw(&self) -> Lowered<()> {
        match self.options.random.is_some() || self.options.structural {
            true => Ok(()),
            false => Err(Refusal::Wrong(
                "it is random, and the recording does not hold its results: expected a recording \
                 by tools/record.py, or own numbers by `--random SEED`"
                    .to_owned(),
            )),
        }
    }

    /// Adds the next draw, if this is allowed.
    pub(crate) fn draw(&mut self, attrs: Attrs) -> Lowered<Attrs> {
        self.check_may_draw()?;
        Ok(self.next_draw(attrs))
    }

    /// Notes the masks that a node drew for its gradient. Both have the tensor `shared`.
    pub(crate) fn note_masks(&mut self, shared: Option<&Recorded>, masks: Vec<Val>) {
        if let Some(shared) = shared.filter(|_| !masks.is_empty()) {
            self.masks.insert(shared.storage, masks);
        }
    }

    /// Returns the masks of the node that made a tensor.
    pub(crate) fn masks(&self, shared: &Arg) -> Lowered<Vec<Val>> {
        let masks = match shared {
            Arg::Tensor(shared) => self.masks.get(&shared.storage).cloned(),
            _ => None,
        };
        masks.ok_or_else(|| unsupported("the gradient of a dropout that the trace does not hold"))
    }

    /// Adds the seed, and the offset of the next draw.
    pub(crate) fn next_draw(&mut self, attrs: Attrs) -> Attrs {
        self.report.drawn += 1;
        let offset = self.report.drawn as i64;
        attrs.with("seed", self.options.random.unwrap_or(0) as i64).with("offset", offset)
    }

    /// Notes that a call's results depend on own random numbers, if it draws any or reads tensors
    /// that do.
    pub(super) fn track_drawn(&mut self, draws: bool, operands: &[(Val, Access)], results: &[Val]) {
        let reads = operands.iter().filter(|(_, access)| access.reads());
        let mut read = reads.map(|(val, _)| self.is_drawn(*val));
        if !(draws || read.any(|drawn| drawn)) {
            return;
        }
        let written = operands.iter().filter(|(_, access)| access.writes()).map(|(val, _)| *val);
        for val in written.chain(results.iter().copied()).collect::<Vec<_>>() {
            self.storage_mut(val).drawn = true;
        }
    }

    /// Returns whether a tensor depends on own random numbers.
    pub(super) fn is_drawn(&self, val: Val) -> bool {
        self.storage(val).drawn
    }
}
