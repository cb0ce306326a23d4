//! Global tensors: tensors that the ranks of a mesh hold together.
//!
//! A global tensor has the spec of the whole and a [`Sharding`]. Each rank of the mesh has a tensor
//! of its own, its *part*; other ranks have none, and emit nothing. A call on global tensors is
//! planned by the pure functions of `millstream_ops::boxing`, so all ranks take the same decisions:
//! each rank redistributes its parts of the operands and makes the call on them.
//!
//! # Rules
//! 1. A plan depends on the op, its arguments, and the specs and shardings of the operands alone,
//!    never on parts, so ranks outside the mesh compute the same specs.
//! 2. Plans are remembered by thread. A look-up compares all that a plan depends on.
//! 3. A redistributed operand is dense and row-major on every rank, and counts as such in the spec
//!    of the whole. So a view of the whole is a view of the parts.
//! 4. The calls on parts pass recordings and traces, not the tape: the tape notes the global call.
//!
//! | module | holds |
//! |---|---|
//! | `agreement` | the exchange of small values, and whether ranks compile one function |
//! | `boxing` | the calls of a redistribution |
//! | `call` | calls of ops |
//! | `launch` | the global tensors of a list, and those of its launches |
//! | `layouts` | how ranks hold the tensors of a planned function, as programs read it |
//! | `plan` | what a call does, and the plans of a thread |
//! | `survey` | functions whose calls are planned together |
//! | `views` | which tensors share memory, and which would on one rank |

pub(crate) mod agreement;
mod boxing;
mod call;
mod launch;
mod layouts;
mod plan;
pub(crate) mod survey;
mod views;

use std::sync::Arc;

use millstream_types::{Coordinates, Error, Mesh, Origin, Result, Sharding, TensorSpec};

use crate::handle::machine::Machine;
use crate::handle::{Stream, Tensor};

pub(crate) use boxing::{is_reduction, redistribute, redistributed, reduce_together};
pub(crate) use call::{create, held_as, make, upload};
pub use launch::GlobalFormals;
pub use layouts::{CallLayout, Layouts};
pub(crate) use views::Views;

/// The spec and the sharding of a global tensor.
pub(crate) type Class = (Arc<TensorSpec>, Arc<Sharding>);

/// What a rank knows of a tensor that the ranks of a mesh hold.
pub(crate) struct Global {
    /// The part of this rank; none outside the mesh.
    pub(crate) local: Option<Tensor>,
    pub(crate) sharding: Arc<Sharding>,
    pub(super) views: Views,
}

impl Global {
    /// Returns the part of this rank.
    ///
    /// # Errors
    /// The rank is outside the mesh.
    pub(crate) fn own(&self, spec: &TensorSpec) -> Result<&Tensor> {
        self.local.as_ref().filter(|_| !survey::is_noting()).ok_or_else(|| {
            if survey::is_noting() {
                let message = "a function that is planned for a mesh uses the elements of a \
                               tensor, which has none before the launch; do it outside of the \
                               function"
                    .to_owned();
                return Error::Invalid { what: "function", message };
            }
            let mesh = self.sharding.mesh();
            let message = format!(
                "this rank has no part of {}, which the ranks of mesh {mesh} hold",
                spec.brief()
            );
            Error::Invalid { what: "tensor", message }
        })
    }

    /// Returns the part of this rank if that is all of the tensor.
    ///
    /// # Errors
    /// The rank has a part, or none.
    pub(crate) fn whole(&self, spec: &TensorSpec) -> Result<&Tensor> {
        if self.sharding.is_broadcast() {
            return self.own(spec);
        }
        let message = format!(
            "{} is held as {} by mesh {}; read `full_tensor()?`, which all ranks of the mesh call, \
             or this rank's part, `to_local()?`",
            spec.brief(),
            self.sharding,
            self.sharding.mesh()
        );
        Err(Error::Invalid { what: "tensor", message })
    }

    /// Returns the error of a use that has no meaning for all ranks together.
    pub(crate) fn unsupported(&self, spec: &TensorSpec) -> Error {
        let message = format!(
            "{} is a global tensor, held as {} by mesh {}, and this takes tensors of one rank; \
             `to_local()?` returns this rank's part",
            spec.brief(),
            self.sharding,
            self.sharding.mesh()
        );
        Error::Invalid { what: "tensor", message }
    }
}

/// Returns the coordinates of a machine's rank in a mesh, if the rank has parts of its tensors.
pub(crate) fn coordinates(machine: &Machine, mesh: &Mesh) -> Option<Coordinates> {
    if survey::is_noting() {
        return None;
    }
    mesh.coordinates(machine.communicator().rank() as u32)
}

/// Refuses a mesh with ranks that a machine's program does not have.
///
/// # Errors
/// There is such a rank.
pub(crate) fn check_mesh(machine: &Machine, mesh: &Mesh) -> Result<()> {
    let ranks = machine.communicator().ranks();
    match mesh.ranks().iter().find(|rank| **rank as usize >= ranks) {
        None => Ok(()),
        Some(rank) => {
            let message = format!("mesh {mesh} names rank {rank}, and the program has {ranks}");
            Err(Error::Invalid { what: "mesh", message })
        }
    }
}

/// Makes the handle of a global tensor from this rank's part.
pub(crate) fn wrap(
    local: Option<Tensor>,
    spec: Arc<TensorSpec>,
    sharding: Arc<Sharding>,
    views: Views,
    stream: &Stream,
    origin: &Origin,
) -> Tensor {
    let made_on = local.as_ref().map_or(stream, Tensor::made_on).clone();
    Tensor::of_mesh(Global { local, sharding, views }, spec, made_on, origin.clone())
}

/// Returns this rank's part of a global tensor, or a tensor of this rank itself.
///
/// # Errors
/// The rank is outside the mesh.
pub(crate) fn part(tensor: &Tensor) -> Result<&Tensor> {
    tensor.global().map_or(Ok(tensor), |global| global.own(tensor.spec()))
}

/// Returns what is known of a global tensor besides its part.
pub(crate) fn class(tensor: &Tensor) -> Option<Class> {
    Some((tensor.shared_spec().clone(), tensor.global()?.sharding.clone()))
}

/// Returns the global tensor of a class with this part, or the tensor itself if there is no class.
pub(crate) fn of_class(part: Tensor, class: Option<&Class>) -> Tensor {
    let Some((spec, sharding)) = class else { return part };
    let (stream, origin) = (part.made_on().clone(), part.made_at().clone());
    wrap(Some(part), spec.clone(), sharding.clone(), Views::default(), &stream, &origin)
}
