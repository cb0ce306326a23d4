//! Reads the outputs and tolerances of a trace.

use crate::compare::Tolerance;
use crate::error::Result;
use crate::json::{At, Key, Raw, Reader};
use crate::program::{Output, ValueRef};
use crate::raw_form::OutputForm;
use crate::sidecar::Sidecars;
use crate::tensors::{ElementFields, data};

/// Returns a tolerance, whose bounds are non-negative.
pub(crate) fn tolerance(
    reader: &Reader<'_>,
    rtol: Option<At<'_, f64>>,
    atol: Option<At<'_, f64>>,
) -> Result<Tolerance> {
    let check = |bound: At<'_, f64>| match *bound < 0.0 {
        true => {
            let message = format!("expected a non-negative number, got {:?}", *bound);
            Err(reader.error(bound.text, message))
        }
        false => Ok(bound.take()),
    };
    Ok(Tolerance { rtol: rtol.map(check).transpose()?, atol: atol.map(check).transpose()? })
}

/// Reads an output.
pub(crate) fn output<'a>(
    reader: &Reader<'a>,
    sidecars: &mut Sidecars,
    key: &Key<'a>,
    raw: Raw<'a, OutputForm<'a>>,
    value: Option<ValueRef>,
    default: Tolerance,
) -> Result<Output> {
    let OutputForm { dtype, shape, fill, values, file, key: in_file, rtol, atol, .. } =
        reader.read(raw)?;
    if let Some(shape) = &shape {
        millstream_types::Layout::contiguous(shape).map_err(|e| reader.wrap(shape.text, &e))?;
    }
    let (dtype, shape) = (dtype.map(At::take), shape.map(At::take));
    let given = ElementFields { fill, values, file, key: in_file, random: None, normal: None };
    let expected = data(reader, sidecars, given, dtype, shape.as_deref())?;
    let tolerance = tolerance(reader, rtol, atol)?.or(default);
    let (name, site) = (key.to_string(), reader.site(key.text));
    Ok(Output { name, value, dtype, shape, expected, probe: None, tolerance, site })
}
