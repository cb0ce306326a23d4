//! A position in a line of text, and the tokens that stand there.

use crate::text::TextError;

/// Reads tokens from one line.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of `text`, which is line number `line`.
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

    /// An error at this position.
    pub fn error(&self, message: String) -> TextError {
        let column = self.text[..self.at].chars().count() + 1;
        TextError { line: self.line, column, message }
    }

    /// An error that says what was expected here and what stands here instead.
    pub fn expected(&self, what: &str) -> TextError {
        let found: String = self.rest().chars().take(24).collect();
        if found.is_empty() {
            return self.error(format!("expected {what}, found the end of the line"));
        }
        self.error(format!("expected {what}, found {found:?}"))
    }

    /// The next character.
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Passes over `token` if it stands here. A token of letters must end with a word.
    pub fn eat(&mut self, token: &str) -> bool {
        let Some(after) = self.rest().strip_prefix(token) else { return false };
        let word = token.ends_with(|c: char| c.is_alphanumeric());
        if word && after.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_') {
            return false;
        }
        self.advance(token.len());
        true
    }

    /// Passes over `token`, which must stand here.
    ///
    /// # Errors
    /// It does not.
    pub fn expect(&mut self, token: &str) -> Result<(), TextError> {
        if self.eat(token) { Ok(()) } else { Err(self.expected(&format!("'{token}'"))) }
    }

    /// A word: a letter or `_`, then letters, digits and `_ . - :`.
    ///
    /// # Errors
    /// None stands here; the error says that `what` was expected.
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

    /// A whole number that fits in `T`.
    ///
    /// # Errors
    /// None stands here, or it is too large.
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

    /// An id: its mark and a whole number, without a space between.
    ///
    /// # Errors
    /// None stands here.
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

    /// The characters up to the next of `stop`, at least one.
    ///
    /// # Errors
    /// There are none.
    pub fn until(&mut self, stop: &[char], what: &str) -> Result<&'a str, TextError> {
        let rest = self.rest();
        let end = rest.find(stop).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.expected(what));
        }
        Ok(self.advance(end).trim_end())
    }

    /// A text in double quotes, with the escapes that Rust's `{:?}` writes.
    ///
    /// # Errors
    /// None stands here, or it does not end.
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

    /// What follows a `#`, if one stands here; nothing else may stand here.
    ///
    /// # Errors
    /// Something else does.
    pub fn comment(&mut self) -> Result<Option<&'a str>, TextError> {
        match self.rest().strip_prefix('#') {
            Some(place) => Ok(Some(place.trim())),
            None if self.rest().is_empty() => Ok(None),
            None => Err(self.expected("the end of the line or '#'")),
        }
    }
}

/// The character of `{hex}`.
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
