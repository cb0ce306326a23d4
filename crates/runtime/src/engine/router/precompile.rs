//! Precompilation: a device compiles what calls launch while the calls before them run, as an
//! emission is ahead of the workers, and an executable is known before its first launch.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use millstream_instructions::Body;
use millstream_kernels::KernelSpec;
use millstream_types::{Access, Attrs, DeviceId, OpId, TensorSpec};
use rustc_hash::{FxHashSet, FxHasher};

use crate::tapes::tape::Tape;

use super::Router;

/// The number of kinds of calls that are remembered. A program with more compiles some again.
const MOST: usize = 1 << 16;

/// The calls that have been precompiled, by a hash of all that their kernels may depend on.
pub(super) type Precompiled = FxHashSet<u64>;

/// A call without addresses.
struct Call {
    op: OpId,
    operands: Vec<Arc<TensorSpec>>,
    written: Vec<bool>,
    attrs: Option<Arc<Attrs>>,
    workspace: usize,
}

impl Router {
    /// Returns whether a device has kernels of its own, which it compiles.
    pub(super) fn compiles(&self, device: &DeviceId) -> bool {
        let capabilities = self.tables.policies.devices().capabilities(device);
        capabilities.is_ok_and(|known| !known.host_memory)
    }

    /// Precompiles the call of an instruction, unless one like it was precompiled before.
    pub(super) fn precompile(&mut self, body: &Body) {
        let Body::OpCall { at, op, operands, attrs, workspace, .. } = body else { return };
        let stream = self.streams.get(at.stream.index());
        let Some(device) = stream.and_then(|stream| stream.compiling.clone()) else { return };
        let spec = |tensor| self.slot(tensor).map(|slot| slot.spec.clone());
        let Some(specs) = operands.iter().map(|x| spec(x.tensor)).collect() else { return };
        let call = Call {
            op: *op,
            operands: specs,
            written: operands.iter().map(|x| Access::writes(x.access)).collect(),
            attrs: attrs.clone(),
            workspace: workspace.as_ref().map_or(0, |at| at.size as usize),
        };
        self.precompile_on(&device, call);
    }

    /// Precompiles the calls of an executable's tapes.
    pub(super) fn precompile_tapes(&mut self, tapes: &[Tape]) {
        for tape in tapes {
            if !self.compiles(&tape.key.device) {
                continue;
            }
            for call in &tape.calls {
                let Some(op) = call.op else { continue };
                let call = Call {
                    op,
                    operands: call.operands.iter().map(|x| x.spec.clone()).collect(),
                    written: call.operands.iter().map(|x| Access::writes(x.access)).collect(),
                    attrs: call.attrs.clone(),
                    workspace: call.workspace.as_deref().map_or(0, |(_, bytes)| *bytes as usize),
                };
                self.precompile_on(&tape.key.device, call);
            }
        }
    }

    fn precompile_on(&mut self, device: &DeviceId, call: Call) {
        let mut hash = FxHasher::default();
        (device, call.op, &call.attrs, &call.operands, call.workspace).hash(&mut hash);
        if self.precompiled.len() >= MOST {
            self.precompiled.clear();
        }
        if !self.precompiled.insert(hash.finish()) {
            return;
        }
        // A device that cannot be opened fails its calls.
        let Ok(device) = self.tables.policies.devices().device(device) else { return };
        let kernels = self.tables.kernels_of(device.kernel_kind());
        let Some(kernel) = kernels.get(call.op.index()).cloned().flatten() else { return };
        device.precompile(Box::new(move |native| {
            let Call { operands, written, attrs, workspace, .. } = call;
            let (none, operands) = (Attrs::new(), &operands[..]);
            let attrs = attrs.as_deref().unwrap_or(&none);
            drop(kernel.plan(KernelSpec { operands, attrs, workspace }, &written, native));
        }));
    }
}
