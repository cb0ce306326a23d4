//! Binds the names of inputs and outputs to tensors with their elements.

use millstream_types::layout::contiguous_strides;
use millstream_types::{Attrs, DType, TensorSpec};

use super::{Bound, Import, Lowered, Refusal, unsupported};
use crate::data::Data;
use crate::error::Site;
use crate::et::value::{Recorded, ValueError};
use crate::number::Number;
use crate::program::Output;
use crate::random::Distribution;
use crate::sidecar::{Sidecar, SidecarError};

fn missing_elements(error: SidecarError) -> Refusal {
    let hint = error.nearest.map_or(String::new(), |n| format!("; did you mean '{n}'?"));
    Refusal::Wrong(format!("{}{hint}", error.message))
}

impl Import<'_> {
    /// Defines an input with its elements.
    pub(crate) fn bind_input(&mut self, name: &str, given: &Recorded) -> Lowered<()> {
        let data = match self.notes.tensor(name) {
            Ok(sidecar) => Data::File(self.check_sidecar(sidecar, given)?),
            Err(error) => self.without_elements(name, given.dtype, error)?,
        };
        let strides = given.strides.clone().map_or_else(|| contiguous_strides(&given.shape), Ok)?;
        let shared = self.by_storage.get(&given.storage).filter(|_| given.numel() > 0);
        if let Some(&storage) = shared {
            // A second input of one storage: its elements are copied into the storage.
            if self.storages[storage.0].dtype.part() != given.dtype.part() {
                return Err(unsupported("two inputs of one storage have different dtypes"));
            }
            let spec = given.spec(&strides, 0)?;
            let root = self.storages[storage.0].root;
            let view = self.view(root, &spec)?;
            if spec.layout.may_overlap_itself() && self.is_known(view) {
                // An expanded view of elements that earlier inputs hold.
                self.by_tensor.insert(given.tensor, view);
                return Ok(());
            }
            let spec = TensorSpec::contiguous(given.dtype, &given.shape)?;
            let from = self.add_initial(name.to_owned(), spec, data, true);
            self.call("copy_", &[view, from], Attrs::new())?;
            self.by_tensor.insert(given.tensor, view);
            return Ok(());
        }
        let spec = given.spec(&strides, 0)?;
        let val = self.add_initial(name.to_owned(), spec, data, false);
        self.know_only(val)?;
        self.bind(given, val);
        Ok(())
    }

    /// Defines an output with its expected elements.
    pub(crate) fn bind_output(&mut self, name: &str, given: &Recorded) -> Lowered<()> {
        let Some(val) = self.bound_to(given) else {
            if self.options.structural {
                // The node that returned the tensor was skipped.
                return Ok(());
            }
            return Err(Refusal::Wrong(format!("no node returns the output {}", given.brief())));
        };
        self.check_known(val, 0)?;
        let val = self.evaluated(val)?;
        let (mut probe, mut tolerance) = (None, self.notes.tolerance());
        let expected = match (self.notes.tensor(name), self.notes.probe(name)) {
            (Ok(sidecar), _) => Some(Data::File(self.check_sidecar(sidecar, given)?)),
            (Err(_), Some((known, bound))) => {
                (probe, tolerance) = (Some(known), bound);
                None
            }
            (Err(_), None) if self.options.structural || self.options.random_inputs.is_some() => {
                None
            }
            (Err(error), None) => return Err(missing_elements(error)),
        };
        let drawn = self.is_drawn(val);
        if drawn && expected.is_some() {
            self.report.not_compared.push(name.to_owned());
        }
        let expected = expected.filter(|_| !drawn);
        if tolerance.rtol.is_none() || tolerance.atol.is_none() {
            tolerance = tolerance.or(self.tolerance_of(val, given.dtype, expected.as_ref()));
        }
        let output = Output {
            name: name.to_owned(),
            value: None,
            dtype: Some(given.dtype),
            shape: Some(given.shape.clone()),
            expected,
            probe,
            tolerance,
            site: self.site(),
        };
        self.bound.push(Bound { val, after: self.statements.len(), output });
        Ok(())
    }

    pub(super) fn site(&self) -> Site {
        Site { source: self.source.clone(), span: self.span }
    }

    pub(super) fn check_sidecar(
        &self,
        sidecar: Sidecar,
        given: &Recorded,
    ) -> Result<Sidecar, ValueError> {
        let sidecar = sidecar.expected_as(given.dtype);
        if (sidecar.dtype(), sidecar.shape()) == (given.dtype, &*given.shape) {
            return Ok(sidecar);
        }
        let kept = format!("{}{:?}", sidecar.dtype(), sidecar.shape());
        Err(format!("tensors.safetensors has {kept}, and the trace {}", given.brief()))
    }

    /// Returns the elements of an input that no file holds.
    fn without_elements(&mut self, name: &str, dtype: DType, error: SidecarError) -> Lowered<Data> {
        if let Some(data) = self.notes.hint(name, dtype) {
            return Ok(data);
        }
        if let Some(seed) = self.options.random_inputs {
            return Ok(self.random(seed, dtype));
        }
        if self.options.structural {
            self.report.made_up += 1;
            return Ok(self.made_up(dtype));
        }
        Err(missing_elements(error))
    }

    /// Returns random elements for a tensor.
    pub(super) fn random(&mut self, seed: u64, dtype: DType) -> Data {
        self.report.random_inputs += 1;
        let distribution = Distribution::inputs(dtype);
        Data::Random { seed: seed.wrapping_add(self.tensors.len() as u64), distribution }
    }

    /// Returns synthetic elements for a tensor with unknown ones.
    pub(super) fn made_up(&self, dtype: DType) -> Data {
        match dtype.is_inexact() && !self.notes.bound {
            true => Data::Random {
                seed: self.tensors.len() as u64,
                distribution: Distribution::Uniform { low: -1.0, high: 1.0 },
            },
            false => Data::Fill(Number::Int(0)),
        }
    }
}
