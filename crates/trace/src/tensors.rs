//! Reads the declarations of tensors: the layout, and the source of the elements.

use millstream_types::layout::{MAX_BYTES, contiguous_strides};
use millstream_types::{DType, Dims, Layout, TensorSpec};

use crate::data::Data;
use crate::error::{Result, Site};
use crate::json::{Raw, Reader, short};
use crate::literal::Literal;
use crate::meshes::{self, Meshes};
use crate::number::{Number, int_range};
use crate::placement::placement;
use crate::program::Tensor;
use crate::random::Distribution;
use crate::raw_form::{NormalForm, RandomForm, TensorForm};
use crate::schema_types::{Scalar, Values};
use crate::sidecar::Sidecars;

const SOURCES: &str = "'fill', 'values', 'random', 'normal', or 'file' with 'key'";

/// The fields of a form that can be the source of elements. At most one source may be set.
#[derive(Clone, Copy, Default)]
pub(crate) struct ElementFields<'a> {
    pub(crate) fill: Option<Raw<'a, Scalar>>,
    pub(crate) values: Option<Raw<'a, Values>>,
    pub(crate) random: Option<Raw<'a, RandomForm<'a>>>,
    pub(crate) normal: Option<Raw<'a, NormalForm<'a>>>,
    pub(crate) file: Option<Raw<'a, String>>,
    pub(crate) key: Option<Raw<'a, String>>,
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
    let form = reader.object(raw, "a tensor")?;
    let device = form.device.map(|d| reader.parse(d, "a device such as cpu:0")).transpose()?;
    let ranks = form.ranks.map(|r| placement(reader, r)).transpose()?;
    let held = meshes.held(reader, form.mesh, form.sbp)?;
    if let (Some(_), Some(ranks)) = (&held, form.ranks) {
        let message = "a tensor has 'ranks', each with all of it, or a 'mesh', not both";
        return Err(reader.error(ranks, message));
    }
    let layout = form.strides.map(Raw::cast).or(form.storage.map(Raw::cast));
    meshes::check_dense(reader, held.as_ref(), layout)?;
    let dtype: Option<DType> = form.dtype.map(|d| reader.parse(d, "a dtype")).transpose()?;
    let shape = form.shape.map(|s| lengths(reader, s, "a shape")).transpose()?;
    let TensorForm { fill, values, random, normal, file, key, .. } = form;
    let given = ElementFields { fill, values, random, normal, file, key };
    let Some(data) = data(reader, sidecars, &given, dtype, shape.as_deref())? else {
        let error = reader.error(raw, format!("the tensor '{name}' has no elements"));
        return Err(error.help(format!("give one of {SOURCES}")));
    };
    let Some(dtype) = dtype.or(data.dtype()) else {
        return Err(reader.error(raw, "'dtype' is missing in a tensor"));
    };
    let shape = match (shape, &data) {
        (Some(shape), _) => shape,
        (None, Data::File(sidecar)) => Dims::from_slice(sidecar.shape()),
        (None, Data::Values(literal)) => Dims::from_slice(literal.shape()),
        _ => return Err(reader.error(raw, "'shape' is missing in a tensor")),
    };

    // An error of the layout has the span of the strides, else of the shape, else of the tensor.
    let layout_span = form.strides.or(form.shape).unwrap_or(raw.cast());
    let offset = match form.offset {
        Some(raw) => size(reader, raw, "an offset, a non-negative integer")?,
        None => 0,
    };
    let strides = match form.strides {
        Some(raw) => lengths(reader, raw, "strides")?,
        None => contiguous_strides(&shape).map_err(|e| reader.wrap(layout_span, &e))?,
    };
    let spec = Layout::strided(&shape, &strides, offset)
        .and_then(|layout| TensorSpec::new(dtype, layout))
        .map_err(|e| reader.wrap(layout_span, &e))?;
    if spec.layout.may_overlap_itself() && !matches!(data, Data::Fill(_)) {
        let message = "elements of this tensor share their memory; only 'fill' can set them";
        return Err(reader.error(layout_span, message));
    }
    let mut storage_bytes = spec.span_bytes();
    if let Some(raw) = form.storage {
        let elements = size(reader, raw, "the size of a storage, a number of elements")?;
        let bytes = elements.checked_mul(dtype.size()).filter(|&b| b <= MAX_BYTES);
        let Some(bytes) = bytes else {
            let message = format!("a storage of {elements} elements is more than any memory holds");
            return Err(reader.error(raw, message));
        };
        if spec.layout.span() > elements {
            let reach = spec.layout.span();
            let message =
                format!("{spec} reaches over {reach} elements, its storage has {elements}");
            return Err(reader.error(raw, message));
        }
        storage_bytes = bytes;
    }
    let name = name.to_owned();
    Ok(Tensor { name, spec, storage_bytes, device, data, ranks, held, site })
}

/// Reads a list of lengths or strides.
pub(crate) fn lengths<'a>(reader: &Reader<'a>, raw: Raw<'a, Vec<u64>>, what: &str) -> Result<Dims> {
    let list = reader.list(raw, &format!("{what}, a list of integers"))?;
    let expected = format!("{what} of non-negative integers");
    list.into_iter().map(|raw| size(reader, raw, &expected)).collect()
}

fn size(reader: &Reader<'_>, raw: Raw<'_, u64>, what: &str) -> Result<usize> {
    let value: u64 = reader.number(raw, what)?;
    let large = |_| reader.error(raw, format!("{} is more than any memory holds", short(raw.text)));
    usize::try_from(value).map_err(large)
}

/// Reads the source of elements, if the form has one. Checks the elements against the dtype and the
/// shape, as far as they are known.
pub(crate) fn data<'a>(
    reader: &Reader<'a>,
    sidecars: &mut Sidecars,
    given: &ElementFields<'a>,
    dtype: Option<DType>,
    shape: Option<&[usize]>,
) -> Result<Option<Data>> {
    let ElementFields { fill, values, random, normal, file, key } = *given;
    let all: [Option<Raw<'a, ()>>; 5] = [
        fill.map(Raw::cast),
        values.map(Raw::cast),
        random.map(Raw::cast),
        normal.map(Raw::cast),
        file.map(Raw::cast),
    ];
    if let Some(second) = all.iter().flatten().nth(1) {
        return Err(reader.error(*second, format!("expected one of {SOURCES}, got two")));
    }
    if let (None, Some(key)) = (file, key) {
        return Err(reader.error(key, "'key' needs 'file', the name of a safetensors file"));
    }
    let needs_dtype = |raw: Raw<'a, ()>, what: &str| {
        dtype
            .ok_or_else(|| reader.error(raw, format!("{what} elements need a 'dtype' beside them")))
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
            None => Err(reader.error(raw, "expected one number, got a list")),
        };
    }
    if let Some(raw) = values {
        let literal = Literal::scan(reader.source, reader.range(raw.text), dtype)?;
        if let Some(shape) = shape.filter(|s| !literal.fits(s, dtype)) {
            let (count, got) = (literal.count(), literal.shape());
            let message =
                format!("expected values for shape {shape:?}, got {count} in shape {got:?}");
            return Err(reader.error(raw, message));
        }
        return Ok(Some(Data::Values(literal)));
    }
    if let Some(raw) = random {
        return uniform(reader, raw, needs_dtype(raw.cast(), "random")?).map(Some);
    }
    if let Some(raw) = normal {
        return gaussian(reader, raw, needs_dtype(raw.cast(), "random")?).map(Some);
    }
    let Some(raw) = file else { return Ok(None) };
    let name = reader.text(raw, "the name of a safetensors file")?;
    let Some(raw_key) = key else {
        return Err(reader.error(raw, "'file' needs 'key', the tensor's name in that file"));
    };
    let key = reader.text(raw_key, "the tensor's name in the file")?;
    let sidecar = sidecars.find(&name, &key).map_err(|error| {
        let field = if error.of_key { raw_key } else { raw };
        reader.error(field, error.message).meant(error.nearest)
    })?;
    let sidecar = match dtype {
        Some(dtype) => sidecar.expected_as(dtype),
        None => sidecar,
    };
    if let Some(dtype) = dtype.filter(|d| *d != sidecar.dtype()) {
        let message =
            format!("expected '{key}' to be {dtype}, in '{name}' it is {}", sidecar.dtype());
        return Err(reader.error(raw_key, message));
    }
    if let Some(shape) = shape.filter(|s| *s != sidecar.shape()) {
        let got = sidecar.shape();
        let message = format!("expected '{key}' of shape {shape:?}, in '{name}' it is {got:?}");
        return Err(reader.error(raw_key, message));
    }
    Ok(Some(Data::File(sidecar)))
}

fn seed<'a, T>(reader: &Reader<'a>, seed: Option<Raw<'a, u64>>, within: Raw<'a, T>) -> Result<u64> {
    let raw = reader.require(seed, within, "seed", "random elements")?;
    reader.number(raw, "a seed, a non-negative integer")
}

fn uniform<'a>(reader: &Reader<'a>, raw: Raw<'a, RandomForm<'a>>, dtype: DType) -> Result<Data> {
    let form = reader.object(raw, "random elements")?;
    let seed = seed(reader, form.seed, raw)?;
    let distribution = if dtype.is_inexact() {
        let read = |raw: Option<Raw<'a, f64>>, default| {
            raw.map_or(Ok(default), |raw| reader.number::<f64>(raw, "a number"))
        };
        let (low, high) = (read(form.low, 0.0)?, read(form.high, 1.0)?);
        if low >= high || !(high - low).is_finite() {
            let message = format!("expected low < high and no overflow, got {low:?} and {high:?}");
            return Err(reader.error(raw, message));
        }
        for (value, field) in [(low, form.low), (high, form.high)] {
            let fits = Number::Float(value).element(dtype).map(drop);
            fits.map_err(|why| reader.error(field.unwrap_or(raw.cast()), why))?;
        }
        Distribution::Uniform { low, high }
    } else {
        let (least, greatest) = int_range(dtype);
        let read = |raw: Raw<'a, f64>| reader.number::<i64>(raw.cast(), "an integer");
        let low = form.low.map_or(Ok(0), read)?;
        let high = match (form.high, dtype) {
            (Some(raw), _) => read(raw)?,
            (None, DType::Bool) => 2,
            (None, _) => return Err(reader.error(raw, "'high' is missing in random integers")),
        };
        if low >= high || i128::from(low) < least || i128::from(high) - 1 > greatest {
            let message = format!(
                "expected low < high within {dtype}, {least} to {greatest} and one past it, \
                 got {low} and {high}"
            );
            return Err(reader.error(raw, message));
        }
        Distribution::Integers { low, high }
    };
    Ok(Data::Random { seed, distribution })
}

fn gaussian<'a>(reader: &Reader<'a>, raw: Raw<'a, NormalForm<'a>>, dtype: DType) -> Result<Data> {
    let form = reader.object(raw, "normally distributed elements")?;
    let seed = seed(reader, form.seed, raw)?;
    if !dtype.is_float() {
        return Err(reader.error(raw, format!("normally distributed elements cannot be {dtype}")));
    }
    let read = |raw: Option<Raw<'a, f64>>, default| {
        raw.map_or(Ok(default), |raw| reader.number::<f64>(raw, "a number"))
    };
    let (mean, std) = (read(form.mean, 0.0)?, read(form.std, 1.0)?);
    if std < 0.0 {
        return Err(reader.error(raw, format!("expected a non-negative std, got {std:?}")));
    }
    Ok(Data::Random { seed, distribution: Distribution::Normal { mean, std } })
}
