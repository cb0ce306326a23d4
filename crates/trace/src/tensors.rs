//! Reads the declarations of tensors: the layout, and the source of the elements.

use std::borrow::Cow;

use millstream_types::layout::{MAX_BYTES, contiguous_strides};
use millstream_types::{DType, Dims, Layout, TensorSpec};

use crate::data::Data;
use crate::error::{Result, Site};
use crate::field::Field;
use crate::json::{At, Raw, Reader};
use crate::literal::Literal;
use crate::meshes::{self, Meshes};
use crate::number::{Number, int_range};
use crate::program::Tensor;
use crate::random::Distribution;
use crate::raw_form::{NormalForm, RandomForm, TensorForm};
use crate::schema_types::{Scalar, Values};
use crate::sidecar::Sidecars;

const SOURCES: &str = "'fill', 'values', 'random', 'normal', or 'file' with 'key'";

/// The fields of a form that can be the source of elements. At most one source may be set.
pub(crate) struct ElementFields<'a> {
    pub(crate) fill: Option<Raw<'a, Scalar>>,
    pub(crate) values: Option<Raw<'a, Values>>,
    pub(crate) random: Option<At<'a, RandomForm<'a>>>,
    pub(crate) normal: Option<At<'a, NormalForm<'a>>>,
    pub(crate) file: Option<At<'a, Cow<'a, str>>>,
    pub(crate) key: Option<At<'a, Cow<'a, str>>>,
}

/// Reads the declaration of a tensor.
pub(crate) fn tensor<'a>(
    reader: &Reader<'a>,
    sidecars: &mut Sidecars,
    meshes: &Meshes,
    name: &str,
    raw: Raw<'a, TensorForm<'a>>,
    site: Site,
) -> Result<Tensor> {
    let form = reader.read(raw)?;
    let TensorForm { dtype, shape, strides, offset, storage, device, ranks, mesh, sbp, .. } = form;
    let TensorForm { fill, values, random, normal, file, key, .. } = form;
    let held = meshes.held(reader, mesh, sbp)?;
    if let (Some(_), Some(ranks)) = (&held, &ranks) {
        let message = "a tensor has 'ranks', each with all of it, or a 'mesh', not both";
        return Err(reader.error(ranks.text, message));
    }
    let strides_text = strides.as_ref().map(|strides| strides.text);
    let layout = strides_text.or(storage.as_ref().map(|storage| storage.text));
    meshes::check_dense(reader, held.as_ref(), layout)?;
    // An error of the layout has the span of the strides, else of the shape, else of the tensor.
    let layout_text = strides_text.or(shape.as_ref().map(|shape| shape.text)).unwrap_or(raw.text);
    let (dtype, shape) = (dtype.map(At::take), shape.map(At::take));
    let given = ElementFields { fill, values, random, normal, file, key };
    let Some(data) = data(reader, sidecars, given, dtype, shape.as_deref())? else {
        let error = reader.error(raw.text, format!("the tensor '{name}' has no elements"));
        return Err(error.help(format!("give one of {SOURCES}")));
    };
    let Some(dtype) = dtype.or(data.dtype()) else {
        return Err(reader.error(raw.text, "'dtype' is missing in a tensor"));
    };
    let shape = match (shape, &data) {
        (Some(shape), _) => shape,
        (None, Data::File(sidecar)) => Dims::from_slice(sidecar.shape()),
        (None, Data::Values(literal)) => Dims::from_slice(literal.shape()),
        _ => return Err(reader.error(raw.text, "'shape' is missing in a tensor")),
    };
    let strides = match &strides {
        Some(strides) => strides.value.clone(),
        None => contiguous_strides(&shape).map_err(|e| reader.wrap(layout_text, &e))?,
    };
    let spec = Layout::strided(&shape, &strides, offset.map_or(0, At::take))
        .and_then(|layout| TensorSpec::new(dtype, layout))
        .map_err(|e| reader.wrap(layout_text, &e))?;
    if spec.layout.may_overlap_itself() && !matches!(data, Data::Fill(_)) {
        let message = "elements of this tensor share their memory; only 'fill' can set them";
        return Err(reader.error(layout_text, message));
    }
    let mut storage_bytes = spec.span_bytes();
    if let Some(At { text, value: elements }) = storage {
        let bytes = elements.checked_mul(dtype.size()).filter(|&b| b <= MAX_BYTES);
        let Some(bytes) = bytes else {
            let message = format!("a storage of {elements} elements is more than any memory holds");
            return Err(reader.error(text, message));
        };
        if spec.layout.span() > elements {
            let reach = spec.layout.span();
            let message =
                format!("{spec} reaches over {reach} elements, its storage has {elements}");
            return Err(reader.error(text, message));
        }
        storage_bytes = bytes;
    }
    let (name, ranks) = (name.to_owned(), ranks.map(At::take));
    let device = device.map(At::take);
    Ok(Tensor { name, spec, storage_bytes, device, data, ranks, held, site })
}

/// Reads the source of elements, if the form has one. Checks the elements against the dtype and the
/// shape, as far as they are known.
pub(crate) fn data<'a>(
    reader: &Reader<'a>,
    sidecars: &mut Sidecars,
    given: ElementFields<'a>,
    dtype: Option<DType>,
    shape: Option<&[usize]>,
) -> Result<Option<Data>> {
    let ElementFields { fill, values, random, normal, file, key } = given;
    let all = [
        fill.map(|raw| raw.text),
        values.map(|raw| raw.text),
        random.as_ref().map(|random| random.text),
        normal.as_ref().map(|normal| normal.text),
        file.as_ref().map(|file| file.text),
    ];
    if let Some(second) = all.iter().flatten().nth(1) {
        return Err(reader.error(second, format!("expected one of {SOURCES}, got two")));
    }
    if let (None, Some(key)) = (&file, &key) {
        return Err(reader.error(key.text, "'key' needs 'file', the name of a safetensors file"));
    }
    let needs_dtype = |text: &str| {
        dtype.ok_or_else(|| reader.error(text, "random elements need a 'dtype' beside them"))
    };
    if let Some(raw) = fill {
        let literal = Literal::scan(reader.source, reader.range(raw.text), dtype)?;
        let mut only = None;
        literal.each(|number| {
            only = Some(number);
            Ok(())
        })?;
        return match only.filter(|_| literal.shape().is_empty()) {
            Some(number) => Ok(Some(Data::Fill(number))),
            None => Err(reader.error(raw.text, "expected one number, got a list")),
        };
    }
    if let Some(raw) = values {
        let literal = Literal::scan(reader.source, reader.range(raw.text), dtype)?;
        if let Some(shape) = shape.filter(|s| !literal.fits(s, dtype)) {
            let (count, got) = (literal.count(), literal.shape());
            let message =
                format!("expected values for shape {shape:?}, got {count} in shape {got:?}");
            return Err(reader.error(raw.text, message));
        }
        return Ok(Some(Data::Values(literal)));
    }
    if let Some(random) = random {
        return uniform(reader, &random, needs_dtype(random.text)?).map(Some);
    }
    if let Some(normal) = normal {
        return gaussian(reader, &normal, needs_dtype(normal.text)?).map(Some);
    }
    let Some(name) = file else { return Ok(None) };
    let Some(key) = key else {
        let message = "'file' needs 'key', the tensor's name in that file";
        return Err(reader.error(name.text, message));
    };
    let sidecar = sidecars.find(&name, &key).map_err(|error| {
        let field = if error.of_key { key.text } else { name.text };
        reader.error(field, error.message).meant(error.nearest)
    })?;
    let sidecar = match dtype {
        Some(dtype) => sidecar.expected_as(dtype),
        None => sidecar,
    };
    let (name, in_file) = (&name.value, &key.value);
    if let Some(dtype) = dtype.filter(|d| *d != sidecar.dtype()) {
        let message =
            format!("expected '{in_file}' to be {dtype}, in '{name}' it is {}", sidecar.dtype());
        return Err(reader.error(key.text, message));
    }
    if let Some(shape) = shape.filter(|s| *s != sidecar.shape()) {
        let got = sidecar.shape();
        let message = format!("expected '{in_file}' of shape {shape:?}, in '{name}' it is {got:?}");
        return Err(reader.error(key.text, message));
    }
    Ok(Some(Data::File(sidecar)))
}

/// Returns a number, or a default.
fn number<'a, T: Field<'a>>(
    reader: &Reader<'a>,
    raw: Option<Raw<'a, f64>>,
    default: T,
) -> Result<T> {
    raw.map_or(Ok(default), |raw| reader.read(raw.cast()))
}

fn uniform<'a>(reader: &Reader<'a>, form: &At<'a, RandomForm<'a>>, dtype: DType) -> Result<Data> {
    let distribution = if dtype.is_inexact() {
        let low: f64 = number(reader, form.low, 0.0)?;
        let high: f64 = number(reader, form.high, 1.0)?;
        if low >= high || !(high - low).is_finite() {
            let message = format!("expected low < high and no overflow, got {low:?} and {high:?}");
            return Err(reader.error(form.text, message));
        }
        for (value, field) in [(low, form.low), (high, form.high)] {
            let fits = Number::Float(value).element(dtype).map(drop);
            fits.map_err(|why| reader.error(field.map_or(form.text, |raw| raw.text), why))?;
        }
        Distribution::Uniform { low, high }
    } else {
        let (least, greatest) = int_range(dtype);
        if form.high.is_none() && dtype != DType::Bool {
            return Err(reader.error(form.text, "'high' is missing in random integers"));
        }
        let low: i64 = number(reader, form.low, 0)?;
        let high: i64 = number(reader, form.high, 2)?;
        if low >= high || i128::from(low) < least || i128::from(high) - 1 > greatest {
            let message = format!(
                "expected low < high within {dtype}, {least} to {greatest} and one past it, \
                 got {low} and {high}"
            );
            return Err(reader.error(form.text, message));
        }
        Distribution::Integers { low, high }
    };
    Ok(Data::Random { seed: *form.seed, distribution })
}

fn gaussian<'a>(reader: &Reader<'a>, form: &At<'a, NormalForm<'a>>, dtype: DType) -> Result<Data> {
    if !dtype.is_float() {
        let message = format!("normally distributed elements cannot be {dtype}");
        return Err(reader.error(form.text, message));
    }
    let mean: f64 = form.mean.as_ref().map_or(0.0, |mean| mean.value);
    let std: f64 = form.std.as_ref().map_or(1.0, |std| std.value);
    if std < 0.0 {
        return Err(reader.error(form.text, format!("expected a non-negative std, got {std:?}")));
    }
    Ok(Data::Random { seed: *form.seed, distribution: Distribution::Normal { mean, std } })
}
