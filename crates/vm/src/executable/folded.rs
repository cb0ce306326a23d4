//! Calls of constants, which are made once.

use std::fmt;
use std::sync::Arc;

use millstream_instructions::passes::{Folded, PassOptions, fold};
use millstream_instructions::{External, InstructionList};
use millstream_runtime::scope::origin;
use millstream_runtime::tapes::tape::{FormalKind, OutputSpec};
use millstream_types::{Error, Result};
use millstream_verify::same_when_folded;

use crate::handle::Tensor;

use super::recorded::prove;
use super::{Declared, Executable, Recorded, Signature};

/// The most bytes that results of folded calls take.
const MOST_BYTES: u64 = 64 << 20;

/// The calls of a list that were made once, before its first launch.
///
/// ```
/// # use millstream_vm::*;
/// let none = FoldedCalls::default();
/// assert_eq!(none.to_string(), "0 calls folded, with 0 bytes of results");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldedCalls {
    /// How many calls.
    pub calls: usize,
    /// The bytes of the results that launches use.
    pub bytes: u64,
}

impl fmt::Display for FoldedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls folded, with {} bytes of results", self.calls, self.bytes)
    }
}

impl Executable {
    /// Returns which calls of constants were made once, by the pass `fold`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let f = r.finish()?.compile()?;
    /// assert_eq!(f.folded(), FoldedCalls::default());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn folded(&self) -> FoldedCalls {
        self.0.folded
    }
}

impl Recorded {
    /// Makes the calls of constants, and binds their results to the rest of the list.
    ///
    /// # Errors
    /// The list writes a constant; a call fails, with its place; or a proof does, which is a defect
    /// of the library.
    pub(super) fn folded(mut self, options: &PassOptions<'_>) -> Result<Recorded> {
        let is_constant = |k: usize| self.signature.formals.get(k).is_some_and(|of| of.is_constant);
        let Some(split) = fold(&self.list, &is_constant, MOST_BYTES, options)? else {
            return Ok(self);
        };
        let Folded { whole, once, rest, results, calls, bytes } = split;
        prove(&once)?;
        prove(&rest)?;
        same_when_folded(&whole, &once, &rest, &results).map_err(|difference| {
            let message = format!("the pass fold changes the program: {difference}");
            Error::Internal { message }.at(&difference.origin)
        })?;
        let made = self.make(once)?;
        // The results are the last externals, in the order in which the calls return them.
        for external in rest.externals.iter().skip(self.list.externals.len()) {
            let missing =
                || Error::Internal { message: format!("{:?} is not made", external.name) };
            let result = made.iter().find(|(name, _)| *name == external.name);
            let (_, made) = result.ok_or_else(missing)?;
            self.signature.formals.push(Declared::bound(made.clone(), true));
        }
        self.signature.folded.calls += calls;
        self.signature.folded.bytes += bytes;
        Ok(Recorded { list: rest, is_proven: true, ..self })
    }

    /// Makes the calls of a list on constants, and waits. Returns its results, by name.
    fn make(&self, once: InstructionList) -> Result<Vec<(String, Tensor)>> {
        let of = |external: &External| {
            let known = self.list.externals.iter().position(|e| e.name == external.name);
            let bound = known.and_then(|k| self.signature.formals.get(k)?.bound.clone());
            let new = Declared::new(FormalKind::Output);
            bound.map_or(new, |tensor| Declared::bound(tensor, false))
        };
        let formals: Vec<Declared> = once.externals.iter().map(of).collect();
        let new = once.externals.iter().enumerate().filter(|(k, _)| formals[*k].bound.is_none());
        let outputs = new.map(|(formal, external)| OutputSpec {
            name: external.name.clone(),
            formal,
            spec: Arc::new(external.spec.clone()),
        });
        let signature = Signature { outputs: outputs.collect(), formals, ..Signature::default() };
        // The calls are made once, before the launches that the budgets are for.
        let once = Recorded {
            is_proven: true,
            streams: self.streams,
            effort: self.effort,
            ..Recorded::new(self.machine.clone(), once, signature)
        };
        let names: Vec<String> = once.signature.outputs.iter().map(|o| o.name.clone()).collect();
        let launched = once.compile()?.launch().origin(origin::caller()).make()?;
        launched.wait()?;
        Ok(names.into_iter().zip(launched.into_outputs()).collect())
    }
}
