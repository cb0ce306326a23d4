//! Lists of instructions in files of their own, as `millstream run --emit` writes them.
//!
//! Such a file holds no elements: the tensors that the list needs come from a trace, from a
//! safetensors file, or from a seed. The file's comments name its outputs.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use millstream_types::TensorSpec;

use crate::compare::Tolerance;
use crate::data::Data;
use crate::error::{Result, Site};
use crate::expand::single_trace;
use crate::load::{LoadOptions, load};
use crate::program::{Body, Line, Output, Program, Tensor, Value, ValueRef};
use crate::random::Distribution;
use crate::read::read_text;
use crate::sidecar::Sidecars;
use crate::source::Span;

/// What the comment on an output begins with, before the name as JSON and the tensor.
const OUTPUT: &str = "# output ";

/// What the comment on the rank of a list begins with.
const RANK: &str = "# rank ";

/// The elements of the tensors that a list needs.
pub enum Inputs {
    /// None: the list may need no tensor.
    None,
    /// The tensors of a trace, whose outputs are expected as well.
    Trace(Box<Program>),
    /// The tensors of a safetensors file, at this path.
    File(std::path::PathBuf),
    /// Random elements from this seed.
    Random(u64),
}

impl Inputs {
    /// Returns the inputs that a file holds: a safetensors file, by its ending, or a trace.
    ///
    /// # Errors
    /// The trace cannot be loaded, or a folder does not hold one.
    pub fn open(path: &Path, options: &LoadOptions) -> Result<Inputs> {
        if path.extension().is_some_and(|ending| ending == "safetensors") {
            return Ok(Inputs::File(path.to_owned()));
        }
        load(single_trace(path)?, options).map(|program| Inputs::Trace(Box::new(program)))
    }
}

/// Loads a list of instructions. Its tensors are yet to be added, by [`Program::add_input`].
///
/// # Errors
/// The file cannot be read, or is no text.
pub fn load_list(path: &Path, options: &LoadOptions) -> Result<Program> {
    let source = Arc::new(read_text(path, options.max_bytes)?);
    let (mut lines, mut outputs) = (Vec::new(), Vec::new());
    for text in source.text().split('\n') {
        let start = text.as_ptr() as usize - source.text().as_ptr() as usize;
        let text = text.trim_end_matches('\r');
        let span = source.span(start..start + text.len());
        if let Some((name, _)) = output_of(text) {
            let site = Site { source: source.clone(), span };
            outputs.push(Output {
                name,
                value: None,
                dtype: None,
                shape: None,
                expected: None,
                probe: None,
                tolerance: Tolerance::default(),
                site,
            });
        }
        lines.push(Line { text: text.to_owned(), span });
    }
    let rank = ListRank::parse(source.text());
    Ok(Program { outputs, rank, ..Program::new(&source, Body::Instructions(lines)) })
}

/// The rank whose list a file holds, as its first line says: `# rank 0 of 2`, and if all ranks read
/// one program, `# rank 0 of 2 of program HASH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRank {
    /// The rank.
    pub rank: u32,
    /// The number of ranks.
    pub ranks: u32,
    /// The hash of the text of the program that all ranks read; none if each has its own.
    pub program: Option<String>,
}

impl ListRank {
    /// Reads the first line of a list.
    pub fn parse(text: &str) -> Option<ListRank> {
        let line = text.lines().next()?.strip_prefix(RANK)?;
        let (rank, rest) = line.split_once(" of ")?;
        let (ranks, program) = match rest.split_once(" of program ") {
            Some((ranks, program)) => (ranks, Some(program.trim_end().to_owned())),
            None => (rest, None),
        };
        let number = |text: &str| text.trim_end().parse().ok();
        Some(ListRank { rank: number(rank)?, ranks: number(ranks)?, program })
    }
}

impl fmt::Display for ListRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{RANK}{} of {}", self.rank, self.ranks)?;
        self.program.iter().try_for_each(|program| write!(f, " of program {program}"))
    }
}

/// Returns the name of an output and its tensor, as a list names it, if a line is the comment on
/// one.
pub fn output_of(line: &str) -> Option<(String, &str)> {
    let mut rest = serde_json::Deserializer::from_str(line.strip_prefix(OUTPUT)?).into_iter();
    let name: String = rest.next()?.ok()?;
    let tensor = line[OUTPUT.len() + rest.byte_offset()..].trim_start().strip_prefix("is ")?;
    Some((name, tensor.trim_end()))
}

/// Returns the comment on an output, as [`output_of`] reads it.
pub fn output_line(name: &str, tensor: &str) -> String {
    format!("{OUTPUT}{} is {tensor}\n", serde_json::Value::from(name))
}

impl Program {
    /// Adds the tensor that a list needs under this name. `span` is the line that declares it.
    ///
    /// # Errors
    /// The inputs hold no such tensor.
    pub fn add_input(
        &mut self,
        inputs: &Inputs,
        name: &str,
        (spec, bytes): (&TensorSpec, u64),
        span: Span,
    ) -> Result<()> {
        let site = Site { source: self.source.clone(), span };
        let made = |data| Tensor {
            name: name.to_owned(),
            spec: spec.clone(),
            storage_bytes: bytes as usize,
            device: None,
            data,
            ranks: None,
            held: None,
            site: site.clone(),
        };
        let lacking = |whose: &str| site.error(format!("the list needs '{name}', {whose}"));
        let tensor = match inputs {
            Inputs::None => {
                let error = lacking(&format!("which is {}", spec.brief()));
                return Err(error.help(
                    "give its elements: --inputs FILE, a safetensors file or the trace; or make \
                     them up: --random-inputs SEED",
                ));
            }
            Inputs::Random(seed) => {
                let of_name = name
                    .bytes()
                    .fold(*seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
                made(Data::Random { seed: of_name, distribution: Distribution::inputs(spec.dtype) })
            }
            Inputs::Trace(program) => {
                let found = program.tensors.iter().find(|tensor| tensor.name == name);
                let lacks = || lacking(&format!("which {} lacks", program.source.name()));
                Tensor { ranks: None, held: None, ..found.ok_or_else(lacks)?.clone() }
            }
            Inputs::File(path) => {
                let error = |e: crate::sidecar::SidecarError| {
                    let (at, message) = (path.display(), e.message);
                    lacking(&format!("and {at} does not give it: {message}")).meant(e.nearest)
                };
                let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
                let file = whole.file_name().unwrap_or_default().to_string_lossy();
                let found = Sidecars::new(whole.parent()).find(&file, name).map_err(error)?;
                if (found.dtype(), found.shape()) != (spec.dtype, spec.shape()) {
                    let given = millstream_types::layout::brief(found.dtype(), found.shape());
                    let (at, spec) = (path.display(), spec.brief());
                    return Err(lacking(&format!("{spec}, and {at} holds {given}")));
                }
                made(Data::File(found))
            }
        };
        let value = Value { name: name.to_owned(), span, recorded: None };
        self.values.push(value);
        self.tensors.push(tensor);
        Ok(())
    }

    /// Makes the outputs expect what a trace expects of the outputs of their names.
    pub fn expect_outputs_of(&mut self, inputs: &Inputs) {
        let Inputs::Trace(trace) = inputs else { return };
        for output in &mut self.outputs {
            if let Some(expected) = trace.outputs.iter().find(|other| other.name == output.name) {
                let (value, site) = (output.value, output.site.clone());
                *output = Output { value, site, ..expected.clone() };
            }
        }
    }

    /// Returns the value of the tensor of this name, if there is one.
    pub fn named(&self, name: &str) -> Option<ValueRef> {
        let at = self.values.iter().position(|value| value.name == name);
        at.map(|at| ValueRef(at as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::{ListRank, output_line, output_of};

    #[test]
    fn the_rank_of_a_list_is_read_back() {
        for program in [None, Some("0af3".to_owned())] {
            let rank = ListRank { rank: 3, ranks: 16, program };
            assert_eq!(ListRank::parse(&format!("{rank}\nmillstream-list 1\n")), Some(rank));
        }
        for text in ["", "# rank", "# rank 1", "# rank x of 2", "millstream-list 1\n# rank 0 of 2"]
        {
            assert_eq!(ListRank::parse(text), None, "{text}");
        }
    }

    #[test]
    fn outputs_are_read_as_they_are_written() {
        for name in ["y", "a \"quoted\" name", "# output \"x\" is %3"] {
            let line = output_line(name, "%12");
            assert_eq!(output_of(line.trim_end()), Some((name.to_owned(), "%12")));
        }
        assert_eq!(output_of("# a remark"), None);
    }
}
