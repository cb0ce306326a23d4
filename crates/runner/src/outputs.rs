//! Compares the outputs of a run with the expected ones, and with those of the first run.

use millstream_trace::{Output, Program, TraceError};
use millstream_types::TensorSpec;

use crate::report::{OutputReport, RunReport};

/// An output: its dtype and shape without gaps, and its elements.
pub(crate) type Read = Option<(TensorSpec, Vec<u8>)>;

/// Compares the outputs of the first run.
pub(crate) fn compare(program: &Program, reads: Vec<Read>, report: &mut RunReport) {
    for (output, read) in program.outputs.iter().zip(reads) {
        let compared = match read {
            None => OutputReport::unread(&output.name),
            Some((spec, bytes)) => match one(output, spec, bytes) {
                Ok(compared) => compared,
                Err(error) => {
                    report.failures.push(error);
                    OutputReport::unread(&output.name)
                }
            },
        };
        report.outputs.push(compared);
    }
}

fn one(output: &Output, spec: TensorSpec, bytes: Vec<u8>) -> Result<OutputReport, TraceError> {
    let comparison = Some(output.compare(&bytes, &spec)?);
    let expected = output.expected.is_some() || output.probe.is_some();
    let spec = Some(spec);
    Ok(OutputReport { spec, bytes, comparison, expected, ..OutputReport::unread(&output.name) })
}

/// Compares the outputs of a later run with the first run's, bit by bit. The launches of a replayed
/// program draw other random numbers each: of a program that draws, only outputs with expected
/// elements are compared, as these do not depend on them.
pub(crate) fn recheck(report: &mut RunReport, reads: &[Read], repeat: u32, is_replayed: bool) {
    let draws = report.imported.as_ref().is_some_and(|imported| imported.drawn > 0);
    for (first, read) in report.outputs.iter_mut().zip(reads) {
        if is_replayed && draws && !first.expected {
            continue;
        }
        let same = match (read, &first.spec) {
            (Some((spec, bytes)), Some(known)) => spec == known && *bytes == first.bytes,
            (None, None) => true,
            _ => false,
        };
        if !same {
            first.unstable.get_or_insert(repeat);
        }
    }
}
