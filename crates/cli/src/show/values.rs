//! Elements of tensors as text, and as a safetensors file.

use std::collections::BTreeMap;

use millstream_trace::{sidecar, write};
use millstream_types::DType;
use serde_json::value::RawValue;

use crate::run::Ran;

/// Returns the outputs of a program that could be read, in the format of safetensors, by name.
pub(crate) fn safetensors(ran: &Ran) -> Result<Vec<u8>, String> {
    let mut tensors = BTreeMap::new();
    for (rank, report) in ran.ranks.iter().enumerate() {
        for output in &report.outputs {
            if let Some(spec) = &output.spec {
                let tensor = (spec.dtype, spec.shape(), &*output.bytes);
                tensors.insert(ran.name(rank, &output.name), tensor);
            }
        }
    }
    sidecar::bytes(&tensors).map_err(|e| format!("cannot save the outputs: {e}"))
}

/// Returns the first elements of a tensor as text, at most `most` of them.
pub(crate) fn preview(bytes: &[u8], dtype: DType, most: usize) -> String {
    let size = dtype.size();
    let mut shown: Vec<String> =
        bytes.chunks_exact(size).take(most).map(|b| element(b, dtype)).collect();
    if bytes.len() / size > most {
        shown.push("…".to_owned());
    }
    shown.join(" ")
}

fn element(bytes: &[u8], dtype: DType) -> String {
    match (dtype, bytes.try_into().map(f32::from_ne_bytes)) {
        // The shortest text that is this f32, and no longer one that is also the f64.
        (DType::F32, Ok(value)) => format!("{value:?}"),
        _ => write::element(dtype, bytes).trim_matches('"').to_owned(),
    }
}

/// Returns all elements as JSON, if they are at most `most`.
pub(crate) fn as_json(bytes: &[u8], dtype: DType, most: usize) -> Option<Vec<Box<RawValue>>> {
    let elements = bytes.chunks_exact(dtype.size());
    let one = |bytes| RawValue::from_string(write::element(dtype, bytes)).ok();
    (elements.len() <= most).then(|| elements.map(one).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use super::preview;
    use millstream_types::DType;

    #[test]
    fn elements_read_as_they_are() {
        let f16 = [0x3c00u16, 0xc000, 0x7c00, 0x0001, 0x7bff].map(u16::to_ne_bytes).concat();
        assert_eq!(preview(&f16, DType::F16, 9), "1.0 -2.0 inf 5.960464477539063e-8 65504.0");
        let bf16 = [0x3f80u16, 0xff80, 0x4049].map(u16::to_ne_bytes).concat();
        assert_eq!(preview(&bf16, DType::BF16, 9), "1.0 -inf 3.140625");
        assert_eq!(preview(&[0, 1, 1], DType::Bool, 2), "false true …");
        assert_eq!(preview(&[255], DType::I8, 2), "-1");
        assert_eq!(preview(&[], DType::F64, 2), "");
    }
}
