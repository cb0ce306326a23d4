//! A recorded call, and its statements in Rust.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use millstream_ops::{ArgDoc, Kind, Op, Presence};
use serde::Deserialize;
use serde_json::Value;

use super::WIDTH;
use crate::docs::methods::{Parts, rust_name};

/// The elements of a tensor.
#[derive(Deserialize)]
struct Elements {
    dtype: String,
    shape: Vec<usize>,
    values: Vec<Value>,
    /// Those of a result.
    strides: Option<Vec<usize>>,
}

/// A result: elements, or where these are rounded, PyTorch's text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Expected {
    Text { text: String },
    Exact(Elements),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    List(Vec<Elements>),
    One(Elements),
}

/// A recorded call.
#[derive(Deserialize)]
pub(super) struct Call {
    pub(super) op: String,
    tensors: BTreeMap<String, Given>,
    attrs: BTreeMap<String, Value>,
    /// The names of results; `_` for one that the example does not look at.
    names: Vec<String>,
    /// None for a result without a name.
    results: Vec<Option<Expected>>,
}

impl Call {
    /// Returns the options that the call sets, tensors first.
    pub(super) fn options<'a>(&self, parts: &Parts<'a>) -> Vec<&'a str> {
        let tensors = parts.tensors.iter().filter(|t| self.tensors.contains_key(t.name));
        let attrs = parts.options.iter().filter(|a| self.attrs.contains_key(a.name));
        tensors.chain(attrs).map(|doc| doc.name).collect()
    }

    /// Returns the statements of the example.
    pub(super) fn code(
        &self,
        method: &str,
        options: Option<&str>,
        parts: &Parts<'_>,
    ) -> Result<String> {
        let op = parts.op;
        self.check_names(op)?;
        let mut code = String::new();
        let mut first = None;
        for input in op.inputs() {
            match self.tensors.get(input.name) {
                None => {}
                Some(Given::One(elements)) => {
                    first.get_or_insert(&elements.shape);
                    code.push_str(&elements.made(&rust_name(input.name))?);
                }
                Some(Given::List(list)) => {
                    for (name, elements) in LIST.iter().zip(list) {
                        first.get_or_insert(&elements.shape);
                        code.push_str(&elements.made(list_name(input.name, name))?);
                    }
                }
            }
        }
        let shape = first.context("a call without tensors")?;
        // What is too long for a line is bound to a name.
        let mut call = self.call(method, options, parts)?;
        if call.len() + "let y = ?;".len() > WIDTH
            && let Some(set) = options.map(|options| self.options_text(options, parts))
        {
            let set = set?;
            code.push_str(&format!("let options = {set};\n"));
            call = call.replace(&set, "options");
        }
        let compare = |target: &str, k: usize| match self.results.get(k) {
            Some(Some(expected)) => expected.assertions(target, shape, self.shows_strides()),
            _ => bail!("{method} has no result {k}"),
        };
        let result = parts.result.0.as_str();
        match result {
            "&Tensor" => {
                let own = rust_name(op.inputs()[0].name);
                code.push_str(&format!("{call}?;\n"));
                code.push_str(&compare(&own, 0)?.concat());
            }
            "Tensor" => {
                let name = if self.tensors.contains_key("y") { "z" } else { "y" };
                match compare(&format!("{call}?"), 0)?.as_slice() {
                    [only] if only.len() <= WIDTH => code.push_str(only),
                    _ => {
                        code.push_str(&format!("let {name} = {call}?;\n"));
                        code.push_str(&compare(name, 0)?.concat());
                    }
                }
            }
            "Vec<Tensor>" => {
                code.push_str(&format!("let parts = {call}?;\n"));
                code.push_str(&format!("assert_eq!(parts.len(), {});\n", self.results.len()));
                for k in 0..self.results.len() {
                    code.push_str(&compare(&format!("parts[{k}]"), k)?.concat());
                }
            }
            "()" => bail!("{method} has no result: write its example"),
            _ => {
                let count = result.matches("Tensor").count();
                ensure!(self.names.len() == count, "{method} has {count} results, not as named");
                code.push_str(&format!("let ({}) = {call}?;\n", self.names.join(", ")));
                for (k, name) in self.names.iter().enumerate().filter(|(_, name)| *name != "_") {
                    code.push_str(&compare(name, k)?.concat());
                }
            }
        }
        Ok(code)
    }

    fn check_names(&self, op: &dyn Op) -> Result<()> {
        let tensors = self.tensors.keys().filter(|k| !op.inputs().iter().any(|i| i.name == **k));
        let attrs = self.attrs.keys().filter(|k| !op.attrs().iter().any(|a| a.name == **k));
        let unknown: Vec<&String> = tensors.chain(attrs).collect();
        ensure!(unknown.is_empty(), "the op has no {unknown:?}");
        Ok(())
    }

    /// Whether the call is about the layout of its result.
    fn shows_strides(&self) -> bool {
        self.attrs.contains_key("memory_format")
    }

    /// Returns the call of the method.
    fn call(&self, method: &str, options: Option<&str>, parts: &Parts<'_>) -> Result<String> {
        let op = parts.op;
        let receiver = match parts.first_is_self {
            true => format!("{}.", rust_name(op.inputs()[0].name)),
            false => "Tensor::".to_owned(),
        };
        let mut given = Vec::new();
        for parameter in &parts.parameters {
            given.push(self.argument(parameter.of, &parameter.ty, op)?);
        }
        if let Some(options) = options {
            given.push(self.options_text(options, parts)?);
        }
        Ok(format!("{receiver}{method}({})", given.join(", ")))
    }

    /// Returns the options of the call.
    fn options_text(&self, options: &str, parts: &Parts<'_>) -> Result<String> {
        let set = self.options(parts);
        let mut text = match set.is_empty() {
            true => "Default::default()".to_owned(),
            false => format!("options::{options}::default()"),
        };
        for name in set {
            let value = self.argument(name, "", parts.op)?;
            text.push_str(&format!(".{}({value})", rust_name(name)));
        }
        Ok(text)
    }

    /// Returns an argument of the method, for a tensor or an argument of the op.
    fn argument(&self, of: &str, ty: &str, op: &dyn Op) -> Result<String> {
        match self.tensors.get(of) {
            Some(Given::One(_)) => return Ok(format!("&{}", rust_name(of))),
            Some(Given::List(list)) => {
                let names = LIST.iter().take(list.len()).map(|name| list_name(of, name));
                let names: Vec<String> = names.map(|name| format!("&{name}")).collect();
                return Ok(format!("&[{}]", names.join(", ")));
            }
            None => {}
        }
        let stands_for =
            |a: &&ArgDoc| matches!(a.presence, Presence::InsteadOf(tensor) if tensor == of);
        let attr = op.attrs().iter().find(stands_for);
        let attr = attr.or_else(|| op.attrs().iter().find(|a| a.name == of));
        let attr = attr.with_context(|| format!("no tensor {of}"))?;
        match self.attrs.get(attr.name) {
            Some(value) => literal(value, attr.kind),
            None if ["impl Dims", "impl OneDim"].contains(&ty) => Ok("..".to_owned()),
            None => bail!("no argument {}", attr.name),
        }
    }
}

/// The names of the tensors in a list.
const LIST: &[&str] = &["x", "y", "z"];

fn list_name<'a>(list: &str, name: &'a str) -> &'a str {
    if list == "indices" { "index" } else { name }
}

/// Returns a number of Python, whose infinities are texts, in Rust's form.
fn float(value: &Value, ty: &str) -> Result<String> {
    let text = match value.as_str() {
        Some("nan") => format!("{ty}::NAN"),
        Some("inf") => format!("{ty}::INFINITY"),
        Some("-inf") => format!("{ty}::NEG_INFINITY"),
        Some(other) => bail!("no number: {other}"),
        None => {
            let number = value.as_f64().context("no number")?;
            if ty == "f32" { format!("{:?}", number as f32) } else { format!("{number:?}") }
        }
    };
    Ok(text)
}

fn literal(value: &Value, kind: Kind) -> Result<String> {
    Ok(match value {
        Value::Number(_) if kind == Kind::Float => float(value, "f64")?,
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_string(),
            None => float(value, "f64")?,
        },
        Value::Bool(flag) => flag.to_string(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(list) => match list.as_slice() {
            [only] => only.to_string(),
            several => {
                let several: Vec<String> = several.iter().map(Value::to_string).collect();
                format!("[{}]", several.join(", "))
            }
        },
        Value::Object(object) => {
            let dtype = object.get("dtype").and_then(Value::as_str).context("no dtype")?;
            format!("DType::{}", dtype.to_uppercase())
        }
        Value::Null => bail!("no value"),
    })
}

impl Elements {
    /// Returns the type of the elements.
    fn ty(&self) -> &str {
        if self.dtype == "c64" { "C64" } else { &self.dtype }
    }

    /// Returns the elements in Rust.
    fn literals(&self) -> Result<Vec<String>> {
        let ty = self.ty();
        if ty == "C64" {
            let parts: Result<Vec<String>> = self.values.iter().map(|v| float(v, "f32")).collect();
            let pairs = parts?;
            return Ok(pairs.chunks(2).map(|p| format!("C64::new({})", p.join(", "))).collect());
        }
        let one = |value: &Value| match ty.starts_with(['f', 'b']) && ty != "bool" {
            true => float(value, ty),
            false => Ok(value.to_string()),
        };
        self.values.iter().map(one).collect()
    }

    /// Returns the statement that makes the tensor.
    fn made(&self, name: &str) -> Result<String> {
        let mut literals = self.literals()?;
        let first = literals.first_mut().context("a tensor without elements")?;
        if first.ends_with(|c: char| c.is_ascii_digit()) {
            first.push_str(self.ty());
        }
        if self.shape.is_empty() {
            return Ok(format!("let {name} = Tensor::scalar({}, &machine)?;\n", literals[0]));
        }
        let lengths: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        let shape = match lengths.as_slice() {
            [one] => one.clone(),
            several => format!("({})", several.join(", ")),
        };
        Ok(format!(
            "let {name} = Tensor::from_slice(&[{}], {shape}, &machine)?;\n",
            literals.join(", ")
        ))
    }
}

impl Expected {
    /// Returns the statements that compare a result. `first` is the shape of the first operand.
    fn assertions(&self, target: &str, first: &[usize], strides: bool) -> Result<Vec<String>> {
        let elements = match self {
            Expected::Text { text } => {
                return Ok(vec![format!("assert_eq!({target}.to_string(), {text:?});\n")]);
            }
            Expected::Exact(elements) => elements,
        };
        let literals = elements.literals()?;
        let shape = format!("assert_eq!({target}.shape(), {:?});\n", elements.shape);
        if elements.shape.is_empty() {
            let (ty, value) = (elements.ty(), &literals[0]);
            return Ok(vec![format!("assert_eq!({target}.item::<{ty}>()?, {value});\n")]);
        }
        if literals.is_empty() {
            return Ok(vec![shape]);
        }
        let mut lines = Vec::new();
        if elements.shape.len() > 1 && elements.shape != first {
            lines.push(shape);
        }
        let (ty, values) = (elements.ty(), literals.join(", "));
        lines.push(format!("assert_eq!({target}.to_vec::<{ty}>()?, [{values}]);\n"));
        if let Some(found) = elements.strides.as_ref().filter(|_| strides) {
            lines.push(format!("assert_eq!({target}.spec().layout.strides(), {found:?});\n"));
        }
        Ok(lines)
    }
}
