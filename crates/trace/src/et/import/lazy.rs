//! Views whose elements PyTorch conjugates or negates when an op reads them. Here such a view is
//! one of the same storage, and a call that reads it reads a new tensor instead.
//!
//! A recording has only addresses, which PyTorch reuses. `consts.json` lists the operands that are
//! such views; a trace without it cannot be trusted to tell them apart.

use millstream_types::{Access, Attrs};
use serde::Deserialize;

use super::{Import, Lowered, Refusal, Val};
use crate::et::value::Recorded;

/// What PyTorch does to the elements of a view when an op reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Lazy {
    /// Whether they are conjugated.
    pub(crate) conjugate: bool,
    /// Whether they are negated.
    pub(crate) negate: bool,
}

impl Lazy {
    pub(crate) const NONE: Lazy = Lazy { conjugate: false, negate: false };
}

impl Import<'_> {
    pub(crate) fn lazy(&self, val: Val) -> Lazy {
        self.tensors[val.0].lazy
    }

    /// Returns a view of all of a tensor with these properties.
    pub(crate) fn as_lazy(&mut self, val: Val, lazy: Lazy) -> Lowered<Val> {
        let made = self.apply("alias", &[val])?;
        self.tensors[made.0].lazy = lazy;
        Ok(made)
    }

    /// Returns the tensor of an argument with the properties that `consts.json` has for it.
    pub(super) fn checked_lazy(&mut self, given: &Recorded, val: Val) -> Lowered<Val> {
        let known = self.notes.lazy.get(&(self.node, given.tensor)).copied();
        let (known, own) = (known.unwrap_or_default(), self.lazy(val));
        if known == own || self.options.structural {
            return Ok(val);
        }
        if !self.notes.has_consts {
            return Err(Refusal::Wrong(format!(
                "{} is a view that PyTorch conjugates or negates when it is read: expected \
                 consts.json, which lists these views",
                given.brief()
            )));
        }
        let view = self.as_lazy(val, known)?;
        self.by_tensor.insert(given.tensor, view);
        Ok(view)
    }

    /// Returns a tensor with the elements that an op reads.
    pub(crate) fn evaluated(&mut self, val: Val) -> Lowered<Val> {
        let Lazy { conjugate, negate } = self.lazy(val);
        let own = std::mem::take(&mut self.tensors[val.0].lazy);
        let mut made = Ok(val);
        for (op, wanted) in [("conj_physical", conjugate), ("neg", negate)] {
            if wanted {
                made = made.and_then(|val| self.apply(op, &[val]));
            }
        }
        self.tensors[val.0].lazy = own;
        made
    }

    /// Appends a call some of whose operands are lazy: it reads evaluated ones, and a written one
    /// gets its elements back.
    pub(super) fn emit_evaluated(
        &mut self,
        op: &str,
        inputs: &[Val],
        attrs: Attrs,
        accesses: &[Access],
    ) -> Lowered<Vec<Val>> {
        let mut operands = inputs.to_vec();
        for operand in &mut operands {
            if self.lazy(*operand) != Lazy::NONE {
                *operand = self.evaluated(*operand)?;
            }
        }
        let made = self.emit(op, &operands, attrs, None, None)?;
        for ((&input, &operand), access) in inputs.iter().zip(&operands).zip(accesses) {
            if access.writes() && input != operand {
                let lazy = self.lazy(input);
                let written = self.as_lazy(operand, lazy)?;
                let written = self.evaluated(written)?;
                let target = self.as_lazy(input, Lazy::NONE)?;
                self.apply("copy_", &[target, written])?;
            }
        }
        let restored = |val: Val| match operands.iter().position(|operand| *operand == val) {
            Some(k) => inputs[k],
            None => val,
        };
        Ok(made.into_iter().map(restored).collect())
    }
}
