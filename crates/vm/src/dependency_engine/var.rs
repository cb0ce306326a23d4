//! Variables.

use std::fmt;
use std::sync::Arc;

use millstream_instructions::TensorRef;
use millstream_runtime::engine::push::Uses;
use millstream_types::Access;

use crate::handle::Tensor;

struct VarInner {
    tensor: Tensor,
    slot: TensorRef,
    /// The number of the storage, under which poison is kept.
    storage: u64,
    /// Whether it has no data: it stands for no tensor of the program.
    is_plain: bool,
}

/// A variable of an [`DependencyEngine`](crate::DependencyEngine): what functions read and write.
/// Clones are the same variable; it ends with the last one.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let engine = machine.dependency_engine()?;
/// # let a = engine.var()?;
/// let b: Var = engine.var()?;
/// engine.push(|| ()).reads(&[&a]).writes(&[&b]).spawn()?;
/// engine.wait_for(&b)?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone)]
pub struct Var(Arc<VarInner>);

impl Var {
    pub(super) fn new(tensor: Tensor, slot: TensorRef, storage: u64, is_plain: bool) -> Var {
        Var(Arc::new(VarInner { tensor, slot, storage, is_plain }))
    }

    #[inline]
    pub(super) fn slot(&self) -> TensorRef {
        self.0.slot
    }

    /// Adds uses of variables by a push of a machine.
    #[inline]
    pub(super) fn add_uses(uses: &mut Uses, vars: &[&Var], access: Access, machine: u64) {
        for var in vars {
            uses.add(var.slot(), access, var.is_plain(), var.machine() == machine);
        }
    }

    pub(super) fn storage(&self) -> u64 {
        self.0.storage
    }

    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.0.is_plain
    }

    pub(super) fn tensor(&self) -> &Tensor {
        &self.0.tensor
    }

    #[inline]
    pub(super) fn machine(&self) -> u64 {
        self.0.tensor.machine().shared.tables.machine
    }
}

impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Var").field(&self.0.slot.id).finish()
    }
}
