//! Reading tensors: their layout, and where their elements come from.

use millstream_types::layout::{MAX_BYTES, contiguous_strides};
use millstream_types::{DType, Dims, Layout, TensorSpec};

use crate::data::Data;
use crate::error::{Result, Site};
use crate::form::{NormalForm, RandomForm, TensorForm};
use crate::json::{At, Reader, short};
use crate::literal::Literal;
use crate::number::{Number, int_range};
use crate::program::Tensor;
use crate::random::Distribution;
use crate::sidecar::Sidecars;
use crate::words::{Scalar, Values};

const SOURCES: &str = "'fill', 'values', 'random', 'normal', or 'file' with 'key'";

/// Where a form says that elements come from. One of them at most is set.
#[derive(Clone, Copy, Default)]
pub(crate) struct Given<'a> {
    pub(crate) fill: Option<At<'a, Scalar>>,
    pub(crate) values: Option<At<'a, Values>>,
    pub(crate) random: Option<At<'a, RandomForm<'a>>>,
    pub(crate) normal: Option<At<'a, NormalForm<'a>>>,
    pub(crate) file: Option<At<'a, String>>,
    pub(crate) key: Option<At<'a, String>>,
}

pub(crate) fn tensor<'a>(
    reader: &Reader<'a>,
    sidecars: &mut Sidecars,
    name: &str,
    at: At<'a, TensorForm<'a>>,
    site: Site,
) -> Result<Tensor> {
    let form = reader.object(at, "a tensor")?;
    reader.remark(form.note)?;
    let device = form.device.map(|d| reader.parse(d, "a device such as cpu:0")).transpose()?;
    let dtype: Option<DType> = form.dtype.map(|d| reader.parse(d, "a dtype")).transpose()?;
    let shape = form.shape.map(|s| lengths(reader, s, "a shape")).transpose()?;
    let TensorForm { fill, values, random, normal, file, key, .. } = form;
    let given = Given { fill, values, random, normal, file, key };
    let Some(data) = data(reader, sidecars, &given, dtype, shape.as_deref())? else {
        let error = reader.error(at, format!("the tensor '{name}' has no elements"));
        return Err(error.help(format!("give one of {SOURCES}")));
    };
    let Some(dtype) = dtype.or(data.dtype()) else {
        return Err(reader.error(at, "'dtype' is missing in a tensor"));
    };
    let shape = match (shape, &data) {
        (Some(shape), _) => shape,
        (None, Data::File(sidecar)) => Dims::from_slice(sidecar.shape()),
        (None, Data::Values(literal)) => Dims::from_slice(literal.shape()),
        _ => return Err(reader.error(at, "'shape' is missing in a tensor")),
    };

    // What is said of the layout is at fault where it fails; else the tensor as a whole.
    let blame = form.strides.or(form.shape).unwrap_or(at.cast());
    let offset = match form.offset {
        Some(at) => size(reader, at, "an offset, a whole number of 0 or more")?,
        None => 0,
    };
    let strides = match form.strides {
        Some(at) => lengths(reader, at, "strides")?,
        None => contiguous_strides(&shape).map_err(|e| reader.wrap(blame, &e))?,
    };
    let spec = Layout::strided(&shape, &strides, offset)
        .and_then(|layout| TensorSpec::new(dtype, layout))
        .map_err(|e| reader.wrap(blame, &e))?;
    if spec.layout.may_overlap_itself() && !matches!(data, Data::Fill(_)) {
        let message = "elements of this tensor share their memory; only 'fill' can set them";
        return Err(reader.error(blame, message));
    }
    let mut storage_bytes = spec.span_bytes();
    if let Some(at) = form.storage {
        let elements = size(reader, at, "the size of a storage, a whole number of elements")?;
        let bytes = elements.checked_mul(dtype.size()).filter(|&b| b <= MAX_BYTES);
        let Some(bytes) = bytes else {
            let message = format!("a storage of {elements} elements is more than any memory holds");
            return Err(reader.error(at, message));
        };
        if spec.layout.span() > elements {
            let reach = spec.layout.span();
            let message =
                format!("{spec} reaches over {reach} elements, its storage has {elements}");
            return Err(reader.error(at, message));
        }
        storage_bytes = bytes;
    }
    Ok(Tensor { name: name.to_owned(), spec, storage_bytes, device, data, site })
}

/// A list of lengths or strides.
pub(crate) fn lengths<'a>(reader: &Reader<'a>, at: At<'a, Vec<u64>>, what: &str) -> Result<Dims> {
    let list = reader.list(at, &format!("{what}, a list of whole numbers"))?;
    let expected = format!("{what} of whole numbers of 0 or more");
    list.into_iter().map(|at| size(reader, at, &expected)).collect()
}

fn size(reader: &Reader<'_>, at: At<'_, u64>, what: &str) -> Result<usize> {
    let value: u64 = reader.number(at, what)?;
    let large = |_| reader.error(at, format!("{} is more than any memory holds", short(at.raw)));
    usize::try_from(value).map_err(large)
}

/// Where the elements come from; none if nothing is said of it. What is known of dtype and shape
/// is checked.
pub(crate) fn data<'a>(
    reader: &Reader<'a>,
    sidecars: &mut Sidecars,
    given: &Given<'a>,
    dtype: Option<DType>,
    shape: Option<&[usize]>,
) -> Result<Option<Data>> {
    let Given { fill, values, random, normal, file, key } = *given;
    let all: [Option<At<'a, ()>>; 5] = [
        fill.map(At::cast),
        values.map(At::cast),
        random.map(At::cast),
        normal.map(At::cast),
        file.map(At::cast),
    ];
    if let Some(second) = all.iter().flatten().nth(1) {
        return Err(reader.error(*second, format!("expected one of {SOURCES}, got two")));
    }
    if let (None, Some(key)) = (file, key) {
        return Err(reader.error(key, "'key' needs 'file', the name of a safetensors file"));
    }
    let needs_dtype = |at: At<'a, ()>, what: &str| {
        dtype.ok_or_else(|| reader.error(at, format!("{what} elements need a 'dtype' beside them")))
    };
    if let Some(at) = fill {
        let literal = Literal::scan(reader.source, reader.range(at.raw), dtype)?;
        let mut only = None;
        literal.each(|number| {
            only = Some(number);
            Ok(())
        })?;
        return match only.filter(|_| literal.shape().is_empty()) {
            Some(number) => Ok(Some(Data::Fill(number))),
            None => Err(reader.error(at, "expected one number, got a list")),
        };
    }
    if let Some(at) = values {
        let literal = Literal::scan(reader.source, reader.range(at.raw), dtype)?;
        if let Some(shape) = shape.filter(|s| !literal.fits(s)) {
            let (count, got) = (literal.count(), literal.shape());
            let message =
                format!("expected values for shape {shape:?}, got {count} in shape {got:?}");
            return Err(reader.error(at, message));
        }
        return Ok(Some(Data::Values(literal)));
    }
    if let Some(at) = random {
        return uniform(reader, at, needs_dtype(at.cast(), "random")?).map(Some);
    }
    if let Some(at) = normal {
        return gaussian(reader, at, needs_dtype(at.cast(), "random")?).map(Some);
    }
    let Some(at) = file else { return Ok(None) };
    let name = reader.text(at, "the name of a safetensors file")?;
    let Some(key_at) = key else {
        return Err(reader.error(at, "'file' needs 'key', the tensor's name in that file"));
    };
    let key = reader.text(key_at, "the tensor's name in the file")?;
    let sidecar = sidecars.find(&name, &key).map_err(|fault| {
        let place = if fault.of_key { key_at } else { at };
        reader.error(place, fault.message).meant(fault.nearest)
    })?;
    if let Some(dtype) = dtype.filter(|d| *d != sidecar.dtype()) {
        let message =
            format!("expected '{key}' to be {dtype}, in '{name}' it is {}", sidecar.dtype());
        return Err(reader.error(key_at, message));
    }
    if let Some(shape) = shape.filter(|s| *s != sidecar.shape()) {
        let got = sidecar.shape();
        let message = format!("expected '{key}' of shape {shape:?}, in '{name}' it is {got:?}");
        return Err(reader.error(key_at, message));
    }
    Ok(Some(Data::File(sidecar)))
}

fn seed<'a, T>(reader: &Reader<'a>, seed: Option<At<'a, u64>>, within: At<'a, T>) -> Result<u64> {
    let at = reader.need(seed, within, "seed", "random elements")?;
    reader.number(at, "a seed, a whole number of 0 or more")
}

fn uniform<'a>(reader: &Reader<'a>, at: At<'a, RandomForm<'a>>, dtype: DType) -> Result<Data> {
    let form = reader.object(at, "random elements")?;
    let seed = seed(reader, form.seed, at)?;
    let distribution = if dtype.is_float() {
        let read = |at: Option<At<'a, f64>>, default| {
            at.map_or(Ok(default), |at| reader.number::<f64>(at, "a number"))
        };
        let (low, high) = (read(form.low, 0.0)?, read(form.high, 1.0)?);
        if low >= high || !(high - low).is_finite() {
            let message = format!("expected low < high and no overflow, got {low:?} and {high:?}");
            return Err(reader.error(at, message));
        }
        for (value, field) in [(low, form.low), (high, form.high)] {
            let fits = Number::Float(value).element(dtype).map(drop);
            fits.map_err(|why| reader.error(field.unwrap_or(at.cast()), why))?;
        }
        Distribution::Uniform { low, high }
    } else {
        let (least, greatest) = int_range(dtype);
        let read = |at: At<'a, f64>| reader.number::<i64>(at.cast(), "a whole number");
        let low = form.low.map_or(Ok(0), read)?;
        let high = match (form.high, dtype) {
            (Some(at), _) => read(at)?,
            (None, DType::Bool) => 2,
            (None, _) => return Err(reader.error(at, "'high' is missing in random integers")),
        };
        if low >= high || low < least || high.saturating_sub(1) > greatest {
            let message = format!(
                "expected low < high within {dtype}, {least} to {greatest} and one past it, got {low} and {high}"
            );
            return Err(reader.error(at, message));
        }
        Distribution::Integers { low, high }
    };
    Ok(Data::Random { seed, distribution })
}

fn gaussian<'a>(reader: &Reader<'a>, at: At<'a, NormalForm<'a>>, dtype: DType) -> Result<Data> {
    let form = reader.object(at, "normally distributed elements")?;
    let seed = seed(reader, form.seed, at)?;
    if !dtype.is_float() {
        return Err(reader.error(at, format!("normally distributed elements cannot be {dtype}")));
    }
    let read = |at: Option<At<'a, f64>>, default| {
        at.map_or(Ok(default), |at| reader.number::<f64>(at, "a number"))
    };
    let (mean, std) = (read(form.mean, 0.0)?, read(form.std, 1.0)?);
    if std < 0.0 {
        return Err(reader.error(at, format!("expected a std of 0 or more, got {std:?}")));
    }
    Ok(Data::Random { seed, distribution: Distribution::Normal { mean, std } })
}
