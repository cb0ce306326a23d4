//! Recorded lists: passes and compilation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use millstream_instructions::passes::{
    CoreCosts, Effort, Outputs, Pass, PassOptions, Remat, rematerialize,
};
use millstream_instructions::{Body, External, InstructionList};
use millstream_runtime::scope::origin::at_caller;
use millstream_runtime::tapes::tape::OutputSpec;
use millstream_types::{DeviceId, Error, Origin, Result, TensorId, TensorSpec};
use millstream_verify::{CheckOptions, same_operations, violations_with};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::handle::machine::Machine;

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
    /// Whether the list was shown to be sound.
    pub(super) is_proven: bool,
    /// The number of streams of each host device that the pass `assign` spreads calls over.
    pub(super) streams: usize,
    /// How long the search for offsets may take.
    pub(super) effort: Effort,
    /// The most private memory on a device, and the plans that keep it.
    pub(super) budgets: BTreeMap<DeviceId, u64>,
    pub(super) remat: Vec<Remat>,
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
pub const USUAL_PASSES: &[Pass] = &[Pass::Dead, Pass::Fuse, Pass::Waits, Pass::Remat, Pass::Memory];

/// Shows that a list is sound.
pub(super) fn prove(list: &InstructionList) -> Result<()> {
    let found = violations_with(list, CheckOptions { callbacks: true });
    let Some(first) = found.first() else { return Ok(()) };
    let instruction = first.index().and_then(|index| list.instructions.get(index));
    let origin = instruction.map_or(&Origin::Unknown, |instruction| &instruction.origin);
    Err(Error::List { message: first.to_string() }.at(origin))
}

/// Shows that a list does the same operations as the one before it.
fn compare(
    before: &InstructionList,
    after: &InstructionList,
    outputs: &Outputs,
    changed_by: &str,
) -> Result<()> {
    same_operations(before, after, outputs).map_err(|difference| {
        let message = format!("the {changed_by} changes the program: {difference}");
        Error::Internal { message }.at(&difference.origin)
    })
}

impl Recorded {
    pub(super) fn new(machine: Machine, list: InstructionList, signature: Signature) -> Recorded {
        Recorded {
            streams: machine.shared.host_workers,
            machine,
            list,
            signature,
            is_proven: false,
            effort: Effort::default(),
            budgets: BTreeMap::new(),
            remat: Vec::new(),
        }
    }

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

    /// Sets the number of streams of each host device that the pass [`Pass::Assign`] spreads calls
    /// over, at least one; the machine's number of workers of host streams by default.
    #[must_use]
    pub fn streams(self, streams: usize) -> Recorded {
        Recorded { streams: streams.max(1), ..self }
    }

    /// Sets how long the pass `memory` may search for offsets. The default is [`Effort::Usual`].
    #[must_use]
    pub fn plan_effort(mut self, effort: Effort) -> Recorded {
        self.effort = effort;
        self
    }

    /// Sets the most private memory of the list on devices, in bytes. The pass [`Pass::Remat`],
    /// one of the usual ones, keeps it: storages are computed again where they do not fit. With
    /// instances, each has this much.
    #[must_use]
    pub fn remat(mut self, budgets: impl IntoIterator<Item = (DeviceId, u64)>) -> Recorded {
        self.budgets = budgets.into_iter().collect();
        self
    }

    /// Returns the memory and the costs of the list on each device with a budget, once the pass
    /// [`Pass::Remat`] was applied.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// # let y = r.call("exp", &[x]).run()?[0];
    /// # let z = r.call("neg", &[y]).run()?[0];
    /// # r.output("z", &z)?;
    /// let recorded = r.finish()?.remat([(DeviceId::cpu(0), 1 << 20)]);
    /// let recorded = recorded.optimize(USUAL_PASSES, |_, _| ())?;
    /// for plan in recorded.remat_plans() {
    ///     assert_eq!((plan.budget, plan.again), (1 << 20, 0));
    /// }
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn remat_plans(&self) -> &[Remat] {
        &self.remat
    }

    /// Applies passes to the list, one after another, and proves that the last list is sound and
    /// does the same operations on the same data. Calls `after` with each pass and its list.
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
    /// The list does not fit a budget of [`Recorded::remat`]; or a pass fails its proof, which is a
    /// defect of the library.
    #[track_caller]
    pub fn optimize(
        self,
        passes: &[Pass],
        mut after: impl FnMut(Pass, &InstructionList),
    ) -> Result<Recorded> {
        at_caller(self.optimized(passes, &mut after))
    }

    fn optimized(
        self,
        passes: &[Pass],
        after: &mut dyn FnMut(Pass, &InstructionList),
    ) -> Result<Recorded> {
        let (machine, budgets) = (self.machine.clone(), self.budgets.clone());
        let (ops, kernels) = (&machine.shared.tables.ops, &machine.shared.tables.kernels);
        let standard_kernels = |op: &str| kernels.is_standard(op);
        let outputs = Outputs::All;
        let costs = CoreCosts::default();
        let options = PassOptions {
            ops,
            standard_kernels: &standard_kernels,
            costs: &costs,
            streams: self.streams,
            threads: machine.shared.tables.threads.count(),
            outputs: &outputs,
            effort: self.effort,
            budgets: &budgets,
        };
        if let Some(at) = passes.iter().position(|pass| *pass == Pass::Fold) {
            let folded = self.optimized(&passes[..at], after)?.folded(&options)?;
            after(Pass::Fold, &folded.list);
            return folded.optimized(&passes[at + 1..], after);
        }
        let list = &self.list;
        let mut better: Option<InstructionList> = None;
        let mut remat = self.remat.clone();
        for &pass in passes {
            let before = better.as_ref().unwrap_or(list);
            let next = match pass {
                Pass::Remat => {
                    let (next, plans) = rematerialize(before, &options)?;
                    remat = plans;
                    next
                }
                _ => pass.apply(before, &options)?,
            };
            after(pass, &next);
            better = Some(next);
        }
        let Some(better) = better.filter(|better| better != list) else {
            return Ok(Recorded { remat, ..self });
        };
        let proven =
            prove(&better).and_then(|()| compare(list, &better, &outputs, "sequence of passes"));
        // The passes are applied again, to name the one that is wrong.
        proven.or_else(|error| {
            let mut before = list.clone();
            for &pass in passes {
                let after = pass.apply(&before, &options)?;
                let name = format!("pass {pass}");
                prove(&after).and_then(|()| compare(&before, &after, &outputs, &name))?;
                before = after;
            }
            Err(error)
        })?;
        Ok(Recorded { list: better, is_proven: true, remat, ..self })
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
    #[track_caller]
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
    #[track_caller]
    pub fn compile_as_is(self) -> Result<Executable> {
        let Recorded { machine, list, signature, is_proven, .. } = self;
        if !is_proven {
            at_caller(prove(&list))?;
        }
        at_caller(machine.compile_sound(list, signature))
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
    let mut root_of: FxHashMap<TensorId, TensorId> = FxHashMap::default();
    let mut made: FxHashMap<TensorId, usize> = FxHashMap::default();
    for (index, instruction) in list.instructions.iter().enumerate() {
        let Some((tensor, _)) = instruction.body.begins() else { continue };
        match instruction.body.view_of() {
            Some(of) => drop(root_of.insert(tensor, root_of.get(&of).copied().unwrap_or(of))),
            None => drop(made.insert(tensor, index)),
        }
    }
    let mut externals: FxHashMap<TensorId, usize> =
        list.externals.iter().enumerate().map(|(k, external)| (external.tensor, k)).collect();
    let mut names: FxHashSet<String> = list.externals.iter().map(|e| e.name.clone()).collect();
    let mut outputs = Vec::with_capacity(named.len());
    for (name, tensor, spec) in named {
        let root = root_of.get(&tensor).copied().unwrap_or(tensor);
        let formal = match externals.get(&root) {
            Some(&known) => known,
            None => {
                let made = made.get(&root).map(|index| &list.instructions[*index].body);
                let Some(Body::AllocateTensor { spec, placement, .. }) = made else {
                    return Err(Error::Internal { message: format!("{root} is never made") });
                };
                let (spec, bytes, arena) = ((**spec).clone(), placement.size, placement.arena);
                let taken = names.contains(&name);
                let name = if taken { format!("output {name}") } else { name.clone() };
                names.insert(name.clone());
                externals.insert(root, list.externals.len());
                list.externals.push(External { tensor: root, name, spec, bytes, arena });
                list.externals.len() - 1
            }
        };
        outputs.push(OutputSpec { name, formal, spec: Arc::new(spec) });
    }
    // The launch begins and ends the storages of its outputs.
    list.instructions.retain(|i| {
        let (Body::AllocateTensor { tensor, .. } | Body::ReleaseTensor { tensor }) = &i.body else {
            return true;
        };
        !externals.contains_key(tensor)
    });
    Ok(outputs)
}
