//! Executables of lists that were compiled before.
//!
//! What a list is compiled to depends on the list, its places, the roles of its formals and its
//! outputs, and on the machine. The tensors that are bound to it, the leaves and the generators are
//! not in it, so an equal list gets the program of the earlier one, with its own tensors.

use std::fmt::Write;
use std::sync::PoisonError;

use millstream_instructions::text::print_list;
use millstream_runtime::scope::origin::at_caller;
use millstream_runtime::tapes::cache::{CacheCounts, ProgramKey};
use millstream_runtime::tapes::tape::FormalKind;
use millstream_types::Result;

use crate::handle::machine::Machine;

use super::{Executable, Recorded};

impl Recorded {
    /// Compiles the list as [`Recorded::compile`] does, or takes what an equal list was compiled
    /// to. A machine keeps the programs of the 64 lists that were used last, without the tensors
    /// that are bound to them. Those that an executable or a launch has stay.
    ///
    /// Lists are equal if their texts are, the places of their instructions, the names of their
    /// outputs and the settings of the compilation. A list with functions of the host
    /// ([`Recorder::access`](super::Recorder::access)) is compiled anew.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// for k in 0..3 {
    ///     let w = Tensor::full(2, k as f32, &machine)?;
    ///     let scaled = machine.record(|r| {
    ///         let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    ///         let w = r.bind(&w)?;
    ///         let y = r.call("mul", &[x, w]).run()?;
    ///         r.output("y", &y[0])
    ///     })?.compile_cached()?;
    ///     let x = Tensor::ones(2, DType::F32, &machine)?;
    ///     let launched = scaled.launch().input("x", &x).run()?;
    ///     assert_eq!(launched.output("y")?.to_vec::<f32>()?, [k as f32; 2]);
    /// }
    /// let counts = machine.compiled_lists();
    /// assert_eq!((counts.misses, counts.hits), (1, 2));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Recorded::compile`].
    #[track_caller]
    pub fn compile_cached(self) -> Result<Executable> {
        let machine = self.machine.clone();
        let cache = || machine.shared.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.signature.callbacks.is_empty() {
            cache().note_miss();
            return self.compile();
        }
        let key = self.key();
        let known = cache().find(&key);
        if let Some(program) = known {
            return at_caller(machine.executable_of(program, self.signature));
        }
        let executable = self.compile()?;
        let evicted = cache().insert(key, executable.0.program.clone());
        // Outside the lock.
        drop(evicted);
        Ok(executable)
    }

    /// Returns the hash of all that the program depends on, but for the machine.
    fn key(&self) -> ProgramKey {
        let Recorded { list, signature, streams, effort, budgets, .. } = self;
        let mut text = print_list(list);
        for instruction in &list.instructions {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}", instruction.origin);
        }
        for output in &signature.outputs {
            let _ = writeln!(text, "{:?} {} {}", output.name, output.formal, output.spec);
        }
        let kinds: Vec<FormalKind> = signature.formals.iter().map(|formal| formal.kind).collect();
        let _ = write!(text, "{kinds:?} {:?} ", signature.kept);
        let _ = write!(text, "{streams} {effort:?} {budgets:?}");
        *blake3::hash(text.as_bytes()).as_bytes()
    }
}

impl Machine {
    /// Returns what became of the lists that were compiled with [`Recorded::compile_cached`].
    ///
    /// ```
    /// # use millstream_vm::*;
    /// let machine = Machine::new(MachineConfig::default())?;
    /// assert_eq!(machine.compiled_lists(), CacheCounts::default());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn compiled_lists(&self) -> CacheCounts {
        self.shared.programs.lock().unwrap_or_else(PoisonError::into_inner).counts()
    }
}
