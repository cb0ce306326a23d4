//! Calls of constants, which are made once.

use std::collections::BTreeMap;
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
use super::{Executable, Recorded, Signature};

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
        let is_constant = |k: usize| self.signature.constants.get(k).copied().unwrap_or_default();
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
            self.signature.bound.push(Some(result.ok_or_else(missing)?.1.clone()));
            self.signature.kinds.push(FormalKind::Bound);
            self.signature.constants.push(true);
        }
        self.signature.folded.calls += calls;
        self.signature.folded.bytes += bytes;
        Ok(Recorded { list: rest, is_proven: true, ..self })
    }

    /// Makes the calls of a list on constants, and waits. Returns its results, by name.
    fn make(&self, once: InstructionList) -> Result<Vec<(String, Tensor)>> {
        let of = |external: &External| {
            let known = self.list.externals.iter().position(|e| e.name == external.name);
            known.and_then(|k| self.signature.bound.get(k).cloned().flatten())
        };
        let bound: Vec<Option<Tensor>> = once.externals.iter().map(of).collect();
        let kind = |bound: &Option<Tensor>| match bound {
            Some(_) => FormalKind::Bound,
            None => FormalKind::Output,
        };
        let new = once.externals.iter().enumerate().filter(|(k, _)| bound[*k].is_none());
        let outputs = new.map(|(formal, external)| OutputSpec {
            name: external.name.clone(),
            formal,
            spec: Arc::new(external.spec.clone()),
        });
        let signature = Signature {
            kinds: bound.iter().map(kind).collect(),
            outputs: outputs.collect(),
            constants: vec![false; bound.len()],
            bound,
            ..Signature::default()
        };
        let once = Recorded {
            machine: self.machine.clone(),
            list: once,
            signature,
            is_proven: true,
            streams: self.streams,
            effort: self.effort,
            // The calls are made once, before the launches that the budgets are for.
            budgets: BTreeMap::new(),
            remat: Vec::new(),
        };
        let names: Vec<String> = once.signature.outputs.iter().map(|o| o.name.clone()).collect();
        let launched = once.compile()?.launch().origin(origin::caller()).make()?;
        launched.wait()?;
        Ok(names.into_iter().zip(launched.into_outputs()).collect())
    }
}
