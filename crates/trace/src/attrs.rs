//! Reads the attributes of an op call.

use millstream_types::nearest::nearest;
use millstream_types::{AttrValue, Attrs, ScalarId, ScalarUse};

use crate::error::Result;
use crate::field::{Expected, Field};
use crate::json::{Raw, Reader};
use crate::literal::Literal;
use crate::number::Number;
use crate::schema_types::{Attributes, Float};

/// The maximum number of attributes of one call, far above the number that any op has.
const MAX_ATTRS: usize = 256;

/// Reads the attributes of a call. Within an executable, `scalars` are the names of its scalars.
pub(crate) fn attrs<'a>(
    reader: &Reader<'a>,
    raw: Option<Raw<'a, Attributes>>,
    scalars: Option<&[String]>,
) -> Result<Attrs> {
    let entries = reader.map(raw.map(Raw::cast), "arguments, by name")?;
    if let Some((key, _)) = entries.get(MAX_ATTRS) {
        return Err(reader.error(key.text, format!("more than {MAX_ATTRS} arguments")));
    }
    let mut attrs = Attrs::new();
    for (key, raw) in entries {
        attrs.set(key.to_string(), attr(reader, raw, scalars)?);
    }
    Ok(attrs)
}

impl<'a> Field<'a> for Float {
    type Schema = Float;
    const WHAT: &'static str = "a number";

    fn read(reader: &Reader<'a>, raw: Raw<'a, Self>, what: Expected<'_>) -> Result<Self> {
        match attr(reader, raw.cast(), None)? {
            AttrValue::Float(x) => Ok(Float(x)),
            AttrValue::Int(n) => Ok(Float(n as f64)),
            _ => Err(reader.mismatch(raw.cast(), what)),
        }
    }
}

fn attr<'a>(
    reader: &Reader<'a>,
    raw: Raw<'a, ()>,
    scalars: Option<&[String]>,
) -> Result<AttrValue> {
    match raw.kind() {
        "a string" => {
            let text = reader.text(raw, "an argument")?;
            if let (Some(scalars), Some(name)) = (scalars, text.strip_prefix(ScalarId::MARK)) {
                return scalar(reader, raw, scalars, name);
            }
            match Number::parse_word(&text) {
                Some(Number::Float(x)) => Ok(AttrValue::Float(x)),
                _ => Ok(AttrValue::Str(text.into_owned())),
            }
        }
        "an object" | "null" => {
            Err(reader.mismatch(raw, "a number, a boolean, a string or a list of numbers"))
        }
        kind => {
            let literal = Literal::scan(reader.source, reader.range(raw.text), None)?;
            if literal.shape().len() > 1 {
                return Err(
                    reader.error(raw.text, "expected a list of numbers, got a list of lists")
                );
            }
            reader.count(raw.text, literal.count())?;
            let mut numbers = Vec::with_capacity(literal.count());
            literal.each(|number| {
                numbers.push(number);
                Ok(())
            })?;
            match (kind, &*numbers) {
                ("a list", list) => list_of(list).ok_or_else(|| {
                    reader.error(raw.text, "expected a list of numbers that fit in 64 bits")
                }),
                (_, &[Number::Bool(b)]) => Ok(AttrValue::Bool(b)),
                (_, &[Number::Float(x)]) => Ok(AttrValue::Float(x)),
                (_, &[Number::Int(n)]) => i64::try_from(n)
                    .map(AttrValue::Int)
                    .map_err(|_| reader.error(raw.text, "this integer does not fit in 64 bits")),
                _ => Err(reader.error(raw.text, "expected a number")),
            }
        }
    }
}

/// Returns the scalar of this name.
fn scalar<'a>(
    reader: &Reader<'a>,
    raw: Raw<'a, ()>,
    scalars: &[String],
    name: &str,
) -> Result<AttrValue> {
    let Some(found) = scalars.iter().position(|scalar| scalar == name) else {
        let error = reader.error(raw.text, format!("the executable has no scalar '{name}'"));
        return Err(match nearest(name, scalars.iter().map(String::as_str)) {
            Some(close) => error.meant(Some(close)),
            None => error.help("declare it: \"scalars\": { NAME: NUMBER }"),
        });
    };
    Ok(ScalarUse { scalar: ScalarId(found as u32), plus: 0 }.into())
}

/// Returns a list of integers if every number is one, else a list of floating-point numbers.
/// Returns `None` for a boolean and for an integer that does not fit in 64 bits.
fn list_of(numbers: &[Number]) -> Option<AttrValue> {
    let ints = numbers.iter().map(|n| match n {
        Number::Int(n) => i64::try_from(*n).ok(),
        _ => None,
    });
    if let Some(ints) = ints.collect::<Option<Vec<i64>>>() {
        return Some(AttrValue::Ints(ints));
    }
    let floats = numbers.iter().map(|n| match n {
        Number::Int(n) => i64::try_from(*n).ok().map(|n| n as f64),
        Number::Float(x) => Some(*x),
        Number::Bool(_) => None,
    });
    floats.collect::<Option<Vec<f64>>>().map(AttrValue::Floats)
}
