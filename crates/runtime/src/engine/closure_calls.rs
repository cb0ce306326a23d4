//! The prepared calls of the engine's functions: one for each number of operands, priority and
//! name. Those of few operands are stored.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::builder::PreparedCall;
use millstream_instructions::{InstructionsBuilder, Priority, Sink, TensorRef};
use millstream_ops::closure::{NAME, OVERWRITES, READS};
use millstream_types::{Attrs, OpId, Result};

use crate::engine::router::Router;
use crate::thread_ctx::task::MAX_TENSORS;

/// The form of a function's call.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosureForm {
    /// How many operands it reads only, reads and writes, and overwrites.
    pub(crate) reads: u32,
    pub(crate) writes: u32,
    pub(crate) overwrites: u32,
    pub(crate) priority: Priority,
    pub(crate) name: Option<Cow<'static, str>>,
}

/// More forms are prepared anew for each call.
const MOST: usize = 256;

/// The forms of calls that were made, with their prepared calls.
#[derive(Debug, Default)]
pub struct ClosureCalls {
    op: Option<OpId>,
    calls: Vec<(ClosureForm, PreparedCall)>,
}

impl ClosureForm {
    fn attrs(&self) -> Attrs {
        let mut attrs = Attrs::new();
        if self.reads > 0 {
            attrs.set(READS, i64::from(self.reads));
        }
        if self.overwrites > 0 {
            attrs.set(OVERWRITES, i64::from(self.overwrites));
        }
        if let Some(name) = &self.name {
            attrs.set(NAME, name.as_ref());
        }
        attrs
    }
}

impl ClosureCalls {
    /// Prepares a call of this form on `operands`, which may be any tensors.
    ///
    /// # Errors
    /// An operand was released or is held.
    pub(crate) fn prepare(
        &mut self,
        builder: &mut InstructionsBuilder,
        form: &ClosureForm,
        operands: &[TensorRef],
    ) -> Result<PreparedCall> {
        let op = match self.op {
            Some(op) => op,
            None => *self.op.insert(builder.ops().id(millstream_ops::closure::CLOSURE)?),
        };
        let mut call = builder.prepare(op, operands, &Arc::new(form.attrs()))?;
        call.priority = form.priority;
        Ok(call)
    }

    /// Returns the prepared call of this form on variables; none if there are too many forms.
    ///
    /// # Errors
    /// As [`ClosureCalls::prepare`].
    #[inline]
    pub(crate) fn known(
        &mut self,
        builder: &mut InstructionsBuilder,
        router: &mut Router,
        form: &ClosureForm,
        operands: &[TensorRef],
    ) -> Result<Option<&mut PreparedCall>> {
        let known = self.calls.iter().position(|(known, _)| known == form);
        let at = match known {
            Some(at) => at,
            None if self.calls.len() == MOST => return Ok(None),
            None => {
                let mut call = self.prepare(builder, form, operands)?;
                if operands.len() <= MAX_TENSORS {
                    // No kernel is bound to the operands, whatever they are.
                    call.number = router.store_call(&call, SmallVec::new());
                }
                self.calls.push((form.clone(), call));
                self.calls.len() - 1
            }
        };
        Ok(self.calls.get_mut(at).map(|(_, call)| call))
    }
}
