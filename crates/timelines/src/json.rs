//! JSON as profilers write it.
//!
//! Names hold any bytes, numbers are `NaN` or `inf`, values are missing. So the elements of a list
//! are first cut out by their brackets and quotes alone, and what is wrong in one of them costs no
//! other one.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// A JSON text while it is read, byte by byte.
pub(crate) struct Json<R> {
    from: BufReader<R>,
}

impl<R: Read> Json<R> {
    pub(crate) fn new(from: R) -> Json<R> {
        Json { from: BufReader::with_capacity(1 << 18, from) }
    }

    /// Returns the bytes that follow.
    ///
    /// # Errors
    /// The text cannot be read, or has ended.
    fn rest(&mut self) -> io::Result<&[u8]> {
        match self.from.fill_buf()? {
            [] => Err(ErrorKind::UnexpectedEof.into()),
            bytes => Ok(bytes),
        }
    }

    /// Returns the next byte that is no blank.
    ///
    /// # Errors
    /// The text cannot be read, or has ended.
    fn next(&mut self) -> io::Result<u8> {
        loop {
            let bytes = self.rest()?;
            let blanks = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let next = bytes.get(blanks).copied();
            self.from.consume(blanks);
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// Passes over a byte if it comes next.
    pub(crate) fn has(&mut self, byte: u8) -> io::Result<bool> {
        let found = self.next()? == byte;
        self.from.consume(usize::from(found));
        Ok(found)
    }

    /// Passes over a byte-order mark.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        let has_mark = self.from.fill_buf()?.starts_with("\u{feff}".as_bytes());
        self.from.consume(if has_mark { 3 } else { 0 });
        Ok(())
    }

    /// Passes over commas, and returns whether another element follows, rather than this bracket,
    /// which is passed over as well.
    pub(crate) fn continues(&mut self, end: u8) -> io::Result<bool> {
        while self.has(b',')? {}
        Ok(!self.has(end)?)
    }

    /// Reads the next key of an object, with its colon. At the end of the object, and where no key
    /// is, there is none.
    pub(crate) fn key(&mut self) -> io::Result<Option<String>> {
        if !self.continues(b'}')? || self.next()? != b'"' {
            return Ok(None);
        }
        let mut key = Vec::new();
        self.value(&mut |part| key.extend_from_slice(part))?;
        let found = self.has(b':')?;
        let key = String::from_utf8_lossy(&key);
        Ok(found.then(|| key.trim_matches('"').to_owned()))
    }

    /// Passes over a value, and hands its bytes to `keep`. A value that is missing has none.
    pub(crate) fn value(&mut self, keep: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.next()?;
        let mut scan = Scan::default();
        loop {
            let bytes = self.rest()?;
            let end = bytes.iter().position(|byte| scan.ends_before(*byte));
            let count = end.unwrap_or(bytes.len());
            keep(&bytes[..count]);
            self.from.consume(count);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

/// The state of a search for the end of a value.
#[derive(Default)]
struct Scan {
    /// The brackets that are open.
    open: Vec<u8>,
    in_text: bool,
    is_escaped: bool,
    /// Whether the value is whole: a text or brackets that are closed.
    is_whole: bool,
}

impl Scan {
    /// Returns whether the value has ended before this byte.
    fn ends_before(&mut self, byte: u8) -> bool {
        if self.is_whole {
            return true;
        }
        if self.in_text {
            self.in_text = self.is_escaped || byte != b'"';
            self.is_escaped = !self.is_escaped && byte == b'\\';
            self.is_whole = !self.in_text && self.open.is_empty();
            return false;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.open.push(byte),
            b'}' | b']' | b',' if self.open.is_empty() => return true,
            // A list that is not closed ends with the object around it.
            b'}' => {
                while self.open.pop().is_some_and(|open| open != b'{') {}
                self.is_whole = self.open.is_empty();
            }
            b']' if self.open.last() == Some(&b'[') => {
                self.open.pop();
                self.is_whole = self.open.is_empty();
            }
            byte if self.open.is_empty() && byte.is_ascii_whitespace() => return true,
            _ => {}
        }
        false
    }
}

/// A value, as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Value<'a> {
    /// There is no such key.
    #[default]
    Absent,
    /// What is between the quotes.
    Text(&'a str),
    /// A number, or another word that may begin one.
    Number(&'a str),
    Object(&'a str),
    /// A list, `null`, `NaN`, or a key without a value.
    Other,
}

impl<'a> Value<'a> {
    fn of(text: &'a str) -> Value<'a> {
        match text.as_bytes() {
            [b'"', .., b'"'] => Value::Text(&text[1..text.len() - 1]),
            [b'{', ..] => Value::Object(text),
            [b'0'..=b'9' | b'-' | b'+' | b'.', ..] => Value::Number(text),
            _ => Value::Other,
        }
    }

    /// Returns a text, or a number as it is written.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Value::Text(text) if text.contains('\\') => Some(Cow::Owned(unescaped(text))),
            Value::Text(text) | Value::Number(text) => Some(Cow::Borrowed(text)),
            Value::Absent | Value::Object(_) | Value::Other => None,
        }
    }

    /// Returns a number, whether it is written as one or in a text, times a power of ten. What is
    /// left behind the point is cut off.
    pub(crate) fn scaled(self, power: i32) -> Option<i64> {
        match self {
            Value::Text(text) | Value::Number(text) => scaled(text.trim(), power),
            Value::Absent | Value::Object(_) | Value::Other => None,
        }
    }
}

/// Returns a decimal number times a power of ten, without the error of binary fractions.
fn scaled(text: &str, power: i32) -> Option<i64> {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let is_negative = digits.starts_with('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let power = exponent.parse::<i32>().ok()?.checked_add(power)?;
    let mut number = 0i64;
    for (k, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
        if !digit.is_ascii_digit() {
            return None;
        }
        if (k as i64) < whole.len() as i64 + i64::from(power) {
            number = number.checked_mul(10)?.checked_add(i64::from(digit - b'0'))?;
        }
    }
    let missing = i64::from(power) - fraction.len() as i64;
    if number != 0 && missing > 0 {
        number = number.checked_mul(10i64.checked_pow(u32::try_from(missing).ok()?)?)?;
    }
    Some(if is_negative { -number } else { number })
}

/// Returns a text with its escapes replaced. A backslash that begins none stays.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (c, length) = escape(rest).unwrap_or(('\\', 1));
        out.push(c);
        rest = &rest[length..];
    }
    out + rest
}

/// Returns the character that an escape stands for, and the length of the escape.
fn escape(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
    };
    Some(match text.as_bytes().get(1)? {
        b'"' => ('"', 2),
        b'\\' => ('\\', 2),
        b'/' => ('/', 2),
        b'b' => ('\u{8}', 2),
        b'f' => ('\u{c}', 2),
        b'n' => ('\n', 2),
        b'r' => ('\r', 2),
        b't' => ('\t', 2),
        b'u' => {
            let first = unit(0)?;
            let units = [first, unit(6).unwrap_or(0)];
            match char::decode_utf16(units).next()? {
                Ok(c) => (c, 6 * c.len_utf16()),
                Err(_) => (char::REPLACEMENT_CHARACTER, 6),
            }
        }
        _ => return None,
    })
}

/// Calls `each` with the keys and values of an object. Of a key that occurs twice, the last value
/// comes last.
///
/// # Errors
/// Something that is no key stands after this key.
pub(crate) fn fields<'a>(
    object: &'a str,
    each: &mut dyn FnMut(&'a str, Value<'a>),
) -> Result<(), &'a str> {
    let mut rest = object.strip_prefix('{').unwrap_or(object);
    let mut last = "";
    let cut = |text: &'a str| {
        let mut scan = Scan::default();
        let end = text.bytes().position(|byte| scan.ends_before(byte));
        text.split_at(end.unwrap_or(text.len()))
    };
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
        if rest.is_empty() || rest.starts_with('}') {
            return Ok(());
        }
        let (key, after) = cut(rest);
        let Value::Text(key) = Value::of(key) else { return Err(last) };
        let Some(after) = after.trim_start().strip_prefix(':') else { return Err(last) };
        let (value, after) = cut(after.trim_start());
        each(key, Value::of(value));
        (rest, last) = (after, key);
    }
}

#[cfg(test)]
mod tests {
    use super::{Value, fields};

    #[test]
    fn decimal_numbers_keep_every_digit() {
        let ns = |text| Value::Number(text).scaled(3);
        assert_eq!(ns("1778650000000000.001"), Some(1_778_650_000_000_000_001));
        assert_eq!(ns("4936124612271.4709"), Some(4_936_124_612_271_470));
        assert_eq!(ns("-0.5"), Some(-500));
        assert_eq!(ns("1.5e2"), Some(150_000));
        assert_eq!(ns("15E-1"), Some(1_500));
        assert_eq!(ns("12e-9"), Some(0));
        assert_eq!(ns("0e9999999"), Some(0));
        for text in ["1e99", "9223372036854775807", "-", ".", "1.2.3", "1e", "-inf", "0x10", "1 2"]
        {
            assert_eq!(ns(text), None, "{text}");
        }
        assert_eq!(Value::Number("7.9").scaled(0), Some(7));
        assert_eq!(Value::Text(" 64 ").scaled(0), Some(64));
    }

    #[test]
    fn texts_with_odd_backslashes_are_read() {
        let text = |text| Value::Text(text).text().unwrap();
        assert_eq!(text(r"a\n\u0041\u00e9\ud83d\ude00\/\\"), "a\nAé😀/\\");
        assert_eq!(text(r"torch\cuda\__init__.py"), r"torch\cuda\__init__.py");
        assert_eq!(text(r"\ud83d\u12\u+123\"), "\u{fffd}\\u12\\u+123\\");
    }

    #[test]
    fn the_fields_of_odd_objects_are_found() {
        let object = r#"{"a": , "b": nan, "c": [1, 2, "]"], "c": -3 ,, "d": "x" }"#;
        let mut all = Vec::new();
        fields(object, &mut |key, value| all.push((key, value))).unwrap();
        let other = Value::Other;
        let (c, d) = (Value::Number("-3"), Value::Text("x"));
        assert_eq!(all, [("a", other), ("b", other), ("c", other), ("c", c), ("d", d)]);
        assert_eq!(fields(r#"{"a": 1, b: 2}"#, &mut |_, _| {}), Err("a"));
        assert_eq!(fields(r#"{"a" 1}"#, &mut |_, _| {}), Err(""));
    }
}
