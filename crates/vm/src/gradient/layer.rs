//! What the tapes of a thread do with each request.

use millstream_types::{Error, Result};

use crate::handle::request::{Layer, Next, Reply, Request, Verb};

use super::tape::check_copy;
use super::tape::{begin_call, check_unnoted, no_grad, note_copy, note_view, note_write};

/// The tapes of a thread, as a layer.
pub(super) struct Gradients;

impl Layer for Gradients {
    fn submit(&self, request: &Request<'_>, next: Next<'_, '_>) -> Result<Reply> {
        let origin = request.origin;
        let at = |e: Error| e.at(origin);
        let unnoted = |machine, kind, operands: &[_]| {
            check_unnoted(machine, kind, operands, origin).map_err(at)
        };
        match request.verb {
            Verb::Op(call) => {
                let taped = begin_call(&call, origin).map_err(at)?;
                let reply = next.submit(request)?;
                if let (Some(taped), Reply::Tensors(results)) = (taped, &reply) {
                    taped.end(call.name, call.inputs, results, origin);
                }
                Ok(reply)
            }
            Verb::View { of, .. } => {
                let reply = next.submit(request)?;
                if let Reply::Tensors(made) = &reply {
                    made.iter().for_each(|view| note_view(of, view, origin));
                }
                Ok(reply)
            }
            Verb::Copy { of } => {
                let reply = no_grad(|| next.submit(request))?;
                if let Reply::Tensors(made) = &reply {
                    made.iter().for_each(|copy| note_copy(of, copy, origin));
                }
                Ok(reply)
            }
            Verb::CopyInto { of, target } => {
                check_copy(of, target)?;
                note_write(target, "copy_into", origin);
                no_grad(|| next.submit(request))
            }
            Verb::Access { tensor, access } => {
                if access.writes() {
                    note_write(tensor, "a host function", origin);
                }
                next.submit(request)
            }
            Verb::Bounded { call, operands, .. } => {
                unnoted(call.machine, "a call without a wait for sizes", &operands())?;
                next.submit(request)
            }
            Verb::Prepared { machine, in_batch, operands } => {
                let kind = if in_batch { "a call of a batch" } else { "a prepared call" };
                unnoted(machine, kind, &operands())?;
                next.submit(request)
            }
            Verb::Launch { machine, operands } => {
                unnoted(machine, "a launch", &operands())?;
                next.submit(request)
            }
            // The others change no element that depends on a tensor with a gradient, or are made of
            // calls that are noted.
            _ => next.submit(request),
        }
    }
}
