//! Lengths, strides, offsets, bytes and integer arguments: what changes with a symbolic size.

use std::sync::Arc;

use millstream_instructions::{Body, InstructionList};
use millstream_types::layout::contiguous_strides;
use millstream_types::{AttrValue, Attrs, Error, Layout, Result, TensorSpec};

use crate::executable::Executable;

use super::note::{Action, Note, Place};

/// Something with numbers.
pub(super) trait Numbers: Clone {
    /// Replaces each number, in order.
    ///
    /// # Errors
    /// A layout is none any more.
    fn replace(&mut self, number: &mut dyn FnMut(i64) -> i64) -> Result<()>;

    /// Returns the numbers.
    fn numbers(&self) -> Result<Vec<i64>> {
        let mut all = Vec::new();
        self.clone().replace(&mut |number| {
            all.push(number);
            number
        })?;
        Ok(all)
    }
}

impl Numbers for TensorSpec {
    fn replace(&mut self, number: &mut dyn FnMut(i64) -> i64) -> Result<()> {
        let layout = &self.layout;
        let mut size = |old: &usize| {
            let new = number(*old as i64);
            let message = || format!("a length, stride or offset of {new}");
            let negative = |_| Error::Invalid { what: "traced function", message: message() };
            usize::try_from(new).map_err(negative)
        };
        // Dense strides follow from the lengths: they are products of them.
        let is_dense = contiguous_strides(layout.shape())?[..] == *layout.strides();
        let shape = layout.shape().iter().map(&mut size).collect::<Result<Vec<_>>>()?;
        let strides = match is_dense {
            true => contiguous_strides(&shape)?.to_vec(),
            false => layout.strides().iter().map(&mut size).collect::<Result<Vec<_>>>()?,
        };
        let offset = size(&layout.offset())?;
        *self = TensorSpec::new(self.dtype, Layout::strided(&shape, &strides, offset)?)?;
        Ok(())
    }
}

fn replace_bytes(bytes: &mut u64, number: &mut dyn FnMut(i64) -> i64) {
    *bytes = number(*bytes as i64) as u64;
}

/// Replaces the numbers of a tensor and the bytes of its storage. Those of a tensor that fills its
/// storage follow from its lengths.
fn replace_stored(
    spec: &mut TensorSpec,
    bytes: &mut u64,
    number: &mut dyn FnMut(i64) -> i64,
) -> Result<()> {
    let is_whole = *bytes == spec.span_bytes() as u64;
    spec.replace(number)?;
    match is_whole {
        true => *bytes = spec.span_bytes() as u64,
        false => replace_bytes(bytes, number),
    }
    Ok(())
}

fn replace_arguments(attrs: &mut Attrs, number: &mut dyn FnMut(i64) -> i64) {
    attrs.values_mut().for_each(|value| match value {
        AttrValue::Int(int) => *int = number(*int),
        AttrValue::Ints(ints) => ints.iter_mut().for_each(|int| *int = number(*int)),
        _ => {}
    });
}

impl Numbers for Place {
    fn replace(&mut self, number: &mut dyn FnMut(i64) -> i64) -> Result<()> {
        replace_stored(&mut self.spec, &mut self.bytes, number)
    }
}

impl Numbers for Note {
    fn replace(&mut self, number: &mut dyn FnMut(i64) -> i64) -> Result<()> {
        match &mut self.action {
            Action::Call { attrs, .. } => replace_arguments(attrs, number),
            Action::Empty { spec, bytes, .. } => replace_stored(spec, bytes, number)?,
            Action::View { spec, .. } | Action::Upload { spec, .. } => spec.replace(number)?,
            Action::Read { .. }
            | Action::RecordEvent { .. }
            | Action::WaitEvent { .. }
            | Action::WaitStream { .. }
            | Action::Barrier { .. }
            | Action::Touch { .. } => {}
        }
        self.results.iter_mut().try_for_each(|result| result.spec.replace(number))
    }
}

/// A compiled list, without the places of its memory, and its outputs.
#[derive(Clone, PartialEq)]
pub(super) struct CompiledList {
    pub(super) list: InstructionList,
    pub(super) outputs: Vec<TensorSpec>,
}

impl CompiledList {
    pub(super) fn of(executable: &Executable) -> CompiledList {
        let mut list = executable.list().clone();
        for instruction in &mut list.instructions {
            if let Some(placement) = placement_mut(&mut instruction.body) {
                (placement.offset, placement.generation) = (0, 0);
            }
        }
        CompiledList { list, outputs: executable.output_specs().cloned().collect() }
    }
}

fn placement_mut(body: &mut Body) -> Option<&mut millstream_instructions::Placement> {
    match body {
        Body::AllocateTensor { placement, .. } => Some(placement),
        Body::OpCall { workspace, .. } => workspace.as_deref_mut(),
        _ => None,
    }
}

impl Numbers for CompiledList {
    fn replace(&mut self, number: &mut dyn FnMut(i64) -> i64) -> Result<()> {
        for external in &mut self.list.externals {
            replace_stored(&mut external.spec, &mut external.bytes, number)?;
        }
        for instruction in &mut self.list.instructions {
            match &mut instruction.body {
                Body::AllocateTensor { spec, placement, .. } => {
                    replace_stored(spec, &mut placement.size, number)?;
                }
                Body::ViewTensor { spec, .. } => spec.replace(number)?,
                Body::OpCall { attrs, workspace, .. } => {
                    if let Some(placement) = workspace {
                        replace_bytes(&mut placement.size, number);
                    }
                    if let Some(attrs) = attrs {
                        replace_arguments(Arc::make_mut(attrs), number);
                    }
                }
                _ => {}
            }
        }
        self.outputs.iter_mut().try_for_each(|spec| spec.replace(number))
    }
}
