//! The storages and tensors of a timeline, in a list.

use std::collections::HashMap;

use millstream_instructions::{ArenaId, Body, External, Instruction, InstructionList};
use millstream_profile::model::Storage;
use millstream_types::{DType, Layout, Origin, TensorId, TensorSpec};

use crate::Timeline;

/// Returns whether a storage has a known place in the memory of its device.
pub(crate) fn is_placed(storage: &Storage) -> bool {
    storage.offset != u64::MAX
}

/// Declares the storages, and begins the tensors as views of them. Storages with places are parts
/// of one, the memory of their device, so that they conflict if they share bytes.
///
/// # Errors
/// There are more than a list has, or one is larger than memory.
pub(crate) fn declare(timeline: &Timeline, list: &mut InstructionList) -> Result<(), String> {
    let profile = &timeline.profile;
    let count = profile.storages.len() + profile.tensors.len();
    u32::try_from(count).map_err(|_| format!("it has {count} tensors: a list has fewer"))?;
    // The storage that stands for the memory of a device, and its bytes.
    let mut memories: HashMap<u32, (u32, u64)> = HashMap::new();
    for (k, storage) in (0..).zip(&profile.storages).filter(|(_, storage)| is_placed(storage)) {
        let (_, bytes) = memories.entry(storage.arena).or_insert((k, 0));
        *bytes = (*bytes).max(storage.offset.saturating_add(storage.size));
    }
    let memory_of =
        |storage: &Storage| memories.get(&storage.arena).copied().filter(|_| is_placed(storage));
    for (k, storage) in (0..).zip(&profile.storages) {
        let (first, bytes) = memory_of(storage).unwrap_or((k, storage.size));
        if first == k {
            let spec = TensorSpec::contiguous(DType::U8, &[bytes as usize]);
            list.externals.push(External {
                tensor: TensorId(k),
                name: format!("storage {k}"),
                spec: spec.map_err(|e| e.to_string())?,
                bytes,
                arena: ArenaId(0),
            });
        }
    }
    let tensors = (profile.storages.len() as u32..).zip(&profile.tensors);
    for ((k, tensor), spec) in tensors.zip(&timeline.specs) {
        let storage = &profile.storages[tensor.storage as usize];
        let (mut of, mut spec) = (tensor.storage, spec.clone());
        if let Some((first, _)) = memory_of(storage) {
            let offset = spec.layout.offset() + storage.offset as usize / spec.dtype.size();
            let layout = Layout::strided(spec.layout.shape(), spec.layout.strides(), offset);
            spec.layout = layout.map_err(|e| e.to_string())?;
            of = first;
        }
        let body = Body::ViewTensor { tensor: TensorId(k), of: TensorId(of), spec: Box::new(spec) };
        list.instructions.push(Instruction { body, origin: Origin::Unknown });
    }
    Ok(())
}
