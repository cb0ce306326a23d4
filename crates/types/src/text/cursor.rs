//! A cursor over a line of text, which reads tokens.

use super::TextError;

/// A position in one line of text.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the start of `text`, which is line number `line`.
    pub fn new(text: &'a str, line: usize) -> Cursor<'a> {
        let mut cursor = Cursor { text, at: 0, line };
        cursor.skip_space();
        cursor
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let token = &self.rest()[..bytes];
        self.at += bytes;
        self.skip_space();
        token
    }

    /// Returns an error at this position.
    pub fn error(&self, message: String) -> TextError {
        let column = self.text[..self.at].chars().count() + 1;
        TextError { line: self.line, column, message }
    }

    /// Returns an error that names the text expected here and the text found here.
    pub fn expected(&self, what: &str) -> TextError {
        let found: String = self.rest().chars().take(24).collect();
        if found.is_empty() {
            return self.error(format!("expected {what}, found the end of the line"));
        }
        self.error(format!("expected {what}, found {found:?}"))
    }

    /// Returns the next character.
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Skips `token` if it comes next. Returns whether it did. A token of letters must end a word.
    pub fn eat(&mut self, token: &str) -> bool {
        let Some(after) = self.rest().strip_prefix(token) else { return false };
        let word = token.ends_with(|c: char| c.is_alphanumeric());
        if word && after.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_') {
            return false;
        }
        self.advance(token.len());
        true
    }

    /// Skips `token`, which must come next.
    ///
    /// # Errors
    /// Other text comes next.
    pub fn expect(&mut self, token: &str) -> Result<(), TextError> {
        if self.eat(token) { Ok(()) } else { Err(self.expected(&format!("'{token}'"))) }
    }

    /// Reads a word: a letter or `_`, then letters, digits and `_ . - :`.
    ///
    /// # Errors
    /// No word comes next. The error says that `what` was expected.
    pub fn word(&mut self, what: &str) -> Result<&'a str, TextError> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | ':')))
            .unwrap_or(rest.len());
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Err(self.expected(what));
        }
        Ok(self.advance(end))
    }

    /// Reads a whole number that fits in `T`.
    ///
    /// # Errors
    /// No number comes next, or it is too large.
    pub fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, TextError> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let Ok(number) = rest[..end].parse() else {
            return Err(match &rest[..end] {
                "" => self.expected(what),
                digits => self.error(format!("expected {what}; {digits} is too large")),
            });
        };
        self.advance(end);
        Ok(number)
    }

    /// Reads `item, item CLOSE`.
    ///
    /// # Errors
    /// An item is something else, or a comma is missing.
    pub fn items<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Cursor<'a>) -> Result<T, TextError>,
    ) -> Result<Vec<T>, TextError> {
        let mut items = Vec::new();
        while !self.eat(close) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Reads an id: its mark and a whole number, without a space between.
    ///
    /// # Errors
    /// No id comes next.
    pub fn id<T: std::str::FromStr>(&mut self, mark: &str, what: &str) -> Result<T, TextError> {
        let rest = self.rest();
        let digits =
            rest.strip_prefix(mark).filter(|d| d.starts_with(|c: char| c.is_ascii_digit()));
        if digits.is_none() {
            return Err(self.expected(what));
        }
        let start = self.at;
        self.at += mark.len();
        self.number(what).inspect_err(|_| self.at = start)
    }

    /// Reads the characters up to the next of `stop`, at least one.
    ///
    /// # Errors
    /// One of `stop`, or the end of the line, comes next.
    pub fn until(&mut self, stop: &[char], what: &str) -> Result<&'a str, TextError> {
        let rest = self.rest();
        let end = rest.find(stop).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.expected(what));
        }
        Ok(self.advance(end).trim_end())
    }

    /// Reads a text in double quotes, with the escapes that Rust's `{:?}` writes.
    ///
    /// # Errors
    /// No quoted text comes next, or it does not end.
    pub fn quoted(&mut self) -> Result<String, TextError> {
        let start = self.at;
        let Some(body) = self.rest().strip_prefix('"') else {
            return Err(self.expected("a text in double quotes"));
        };
        let mut out = String::new();
        let mut chars = body.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start;
                    self.advance(at + 2);
                    return Ok(out);
                }
                '\\' => {
                    let escaped = match chars.next().map(|(_, c)| c) {
                        Some('n') => Some('\n'),
                        Some('r') => Some('\r'),
                        Some('t') => Some('\t'),
                        Some('0') => Some('\0'),
                        Some(c @ ('"' | '\'' | '\\')) => Some(c),
                        Some('u') => unicode(&mut chars),
                        _ => None,
                    };
                    let Some(escaped) = escaped else {
                        return Err(
                            self.error("a text has an escape that means nothing".to_owned())
                        );
                    };
                    out.push(escaped);
                }
                other => out.push(other),
            }
        }
        Err(self.error("a text in double quotes does not end".to_owned()))
    }

    /// Reads the text after a `#`, if there is one. The line must end otherwise.
    ///
    /// # Errors
    /// Other text comes next.
    pub fn comment(&mut self) -> Result<Option<&'a str>, TextError> {
        match self.rest().strip_prefix('#') {
            Some(place) => Ok(Some(place.trim())),
            None if self.rest().is_empty() => Ok(None),
            None => Err(self.expected("the end of the line or '#'")),
        }
    }
}

/// Reads the character of `{hex}`.
fn unicode(chars: &mut std::str::CharIndices<'_>) -> Option<char> {
    let (_, '{') = chars.next()? else { return None };
    let mut code = 0u32;
    for (_, c) in chars.by_ref() {
        if c == '}' {
            return char::from_u32(code);
        }
        code = code.checked_mul(16)?.checked_add(c.to_digit(16)?)?;
    }
    None
}
