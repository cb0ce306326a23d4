//! The import of one call, whose operands are described and not recorded.

use millstream_types::TensorSpec;

use super::{Import, Val};
use crate::data::Data;
use crate::et::value::Recorded;
use crate::program::{Action, ValueRef};

/// The parts of one lowered call.
pub(crate) struct Single {
    pub(crate) tensors: Vec<TensorSpec>,
    pub(crate) constants: Vec<(ValueRef, Data)>,
    pub(crate) actions: Vec<Action>,
    pub(crate) results: Vec<Option<ValueRef>>,
}

impl Import<'_> {
    /// Defines an operand and returns it as a recorded tensor.
    pub(crate) fn define_operand(&mut self, spec: &TensorSpec, storage: u64) -> Recorded {
        let tensor = self.tensors.len() as u64 + 1;
        let name = format!("operand {}", self.tensors.len());
        let val = match self.by_storage.get(&storage).copied() {
            Some(of) => {
                let bytes = &mut self.storages[of.0].bytes;
                *bytes = spec.span_bytes().max(*bytes);
                self.define(name, of, spec.clone())
            }
            None => {
                let val = self.define_storage(name, spec.clone(), None);
                self.by_storage.insert(storage, self.tensors[val.0].storage);
                val
            }
        };
        self.by_tensor.insert(tensor, val);
        Recorded {
            tensor,
            storage,
            dtype: spec.dtype,
            shape: spec.shape().into(),
            strides: Some(spec.layout.strides().into()),
            offset: spec.layout.offset(),
            on_host: false,
        }
    }

    /// Ends the import of one call with these results.
    pub(crate) fn into_single(self, results: &[Option<Val>]) -> Single {
        let value = |val: Val| ValueRef(val.0 as u32);
        Single {
            tensors: self.tensors.into_iter().map(|tensor| tensor.spec).collect(),
            constants: self.initial.into_iter().map(|i| (value(i.val), i.data)).collect(),
            actions: self.statements.into_iter().map(|statement| statement.action).collect(),
            results: results.iter().map(|result| result.map(value)).collect(),
        }
    }
}
