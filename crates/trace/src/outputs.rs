//! Reading the outputs.

use crate::compare::Tolerance;
use crate::error::{Result, Site};
use crate::form::{OutputForm, ToleranceForm};
use crate::json::{At, Key, Reader};
use crate::program::{Output, ValueRef};
use crate::sidecar::Sidecars;
use crate::tensors::{Given, data, lengths};

pub(crate) fn default_tolerance<'a>(
    reader: &Reader<'a>,
    at: Option<At<'a, ToleranceForm<'a>>>,
) -> Result<Tolerance> {
    let Some(at) = at else { return Ok(Tolerance::default()) };
    let form = reader.object(at, "a tolerance")?;
    tolerance(reader, form.rtol, form.atol)
}

fn tolerance<'a>(
    reader: &Reader<'a>,
    rtol: Option<At<'a, f64>>,
    atol: Option<At<'a, f64>>,
) -> Result<Tolerance> {
    let read = |at: At<'a, f64>| {
        let value = reader.number::<f64>(at, "a number of 0 or more")?;
        if value < 0.0 {
            return Err(reader.error(at, format!("expected a number of 0 or more, got {value:?}")));
        }
        Ok(value)
    };
    Ok(Tolerance { rtol: rtol.map(read).transpose()?, atol: atol.map(read).transpose()? })
}

pub(crate) fn output<'a>(
    reader: &Reader<'a>,
    sidecars: &mut Sidecars,
    key: &Key<'a>,
    at: At<'a, OutputForm<'a>>,
    value: Option<ValueRef>,
    default: Tolerance,
) -> Result<Output> {
    let form = reader.object(at, "an output")?;
    reader.remark(form.note)?;
    let dtype = form.dtype.map(|d| reader.parse(d, "a dtype")).transpose()?;
    let shape = form.shape.map(|s| lengths(reader, s, "a shape")).transpose()?;
    if let Some((dims, at)) = shape.as_ref().zip(form.shape) {
        millstream_types::Layout::contiguous(dims).map_err(|e| reader.wrap(at, &e))?;
    }
    let given = Given {
        fill: form.fill,
        values: form.values,
        file: form.file,
        key: form.key,
        ..Given::default()
    };
    let expected = data(reader, sidecars, &given, dtype, shape.as_deref())?;
    let tolerance = tolerance(reader, form.rtol, form.atol)?.or(default);
    let site = Site { source: reader.source.clone(), place: reader.key_place(key) };
    let name = key.name.to_string();
    Ok(Output { name, value, dtype, shape, expected, tolerance, site })
}
