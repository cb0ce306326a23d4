//! Lists made elsewhere. The checker has shown that they are ordered; this module checks what only
//! the ops' schemas determine.

use std::collections::HashMap;

use millstream_instructions::{Body, CheckedList, InstructionList, Operand, TensorRef};
use millstream_ops::{CallSpec, OpRegistry};
use millstream_stream_policy::PolicyTable;
use millstream_types::{Access, Attrs, Error, ListId, Result, TensorId, TensorSpec};

use crate::api::handle::Tensor;
use crate::api::machine::Machine;

use super::Job;
use super::store::{refused, storable, store};

impl Machine {
    /// Stores a checked list that was made elsewhere. `bound` are the tensors for its externals, in
    /// order.
    ///
    /// # Errors
    /// There is no memory for the list's tensors; the machine lacks one of its ops, streams or
    /// devices; an external differs from its tensor in dtype, shape, layout or device, or two of
    /// them share a storage; an instruction cannot stand in a stored list.
    pub fn store_checked(&self, list: &CheckedList, bound: Vec<Tensor>) -> Result<Job> {
        accepts(list, self.policies(), &self.shared.tables.ops)?;
        let list = list.list();
        if list.externals.len() != bound.len() {
            let (want, got) = (list.externals.len(), bound.len());
            let message = format!("{want} tensor(s) from outside are expected, {got} given");
            return Err(Error::List { message });
        }
        let emission = self.shared.lock()?;
        let mut storages = Vec::new();
        for (external, tensor) in list.externals.iter().zip(&bound) {
            let made = self.owns(tensor)?;
            let (spec, bytes) =
                (emission.builder.spec(made)?, emission.builder.storage_bytes(made)?);
            let device = list.arenas.get(external.arena.index());
            if *spec != external.spec || bytes < external.bytes || device != Some(tensor.device()) {
                let message = format!(
                    "external {:?} is {} in {} bytes, the tensor given for it {spec} in {bytes} \
                     bytes of {}",
                    external.name,
                    external.spec,
                    external.bytes,
                    tensor.device()
                );
                return Err(Error::List { message });
            }
            let storage = emission.router.slot(made.id).map(|s| s.storage);
            if storages.contains(&storage) {
                let message = format!("external {:?} shares its storage", external.name);
                return Err(Error::List { message });
            }
            storages.push(storage);
        }
        drop(emission);
        self.store_list(list, bound)
    }

    pub(super) fn store_list(&self, list: &InstructionList, bound: Vec<Tensor>) -> Result<Job> {
        let refs: Vec<TensorRef> = bound.iter().map(Tensor::tensor_ref).collect();
        for decl in &list.streams {
            self.policies().policy(&decl.key)?;
        }
        let mut emission = self.shared.lock()?;
        let job = store(&mut emission, list, &refs)?;
        let id = ListId(emission.next_list);
        emission.next_list += 1;
        emission.router.jobs.insert(id, job);
        Ok(Job { machine: self.clone(), list: id, _bound: bound })
    }
}

/// Checks that a machine with these streams, devices and ops can store a checked list: each call is
/// what its op's schema says, and no instruction needs more than the list. Makes and runs nothing.
///
/// # Errors
/// The first violation, with its place.
pub fn accepts(list: &CheckedList, policies: &PolicyTable, ops: &OpRegistry) -> Result<()> {
    let list = list.list();
    for decl in &list.streams {
        policies.policy(&decl.key)?;
    }
    for device in &list.arenas {
        policies.devices().probe(device)?;
    }
    for instruction in &list.instructions {
        if !storable(&instruction.body) {
            let kind = instruction.body.kind().name();
            let message = format!("{kind} cannot stand in a stored list");
            return Err(refused(message, &instruction.origin));
        }
    }
    check_signatures(list, ops)
}

/// Checks that each call of a list from elsewhere is one that its op accepts, with the
/// operands, accesses and workspace that the op's schema gives.
fn check_signatures(list: &InstructionList, ops: &OpRegistry) -> Result<()> {
    let mut specs: HashMap<TensorId, TensorSpec> =
        list.externals.iter().map(|e| (e.tensor, e.spec.clone())).collect();
    for instruction in &list.instructions {
        match &instruction.body {
            Body::AllocateTensor { tensor, spec, .. } | Body::ViewTensor { tensor, spec, .. } => {
                specs.insert(*tensor, (**spec).clone());
            }
            Body::OpCall { op, operands, attrs, workspace, .. } => {
                let name = list.ops.name(*op);
                let workspace = workspace.as_ref().map_or(0, |p| p.size);
                check_call(ops, name, operands, attrs.as_deref(), workspace, &specs)
                    .map_err(|e| e.at(&instruction.origin))?;
            }
            Body::ReleaseTensor { .. }
            | Body::TouchTensors { .. }
            | Body::SyncRead { .. }
            | Body::AccessBlobByCallback { .. }
            | Body::RecordEvent { .. }
            | Body::StreamWaitEvent { .. }
            | Body::StreamWait { .. }
            | Body::SoftSyncStream { .. }
            | Body::HostObserved { .. }
            | Body::Barrier { .. }
            | Body::GlobalSync { .. }
            | Body::CriticalSectionBegin { .. }
            | Body::CriticalSectionEnd { .. }
            | Body::LazyJobLauncher { .. } => {}
        }
    }
    Ok(())
}

fn check_call(
    ops: &OpRegistry,
    name: &str,
    operands: &[Operand],
    attrs: Option<&Attrs>,
    workspace: u64,
    specs: &HashMap<TensorId, TensorSpec>,
) -> Result<()> {
    let unknown = || Error::Internal { message: format!("{name} has no schema") };
    let op = ops.get(ops.id(name)?).ok_or_else(unknown)?;
    let given: Vec<TensorSpec> = operands
        .iter()
        .map(|o| specs.get(&o.tensor).cloned())
        .collect::<Option<_>>()
        .ok_or_else(|| Error::List { message: format!("{name}: an operand never began") })?;
    let wrong = |message: String| Error::Op { op: name.to_owned(), message };
    // The inputs come first. An op that takes any number of them tells which is meant by the
    // number of its outputs.
    let empty = Attrs::new();
    let attrs = attrs.unwrap_or(&empty);
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
        return Ok(());
    }
    Err(wrong(format!("{} operands are not what its schema says", given.len())))
}
