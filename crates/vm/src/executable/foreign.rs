//! Lists made elsewhere. The checker has shown that they are ordered; this module checks what only
//! the ops' schemas determine.

use millstream_instructions::{
    Body, CheckedList, External, InstructionList, Operand, ScalarDecl, check_uses,
};
use millstream_ops::{CallSpec, OpRegistry};
use millstream_runtime::scope::origin::at_caller;
use millstream_runtime::tapes::tape::FormalKind;
use millstream_stream_policy::PolicyTable;
use millstream_types::{
    Access, Attrs, Error, Result, ScalarUse, ScalarValue, TensorId, TensorSpec,
};
use rustc_hash::FxHashMap;

use crate::handle::machine::Machine;

use super::{Declared, Executable, Signature, scalars};

impl Machine {
    /// Compiles a checked list that was made elsewhere. Its externals are the executable's inputs,
    /// by name.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// machine.start_recording(&[("x", &x)])?;
    /// x.relu_()?;
    /// let list = machine.finish_recording()?;
    /// let checked = millstream_verify::check(list).unwrap();
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    ///
    /// let executable = machine.compile(&checked)?;
    /// executable.launch().input("x", &x).run()?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The machine lacks one of its ops, streams or devices; or an instruction cannot stand in an
    /// executable.
    #[track_caller]
    pub fn compile(&self, list: &CheckedList) -> Result<Executable> {
        accepts(list, self.policies(), &self.shared.tables.ops)?;
        let list = list.list().clone();
        let signature = Signature {
            formals: vec![Declared::new(FormalKind::Input); list.externals.len()],
            generators: scalars::generators_of(&list),
            ..Signature::default()
        };
        at_caller(self.compile_sound(list, signature))
    }
}

/// Checks that a machine with these streams, devices and ops can compile a checked list: each call
/// is what its op's schema says, and no instruction needs more than the list. Makes and runs
/// nothing.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
/// machine.start_recording(&[("x", &x)])?;
/// x.relu_()?;
/// let list = machine.finish_recording()?;
/// let checked = millstream_verify::check(list).unwrap();
///
/// accepts(&checked, machine.policies(), &millstream_ops::standard())?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// The first violation, with its place.
#[track_caller]
pub fn accepts(list: &CheckedList, policies: &PolicyTable, ops: &OpRegistry) -> Result<()> {
    let list = list.list();
    let mut all = list.executables.iter().chain([list]);
    at_caller(all.try_for_each(|list| accepts_one(list, policies, ops)))
}

fn accepts_one(list: &InstructionList, policies: &PolicyTable, ops: &OpRegistry) -> Result<()> {
    for decl in &list.streams {
        policies.query(&decl.key, |_| ())?;
    }
    for device in &list.arenas {
        policies.devices().probe(device)?;
    }
    for instruction in &list.instructions {
        // The functions are in the table of the machine that made the list.
        if let Body::AccessBlobByCallback { .. } = &instruction.body {
            let kind = instruction.body.kind().name();
            let message = format!("{kind} cannot stand in a list from elsewhere");
            return Err(Error::List { message }.at(&instruction.origin));
        }
    }
    check_signatures(list, ops, None)
}

/// Checks that each call of a list is one that its op accepts, with the operands, accesses and
/// workspace that the op's schema gives. `numbers` are those of a launch; without them, stand-ins
/// are checked.
pub(super) fn check_signatures(
    list: &InstructionList,
    ops: &OpRegistry,
    numbers: Option<&[ScalarValue]>,
) -> Result<()> {
    let external = |e: &External| (e.tensor, Operated { spec: e.spec.clone(), storage: e.tensor });
    let mut tensors: FxHashMap<TensorId, Operated> = list.externals.iter().map(external).collect();
    let number = |used: ScalarUse| {
        let given = numbers.and_then(|numbers| numbers.get(used.scalar.index()));
        given.map_or(used.into(), |number| number.plus(used.plus).into())
    };
    for instruction in &list.instructions {
        let body = &instruction.body;
        tensors.extend(body.begins().map(|(tensor, spec)| {
            let of = body.view_of().and_then(|of| tensors.get(&of));
            let storage = of.map_or(tensor, |of| of.storage);
            (tensor, Operated { spec: spec.clone(), storage })
        }));
        if let Body::OpCall { op, operands, attrs, workspace, .. } = body {
            let name = list.ops.name(*op);
            let workspace = workspace.as_ref().map_or(0, |p| p.size);
            let attrs = attrs.as_deref().map(|attrs| attrs.with_scalars(number));
            let attrs = attrs.unwrap_or_default();
            check_call(ops, list, name, operands, &attrs, workspace, &tensors)
                .map_err(|e| e.at(&instruction.origin))?;
        }
        if let (Body::LazyJobLauncher { list: launched, attrs: Some(attrs), .. }, Some(_)) =
            (body, numbers)
            && let Some(launched) = list.executables.get(launched.index())
        {
            let attrs = attrs.with_scalars(number);
            let given = |scalar: &ScalarDecl| {
                let given = attrs.get(&scalar.name).and_then(ScalarValue::of);
                given.unwrap_or(scalar.value)
            };
            let given: Vec<ScalarValue> = launched.scalars.iter().map(given).collect();
            check_signatures(launched, ops, Some(&given)).map_err(|e| e.at(&instruction.origin))?;
        }
    }
    Ok(())
}

/// Below this magnitude, a number fits into every float dtype.
const FITS: f64 = 65504.0;

/// Checks the numbers of a launch as eager calls do: the dtypes of the calls can hold them.
///
/// # Errors
/// A call refuses one.
pub(super) fn check_numbers(
    list: &InstructionList,
    ops: &OpRegistry,
    numbers: &[ScalarValue],
) -> Result<()> {
    let fits = |number: &ScalarValue| match number {
        ScalarValue::Int(_) => true,
        ScalarValue::Float(v) => v.abs() <= FITS,
    };
    if numbers.iter().all(fits) {
        return Ok(());
    }
    check_signatures(list, ops, Some(numbers)).map_err(|refused| {
        let message = format!("a call refuses a scalar: {refused}");
        Error::Invalid { what: "launch", message }
    })
}

/// A tensor of a list as an operand.
#[derive(Clone)]
struct Operated {
    spec: TensorSpec,
    /// The tensor that all views of its storage are views of.
    storage: TensorId,
}

impl Operated {
    /// Whether a kernel that writes this new tensor may have `read` among its operands: they share
    /// no bytes, or the op allows them to be one.
    fn may_overwrite(&self, read: &Operated, overwrites: bool) -> bool {
        let begin = |t: &Operated| t.spec.layout.offset() * t.spec.dtype.size();
        let bytes = |t: &Operated| begin(t)..t.spec.span_bytes();
        let (own, other) = (bytes(self), bytes(read));
        self.storage != read.storage
            || own.end <= other.start
            || other.end <= own.start
            || (overwrites && self.spec == read.spec)
    }
}

fn check_call(
    ops: &OpRegistry,
    list: &InstructionList,
    name: &str,
    operands: &[Operand],
    attrs: &Attrs,
    workspace: u64,
    tensors: &FxHashMap<TensorId, Operated>,
) -> Result<()> {
    let unknown = || Error::Internal { message: format!("{name} has no schema") };
    let op = ops.get(ops.id(name)?).ok_or_else(unknown)?;
    let operated: Vec<&Operated> = operands
        .iter()
        .map(|o| tensors.get(&o.tensor))
        .collect::<Option<_>>()
        .ok_or_else(|| Error::List { message: format!("{name}: an operand never began") })?;
    let given: Vec<TensorSpec> = operated.iter().map(|t| t.spec.clone()).collect();
    let wrong = |message: String| Error::Op { op: name.to_owned(), message };
    // The inputs come first. An op that takes any number of them tells which is meant by the
    // number of its outputs.
    check_uses(&**op, attrs, &list.scalars)?;
    for inputs in (0..=given.len()).rev().filter(|n| op.takes(*n)) {
        let call = CallSpec { inputs: &given[..inputs], attrs };
        let signature = match op.check(call) {
            Ok(signature) => signature,
            Err(error) if inputs == 0 || !op.takes(inputs - 1) => return Err(error),
            Err(_) => continue,
        };
        let fresh = millstream_instructions::builder::fresh_specs(&signature)?;
        if inputs + fresh.len() != given.len() {
            continue;
        }
        let shapes_fit = fresh
            .iter()
            .zip(&given[inputs..])
            .all(|(f, g)| f.dtype == g.dtype && f.shape() == g.shape());
        let accesses_fit = operands.iter().enumerate().all(|(k, o)| {
            // More may be claimed than is done; less may not.
            let done = signature.accesses.get(k).copied().unwrap_or(Access::Write);
            done.join(o.access) == o.access || (done == Access::Write && o.access.writes())
        });
        if !shapes_fit || !accesses_fit || (signature.workspace as u64) > workspace {
            return Err(wrong(
                "its operands, accesses or workspace are not what its schema says".to_owned(),
            ));
        }
        for (k, result) in operated.iter().enumerate().skip(inputs) {
            let others = operated.iter().enumerate().filter(|(other, _)| *other != k);
            let mut shared = others.filter(|(_, t)| !result.may_overwrite(t, op.overwrites()));
            if let Some((other, _)) = shared.next() {
                return Err(wrong(format!(
                    "operand {k} is a new result in the memory of operand {other}, which the \
                     kernel may read later; give the result memory of its own"
                )));
            }
        }
        return Ok(());
    }
    Err(wrong(format!("{} operands are not what its schema says", given.len())))
}
