//! Checks of executables and of their launches.

use millstream_instructions::passes::arena_bytes;
use millstream_instructions::{InstructionList, Operand};
use millstream_types::{Access, Attrs, ListId, TensorId, TensorSpec};

use crate::check::{Mode, Walk, scalars, walk};
use crate::violation::Violation;

impl Walk<'_> {
    /// Checks the lists of the executables, each as a list of its own.
    pub(super) fn executables(&mut self) {
        for (k, executable) in self.list.executables.iter().enumerate() {
            let mode = Mode { needs: false, ..self.mode };
            for violation in walk(executable, mode).violations {
                let (list, violation) = (ListId(k as u32), Box::new(violation));
                self.report(|_| Violation::InExecutable { list, violation });
            }
        }
    }

    /// Checks that a launch gives its executable what that needs: first a tensor for each external,
    /// described as there, with all accesses of the list; then memory for each arena that the list
    /// uses, to be overwritten.
    pub(super) fn launch(
        &mut self,
        index: usize,
        list: ListId,
        operands: &[Operand],
        attrs: Option<&Attrs>,
    ) {
        let Some(executable) = self.list.executables.get(list.index()) else { return };
        let memory: Vec<u64> = arena_bytes(executable).into_iter().filter(|b| *b > 0).collect();
        let wanted = executable.externals.len() + memory.len();
        if operands.len() != wanted {
            let what = format!("{list} takes {wanted} operand(s), {} given", operands.len());
            self.report(|walk| Violation::BadLaunch { site: walk.site(index), what });
            return;
        }
        if let Some(what) = scalars::wrong(list, executable, attrs, &self.list.scalars) {
            self.report(|walk| Violation::BadLaunch { site: walk.site(index), what });
        }
        let (formals, private) = operands.split_at(executable.externals.len());
        let uses = executable.external_uses();
        for ((operand, external), used) in formals.iter().zip(&executable.externals).zip(uses) {
            let given = self.spec(operand.tensor).cloned();
            if given.as_ref().is_some_and(|given| !is_alike(given, &external.spec)) {
                let (tensor, spec) = (operand.tensor, &external.spec);
                let what =
                    format!("{tensor} is not {spec}, as {list} takes for {:?}", external.name);
                self.report(|walk| Violation::BadLaunch { site: walk.site(index), what });
            }
            if let Some(given) = given
                && let Ok(live) = self.liveness.live(operand.tensor)
            {
                // The list's views of an external lie within its declared bytes, and are as far
                // from the given tensor's first element as from the external's.
                let size = external.spec.dtype.size() as u64;
                let begin = given.layout.offset() as u64 * size;
                let before = external.spec.layout.offset() as u64 * size;
                let has = self.liveness.storage(live.storage).bytes;
                if begin < before || (begin - before).saturating_add(external.bytes) > has {
                    let what = format!(
                        "{list} may use {} bytes around {:?}, and the storage of {} has {has}",
                        external.bytes, external.name, operand.tensor
                    );
                    self.report(|walk| Violation::BadLaunch { site: walk.site(index), what });
                }
            }
            if used.is_some_and(|used| !states(operand.access, used)) {
                let what = format!(
                    "{list} has {} of {:?}, and the launch states {}",
                    used.unwrap_or(Access::Read),
                    external.name,
                    operand.access
                );
                self.report(|walk| Violation::BadLaunch { site: walk.site(index), what });
            }
        }
        for (operand, bytes) in private.iter().zip(memory) {
            let given = self.liveness.live(operand.tensor).map(|live| live.storage);
            let Ok(storage) = given else { continue };
            let has = self.liveness.storage(storage).bytes;
            if has < bytes || !operand.access.writes() {
                let what = format!(
                    "{list} overwrites {bytes} bytes of private memory, and {} has {has} bytes, \
                     stated as {}",
                    operand.tensor, operand.access
                );
                self.report(|walk| Violation::BadLaunch { site: walk.site(index), what });
            }
        }
    }

    /// Returns the description of a tensor, as the list states it.
    fn spec(&self, tensor: TensorId) -> Option<&TensorSpec> {
        spec_of(self.list, self.liveness.live(tensor).ok()?.begun, tensor)
    }
}

/// Returns the description of a tensor that began with an instruction, or is an external.
fn spec_of(list: &InstructionList, begun: Option<usize>, tensor: TensorId) -> Option<&TensorSpec> {
    match begun {
        Some(index) => list.instructions[index].body.begins().map(|(_, spec)| spec),
        None => list.externals.iter().find(|e| e.tensor == tensor).map(|e| &e.spec),
    }
}

/// Whether a tensor is what an external asks for. It may lie elsewhere in its storage.
fn is_alike(given: &TensorSpec, wanted: &TensorSpec) -> bool {
    given.dtype == wanted.dtype
        && given.shape() == wanted.shape()
        && given.layout.strides() == wanted.layout.strides()
}

/// Whether a stated access covers an access that is made. Overwriting a storage of which the rest
/// keeps its content is stated as a change.
fn states(stated: Access, made: Access) -> bool {
    stated == made || stated == Access::ReadWrite
}
