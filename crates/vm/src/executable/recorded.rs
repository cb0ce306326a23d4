//! Recorded lists: passes and compilation.

use std::collections::HashMap;
use std::fmt;

use millstream_instructions::passes::{CoreCosts, Outputs, Pass, PassOptions};
use millstream_instructions::{Body, External, InstructionList};
use millstream_types::{Error, Result, TensorId, TensorSpec};
use millstream_verify::{CheckOptions, same_operations, violations_with};

use crate::api::machine::Machine;

use super::tape::OutputSpec;
use super::{Executable, Signature};

/// A recorded list with its formals. Clones are the same list.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{DType, TensorSpec};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let mut r = machine.recorder();
/// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// let recorded: Recorded = r.finish()?;
/// println!("{}", millstream_instructions::text::print_list(recorded.list()));
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub struct Recorded {
    pub(super) machine: Machine,
    pub(super) list: InstructionList,
    pub(super) signature: Signature,
}

/// The passes that [`Recorded::compile`] applies.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{DType, TensorSpec};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let mut r = machine.recorder();
/// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// let recorded = r.finish()?.optimize(USUAL_PASSES, |pass, _| println!("{pass:?}"))?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub const USUAL_PASSES: &[Pass] = &[Pass::Dead, Pass::Fuse, Pass::Waits, Pass::Memory];

/// Shows that a list is sound.
fn prove(list: &InstructionList) -> Result<()> {
    let found = violations_with(list, CheckOptions { callbacks: true });
    let Some(first) = found.first() else { return Ok(()) };
    Err(Error::List { message: first.to_string() })
}

impl Recorded {
    /// Returns the list.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let recorded = r.finish()?;
    /// assert_eq!(recorded.list().externals[0].name, "x");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub const fn list(&self) -> &InstructionList {
        &self.list
    }

    /// Applies passes to the list, one after another, and proves after each that the list is sound
    /// and does the same operations on the same data. Calls `after` with each pass and its list.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let recorded = r.finish()?.optimize(USUAL_PASSES, |_, _| ())?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A pass fails its proof, which is a defect of the library.
    pub fn optimize(
        self,
        passes: &[Pass],
        mut after: impl FnMut(Pass, &InstructionList),
    ) -> Result<Recorded> {
        let Recorded { machine, mut list, signature } = self;
        let (ops, kernels) = (&machine.shared.tables.ops, &machine.shared.tables.kernels);
        let standard_kernels = |op: &str| kernels.is_standard(op);
        let outputs = Outputs::All;
        let streams = machine.shared.host_workers;
        let costs = CoreCosts::default();
        let options = PassOptions {
            ops,
            standard_kernels: &standard_kernels,
            costs: &costs,
            streams,
            outputs: &outputs,
        };
        for &pass in passes {
            let better = pass.apply(&list, &options)?;
            prove(&better)?;
            same_operations(&list, &better, &outputs).map_err(|difference| {
                let message = format!("the pass {pass} changes the program: {difference}");
                Error::Internal { message }.at(&difference.origin)
            })?;
            after(pass, &better);
            list = better;
        }
        Ok(Recorded { machine, list, signature })
    }

    /// Compiles the list after the usual passes, [`USUAL_PASSES`]: all that leave each call on the
    /// stream on which it was recorded.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let executable = r.finish()?.compile()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Recorded::optimize`] and [`Recorded::compile_as_is`].
    pub fn compile(self) -> Result<Executable> {
        self.optimize(USUAL_PASSES, |_, _| ())?.compile_as_is()
    }

    /// Compiles the list without passes, once it has been shown to be sound.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let executable = r.finish()?.compile_as_is()?; // without passes
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An instruction cannot stand in an executable, with its place.
    pub fn compile_as_is(self) -> Result<Executable> {
        let Recorded { machine, list, signature } = self;
        prove(&list)?;
        machine.compile_sound(list, signature)
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorded({} instructions)", self.list.instructions.len())
    }
}

/// Makes the storages of outputs externals of the list, and returns the outputs. A storage that an
/// output lies in is not private memory: each launch has its own.
pub(super) fn outputs_of(
    list: &mut InstructionList,
    named: Vec<(String, TensorId, TensorSpec)>,
) -> Result<Vec<OutputSpec>> {
    let mut root_of: HashMap<TensorId, TensorId> = HashMap::new();
    for instruction in &list.instructions {
        if let Body::ViewTensor { tensor, of, .. } = &instruction.body {
            let root = root_of.get(of).copied().unwrap_or(*of);
            root_of.insert(*tensor, root);
        }
    }
    let mut outputs = Vec::with_capacity(named.len());
    for (name, tensor, spec) in named {
        let root = root_of.get(&tensor).copied().unwrap_or(tensor);
        let known = list.externals.iter().position(|e| e.tensor == root);
        let formal = match known {
            Some(known) => known,
            None => {
                let made = list.instructions.iter().position(
                    |i| matches!(&i.body, Body::AllocateTensor { tensor, .. } if *tensor == root),
                );
                let unmade = || Error::Internal { message: format!("{root} is never made") };
                let made = list.instructions.remove(made.ok_or_else(unmade)?);
                if let Body::AllocateTensor { spec, placement, .. } = made.body {
                    let (bytes, arena) = (placement.size, placement.arena);
                    let taken = list.externals.iter().any(|e| e.name == name);
                    let name = if taken { format!("output {name}") } else { name.clone() };
                    list.externals.push(External { tensor: root, name, spec: *spec, bytes, arena });
                }
                list.externals.len() - 1
            }
        };
        outputs.push(OutputSpec { name, formal, spec });
    }
    // The launch ends the storages of its outputs.
    let externals = &list.externals;
    list.instructions.retain(|i| {
        !matches!(&i.body, Body::ReleaseTensor { tensor }
            if externals.iter().any(|e| e.tensor == *tensor))
    });
    Ok(outputs)
}
