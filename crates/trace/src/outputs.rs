//! Reads the outputs and tolerances of a trace.

use crate::compare::Tolerance;
use crate::error::{Result, Site};
use crate::json::{Key, Raw, Reader};
use crate::program::{Output, ValueRef};
use crate::raw_form::{OutputForm, ToleranceForm};
use crate::sidecar::Sidecars;
use crate::tensors::{ElementFields, data, lengths};

/// Reads the tolerance of outputs without a tolerance of their own.
pub(crate) fn default_tolerance<'a>(
    reader: &Reader<'a>,
    raw: Option<Raw<'a, ToleranceForm<'a>>>,
) -> Result<Tolerance> {
    let Some(raw) = raw else { return Ok(Tolerance::default()) };
    let form = reader.object(raw, "a tolerance")?;
    tolerance(reader, form.rtol, form.atol)
}

fn tolerance<'a>(
    reader: &Reader<'a>,
    rtol: Option<Raw<'a, f64>>,
    atol: Option<Raw<'a, f64>>,
) -> Result<Tolerance> {
    let read = |raw: Raw<'a, f64>| {
        let value = reader.number::<f64>(raw, "a non-negative number")?;
        if value < 0.0 {
            return Err(reader.error(raw, format!("expected a non-negative number, got {value:?}")));
        }
        Ok(value)
    };
    Ok(Tolerance { rtol: rtol.map(read).transpose()?, atol: atol.map(read).transpose()? })
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
    let form = reader.object(raw, "an output")?;
    let dtype = form.dtype.map(|d| reader.parse(d, "a dtype")).transpose()?;
    let shape = form.shape.map(|s| lengths(reader, s, "a shape")).transpose()?;
    if let Some((dims, raw)) = shape.as_ref().zip(form.shape) {
        millstream_types::Layout::contiguous(dims).map_err(|e| reader.wrap(raw, &e))?;
    }
    let given = ElementFields {
        fill: form.fill,
        values: form.values,
        file: form.file,
        key: form.key,
        ..ElementFields::default()
    };
    let expected = data(reader, sidecars, &given, dtype, shape.as_deref())?;
    let tolerance = tolerance(reader, form.rtol, form.atol)?.or(default);
    let site = Site { source: reader.source.clone(), span: reader.key_span(key) };
    let name = key.name.to_string();
    Ok(Output { name, value, dtype, shape, expected, probe: None, tolerance, site })
}
