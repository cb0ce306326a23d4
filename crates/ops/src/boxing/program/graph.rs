//! A program as a graph: inputs and calls, the divisions that each may take, and uses of values.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use millstream_types::{Dims, Error, NdSbp, Result, Sbp, Sharding, TensorSpec};

use super::class::Class;
use super::{Call, Entries, Program, Source, Value};
use crate::boxing::choice::Divisions;
use crate::schema::{CallSpec, OutputSpec};

/// An input or a call, and the divisions that it may take.
pub(super) struct Node {
    /// What the node makes of operands and results, by the numbers of their shardings.
    pub(super) options: Vec<Taking>,
    pub(super) operands: Vec<usize>,
    /// The operands that the node writes.
    pub(super) written: Vec<bool>,
    /// The values whose shardings the node determines, with the numbers of its results.
    pub(super) made: Vec<(usize, usize)>,
    /// The option that is taken.
    pub(super) taken: usize,
}

/// One division of a node: its shardings by their numbers.
pub(super) struct Taking {
    pub(super) operands: Vec<u32>,
    pub(super) results: Vec<u32>,
    pub(super) work: u64,
}

/// A use of a value by a call, or a request.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// The node and the number of its operand.
    Operand(usize, usize),
    Request(usize),
}

pub(super) struct Search<'a> {
    pub(super) program: &'a Program<'a>,
    pub(super) classes: Vec<Class>,
    /// The class of each value.
    pub(super) class: Vec<usize>,
    /// The node that determines a value's sharding, and the number of its result.
    pub(super) maker: Vec<(usize, usize)>,
    pub(super) uses: Vec<Vec<Use>>,
    /// The inputs, and then the calls.
    pub(super) nodes: Vec<Node>,
    /// The node of each call.
    pub(super) calls: Vec<usize>,
    /// What open inputs cost with the uses of one node, by what that takes of them.
    pub(super) following: FxHashMap<(usize, Numbers), u64>,
}

/// Shardings of several tensors, by number.
pub(super) type Numbers = SmallVec<[u32; 2]>;

impl<'a> Search<'a> {
    pub(super) fn of(program: &'a Program<'a>) -> Result<Search<'a>> {
        let mut search = Search {
            program,
            classes: Vec::new(),
            class: Vec::new(),
            maker: vec![(0, 0); program.values.len()],
            uses: vec![Vec::new(); program.values.len()],
            nodes: Vec::new(),
            calls: Vec::new(),
            following: FxHashMap::default(),
        };
        for value in &program.values {
            let class = (value.spec.dtype, Dims::from_slice(value.spec.shape()));
            let of = |known: &Class| (known.dtype, &known.shape) == (class.0, &class.1);
            let known = search.classes.iter().position(of);
            search.class.push(known.unwrap_or(search.classes.len()));
            if known.is_none() {
                search.classes.push(Class::new(class.0, class.1));
            }
        }
        for value in 0..program.values.len() {
            search.input(value)?;
        }
        let viewed = search.viewed_and_written();
        for call in 0..program.calls.len() {
            search.call(call, &viewed)?;
        }
        let is_made = |call: &Call<'_>, value: usize| call.results.contains(&value);
        for (value, Value { spec, source }) in program.values.iter().enumerate() {
            if matches!(source, Source::Call) && !program.calls.iter().any(|c| is_made(c, value)) {
                let message = format!("no call makes tensor {value}, {}", spec.brief());
                return Err(Error::Internal { message });
            }
        }
        for (number, (value, _)) in program.requests.iter().enumerate() {
            search.uses[*value].push(Use::Request(number));
        }
        Ok(search)
    }

    /// Adds the node of a value that no call makes.
    pub(super) fn input(&mut self, value: usize) -> Result<()> {
        let Value { spec, source } = &self.program.values[value];
        let shardings = match source {
            Source::Call => return Ok(()),
            Source::Held(sharding) => vec![sharding.clone()],
            Source::Input(entries) => self.with_entries(spec, entries)?,
        };
        let class = &mut self.classes[self.class[value]];
        let options = shardings.iter().map(|sharding| {
            let number = class.number(sharding);
            // Where a part does as well as the whole, a rank holds a part.
            let work = class.bytes(number);
            Taking { operands: Vec::new(), results: vec![number], work }
        });
        let options = options.collect();
        self.maker[value] = (self.nodes.len(), 0);
        let (operands, written, made) = (Vec::new(), Vec::new(), vec![(value, 0)]);
        self.nodes.push(Node { options, operands, written, made, taken: 0 });
        Ok(())
    }

    /// Returns all shardings of a tensor with these entries: whole or split along open axes.
    pub(super) fn with_entries(
        &self,
        spec: &TensorSpec,
        entries: &Entries,
    ) -> Result<Vec<Sharding>> {
        let mesh = self.program.mesh;
        let invalid = |message: String| Error::Invalid { what: "sharding", message };
        if entries.len() != mesh.rank() {
            return Err(invalid(format!(
                "mesh {mesh} has {} axes, and an input names {}",
                mesh.rank(),
                entries.len()
            )));
        }
        let mut all: Vec<NdSbp> = vec![NdSbp::new()];
        for entry in entries {
            let open =
                || [Sbp::Broadcast].into_iter().chain((0..spec.shape().len()).map(Sbp::Split));
            let choices: SmallVec<[Sbp; 8]> = match entry {
                Some(sbp) => [*sbp].into_iter().collect(),
                None => open().collect(),
            };
            let longer = |sbp: &NdSbp| {
                let more = |choice: &Sbp| sbp.iter().copied().chain([*choice]).collect();
                choices.iter().map(more).collect::<Vec<NdSbp>>()
            };
            all = all.iter().flat_map(longer).collect();
        }
        let mut refused = None;
        let held = all.into_iter().filter_map(|sbp| {
            let sharding = Sharding::new(mesh, sbp);
            let checked =
                sharding.and_then(|held| held.check(spec.dtype, spec.shape()).map(|()| held));
            checked.map_err(|error| refused.get_or_insert(error).clone()).ok()
        });
        let held: Vec<Sharding> = held.collect();
        match (held.is_empty(), refused) {
            (true, Some(error)) => Err(error),
            _ => Ok(held),
        }
    }

    /// Returns whether each value shares memory with one that a call writes, on one rank. The base
    /// of a view is redistributed for no such one, as a copy would miss the change.
    pub(super) fn viewed_and_written(&self) -> Vec<bool> {
        let program = self.program;
        let mut memory: Vec<usize> = (0..program.values.len()).collect();
        let mut written = Vec::new();
        for call in &program.calls {
            let specs: Vec<TensorSpec> =
                call.operands.iter().map(|k| program.values[*k].spec.clone()).collect();
            let Ok(signature) = call.op.check(CallSpec { inputs: &specs, attrs: call.attrs })
            else {
                continue;
            };
            for (output, result) in signature.outputs.iter().zip(&call.results) {
                if let OutputSpec::View { of, .. } = output {
                    memory[*result] = memory[call.operands[*of]];
                }
            }
            let accesses = call.operands.iter().zip(&signature.accesses);
            written.extend(accesses.filter(|(_, access)| access.writes()).map(|(k, _)| memory[*k]));
        }
        memory.iter().map(|memory| written.contains(memory)).collect()
    }

    pub(super) fn call(&mut self, number: usize, viewed_and_written: &[bool]) -> Result<()> {
        let program = self.program;
        let call = &program.calls[number];
        let specs: Vec<TensorSpec> =
            call.operands.iter().map(|k| program.values[*k].spec.clone()).collect();
        let spec = CallSpec { inputs: &specs, attrs: call.attrs };
        let signature = call.op.check(spec)?;
        let divisions = Divisions::of(call.op, spec, &signature, program.mesh);
        let mut written = divisions.written.clone();
        let is_view = |output: &OutputSpec| matches!(output, OutputSpec::View { .. });
        for output in &signature.outputs {
            if let OutputSpec::View { of, .. } = output {
                written[*of] |= viewed_and_written[call.operands[*of]];
            }
        }
        let works = !signature.outputs.iter().all(is_view);
        let mut options: Vec<Taking> = Vec::new();
        for division in divisions.all() {
            let mut work = 0u64;
            let mut numbers = |values: &[usize], shardings: &[Sharding]| -> Vec<u32> {
                let all = values.iter().zip(shardings).map(|(value, sharding)| {
                    let class = &mut self.classes[self.class[*value]];
                    let number = class.number(sharding);
                    work = work.saturating_add(class.bytes(number));
                    number
                });
                all.collect()
            };
            let operands = numbers(&call.operands, &division.pinned.operands);
            let results = numbers(&call.results, &division.pinned.results);
            let is_known = |o: &Taking| o.operands == operands && o.results == results;
            if !options.iter().any(is_known) {
                let work = if works { work } else { 0 };
                options.push(Taking { operands, results, work });
            }
        }
        let node = self.nodes.len();
        for (k, value) in call.operands.iter().enumerate() {
            self.uses[*value].push(Use::Operand(node, k));
        }
        let made = call.results.iter().enumerate();
        let made = made.filter(|(_, value)| !call.operands.contains(value));
        let made: Vec<(usize, usize)> = made.map(|(k, value)| (*value, k)).collect();
        for (value, k) in &made {
            self.maker[*value] = (node, *k);
        }
        self.nodes.push(Node { options, operands: call.operands.clone(), written, made, taken: 0 });
        self.calls.push(node);
        Ok(())
    }
}
