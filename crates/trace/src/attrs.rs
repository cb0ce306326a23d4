//! Reading the arguments of an op.

use millstream_types::{AttrValue, Attrs};

use crate::error::Result;
use crate::json::{At, Reader};
use crate::literal::Literal;
use crate::number::Number;
use crate::words::Attributes;

/// The most arguments that one call may have; no op has nearly as many.
const MOST: usize = 256;

pub(crate) fn attrs<'a>(reader: &Reader<'a>, at: Option<At<'a, Attributes>>) -> Result<Attrs> {
    let entries = reader.optional_entries(at, "arguments, by name")?;
    if let Some((key, _)) = entries.get(MOST) {
        return Err(reader.key_error(key, format!("more than {MOST} arguments")));
    }
    let mut attrs = Attrs::new();
    for (key, at) in entries {
        attrs.set(&*key.name, attr(reader, at)?);
    }
    Ok(attrs)
}

fn attr<'a>(reader: &Reader<'a>, at: At<'a, ()>) -> Result<AttrValue> {
    match at.kind() {
        "a text" => {
            let text = reader.text(at, "an argument")?;
            match Number::parse_word(&text) {
                Some(Number::Float(x)) => Ok(AttrValue::Float(x)),
                _ => Ok(AttrValue::Str(text.into_owned())),
            }
        }
        "an object" | "null" => {
            let expected = "expected a number, a truth value, a text or a list of numbers";
            Err(reader.error(at, format!("{expected}, got {}", at.kind())))
        }
        kind => {
            let literal = Literal::scan(reader.source, reader.range(at.raw), None)?;
            if literal.shape().len() > 1 {
                return Err(reader.error(at, "expected a list of numbers, got a list of lists"));
            }
            reader.count(at, literal.count())?;
            let mut numbers = Vec::with_capacity(literal.count());
            literal.each(|number| {
                numbers.push(number);
                Ok(())
            })?;
            match (kind, &*numbers) {
                ("a list", list) => list_of(list).ok_or_else(|| {
                    reader.error(at, "expected a list of numbers that fit in 64 bits")
                }),
                (_, &[Number::Bool(b)]) => Ok(AttrValue::Bool(b)),
                (_, &[Number::Float(x)]) => Ok(AttrValue::Float(x)),
                (_, &[Number::Int(n)]) => i64::try_from(n)
                    .map(AttrValue::Int)
                    .map_err(|_| reader.error(at, "this whole number does not fit in 64 bits")),
                _ => Err(reader.error(at, "expected a number")),
            }
        }
    }
}

/// Whole numbers if all of them are, else numbers.
fn list_of(numbers: &[Number]) -> Option<AttrValue> {
    let whole = numbers.iter().map(|n| match n {
        Number::Int(n) => i64::try_from(*n).ok(),
        _ => None,
    });
    if let Some(ints) = whole.collect::<Option<Vec<i64>>>() {
        return Some(AttrValue::Ints(ints));
    }
    let floats = numbers.iter().map(|n| match n {
        Number::Int(n) => i64::try_from(*n).ok().map(|n| n as f64),
        Number::Float(x) => Some(*x),
        Number::Bool(_) => None,
    });
    floats.collect::<Option<Vec<f64>>>().map(AttrValue::Floats)
}
