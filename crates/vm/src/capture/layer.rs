//! What the run of a function that is captured does with each request of its thread.

use millstream_types::Result;

use crate::handle::machine::Machine;
use crate::handle::request::{
    self, Ended, Layer, Next, OpCall, Rank, Reply, Request, Results, Verb,
};

use super::draws;
use super::session;

/// The session of a thread, as a layer.
pub(super) struct Tracing;

/// Makes a step and notes it; or returns the tensors of a replay that has made it.
fn made(
    machine: &Machine,
    step: &Verb<'_>,
    request: &Request<'_>,
    make: impl FnOnce() -> Result<Reply>,
) -> Result<Reply> {
    if let Some(known) = session::replayed(machine, step, request.origin)? {
        return Ok(Reply::Tensors(Results::from_vec(known)));
    }
    let reply = make()?;
    if let Reply::Tensors(made) = &reply {
        session::with(machine, |session| session.note(step, None, made, request.origin));
    }
    Ok(reply)
}

/// Returns the reason why no replay makes a request: the function is not captured, and runs.
fn refusal<'a>(verb: &Verb<'a>) -> Option<(&'a Machine, &'a str)> {
    Some(match *verb {
        Verb::Bounded { call, .. } => (call.machine, "the size of a result depends on data"),
        Verb::Size { machine, reason } => (machine, reason),
        Verb::Batch { machine } => (machine, "it makes prepared calls"),
        Verb::Prepared { machine, .. } => (machine, "it makes a prepared call"),
        Verb::Launch { machine, .. } => (machine, "it launches an executable"),
        Verb::Push { machine } => (machine, "it pushes a function of the program"),
        Verb::Import { machine } => (machine, "it takes memory of another library"),
        Verb::Access { tensor, .. } => (tensor.machine(), "a host function uses a tensor's memory"),
        Verb::Release { tensor } => (tensor.machine(), "it releases a tensor by hand"),
        Verb::BeginSection { machine } => (machine, "it begins a critical section"),
        Verb::EndSection { machine } => (machine, "it ends a critical section"),
        _ => return None,
    })
}

impl Layer for Tracing {
    fn submit(&self, request: &Request<'_>, next: Next<'_, '_>) -> Result<Reply> {
        let (verb, origin) = (&request.verb, request.origin);
        let refuse = |machine, reason: &str| {
            session::with(machine, |session| session.refuse(reason.to_owned(), origin));
        };
        if let Some((machine, reason)) = refusal(verb) {
            refuse(machine, reason);
        }
        match *verb {
            Verb::Op(call) => {
                let machine = call.machine;
                machine.own_stream(call.stream).map_err(|e| e.at(origin))?;
                if request.is_within {
                    refuse(machine, "it makes a call within a critical section");
                }
                made(machine, verb, request, || match draws::numbers(call.attrs) {
                    // The notes name the draws; the call is made with their numbers.
                    Some(numbers) => {
                        let verb = Verb::Op(OpCall { attrs: &numbers, ..call });
                        next.submit(&Request { verb, is_within: request.is_within, origin })
                    }
                    None => next.submit(request),
                })
            }
            Verb::Empty { stream, .. } => {
                made(&stream.machine, verb, request, || next.submit(request))
            }
            Verb::View { of, .. } => made(of.machine(), verb, request, || next.submit(request)),
            Verb::Upload { spec, bytes, stream } => {
                // The machine takes them before the note.
                let bytes = &bytes.clone();
                let step = Verb::Upload { spec, bytes, stream };
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
            Verb::Touch { stream, .. } => {
                if request.is_within {
                    refuse(&stream.machine, "it touches tensors within a critical section");
                }
                session::order(&stream.machine, verb, None, origin)?;
                next.submit(request)
            }
            Verb::RecordEvent { stream, .. } => {
                let reply = next.submit(request)?;
                if let Reply::Recorded(at) = reply {
                    session::order(&stream.machine, verb, Some(at), origin)?;
                }
                Ok(reply)
            }
            Verb::WaitEvent { at: None, .. } => next.submit(request),
            Verb::WaitEvent { stream, .. } | Verb::WaitStream { stream, .. } => {
                session::order(&stream.machine, verb, None, origin)?;
                next.submit(request)
            }
            Verb::Barrier { machine, .. } => {
                session::order(machine, verb, None, origin)?;
                next.submit(request)
            }
            Verb::Import { .. } => {
                let _own = request::suspend(&[Rank::Trace]);
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
                session::with(tensor.machine(), |session| session.adopt(tensor)).transpose()?;
                next.submit(request)
            }
            // Made of calls that are noted.
            Verb::Composite(_) | Verb::Copy { .. } | Verb::CopyInto { .. } => next.submit(request),
            // Refused above.
            Verb::Bounded { .. }
            | Verb::Size { .. }
            | Verb::Batch { .. }
            | Verb::Prepared { .. }
            | Verb::Launch { .. }
            | Verb::Push { .. }
            | Verb::Access { .. }
            | Verb::Release { .. }
            | Verb::BeginSection { .. }
            | Verb::EndSection { .. } => next.submit(request),
        }
    }

    fn ended(&self, machine: &Machine, tensor: Ended) {
        if let Ended::Made(tensor) = tensor {
            session::with(machine, |session| session.end(tensor));
        }
    }

    fn recording(&self) -> Option<u64> {
        draws::recording()
    }
}
