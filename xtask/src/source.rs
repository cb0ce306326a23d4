//! Rust sources as text: the files of a crate, their code without comments, and braces.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A file of Rust.
pub(crate) struct Source {
    /// The path from the root of the workspace, with `/`.
    pub(crate) path: String,
    /// The text without comments. Lines keep their numbers.
    pub(crate) code: String,
}

impl Source {
    /// Returns the line of a byte of the code, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }
}

/// Returns the sources in a folder of the workspace and in the folders below it, in the order of
/// their paths. Unit tests in files of their own are left out.
///
/// # Errors
/// Fails if a file cannot be read.
pub(crate) fn sources(root: &Path, folder: &str) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
                found.push(read(root, &path)?);
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn read(root: &Path, path: &PathBuf) -> Result<Source> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let relative = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
    Ok(Source { path: parts.join("/"), code: without_comments(&text) })
}

/// Returns the text of a file without its line comments.
pub(crate) fn without_comments(text: &str) -> String {
    let code = |line: &'_ str| line.split("//").next().unwrap_or_default().to_owned();
    text.split('\n').map(code).collect::<Vec<_>>().join("\n")
}

/// Returns the block that begins with the first `{` of `text`, without its braces, or all of `text`
/// after the brace if none closes it. Returns None if there is no `{`.
pub(crate) fn block(text: &str) -> Option<&str> {
    let begin = text.find('{')? + 1;
    let mut depth = 1;
    for (at, c) in text[begin..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return Some(&text[begin..begin + at]);
        }
    }
    Some(&text[begin..])
}

/// Returns the identifier that `text` begins with, which may be empty.
pub(crate) fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}
