//! Calls whose schema is asked once, to be made many times.

use std::fmt;
use std::sync::Arc;

use millstream_instructions::builder::PreparedCall;
use millstream_instructions::{Outcome, TensorRef};
use millstream_types::{Attrs, Origin, Result};

use crate::emission::Emission;
use crate::handle::{Stream, Tensor};
use crate::machine::Machine;

/// A call with its operands, checked once. Making it costs what order costs, and no more.
#[derive(Clone)]
pub struct Prepared {
    machine: Machine,
    call: PreparedCall,
    /// The operands live as long as the call can be made.
    _operands: Vec<Tensor>,
}

impl Machine {
    /// Prepares a call of an op that changes tensors in place and makes none.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or makes tensors.
    #[track_caller]
    pub fn prepare(&self, name: &str, inputs: &[&Tensor], attrs: Attrs) -> Result<Prepared> {
        let origin = Origin::caller();
        let op = self.op(name).map_err(|e| e.at(&origin))?;
        let refs: Vec<TensorRef> = inputs
            .iter()
            .map(|t| self.owns(t))
            .collect::<Result<_>>()
            .map_err(|e| e.at(&origin))?;
        let emission = self.shared.lock()?;
        let call = emission.builder.prepare(op.id, &refs, &Arc::new(attrs));
        drop(emission);
        let call = call.map_err(|e| e.at(&origin))?;
        let operands = inputs.iter().map(|t| (*t).clone()).collect();
        Ok(Prepared { machine: self.clone(), call, _operands: operands })
    }
}

impl Prepared {
    /// Makes the call on a stream.
    ///
    /// # Errors
    /// A tensor was released by hand or is held, or the stream is another machine's.
    #[track_caller]
    pub fn on(&self, stream: &Stream) -> Result<()> {
        let origin = Origin::caller();
        if !Arc::ptr_eq(&stream.machine.shared, &self.machine.shared) {
            let what = "the stream".to_owned();
            return Err(millstream_types::Error::Foreign { what }.at(&origin));
        }
        self.machine.shared.emit(&origin, |e| {
            e.open(stream.id)?;
            let Emission { builder, router, .. } = e;
            builder.call_prepared(router, stream.id, &self.call, &origin).map(Outcome::Done)
        })?;
        Ok(())
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Prepared").field(&self.call).finish()
    }
}
