//! What the recording of a function does with each request of its thread.

use millstream_types::{Error, Result};

use crate::handle::machine::Machine;
use crate::handle::request::{Ended, Layer, Next, Reply, Request, Verb};

use super::function;
use super::gradients::Use;

/// The recording of a function, as a layer.
pub(super) struct Recording;

impl Layer for Recording {
    fn submit(&self, request: &Request<'_>, next: Next<'_, '_>) -> Result<Reply> {
        let origin = request.origin;
        let refused = |message: &str| {
            Err(Error::Invalid { what: "list", message: message.to_owned() }.at(origin))
        };
        let recorded = |machine, next: Next<'_, '_>| match function::record(machine, request)? {
            Some(reply) => Ok(reply),
            None => next.submit(request),
        };
        match request.verb {
            Verb::Op(call) => function::record(call.machine, request)?.ok_or_else(|| {
                let what = "the function that is being recorded".to_owned();
                Error::Foreign { what }.at(origin)
            }),
            Verb::Empty { stream, .. }
            | Verb::Touch { stream, .. }
            | Verb::RecordEvent { stream, .. }
            | Verb::WaitEvent { stream, .. }
            | Verb::WaitStream { stream, .. } => recorded(&stream.machine, next),
            Verb::View { of, .. } => recorded(of.machine(), next),
            Verb::Barrier { machine, .. } => recorded(machine, next),
            // What they make has elements, and is bound where it is used.
            Verb::Upload { .. } | Verb::Import { .. } => function::suspend(|| next.submit(request)),
            Verb::Bounded { call, .. } => {
                let message = "its result's size is known only by running it, so it cannot stand \
                               in an executable"
                    .to_owned();
                Err(Error::Op { op: call.name.to_owned(), message })
            }
            Verb::Prepared { .. } => refused(
                "a function that is recorded makes a prepared call, which names tensors of the \
                 machine; make the call by `Machine::call` or a method",
            ),
            Verb::Launch { .. } => refused(
                "a function that is recorded launches an executable, which would run now and at no \
                 launch of the list; use `Recorder::launch`",
            ),
            Verb::Push { .. } => refused(
                "a function that is recorded pushes a function of the program, which would run now \
                 and at no launch of the list",
            ),
            Verb::Access { tensor, .. } if tensor.recorded().is_none() => refused(
                "a function that is recorded has the host use a tensor's memory, which would run \
                 now and at no launch of the list; use `Recorder::access`",
            ),
            Verb::Release { tensor } if tensor.recorded().is_none() => refused(
                "a function that is recorded releases a tensor from outside, which launches use",
            ),
            Verb::BeginSection { .. } => refused(
                "a function that is recorded begins a critical section, which no launch would; use \
                 `Recorder::begin_section`, or launch from within the section",
            ),
            Verb::ReadGradient { leaf } => {
                function::use_leaf(leaf, Use::Read, origin);
                next.submit(request)
            }
            Verb::SetGradient { leaf } => {
                function::use_leaf(leaf, Use::Set, origin);
                next.submit(request)
            }
            Verb::BeginLeaf { tensor, leaf } => {
                function::note_leaf(tensor, leaf);
                next.submit(request)
            }
            Verb::Draw { generator } => match function::draw(generator) {
                Some(seed) => Ok(Reply::Drawn(seed)),
                None => next.submit(request),
            },
            Verb::UseGenerator { generator, use_of } => {
                function::refuse_generator(generator, use_of, origin);
                next.submit(request)
            }
            Verb::SetNumber { .. } => {
                refused("a rate is set by the program; set it outside of the recorded function")
            }
            // The machine refuses uses of a tensor of the list, which has no elements. The others
            // are made of requests that are recorded, or do not reach into the list: a tensor that
            // is made outside of it is bound where it is used.
            Verb::Read { .. }
            | Verb::Access { .. }
            | Verb::Release { .. }
            | Verb::Composite(_)
            | Verb::Batch { .. }
            | Verb::Size { .. }
            | Verb::Copy { .. }
            | Verb::CopyInto { .. }
            | Verb::EndSection { .. }
            | Verb::Adopt { .. } => next.submit(request),
        }
    }

    fn ended(&self, machine: &Machine, tensor: Ended) {
        if let Ended::Recorded(tensor) = tensor {
            function::ended(machine, tensor);
        }
    }

    fn recording(&self) -> Option<u64> {
        function::recording()
    }
}
