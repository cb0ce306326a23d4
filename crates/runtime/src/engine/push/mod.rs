//! Pushes of functions: their emission, the queue of those that cannot be emitted yet, and bulk
//! scopes.
//!
//! | module | holds |
//! |---|---|
//! | `uses` | how a push uses variables |
//! | `queued` | pushes of functions that the machine runs |
//! | `policies` | the policies of the streams that run functions |
//! | `scopes` | functions of bulk scopes that were not pushed yet |

mod policies;
mod queued;
mod scopes;
mod uses;

use millstream_instructions::TensorRef;
use millstream_types::{Origin, Point, Result, StreamId, StreamKey};

use crate::engine::Engine;
use crate::engine::closure_calls::ClosureForm;
use crate::tables::functions::Function;

pub use policies::{CLOSURES, PRIORITIZED, policies};
pub use queued::QueuedPush;
pub use scopes::{BulkScopes, Pending, Series};
pub use uses::Uses;

/// The stream of a push.
pub enum Target {
    Stream(StreamId),
    /// Looked up when the push is emitted, since that takes the critical section.
    Key(Box<StreamKey>),
}

impl Target {
    fn id(&self, engine: &mut Engine) -> Result<StreamId> {
        match self {
            Target::Stream(id) => Ok(*id),
            Target::Key(key) => engine.builder.stream(key),
        }
    }

    pub(crate) fn describe(&self, engine: &Engine) -> String {
        match self {
            Target::Stream(id) => {
                let decl = engine.builder.streams().nth(id.index());
                decl.map_or_else(String::new, |decl| decl.key.to_string())
            }
            Target::Key(key) => key.to_string(),
        }
    }
}

/// Emits a push in the critical section. Leaves the function there if the push is refused.
#[inline]
pub fn emit(
    engine: &mut Engine,
    function: &mut Option<Function>,
    stream: &Target,
    are_plain: bool,
    form: &ClosureForm,
    operands: &[TensorRef],
    origin: &Origin,
) -> Result<Point> {
    let stream = stream.id(engine)?;
    engine.open(stream)?;
    let Engine { builder, router, functions, closures, .. } = engine;
    let mut anew;
    let known = match are_plain {
        true => closures.known(builder, router, form, operands)?,
        false => None,
    };
    let call = match known {
        Some(call) => call,
        None => {
            anew = closures.prepare(builder, form, operands)?;
            &mut anew
        }
    };
    let Some(given) = function.take() else { return Ok(Point::new(stream, 0)) };
    let tables = &router.tables;
    let id = tables.functions.store(functions, given, || tables.backlog.pending());
    call.function = Some(id.number());
    let made = builder.call_prepared(router, stream, call, operands, origin);
    if made.is_err() {
        *function = router.tables.functions.take(id);
    }
    made
}
