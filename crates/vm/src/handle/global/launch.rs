//! The global tensors of a list, and those of its launches.

use millstream_runtime::scope::origin;
use millstream_types::Result;

use crate::handle::{Stream, Tensor};

use super::call::note_change;
use super::views::Memories;
use super::{class, wrap};

/// The global tensors of a list, whose parts are its inputs and outputs.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{Mesh, sbp::B};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let mesh = Mesh::new([0])?;
/// let x = Tensor::from_slice_global(&[1.0f32, 2.0], 2, &machine, &mesh, [B])?;
/// let list = GlobalFormals { inputs: vec![x.clone()], outputs: vec![x.neg()?] };
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GlobalFormals {
    /// The tensors that each launch gives.
    pub inputs: Vec<Tensor>,
    /// The tensors that each launch makes.
    pub outputs: Vec<Tensor>,
}

impl GlobalFormals {
    /// Returns the tensors that a launch has made, from their parts on this rank; `changed` are
    /// existing tensors that it has written to.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{Mesh, sbp::B};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// # let mesh = Mesh::new([0])?;
    /// # let x = Tensor::from_slice_global(&[1.0f32, 2.0], 2, &machine, &mesh, [B])?;
    /// # let list = GlobalFormals { inputs: vec![x.clone()], outputs: vec![x.neg()?] };
    /// let made = list.launched("step", &[&x], &[], vec![x.to_local()?.neg()?], &s)?;
    /// assert_eq!(made[0].sharding(), x.sharding());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The launch changes a tensor that shares memory with others on one rank, and not on the mesh.
    #[track_caller]
    pub fn launched(
        &self,
        name: &str,
        given: &[&Tensor],
        changed: &[&Tensor],
        parts: Vec<Tensor>,
        stream: &Stream,
    ) -> Result<Vec<Tensor>> {
        let origin = origin::caller();
        let mut memories = Memories::new();
        let mut changed = changed.to_vec();
        for (formal, given) in self.inputs.iter().zip(given) {
            let (Some(of_list), Some(global)) = (formal.global(), given.global()) else { continue };
            memories.push((of_list.views.memory(), global.views.memory()));
            changed.extend(of_list.views.is_changed().then_some(*given));
        }
        let op = format!("launch of '{name}'");
        changed.into_iter().try_for_each(|of| note_change(&op, of)).map_err(|e| e.at(&origin))?;
        let mut parts = parts.into_iter();
        let made = self.outputs.iter().filter_map(|output| {
            let ((spec, sharding), global) = (class(output)?, output.global()?);
            let views = global.views.launched(&mut memories);
            let made = wrap(parts.next(), spec, sharding, views, stream, &origin);
            for (_, own) in memories.iter().filter(|(of_list, _)| of_list.has(output)) {
                own.note(&made);
            }
            Some(made)
        });
        Ok(made.collect())
    }
}
