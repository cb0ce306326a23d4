//! The elements of tensors and outputs in a native trace: in its text, or in a sidecar.

use std::collections::BTreeMap;

use millstream_types::{DType, TensorSpec};

use crate::data::{Data, memory};
use crate::element_iter::ElementIter;
use crate::error::Result;
use crate::number::{Number, read_float, read_int};
use crate::program::{Output, Tensor};
use crate::random::Distribution;

use super::object::{Object, list, quoted};

/// The elements that lie in a sidecar.
pub(super) struct Beside<'a> {
    pub(super) file: &'a str,
    pub(super) tensors: BTreeMap<String, (DType, Vec<usize>, Vec<u8>)>,
}

impl Beside<'_> {
    /// The most elements that are written into the trace itself.
    const SHORT: usize = 16;

    /// Adds elements in row-major order, and to an object the fields that refer to them.
    fn add(&mut self, to: Object, key: String, spec: &TensorSpec, elements: Vec<u8>) -> Object {
        let fields = to.with("file", quoted(self.file)).with("key", quoted(&key));
        self.tensors.insert(key, (spec.dtype, spec.shape().to_vec(), elements));
        fields
    }
}

/// Returns the fields of an output that say what is expected of it.
pub(super) fn expected(output: &Output, name: &str, beside: &mut Beside<'_>) -> Result<Object> {
    let none = Object::new();
    let Some(data) = &output.expected else { return Ok(none) };
    let described = match data {
        Data::File(sidecar) => Some((sidecar.dtype(), sidecar.shape().to_vec())),
        _ => output.dtype.zip(output.shape.as_ref().map(|shape| shape.to_vec())),
    };
    let fields = match (data, described) {
        (Data::Fill(value), None) => none.with("fill", number(*value)),
        (Data::Values(literal), None) => none.with("values", literal.line()),
        (_, Some((dtype, shape))) => {
            let spec = TensorSpec::contiguous(dtype, &shape).map_err(|e| output.site.wrap(&e))?;
            let mut elements = memory(spec.span_bytes(), &output.site)?;
            data.write(&spec, &mut elements, &output.site)?;
            beside.add(none, format!("expected {name}"), &spec, elements)
        }
        (_, None) => return Ok(none),
    };
    let tolerance = output.tolerance;
    Ok(fields.some("rtol", tolerance.rtol.map(float)).some("atol", tolerance.atol.map(float)))
}

pub(super) fn tensor(tensor: &Tensor, beside: Option<(&str, &mut Beside<'_>)>) -> Result<Object> {
    let (spec, layout, dtype) = (&tensor.spec, &tensor.spec.layout, tensor.spec.dtype);
    let elements =
        (tensor.storage_bytes > spec.span_bytes()).then(|| tensor.storage_bytes / dtype.size());
    let fields = Object::new()
        .with("dtype", quoted(dtype))
        .with("shape", list(spec.shape()))
        .some("device", tensor.device.as_ref().map(quoted))
        .some("strides", (!layout.is_contiguous()).then(|| list(layout.strides())))
        .some("offset", (layout.offset() > 0).then_some(layout.offset()))
        .some("storage", elements);
    let beside = beside.filter(|_| spec.numel() > Beside::SHORT);
    match (&tensor.data, beside) {
        (
            Data::File(_) | Data::Hint(_) | Data::Listed(_) | Data::Part(_) | Data::Values(_),
            Some((name, all)),
        ) => Ok(all.add(fields, name.to_owned(), spec, in_order(tensor)?)),
        (data, _) => with_elements(fields, data, tensor),
    }
}

/// Adds the field of a tensor that holds or describes its elements.
fn with_elements(fields: Object, data: &Data, tensor: &Tensor) -> Result<Object> {
    let dtype = tensor.spec.dtype;
    Ok(match data {
        Data::Fill(value) => fields.with("fill", number(*value)),
        Data::Values(literal) => fields.with("values", literal.line()),
        Data::Random { seed, distribution } => {
            let seed = Object::new().with("seed", seed);
            match distribution {
                Distribution::Uniform { low, high } => {
                    let bounds = seed.with("low", float(*low)).with("high", float(*high));
                    fields.with("random", bounds)
                }
                Distribution::Integers { .. } if dtype == DType::Bool => {
                    fields.with("random", seed)
                }
                Distribution::Integers { low, high } => {
                    fields.with("random", seed.with("low", low).with("high", high))
                }
                Distribution::Normal { mean, std } => {
                    let moments = seed.with("mean", float(*mean)).with("std", float(*std));
                    fields.with("normal", moments)
                }
            }
        }
        Data::Listed(_) | Data::File(_) | Data::Hint(_) | Data::Part(_) => {
            fields.with("values", list(elements(tensor)?))
        }
    })
}

/// Returns the elements in row-major order, as text.
fn elements(tensor: &Tensor) -> Result<Vec<String>> {
    let dtype = tensor.spec.dtype;
    let bytes = in_order(tensor)?;
    Ok(bytes.chunks_exact(dtype.size()).map(|bytes| element(dtype, bytes)).collect())
}

/// Returns the elements in row-major order.
fn in_order(tensor: &Tensor) -> Result<Vec<u8>> {
    let storage = tensor.materialize()?;
    let size = tensor.spec.dtype.size();
    let offsets = ElementIter::new(&tensor.spec.layout);
    Ok(offsets.flat_map(|offset| storage[offset * size..][..size].iter().copied()).collect())
}

/// Returns an element as JSON, exactly: of a complex one, its parts. Of numbers that JSON lacks,
/// the name as a string.
pub fn element(dtype: DType, bytes: &[u8]) -> String {
    match dtype {
        DType::Bool => (bytes[0] != 0).to_string(),
        _ if dtype.is_complex() => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            format!("[{}, {}]", element(dtype.part(), re), element(dtype.part(), im))
        }
        _ if dtype.is_float() => float(read_float(bytes, dtype)),
        _ => read_int(bytes, dtype).to_string(),
    }
}

fn number(number: Number) -> String {
    match number {
        Number::Float(x) => float(x),
        other => other.to_string(),
    }
}

pub(super) fn float(x: f64) -> String {
    match (x.is_nan(), x.is_infinite()) {
        (true, _) => "\"nan\"".to_owned(),
        (_, true) if x > 0.0 => "\"inf\"".to_owned(),
        (_, true) => "\"-inf\"".to_owned(),
        _ => format!("{x:?}"),
    }
}
