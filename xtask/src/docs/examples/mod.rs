//! The examples of tensors' methods.
//!
//! Each method and each option is in one. Most are calls with the results that PyTorch gives:
//! `recorded/FAMILY.json`, made by `tools/reference/examples.py`. `written` has those that PyTorch
//! lacks or that are random. `call` writes a recorded call in Rust. An example of several items
//! stands at the methods, or at the type of their options, or at the first of the options.

mod call;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::methods::{Parts, format_with, rust_name};
use call::Call;
use written::{WRITTEN, Written};

/// The columns of a line of code in a comment, and those of a function's indentation.
const WIDTH: usize = 92;
const INDENT: usize = 4;

/// The examples of all methods.
#[derive(Default)]
pub(super) struct Examples {
    calls: BTreeMap<String, Vec<Call>>,
    /// The examples in use: of which item, and their code.
    used: Vec<(String, Code)>,
    /// The calls in use: their ops and their numbers.
    used_calls: BTreeSet<(String, usize)>,
}

enum Code {
    /// Statements that are not formatted yet.
    Made(String),
    Written(&'static Written),
}

impl Examples {
    /// Reads the recorded calls.
    pub(super) fn read() -> Result<Examples> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/docs/examples/recorded");
        let mut examples = Examples::default();
        let files = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
        for entry in files {
            let path = entry?.path();
            let content = fs::read(&path)?;
            let calls: Vec<Call> = serde_json::from_slice(&content)
                .with_context(|| format!("no calls in {}", path.display()))?;
            for call in calls {
                examples.calls.entry(call.op.clone()).or_default().push(call);
            }
        }
        Ok(examples)
    }

    /// Returns the line for the example of an item, which [`Examples::replaced`] replaces.
    fn placeholder(&mut self, of: &str, code: Code) -> String {
        self.used.push((of.to_owned(), code));
        format!("/// @{}@\n", self.used.len() - 1)
    }

    fn written(&mut self, item: &str) -> Option<String> {
        let written = WRITTEN.iter().find(|w| w.of.contains(&item))?;
        Some(self.placeholder(item, Code::Written(written)))
    }

    /// Returns the example of a method.
    pub(super) fn of_method(
        &mut self,
        method: &str,
        options: Option<&str>,
        parts: &Parts<'_>,
    ) -> Result<String> {
        if let Some(lines) = self.written(method) {
            return Ok(lines);
        }
        let fits = |set: &[&str]| match options {
            None => set.is_empty(),
            Some(_) => parts.takes_always() || !set.is_empty(),
        };
        self.made(method, method, options, parts, fits)
    }

    /// Returns the example of the options of a method.
    pub(super) fn of_options(
        &mut self,
        options: &str,
        method: &str,
        parts: &Parts<'_>,
    ) -> Result<String> {
        if let Some(lines) = self.written(options) {
            return Ok(lines);
        }
        self.made(options, method, Some(options), parts, |set| !set.is_empty())
    }

    /// Returns the example of one option of a method.
    pub(super) fn of_option(
        &mut self,
        options: &str,
        option: &str,
        method: &str,
        parts: &Parts<'_>,
    ) -> Result<String> {
        let item = format!("{options}::{}", rust_name(option));
        if let Some(lines) = self.written(&item) {
            return Ok(lines);
        }
        self.made(&item, method, Some(options), parts, |set| set.contains(&option))
    }

    /// Returns the example of another name of options.
    pub(super) fn of_alias(&mut self, alias: &str) -> Result<String> {
        self.written(alias).with_context(|| format!("options::{alias} has no example"))
    }

    /// Returns the example that is the first of those calls with the fewest options that fit.
    fn made(
        &mut self,
        item: &str,
        method: &str,
        options: Option<&str>,
        parts: &Parts<'_>,
        fits: impl Fn(&[&str]) -> bool,
    ) -> Result<String> {
        let op = parts.op.name();
        let calls = self.calls.get(op).map_or(&[][..], Vec::as_slice);
        let calls = calls.iter().enumerate().filter(|(_, call)| fits(&call.options(parts)));
        let best = calls.min_by_key(|(_, call)| call.options(parts).len());
        let (number, call) = best.with_context(|| {
            format!(
                "{item} of the op {op} has no example: add a call to tools/reference/examples and \
                 record it by `python tools/reference/examples.py`"
            )
        })?;
        let code = call
            .code(method, options, parts)
            .with_context(|| format!("the example of {item} of the op {op}"))?;
        self.used_calls.insert((op.to_owned(), number));
        Ok(self.placeholder(item, Code::Made(code)))
    }

    /// Fails if there is an example of an item that is gone, or one that another replaces.
    fn check_all_used(&self) -> Result<()> {
        for (op, calls) in &self.calls {
            for number in 0..calls.len() {
                ensure!(
                    self.used_calls.contains(&(op.clone(), number)),
                    "call {number} of {op} in tools/reference/examples is no item's example"
                );
            }
        }
        let items: BTreeSet<&str> = self.used.iter().map(|(item, _)| item.as_str()).collect();
        for item in WRITTEN.iter().flat_map(|written| written.of) {
            ensure!(items.contains(item), "there is no {item} for its written example");
        }
        Ok(())
    }

    /// Formats the examples and puts them in the place of their placeholders.
    pub(super) fn replaced(&self, sources: &mut BTreeMap<String, String>) -> Result<()> {
        self.check_all_used()?;
        let mut all = String::new();
        for (k, (_, code)) in self.used.iter().enumerate() {
            let code = match code {
                Code::Made(code) => code,
                Code::Written(written) => written.code,
            };
            all.push_str(&format!("fn e{k}() {{\n{code}\n}}\n"));
        }
        let all = format_with(&all, Some(WIDTH + INDENT))?;
        let codes: Vec<Vec<&str>> = all
            .split("fn e")
            .skip(1)
            .map(|function| {
                let body = function.lines().skip(1).take_while(|line| *line != "}");
                body.map(|line| line.get(INDENT..).unwrap_or("")).collect()
            })
            .collect();
        ensure!(codes.len() == self.used.len(), "an example has functions of its own");
        let mut first: BTreeMap<&[&str], usize> = BTreeMap::new();
        for (number, code) in codes.iter().enumerate() {
            let place = first.entry(code.as_slice()).or_insert(number);
            if rank(&self.used[number].0) < rank(&self.used[*place].0) {
                *place = number;
            }
        }
        for source in sources.values_mut() {
            let stands = |number: usize| {
                rank(&self.used[number].0) == 0 || first[codes[number].as_slice()] == number
            };
            *source = self.source(source, &codes, stands)?;
        }
        Ok(())
    }

    fn source(
        &self,
        source: &str,
        codes: &[Vec<&str>],
        stands: impl Fn(usize) -> bool,
    ) -> Result<String> {
        let mut lines: Vec<String> = Vec::new();
        for line in source.lines() {
            let text = line.trim_start();
            let number = text.strip_prefix("/// @").and_then(|t| t.strip_suffix('@'));
            let Some(number) = number.and_then(|n| n.parse::<usize>().ok()) else {
                lines.push(line.to_owned());
                continue;
            };
            if !stands(number) {
                lines.pop_if(|line| line.trim() == "///");
                continue;
            }
            let indent = " ".repeat(line.len() - text.len());
            let (item, code) = &self.used[number];
            let on_ranks = matches!(code, Code::Written(written) if written.on_ranks);
            let code = codes[number].join("\n");
            let too_long = code.lines().find(|line| line.len() > WIDTH);
            ensure!(too_long.is_none(), "{item}: a line of the example is too long: {too_long:?}");
            let (head, tail) = if on_ranks { (HEAD_ON_RANKS, TAIL_ON_RANKS) } else { (HEAD, TAIL) };
            let uses = USES.iter().filter(|(word, _)| code.contains(word)).map(|(_, line)| *line);
            let all = ["```"].into_iter().chain(uses).chain(head.lines());
            let all = all.chain(code.lines()).chain(tail.lines()).chain(["```"]);
            lines.extend(all.map(|line| format!("{indent}/// {line}").trim_end().to_owned()));
        }
        Ok(lines.join("\n") + "\n")
    }
}

/// Returns the rank of an item among those with the same example: a method before the type of its
/// options, and that before an option.
fn rank(item: &str) -> usize {
    if item.contains("::") { 2 } else { usize::from(item.starts_with(char::is_uppercase)) }
}

/// Hidden lines for words of an example.
const USES: &[(&str, &str)] = &[
    ("C64", "# use millstream_types::element::C64;"),
    ("DType", "# use millstream_types::DType;"),
];

/// The hidden lines before and after an example.
const HEAD: &str = "\
# use millstream_vm::*;
# let machine = Machine::new(MachineConfig::default())?;";
const TAIL: &str = "# Ok::<(), millstream_types::Error>(())";

/// The lines before and after an example that two ranks run.
const HEAD_ON_RANKS: &str = "\
# use millstream_comm::{Communicator, LocalGroup};
# use millstream_vm::*;
# LocalGroup::run(2, |communicator| {
# let (rank, config) = (communicator.rank(), MachineConfig::default());
# let machine = Machine::new(config.communicator(std::sync::Arc::new(communicator)))?;
// On each of two ranks:";
const TAIL_ON_RANKS: &str = "\
# Ok(())
# })?;
# Ok::<(), millstream_types::Error>(())";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs::{methods, ops};

    #[test]
    fn an_op_without_an_example_is_named() {
        let mut examples = Examples::read().unwrap();
        let calls = examples.calls.remove("cummax").unwrap();
        let uses = ops::Uses::read().unwrap();
        let error = methods::sources(&uses, examples).unwrap_err().to_string();
        assert!(error.starts_with("cummax of the op cummax has no example"), "{error}");

        let mut examples = Examples::read().unwrap();
        examples.calls.insert("no_op".to_owned(), calls);
        let error = methods::sources(&uses, examples).unwrap_err().to_string();
        assert!(error.contains("call 0 of no_op"), "{error}");
    }
}
