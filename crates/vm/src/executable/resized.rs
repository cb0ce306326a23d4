//! Executables of lists that differ from a compiled one in sizes alone.

use std::sync::{Arc, PoisonError};

use millstream_instructions::InstructionList;
use millstream_runtime::tapes::tape::OutputSpec;
use millstream_types::{Result, TensorSpec};

use super::foreign::check_signatures;
use super::recorded::prove;
use super::{Declared, Executable, Signature};

impl Executable {
    /// Compiles a list of the same instructions with other sizes, whose outputs have these specs.
    /// It is checked as a list from elsewhere is: each call is what its schema says, and the list
    /// is sound.
    ///
    /// # Errors
    /// The list is none that can be compiled, with the place of the call.
    pub(crate) fn resized(
        &self,
        list: InstructionList,
        outputs: Vec<TensorSpec>,
    ) -> Result<Executable> {
        let Executable(inner) = self;
        let (machine, program) = (&inner.machine, &inner.program);
        check_signatures(&list, &machine.shared.tables.ops, None)?;
        prove(&list)?;
        let output = |(old, spec): (&OutputSpec, TensorSpec)| OutputSpec {
            name: old.name.clone(),
            formal: old.formal,
            spec: Arc::new(spec),
        };
        let formals = program
            .formals
            .iter()
            .zip(&inner.bound)
            .map(|(formal, bound)| Declared { bound: bound.clone(), ..Declared::new(formal.kind) });
        let kept = inner.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let signature = Signature {
            formals: formals.collect(),
            outputs: program.outputs.iter().zip(outputs).map(output).collect(),
            kept: kept.iter().map(|output| output.output).collect(),
            generators: inner.generators.to_vec(),
            ..Signature::default()
        };
        drop(kept);
        machine.compile_sound(list, signature)
    }

    /// Returns the specs of the outputs.
    pub(crate) fn output_specs(&self) -> impl Iterator<Item = &TensorSpec> {
        self.0.program.outputs.iter().map(|output| &*output.spec)
    }
}
