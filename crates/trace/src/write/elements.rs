//! The elements of tensors and outputs in a native trace: in its text, or in a sidecar.

use std::collections::BTreeMap;
use std::fmt::Write;

use half::{bf16, f16};
use millstream_types::{DType, TensorSpec};

use crate::data::{Data, memory};
use crate::element_iter::ElementIter;
use crate::error::Result;
use crate::number::Number;
use crate::program::{Output, Tensor};
use crate::random::Distribution;

use super::quoted;

/// The elements that lie in a sidecar.
pub(super) struct Beside<'a> {
    pub(super) file: &'a str,
    pub(super) tensors: BTreeMap<String, (DType, Vec<usize>, Vec<u8>)>,
}

impl Beside<'_> {
    /// The most elements that are written into the trace itself.
    const SHORT: usize = 16;

    /// Adds elements in row-major order. Returns the fields that refer to them.
    fn add(&mut self, key: String, spec: &TensorSpec, elements: Vec<u8>) -> String {
        let fields = format!("\"file\": {}, \"key\": {}", quoted(self.file), quoted(&key));
        self.tensors.insert(key, (spec.dtype, spec.shape().to_vec(), elements));
        fields
    }
}

/// Returns the fields of an output that say what is expected of it.
pub(super) fn expected(output: &Output, name: &str, beside: &mut Beside<'_>) -> Result<String> {
    let Some(data) = &output.expected else { return Ok(String::new()) };
    let described = match data {
        Data::File(sidecar) => Some((sidecar.dtype(), sidecar.shape().to_vec())),
        _ => output.dtype.zip(output.shape.as_ref().map(|shape| shape.to_vec())),
    };
    let mut fields = match (data, described) {
        (Data::Fill(value), None) => format!("\"fill\": {}", number(*value)),
        (Data::Values(literal), None) => format!("\"values\": {}", literal.line()),
        (_, Some((dtype, shape))) => {
            let spec = TensorSpec::contiguous(dtype, &shape).map_err(|e| output.site.wrap(&e))?;
            let mut elements = memory(spec.span_bytes(), &output.site)?;
            data.write(&spec, &mut elements, &output.site)?;
            beside.add(format!("expected {name}"), &spec, elements)
        }
        (_, None) => return Ok(String::new()),
    };
    for (field, bound) in [("rtol", output.tolerance.rtol), ("atol", output.tolerance.atol)] {
        if let Some(bound) = bound {
            // Writing to a string does not fail.
            let _ = write!(fields, ", \"{field}\": {}", float(bound));
        }
    }
    Ok(format!(" {fields} "))
}

pub(super) fn tensor(tensor: &Tensor, beside: Option<(&str, &mut Beside<'_>)>) -> Result<String> {
    let spec = &tensor.spec;
    let (layout, dtype) = (&spec.layout, spec.dtype);
    let mut text = format!("{{ \"dtype\": \"{dtype}\", \"shape\": {:?}", spec.shape());
    // Writing to a string does not fail.
    if let Some(device) = &tensor.device {
        let _ = write!(text, ", \"device\": \"{device}\"");
    }
    if !layout.is_contiguous() {
        let _ = write!(text, ", \"strides\": {:?}", layout.strides());
    }
    if layout.offset() > 0 {
        let _ = write!(text, ", \"offset\": {}", layout.offset());
    }
    if tensor.storage_bytes > spec.span_bytes() {
        let _ = write!(text, ", \"storage\": {}", tensor.storage_bytes / dtype.size());
    }
    let beside = beside.filter(|_| tensor.spec.numel() > Beside::SHORT);
    let data = match (&tensor.data, beside) {
        (
            Data::File(_) | Data::Hint(_) | Data::Listed(_) | Data::Part(_) | Data::Values(_),
            Some((name, all)),
        ) => all.add(name.to_owned(), spec, in_order(tensor)?),
        (data, _) => elements_of(data, tensor)?,
    };
    Ok(format!("{text}, {data} }}"))
}

/// Returns the field of a tensor that holds or describes its elements.
fn elements_of(data: &Data, tensor: &Tensor) -> Result<String> {
    let dtype = tensor.spec.dtype;
    Ok(match data {
        Data::Fill(value) => format!("\"fill\": {}", number(*value)),
        Data::Values(literal) => format!("\"values\": {}", literal.line()),
        Data::Listed(_) => format!("\"values\": [{}]", elements(tensor)?.join(", ")),
        Data::Random { seed, distribution } => match distribution {
            Distribution::Uniform { low, high } => {
                let (low, high) = (float(*low), float(*high));
                format!("\"random\": {{ \"seed\": {seed}, \"low\": {low}, \"high\": {high} }}")
            }
            Distribution::Integers { .. } if dtype == DType::Bool => {
                format!("\"random\": {{ \"seed\": {seed} }}")
            }
            Distribution::Integers { low, high } => {
                format!("\"random\": {{ \"seed\": {seed}, \"low\": {low}, \"high\": {high} }}")
            }
            Distribution::Normal { mean, std } => {
                let (mean, std) = (float(*mean), float(*std));
                format!("\"normal\": {{ \"seed\": {seed}, \"mean\": {mean}, \"std\": {std} }}")
            }
        },
        Data::File(_) | Data::Hint(_) | Data::Part(_) => {
            format!("\"values\": [{}]", elements(tensor)?.join(", "))
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
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        let mut whole = [0; N];
        whole.copy_from_slice(bytes);
        whole
    }
    match dtype {
        DType::F32 => float(f32::from_ne_bytes(array(bytes)).into()),
        DType::F64 => float(f64::from_ne_bytes(array(bytes))),
        DType::F16 => float(f16::from_ne_bytes(array(bytes)).into()),
        DType::BF16 => float(bf16::from_ne_bytes(array(bytes)).into()),
        DType::I64 => i64::from_ne_bytes(array(bytes)).to_string(),
        DType::I32 => i32::from_ne_bytes(array(bytes)).to_string(),
        DType::I16 => i16::from_ne_bytes(array(bytes)).to_string(),
        DType::I8 => i8::from_ne_bytes(array(bytes)).to_string(),
        DType::U8 => bytes[0].to_string(),
        DType::U16 => u16::from_ne_bytes(array(bytes)).to_string(),
        DType::U32 => u32::from_ne_bytes(array(bytes)).to_string(),
        DType::U64 => u64::from_ne_bytes(array(bytes)).to_string(),
        DType::Bool => (bytes[0] != 0).to_string(),
        DType::C64 | DType::C128 => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            format!("[{}, {}]", element(dtype.part(), re), element(dtype.part(), im))
        }
    }
}

fn number(number: Number) -> String {
    match number {
        Number::Bool(b) => b.to_string(),
        Number::Int(n) => n.to_string(),
        Number::Float(x) => float(x),
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
