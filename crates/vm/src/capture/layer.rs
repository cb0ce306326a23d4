//! What the run of a function that is captured does with each request of its thread.

use millstream_types::Result;

use crate::handle::machine::Machine;
use crate::handle::request::{
    self, Ended, Layer, Next, OpCall, Rank, Reply, Request, Results, Verb,
};

use super::draws;
use super::note::Step;
use super::session;

/// The session of a thread, as a layer.
pub(super) struct Tracing;

/// Makes a step and notes it; or returns the tensors of a replay that has made it.
fn made(
    machine: &Machine,
    step: &Step<'_>,
    request: &Request<'_>,
    make: impl FnOnce() -> Result<Reply>,
) -> Result<Reply> {
    if let Some(known) = session::replayed(machine, step, request.origin)? {
        return Ok(Reply::Tensors(Results::from_vec(known)));
    }
    let reply = make()?;
    if let Reply::Tensors(made) = &reply {
        session::note(machine, step, made, request.origin);
    }
    Ok(reply)
}

impl Layer for Tracing {
    fn submit(&self, request: &Request<'_>, next: Next<'_, '_>) -> Result<Reply> {
        let origin = request.origin;
        let refuse = |machine, reason: &str| session::refuse(machine, reason, origin);
        // What these do, a replay does not: the function is not captured, and runs.
        match request.verb {
            Verb::Op(call) => {
                let OpCall { machine, name, inputs, out, attrs, stream, priority } = call;
                machine.own_stream(stream).map_err(|e| e.at(origin))?;
                if request.is_within {
                    refuse(machine, "it makes a call within a critical section");
                }
                let step = Step::Call { name, inputs, out, attrs, stream, priority };
                made(machine, &step, request, || match draws::numbers(attrs) {
                    // The notes name the draws; the call is made with their numbers.
                    Some(numbers) => {
                        let verb = Verb::Op(OpCall { attrs: &numbers, ..call });
                        next.submit(&Request { verb, is_within: request.is_within, origin })
                    }
                    None => next.submit(request),
                })
            }
            Verb::Empty { spec, bytes, stream } => {
                let step = Step::Empty { spec, bytes, stream };
                made(&stream.machine, &step, request, || next.submit(request))
            }
            Verb::View { of, spec } => {
                let step = Step::View { of, spec };
                made(of.machine(), &step, request, || next.submit(request))
            }
            Verb::Upload { spec, bytes, stream } => {
                // The machine takes them before the note.
                let elements = bytes.borrow().clone();
                let step = Step::Upload { spec, bytes: &elements, stream };
                made(&stream.machine, &step, request, || {
                    let _own = request::suspend(&[Rank::Trace]);
                    next.submit(request)
                })
            }
            Verb::Read { tensor } => {
                if request.is_within {
                    refuse(tensor.machine(), "it reads a tensor within a critical section");
                }
                if let Some(known) = session::replayed_read(tensor, origin)? {
                    return Ok(Reply::Bytes(known));
                }
                let read = {
                    let _own = request::suspend(&[Rank::Trace]);
                    next.submit(request)
                };
                session::note_read(tensor, &read, origin);
                read
            }
            Verb::Touch { tensors, stream } => {
                let machine = &stream.machine;
                if request.is_within {
                    refuse(machine, "it touches tensors within a critical section");
                }
                session::order(machine, &Step::Touch { tensors, stream }, origin)?;
                next.submit(request)
            }
            Verb::RecordEvent { stream, .. } => {
                let reply = next.submit(request)?;
                if let Reply::Recorded(at) = reply {
                    session::order(&stream.machine, &Step::RecordEvent { stream, at }, origin)?;
                }
                Ok(reply)
            }
            Verb::WaitEvent { stream, at, .. } => {
                if let Some(at) = at {
                    session::order(&stream.machine, &Step::WaitEvent { stream, at }, origin)?;
                }
                next.submit(request)
            }
            Verb::WaitStream { stream, source } => {
                session::order(&stream.machine, &Step::WaitStream { stream, source }, origin)?;
                next.submit(request)
            }
            Verb::Barrier { machine, global } => {
                session::order(machine, &Step::Barrier { global }, origin)?;
                next.submit(request)
            }
            Verb::Bounded { call, .. } => {
                refuse(call.machine, "the size of a result depends on data");
                next.submit(request)
            }
            Verb::Size { machine, reason } => {
                refuse(machine, reason);
                next.submit(request)
            }
            Verb::Batch { machine } => {
                refuse(machine, "it makes prepared calls");
                next.submit(request)
            }
            Verb::Prepared { machine, .. } => {
                refuse(machine, "it makes a prepared call");
                next.submit(request)
            }
            Verb::Launch { machine, .. } => {
                refuse(machine, "it launches an executable");
                next.submit(request)
            }
            Verb::Push { machine } => {
                refuse(machine, "it pushes a function of the program");
                next.submit(request)
            }
            Verb::Import { machine } => {
                refuse(machine, "it takes memory of another library");
                let _own = request::suspend(&[Rank::Trace]);
                next.submit(request)
            }
            Verb::Access { tensor, .. } => {
                refuse(tensor.machine(), "a host function uses a tensor's memory");
                next.submit(request)
            }
            Verb::Release { tensor } => {
                refuse(tensor.machine(), "it releases a tensor by hand");
                next.submit(request)
            }
            Verb::BeginSection { machine } => {
                refuse(machine, "it begins a critical section");
                next.submit(request)
            }
            Verb::EndSection { machine } => {
                refuse(machine, "it ends a critical section");
                next.submit(request)
            }
            Verb::ReadGradient { leaf } => {
                session::read_gradient(leaf, origin);
                next.submit(request)
            }
            Verb::SetGradient { leaf } => {
                session::set_gradient(leaf, origin);
                next.submit(request)
            }
            Verb::BeginLeaf { tensor, leaf } => {
                session::note_leaf(tensor, leaf, origin);
                next.submit(request)
            }
            Verb::Draw { generator } => match draws::draw(generator) {
                Some(seed) => Ok(Reply::Drawn(seed)),
                None => next.submit(request),
            },
            Verb::UseGenerator { generator, use_of } => {
                draws::refuse_generator(generator, use_of, origin);
                next.submit(request)
            }
            Verb::SetNumber { tensors } => {
                let reason = "it sets a learning rate, which the program does between calls";
                tensors.iter().for_each(|tensor| refuse(tensor.machine(), reason));
                next.submit(request)
            }
            Verb::Adopt { tensor } => {
                session::adopt(tensor)?;
                next.submit(request)
            }
            // Their calls are noted.
            Verb::Composite(_) | Verb::Copy { .. } | Verb::CopyInto { .. } => next.submit(request),
        }
    }

    fn ended(&self, machine: &Machine, tensor: Ended) {
        if let Ended::Made(tensor) = tensor {
            session::ended(machine, tensor);
        }
    }

    fn recording(&self) -> Option<u64> {
        draws::recording()
    }
}
