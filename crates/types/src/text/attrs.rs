//! The text form of named arguments: `name=value`, as [`AttrValue`] writes values.

use std::fmt::Write;

use super::{Cursor, TextError, is_word};
use crate::attr::{AttrValue, Attrs};
use crate::id::ScalarId;
use crate::scalar::{ScalarUse, ScalarValue};

/// Writes `name=value` for each argument, with `separator` between them.
pub fn print_attrs(attrs: &Attrs, separator: &str, out: &mut String) {
    for (k, (name, value)) in attrs.iter().enumerate() {
        let separator = if k == 0 { "" } else { separator };
        let _ = if is_word(name) {
            write!(out, "{separator}{name}={value}")
        } else {
            write!(out, "{separator}{name:?}={value}")
        };
    }
}

/// Reads `name=value, name=value CLOSE`.
///
/// # Errors
/// The text is something else, or a name is given twice.
pub fn parse_attrs(cursor: &mut Cursor<'_>, close: &str) -> Result<Attrs, TextError> {
    let mut attrs = Attrs::new();
    cursor.items(close, |c| {
        let name = if c.peek() == Some('"') {
            c.quoted()?
        } else {
            c.word("an argument's name")?.to_owned()
        };
        if attrs.get(&name).is_some() {
            return Err(c.error(format!("argument '{name}' is given twice")));
        }
        c.expect("=")?;
        attrs.set(name, parse_value(c)?);
        Ok(())
    })?;
    Ok(attrs)
}

fn parse_value(cursor: &mut Cursor<'_>) -> Result<AttrValue, TextError> {
    match cursor.peek() {
        Some('"') => return cursor.quoted().map(AttrValue::Str),
        Some('[') => return parse_values(cursor),
        _ => {}
    }
    let error = cursor.expected("a number, true, false, a dtype, a scalar, a text or a list");
    let Ok(token) = cursor.until(&[',', '}', ')', ' '], "a value") else { return Err(error) };
    let value = match token {
        "true" => AttrValue::Bool(true),
        "false" => AttrValue::Bool(false),
        _ if token.starts_with(ScalarId::MARK) => {
            scalar(token).map(AttrValue::Scalar).ok_or(error)?
        }
        _ => match (number(token), token.parse()) {
            (Some(value), _) => value.into(),
            (None, Ok(dtype)) => AttrValue::DType(dtype),
            (None, Err(_)) => return Err(error),
        },
    };
    Ok(value)
}

/// Reads a scalar of a list, as in `$0` or `$1+2`.
fn scalar(token: &str) -> Option<ScalarUse> {
    let rest = token.strip_prefix(ScalarId::MARK)?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (id, plus) = match rest.find(['+', '-']) {
        None => (rest, 0),
        Some(sign) => {
            let (id, plus) = rest.split_at(sign);
            (id, Some(plus).filter(|plus| digits(&plus[1..]))?.parse().ok()?)
        }
    };
    let id = Some(id).filter(|id| digits(id))?.parse().ok()?;
    Some(ScalarUse { scalar: ScalarId(id), plus })
}

/// Reads a number as [`AttrValue`] writes it, up to a space or a comment.
///
/// # Errors
/// The text is no number.
pub fn parse_number(cursor: &mut Cursor<'_>) -> Result<ScalarValue, TextError> {
    let error = cursor.expected("a number of 64 bits");
    let found = cursor.until(&[' ', '\t', '#'], "a number")?;
    number(found).ok_or(error)
}

fn number(token: &str) -> Option<ScalarValue> {
    if let Ok(whole) = token.parse() {
        return Some(ScalarValue::Int(whole));
    }
    // Rust parses more floats than `{:?}` writes, such as `infinity`; those are refused. Digits
    // that do not fit in an i64 are a whole number that is too large, not a float.
    let digits = token.strip_prefix('-').unwrap_or(token);
    let float = digits.starts_with(|c: char| c.is_ascii_digit()) && digits.contains(['.', 'e']);
    if matches!(digits, "inf" | "NaN") || float {
        return token.parse().ok().map(ScalarValue::Float);
    }
    None
}

fn parse_values(cursor: &mut Cursor<'_>) -> Result<AttrValue, TextError> {
    if cursor.eat("[.]") {
        return Ok(AttrValue::Floats(Vec::new()));
    }
    cursor.expect("[")?;
    let items = cursor.items("]", |c| {
        let error = c.expected("a number");
        number(c.until(&[',', ']', ' '], "a number")?).ok_or(error)
    })?;
    let whole: Option<Vec<i64>> =
        items.iter().map(|v| if let ScalarValue::Int(n) = v { Some(*n) } else { None }).collect();
    if let Some(whole) = whole {
        return Ok(AttrValue::Ints(whole));
    }
    let as_float = |v: &ScalarValue| match v {
        ScalarValue::Float(x) => *x,
        ScalarValue::Int(n) => *n as f64,
    };
    Ok(AttrValue::Floats(items.iter().map(as_float).collect()))
}
