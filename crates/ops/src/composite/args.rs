//! The operands and arguments of a composite, by the names of its schema.

use millstream_types::{AttrValue, Attrs, DType, Result};

use crate::loss::LossReduction;

use super::Composite;
use crate::formula::{Calls, Expr, Symbol, passed, wrong};

/// What an expansion is given.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    pub(crate) calls: Calls<'a>,
    pub(super) op: &'a Composite,
    /// For each listed tensor its position among the given ones.
    pub(super) positions: &'a [Option<usize>],
    pub(super) inputs: &'a [Symbol],
    pub(super) attrs: &'a Attrs,
}

impl<'a> Args<'a> {
    /// Returns the tensor of this name; `None` if it is absent.
    pub(crate) fn optional(self, name: &str) -> Option<Expr<'a>> {
        let listed = self.op.inputs.iter().position(|input| input.name == name)?;
        let symbol = self.inputs.get((*self.positions.get(listed)?)?)?;
        Some(self.calls.of(*symbol))
    }

    /// Returns the tensor of this name.
    pub(crate) fn tensor(self, name: &str) -> Expr<'a> {
        let missing = || self.calls.refuse(wrong(format!("{name}: expected a tensor")));
        self.optional(name).unwrap_or_else(missing)
    }

    /// Returns the tensors of these names.
    pub(crate) fn tensors<const N: usize>(self, names: [&str; N]) -> [Expr<'a>; N] {
        names.map(|name| self.tensor(name))
    }

    /// Returns all tensors.
    pub(crate) fn all(self) -> Vec<Expr<'a>> {
        self.inputs.iter().map(|&symbol| self.calls.of(symbol)).collect()
    }

    /// Returns the whole number of this name.
    pub(crate) fn int(self, name: &str) -> Result<Option<i64>> {
        self.attrs.int(name)
    }

    /// Returns the list of whole numbers of this name.
    pub(crate) fn ints(self, name: &str) -> Result<Option<Vec<i64>>> {
        self.attrs.ints(name)
    }

    /// Returns the list of numbers of this name.
    pub(crate) fn numbers(self, name: &str) -> Result<Option<Vec<f64>>> {
        match self.attrs.get(name) {
            Some(AttrValue::Floats(list)) => Ok(Some(list.clone())),
            _ => Ok(self.ints(name)?.map(|list| list.into_iter().map(|v| v as f64).collect())),
        }
    }

    /// Returns the number of this name.
    pub(crate) fn number(self, name: &str, default: f64) -> Result<f64> {
        match self.attrs.get(name) {
            Some(AttrValue::Bool(v)) => Ok(f64::from(u8::from(*v))),
            _ => Ok(self.attrs.float(name)?.unwrap_or(default)),
        }
    }

    /// Returns the argument of this name; an error if it is absent.
    pub(crate) fn value(self, name: &str) -> Result<AttrValue> {
        let value = self.attrs.get(name).cloned();
        value.ok_or_else(|| wrong(format!("{name}: missing; this argument is required")))
    }

    /// Returns whether the argument of this name is given.
    pub(crate) fn has(self, name: &str) -> bool {
        self.attrs.get(name).is_some()
    }

    /// Returns the argument of this name, if it is given.
    pub(crate) fn attr(self, name: &str) -> Option<&'a AttrValue> {
        self.attrs.get(name)
    }

    /// Returns how the op reduces losses.
    pub(crate) fn reduction(self) -> Result<LossReduction> {
        LossReduction::of(self.attrs)
    }

    /// Returns the flag of this name.
    pub(crate) fn flag(self, name: &str, default: bool) -> Result<bool> {
        Ok(self.attrs.bool(name)?.unwrap_or(default))
    }

    /// Returns the dtype of this name.
    pub(crate) fn dtype(self, name: &str) -> Result<Option<DType>> {
        self.attrs.dtype(name)
    }

    /// Returns the text of this name.
    pub(crate) fn text(self, name: &str) -> Result<&'a str> {
        match self.attrs.get(name) {
            Some(AttrValue::Str(text)) => Ok(text),
            _ => Err(wrong(format!("{name}: expected a text"))),
        }
    }

    /// Returns these arguments, as far as they are given, for a call that takes them, too.
    pub(crate) fn passed(self, names: &[&'static str]) -> Attrs {
        passed(self.attrs, names)
    }
}
