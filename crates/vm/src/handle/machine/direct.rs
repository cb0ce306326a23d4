//! The direct way of a call: most calls are made by threads without a layer, on few tensors of one
//! machine, and have one result.

use std::sync::Arc;

use millstream_instructions::builder::Output;
use millstream_instructions::{Call, Priority, TensorRef};
use millstream_types::{Attrs, Origin, TensorId};

use crate::emission::{Emission, MadeTensor};
use crate::handle::request;
use crate::handle::{Stream, Tensor};

use super::Machine;

/// The most tensors of a call that is made directly.
const MOST: usize = 4;

impl Machine {
    /// Makes a call with one result. Returns none if it takes another way; then nothing was
    /// emitted.
    #[inline]
    pub(crate) fn call_directly(
        &self,
        name: &str,
        inputs: &[&Tensor],
        attrs: &Attrs,
        stream: &Stream,
        origin: &Origin,
    ) -> Option<Tensor> {
        if inputs.len() > MOST || request::is_any() {
            return None;
        }
        let device = inputs.first()?.device();
        let mut refs = [TensorRef { id: TensorId(0), generation: 0 }; MOST];
        for (tensor, reference) in inputs.iter().zip(&mut refs) {
            *reference = tensor.resolved_in(self)?;
        }
        let op =
            self.op(name).ok().filter(|_| Arc::ptr_eq(&stream.machine.shared, &self.shared))?;
        let call = Call {
            op,
            inputs: &refs[..inputs.len()],
            into: None,
            attrs,
            stream: stream.id,
            priority: Priority::default(),
            section: None,
            origin,
        };
        let mut emission = self.shared.enter().ok()?;
        let output = emission.open(stream.id).ok().and_then(|()| {
            let Emission { builder, router, .. } = &mut *emission;
            builder.call_known(router, &call)
        });
        let made = match output {
            // A known call's operands lie where its stream works, and so does what it makes.
            Some(Output::Tensor(tensor)) => Some(MadeTensor {
                tensor,
                spec: emission.builder.description(tensor).clone(),
                device: device.clone(),
            }),
            _ => None,
        };
        self.shared.leave(emission);
        match output? {
            Output::Same(input) => Some(inputs[input].clone()),
            _ => Some(Tensor::new(made?, stream.clone(), origin.clone())),
        }
    }
}
