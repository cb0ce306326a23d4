//! Part of `layering`: which folder of a crate refers to which.
//!
//! A reference is a path that leaves its folder: `crate::FOLDER::…`, a name that the crate's root
//! exports from a folder, or `super::…` up to the root. Paths within groups count each. References
//! to a folder above are counted against [`Folders::upward`], which may only shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use crate::layers::Folders;
use crate::source::{self, Source, block, identifier};

/// A reference from a folder to another one.
#[derive(Debug, PartialEq, Eq)]
struct Reference {
    from: String,
    to: String,
    /// `file:line`.
    place: String,
}

/// Compares the folders of a crate with its row of the table, and returns what differs.
///
/// # Errors
/// Fails if a source cannot be read.
pub(crate) fn check(root: &Path, crate_row: &Folders) -> Result<Vec<String>> {
    let sources = source::sources(root, crate_row.src)?;
    Ok(compare(crate_row, &sources))
}

/// Returns the differences between the sources of a crate and its row of the table.
fn compare(row: &Folders, sources: &[Source]) -> Vec<String> {
    let rank = |folder: &str| row.order.iter().position(|name| *name == folder);
    let mut differences = Vec::new();
    let present: BTreeSet<&str> =
        sources.iter().filter_map(|source| folder_of(row, source)).collect();
    for folder in &present {
        if rank(folder).is_none() {
            differences.push(format!("{}/{folder}: the folder is not in the table", row.src));
        }
    }
    for folder in row.order.iter().filter(|folder| !present.contains(**folder)) {
        differences.push(format!("the table has {}/{folder}, which does not exist", row.src));
    }
    let mut upward: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for reference in references(row, sources) {
        if rank(&reference.to) > rank(&reference.from) {
            upward.entry((reference.from, reference.to)).or_default().push(reference.place);
        }
    }
    for (from, to, count) in row.upward {
        upward.entry(((*from).to_owned(), (*to).to_owned())).or_default();
        debug_assert!(*count > 0);
    }
    for ((from, to), places) in &upward {
        let known = row.upward.iter().find(|(f, t, _)| f == from && t == to);
        let allowed = known.map_or(0, |(.., count)| *count);
        if places.len() > allowed {
            differences.push(format!(
                "{from} must not use {to}: {} places, {allowed} allowed: {}",
                places.len(),
                places.join(", ")
            ));
        } else if places.len() < allowed {
            differences.push(format!(
                "{from} uses {to} in {} places, the table allows {allowed}: lower it",
                places.len()
            ));
        }
    }
    differences
}

/// Returns the folder of a source, or None for a file beside the folders.
fn folder_of<'a>(row: &Folders, source: &'a Source) -> Option<&'a str> {
    let rest = source.path.strip_prefix(row.src)?.strip_prefix('/')?;
    rest.split_once('/').map(|(folder, _)| folder)
}

/// Returns the references between folders, in the order of the sources.
fn references(row: &Folders, sources: &[Source]) -> Vec<Reference> {
    let root_file = format!("{}/lib.rs", row.src);
    let exports = sources
        .iter()
        .find(|source| source.path == root_file)
        .map_or_else(BTreeMap::new, |root| exports(&root.code));
    let mut found = Vec::new();
    for source in sources {
        let Some(from) = folder_of(row, source) else { continue };
        for (at, name) in names_at_root(&source.code, depth(row, source)) {
            let to = exports.get(name).map_or(name, String::as_str);
            if to != from && row.order.contains(&to) {
                found.push(Reference {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    place: format!("{}:{}", source.path, source.line(at)),
                });
            }
        }
    }
    found
}

/// Returns the number of modules above the items of a file, with the file's own.
fn depth(row: &Folders, source: &Source) -> usize {
    let rest = source.path[row.src.len() + 1..].trim_end_matches(".rs");
    rest.split('/').count() - usize::from(rest.ends_with("/mod"))
}

/// Returns the names that the crate's root exports, with the folder of each.
fn exports(root: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for (at, _) in root.match_indices("use ") {
        let path = root[at + 4..].split(';').next().unwrap_or_default();
        let folder = identifier(path);
        let last = match path.find('{') {
            Some(_) => entries(block(path).unwrap_or_default()),
            None => path.rsplit("::").next().map(identifier).into_iter().collect(),
        };
        names.extend(last.iter().map(|name| ((*name).to_owned(), folder.to_owned())));
    }
    names
}

/// Returns the first names of the entries of a group such as `a::b, c::{d, e}`.
fn entries(group: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut begins = vec![0];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => begins.push(at + 1),
            _ => {}
        }
    }
    let name = |begin: usize| identifier(group[begin..].trim_start());
    begins.into_iter().map(name).filter(|name| !name.is_empty()).collect()
}

/// Returns the names that follow the crate's root in paths, each with the byte of its path.
/// `depth` is the number of `super` that lead to the root.
fn names_at_root(code: &str, depth: usize) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    let up = "super::".repeat(depth);
    for prefix in ["crate::", up.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            // `super::super::` of a deeper path, or the end of another name.
            let is_part = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
            let rest = &code[at + prefix.len()..];
            if is_part || rest.starts_with("super::") {
                continue;
            }
            match rest.starts_with('{') {
                true => {
                    let group = entries(block(rest).unwrap_or_default());
                    names.extend(group.into_iter().map(|name| (at, name)));
                }
                false => names.push((at, identifier(rest))),
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::without_comments;

    const ROW: Folders =
        Folders { src: "crates/x/src", order: &["low", "high"], upward: &[("low", "high", 1)] };

    fn file(path: &str, text: &str) -> Source {
        Source { path: format!("crates/x/src/{path}"), code: without_comments(text) }
    }

    #[track_caller]
    fn expect(low: &str, expected: &[&str]) {
        let sources = [
            file("lib.rs", "mod high;\nmod low;\npub use high::inner::{Thing, other as Other};\n"),
            file("low/deep/x.rs", low),
            file("high/mod.rs", "use crate::low::x;\n"),
        ];
        assert_eq!(compare(&ROW, &sources), expected);
    }

    #[test]
    fn an_allowed_reference_passes() {
        expect("use crate::high::Thing;\n", &[]);
        expect("// crate::high\nuse crate::{low, high::{a, b}};\n", &[]);
        expect("fn f() { super::super::super::high::f() }\n", &[]);
        expect("fn f() { crate::Thing::f() }\n", &[]);
    }

    #[test]
    fn one_too_many_is_shown_with_its_line() {
        expect(
            "use crate::high::Thing;\n\nuse crate::{high};\n",
            &["low must not use high: 2 places, 1 allowed: \
               crates/x/src/low/deep/x.rs:1, crates/x/src/low/deep/x.rs:3"],
        );
    }

    #[test]
    fn a_reference_that_is_gone_lowers_the_table() {
        expect(
            "use super::high;\nuse super::super::high;\n",
            &["low uses high in 0 places, the table allows 1: lower it"],
        );
    }

    #[test]
    fn table_and_crate_have_the_same_folders() {
        let sources = [file("low/x.rs", "use crate::high;"), file("new/x.rs", "")];
        assert_eq!(
            compare(&ROW, &sources),
            [
                "crates/x/src/new: the folder is not in the table",
                "the table has crates/x/src/high, which does not exist",
            ]
        );
    }
}
