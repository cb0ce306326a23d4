//! The library's own collectives, timed on the thread that makes all its calls.

use std::time::{Duration, Instant};

use crate::buffer::Buffer;
use crate::error::CommError;
use crate::mpi::command::Measurement;
use crate::mpi::library::{BareCollective, Library};

/// Runs a measurement and gives its answer.
pub(super) fn run(library: &mut dyn Library, measurement: Measurement) {
    let answer = measurement.answer.clone();
    // Who does not wait for the answer does not need it.
    let _ = answer.send(timed(library, measurement));
}

fn timed(
    library: &mut dyn Library,
    measurement: Measurement,
) -> Result<(Duration, Buffer), CommError> {
    let Measurement { collective, given, mut received, repetitions, .. } = measurement;
    let (none, mut nothing) = (given.part(0..0)?, given.part(0..0)?);
    library.bare(BareCollective::Barrier, &none, &mut nothing)?;
    let begun = Instant::now();
    for _ in 0..repetitions {
        library.bare(collective, &given, &mut received)?;
    }
    Ok((begun.elapsed(), received))
}
