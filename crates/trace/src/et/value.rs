//! Parses the arguments and results of a node.

use millstream_types::{DType, Dims, Layout, TensorSpec};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::et::raw_form::{NodeForm, ValuesForm};
use crate::et::signature::split;

/// The message of an error in a node.
pub(crate) type ValueError = String;

/// An argument or result as recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arg {
    Tensor(Recorded),
    /// An undefined tensor.
    Undefined,
    None,
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
    List(Vec<Arg>),
    /// An object whose value the trace does not record.
    Opaque,
}

impl Arg {
    /// Returns a description for messages.
    pub(crate) fn brief(&self) -> String {
        match self {
            Arg::Tensor(tensor) => format!("the tensor {}", tensor.brief()),
            Arg::Undefined => "an undefined tensor".to_owned(),
            Arg::None => "None".to_owned(),
            Arg::Int(v) => format!("the number {v}"),
            Arg::Float(v) => format!("the number {v:?}"),
            Arg::Bool(v) => format!("{v}"),
            Arg::Str(v) => format!("the string '{v}'"),
            Arg::List(list) => format!("a list of {}", list.len()),
            Arg::Opaque => "an object that the trace does not record".to_owned(),
        }
    }
}

/// A tensor as recorded. The ids are addresses: PyTorch reuses them after a tensor is freed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) tensor: u64,
    pub(crate) storage: u64,
    pub(crate) dtype: DType,
    pub(crate) shape: Dims,
    /// Present since schema 1.1.1.
    pub(crate) strides: Option<Dims>,
    pub(crate) offset: usize,
    pub(crate) on_host: bool,
}

impl Recorded {
    /// Returns dtype and shape for messages.
    pub(crate) fn brief(&self) -> String {
        format!("{}{:?}", self.dtype, self.shape)
    }

    pub(crate) fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.numel() as u64 * self.dtype.size() as u64
    }

    /// Returns the spec of the tensor with these strides. `base` is the recorded offset of the
    /// storage's first element.
    pub(crate) fn spec(&self, strides: &[usize], base: usize) -> Result<TensorSpec, ValueError> {
        let offset = self.offset.checked_sub(base).ok_or_else(|| {
            format!("offset {} lies before the start of its storage at {base}", self.offset)
        })?;
        let layout = Layout::strided(&self.shape, strides, offset).map_err(|e| e.to_string())?;
        TensorSpec::new(self.dtype, layout).map_err(|e| e.to_string())
    }
}

/// Returns the dtype of a C++ type name.
fn dtype(name: &str) -> Option<DType> {
    Some(match name {
        "float" => DType::F32,
        "double" => DType::F64,
        "c10::Half" => DType::F16,
        "c10::BFloat16" => DType::BF16,
        "long" | "long int" | "long long" => DType::I64,
        "int" => DType::I32,
        "short" | "short int" => DType::I16,
        "signed char" => DType::I8,
        "unsigned char" => DType::U8,
        "unsigned short" | "short unsigned int" => DType::U16,
        "unsigned int" => DType::U32,
        "unsigned long" | "long unsigned int" | "unsigned long long" => DType::U64,
        "bool" => DType::Bool,
        "c10::complex<float>" => DType::C64,
        "c10::complex<double>" => DType::C128,
        _ => return None,
    })
}

/// Parses the inputs of a node.
pub(crate) fn inputs(node: &NodeForm<'_>) -> Result<Vec<Arg>, ValueError> {
    args("inputs", node.inputs, node.input_shapes, node.input_types)
}

/// Parses the outputs of a node.
pub(crate) fn outputs(node: &NodeForm<'_>) -> Result<Vec<Arg>, ValueError> {
    args("outputs", node.outputs, node.output_shapes, node.output_types)
}

fn args(
    what: &str,
    values: Option<&RawValue>,
    shapes: Option<&RawValue>,
    types: Option<&RawValue>,
) -> Result<Vec<Arg>, ValueError> {
    fn read<T: serde::de::DeserializeOwned>(what: &str, raw: &RawValue) -> Result<T, ValueError> {
        serde_json::from_str(raw.get()).map_err(|e| {
            let message = e.to_string();
            let message = message.rsplit_once(" at line ").map_or(&*message, |(m, _)| m);
            format!("its {what}: {message}")
        })
    }
    let Some(values) = values else { return Ok(Vec::new()) };
    let form: ValuesForm = match (shapes, types) {
        (Some(shapes), Some(types)) => ValuesForm {
            values: read(what, values)?,
            shapes: read(what, shapes)?,
            types: read(what, types)?,
            strides: None,
        },
        _ => read(what, values)?,
    };
    let count = form.values.len();
    let strides = form.strides.as_ref().map_or(count, Vec::len);
    if form.types.len() != count || form.shapes.len() != count || strides != count {
        return Err(format!(
            "its {what}: expected equal numbers, got {count} values, {} shapes, {} types, \
             {strides} strides",
            form.shapes.len(),
            form.types.len()
        ));
    }
    let one = |k: usize| {
        let strides = form.strides.as_ref().map(|s| &s[k]);
        arg(&form.values[k], &form.types[k], Some(&form.shapes[k]), strides)
            .map_err(|e| format!("{} {k}: {e}", &what[..what.len() - 1]))
    };
    (0..count).map(one).collect()
}

/// Returns the text between the brackets of `Word[..]` or `Word(..)`.
fn inside<'t>(ty: &'t str, word: &str, ends: (char, char)) -> Option<&'t str> {
    ty.strip_prefix(word)?.strip_prefix(ends.0)?.strip_suffix(ends.1)
}

fn arg(
    value: &Value,
    ty: &str,
    shape: Option<&Value>,
    strides: Option<&Value>,
) -> Result<Arg, ValueError> {
    if let Some(of) = inside(ty, "Tensor", ('(', ')')) {
        return match of.starts_with("nullptr") {
            true => Ok(Arg::Undefined),
            false => tensor(value, of, shape, strides).map(Arg::Tensor),
        };
    }
    let list = inside(ty, "GenericList", ('[', ']')).or_else(|| inside(ty, "Tuple", ('[', ']')));
    if let Some(types) = list {
        let types = if types.is_empty() { Vec::new() } else { split(types) };
        let Value::Array(values) = value else { return Err(format!("{value} is not a list")) };
        if types.len() != values.len() {
            return Err(format!("a list of {} values has {} types", values.len(), types.len()));
        }
        let at = |of: Option<&'_ Value>, k: usize| of.and_then(|v| v.get(k)).cloned();
        let one = |(k, (value, ty)): (usize, (&Value, &&str))| {
            let (shape, strides) = (at(shape, k), at(strides, k));
            arg(value, ty, shape.as_ref(), strides.as_ref())
        };
        return values
            .iter()
            .zip(&types)
            .enumerate()
            .map(one)
            .collect::<Result<_, _>>()
            .map(Arg::List);
    }
    let wrong = || format!("{value} is not of type {ty}");
    Ok(match ty {
        "None" => Arg::None,
        "Int" | "SymInt" => Arg::Int(value.as_i64().ok_or_else(wrong)?),
        "Double" | "SymFloat" => Arg::Float(number(value).ok_or_else(wrong)?),
        "Bool" | "SymBool" => Arg::Bool(value.as_bool().ok_or_else(wrong)?),
        "String" | "Device" => Arg::Str(value.as_str().ok_or_else(wrong)?.to_owned()),
        _ => Arg::Opaque,
    })
}

/// Parses a number. Infinities and NaN, which JSON cannot write, are strings.
fn number(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("inf" | "Infinity") => Some(f64::INFINITY),
        Some("-inf" | "-Infinity") => Some(f64::NEG_INFINITY),
        Some("nan" | "-nan" | "NaN") => Some(f64::NAN),
        Some(_) => None,
        None => value.as_f64(),
    }
}

fn lengths(value: &Value, what: &str) -> Result<Dims, ValueError> {
    let wrong = || format!("impossible {what} {value}: expected a list of integers");
    let length = |v: &Value| usize::try_from(v.as_u64()?).ok();
    let Value::Array(list) = value else { return Err(wrong()) };
    list.iter().map(|v| length(v).ok_or_else(wrong)).collect()
}

fn tensor(
    value: &Value,
    of: &str,
    shape: Option<&Value>,
    strides: Option<&Value>,
) -> Result<Recorded, ValueError> {
    let broken = || {
        format!(
            "{value} is not a tensor: expected [id, storage, offset, elements, bytes of one, device]"
        )
    };
    let Value::Array(tuple) = value else { return Err(broken()) };
    let [tensor, storage, offset, numel, itemsize, device] = &tuple[..] else {
        return Err(broken());
    };
    let whole = |v: &Value| v.as_u64().ok_or_else(broken);
    let (tensor, storage, numel) = (whole(tensor)?, whole(storage)?, whole(numel)?);
    let offset = offset.as_i64().ok_or_else(broken)?;
    let offset = usize::try_from(offset).map_err(|_| format!("impossible offset {offset}"))?;
    let dtype = dtype(of).ok_or_else(|| format!("dtype '{of}' is not supported"))?;
    if whole(itemsize)? != dtype.size() as u64 {
        return Err(format!("elements of {itemsize} bytes where {dtype} has {}", dtype.size()));
    }
    let shape = lengths(shape.unwrap_or(&Value::Null), "shape")?;
    let elements =
        Layout::contiguous(&shape).map_err(|e| format!("impossible shape: {e}"))?.numel();
    if elements as u64 != numel {
        return Err(format!("impossible shape {shape:?}: it has {elements} elements, not {numel}"));
    }
    let strides = match strides {
        None => None,
        Some(given) => {
            let strides = lengths(given, "strides")?;
            Layout::strided(&shape, &strides, offset)
                .map_err(|e| format!("impossible strides or offset: {e}"))?;
            Some(strides)
        }
    };
    let on_host = device.as_str().ok_or_else(broken)?.starts_with("cpu");
    Ok(Recorded { tensor, storage, dtype, shape, strides, offset, on_host })
}

/// Returns the storages of the tensors among inputs or outputs, with the number of elements of each
/// tensor. Values that are no tensors are skipped, whatever they are.
pub(crate) fn storages(side: Option<&RawValue>) -> Vec<(u64, u64)> {
    fn collect(value: &Value, found: &mut Vec<(u64, u64)>) {
        let Value::Array(list) = value else { return };
        match (&list[..], list.last()) {
            ([_, storage, _, numel, _, _], Some(Value::String(_))) => {
                found.extend(storage.as_u64().zip(numel.as_u64()));
            }
            _ => list.iter().for_each(|inner| collect(inner, found)),
        }
    }
    let mut found = Vec::new();
    match side.map(|side| serde_json::from_str::<Value>(side.get())) {
        Some(Ok(Value::Object(form))) => {
            collect(form.get("values").unwrap_or(&Value::Null), &mut found);
        }
        Some(Ok(list)) => collect(&list, &mut found),
        None | Some(Err(_)) => {}
    }
    found
}

/// Collects all tensors of arguments, including those in lists.
pub(crate) fn tensors<'a>(args: &'a [Arg], found: &mut Vec<&'a Recorded>) {
    for arg in args {
        match arg {
            Arg::Tensor(t) => found.push(t),
            Arg::List(list) => tensors(list, found),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str, ty: &str, shape: &str) -> Result<Arg, ValueError> {
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        arg(&json(value), ty, Some(&json(shape)), None)
    }

    #[test]
    fn values_of_all_types() {
        let Ok(Arg::Tensor(t)) = read(r#"[5,6,1,6,2,"cpu"]"#, "Tensor(c10::Half)", "[2,3]") else {
            panic!("a tensor");
        };
        assert_eq!((t.tensor, t.storage, t.offset, t.brief()), (5, 6, 1, "f16[2, 3]".to_owned()));
        let list =
            read(r#"[[5,6,0,1,4,"cpu"],"<None>"]"#, "GenericList[Tensor(int),None]", "[[1],[]]");
        assert!(matches!(list, Ok(Arg::List(l)) if matches!(&l[..], [Arg::Tensor(_), Arg::None])));
        assert_eq!(read(r#""-inf""#, "Double", "[]"), Ok(Arg::Float(f64::NEG_INFINITY)));
        assert_eq!(read("[]", "GenericList[]", "[]"), Ok(Arg::List(Vec::new())));
        assert_eq!(read(r#""<Object>""#, "Object", "[]"), Ok(Arg::Opaque));
        let undefined = r#"[0,0,0,0,0,""]"#;
        assert_eq!(read(undefined, "Tensor(nullptr (uninitialized))", "[]"), Ok(Arg::Undefined));
    }

    #[test]
    fn invalid_values_are_refused() {
        for (value, ty, shape, part) in [
            (r#"[5,6,0,6,4,"cpu"]"#, "Tensor(float)", "[2,2]", "it has 4 elements, not 6"),
            (r#"[5,6,0,6,4,"cpu"]"#, "Tensor(float)", "[-2,3]", "impossible shape"),
            (r#"[5,6,-1,6,4,"cpu"]"#, "Tensor(float)", "[6]", "impossible offset -1"),
            (r#"[5,6,0,6,8,"cpu"]"#, "Tensor(float)", "[6]", "f32 has 4"),
            (r#"[5,6,0,6,8,"cpu"]"#, "Tensor(c10::complex<c10::Half>)", "[6]", "not supported"),
            (r#"[5,6]"#, "Tensor(float)", "[6]", "is not a tensor"),
            (r#""x""#, "Int", "[]", "is not of type Int"),
            ("[1]", "GenericList[Int,Int]", "[]", "2 types"),
        ] {
            let fault = read(value, ty, shape).unwrap_err();
            assert!(fault.contains(part), "{fault}");
        }
    }
}
