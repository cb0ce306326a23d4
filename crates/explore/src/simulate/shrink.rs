//! Finds a small program that still fails under some seed.
//!
//! Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input",
//! 2002, doi:10.1109/32.988498) on the statements of the program, then on its outputs, tensors and
//! streams. With a statement go all statements that need its results. A smaller program takes other
//! steps under the same seed, so several seeds are tried for each candidate.

use std::collections::HashSet;
use std::sync::Arc;

use millstream_trace::{
    Action, Body, Executable, Program, Results, Statement, StreamRef, Target, ValueRef,
};

use crate::simulate::{Finding, Simulator};
use millstream_runner::RunOptions;

/// A failing program that is locally minimal: without any one of its statements, no tried seed
/// fails.
pub struct Shrunk {
    /// The program.
    pub program: Arc<Program>,
    /// A seed under which it fails.
    pub seed: u64,
    /// The violation under that seed.
    pub finding: Finding,
    /// The number of programs that were tried.
    pub tried: u64,
}

/// The number of seeds tried for each candidate, besides the one that failed before.
const SEEDS: u64 = 48;

struct Shrinker<'a> {
    options: &'a RunOptions,
    checked: bool,
    best: Shrunk,
}

/// Shrinks a program that fails under `seed`, as long as it fails in the same way. A list of
/// instructions is left unchanged.
pub fn shrink(
    program: Arc<Program>,
    options: &RunOptions,
    checked: bool,
    seed: u64,
    finding: Finding,
) -> Shrunk {
    let best = Shrunk { program, seed, finding, tried: 0 };
    let mut shrinker = Shrinker { options, checked, best };
    loop {
        let before = size(&shrinker.best.program);
        shrinker.remove_statements();
        shrinker.inline_sections();
        shrinker.remove_unused();
        if size(&shrinker.best.program) >= before {
            return shrinker.best;
        }
    }
}

fn statements(program: &Program) -> &[Statement] {
    match &program.body {
        Body::Statements(block) => &block.statements,
        Body::Instructions(_) => &[],
    }
}

fn size(program: &Program) -> usize {
    Statement::each(statements(program)).count() + program.outputs.len()
}

impl Shrinker<'_> {
    /// Accepts a candidate if it fails as the best program does.
    fn accept(&mut self, candidate: Program) -> bool {
        self.best.tried += 1;
        let candidate = Arc::new(candidate);
        let Ok(simulator) = Simulator::new(candidate.clone(), self.options, self.checked) else {
            return false;
        };
        for seed in std::iter::once(self.best.seed).chain(0..SEEDS) {
            let found = simulator.seed(seed, false).ok().and_then(|trial| trial.finding);
            if let Some(finding) = found.filter(|f| f.is_like(&self.best.finding)) {
                let tried = self.best.tried;
                self.best = Shrunk { program: candidate, seed, finding, tried };
                return true;
            }
        }
        false
    }

    /// Removes ever smaller runs of statements.
    fn remove_statements(&mut self) {
        let mut chunk = statements(&self.best.program).len().div_ceil(2);
        while chunk > 0 {
            let mut from = 0;
            while from < statements(&self.best.program).len() {
                let candidate = self.without(|at| (from..from + chunk).contains(&at));
                if !self.accept(candidate) {
                    from += chunk;
                }
            }
            chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
        }
    }

    /// Returns the best program without the statements that `leave` selects by number, and without
    /// all statements that need their results.
    fn without(&self, leave: impl Fn(usize) -> bool) -> Program {
        let mut program = Program::clone(&self.best.program);
        if let Body::Statements(block) = &mut program.body {
            let mut at = 0;
            block.statements.retain(|_| {
                at += 1;
                !leave(at - 1)
            });
        }
        prune(&mut program);
        program
    }

    /// Replaces critical sections by their statements.
    fn inline_sections(&mut self) {
        for at in (0..statements(&self.best.program).len()).rev() {
            let mut program = Program::clone(&self.best.program);
            let Body::Statements(block) = &mut program.body else { return };
            if let Some(Action::CriticalSection { body, .. }) =
                block.statements.get(at).map(|s| s.action.clone())
            {
                block.statements.splice(at..=at, body);
                prune(&mut program);
                self.accept(program);
            }
        }
    }

    /// Removes outputs, and everything that is unused.
    fn remove_unused(&mut self) {
        for at in (0..self.best.program.outputs.len()).rev() {
            let mut program = Program::clone(&self.best.program);
            program.outputs.remove(at);
            self.accept(program);
        }
        let Program { streams, tensors, .. } = &*self.best.program;
        for (kind, count) in [(Kind::Stream, streams.len()), (Kind::Value, tensors.len())] {
            for at in (0..count).rev() {
                if let Some(program) = without(&self.best.program, kind, at) {
                    self.accept(program);
                }
            }
        }
    }
}

/// Removes everything that needs something that no longer exists.
fn prune(program: &mut Program) {
    let mut known: HashSet<ValueRef> = (0..program.tensors.len() as u32).map(ValueRef).collect();
    let mut recorded = HashSet::new();
    if let Body::Statements(block) = &mut program.body {
        retain(&mut block.statements, &mut known, &mut recorded, &program.executables);
    }
    program.outputs.retain(|o| o.value.is_none_or(|v| known.contains(&v)));
}

fn retain(
    statements: &mut Vec<Statement>,
    known: &mut HashSet<ValueRef>,
    recorded: &mut HashSet<u32>,
    executables: &[Executable],
) {
    statements.retain_mut(|statement| {
        let all = |known: &HashSet<ValueRef>, values: &[ValueRef]| {
            values.iter().all(|v| known.contains(v))
        };
        match &mut statement.action {
            Action::Call(call) => {
                let fits = all(known, &call.inputs)
                    && match &call.results {
                        Results::New(_) => true,
                        Results::Into(into) => all(known, into),
                    };
                if let (true, Results::New(out)) = (fits, &call.results) {
                    known.extend(out);
                }
                fits
            }
            Action::Release(values) => {
                values.retain(|v| known.remove(v));
                !values.is_empty()
            }
            Action::Record { event, .. } => {
                recorded.insert(event.0);
                true
            }
            Action::Wait { event, .. } => recorded.contains(&event.0),
            Action::Read(value) => known.contains(value),
            Action::Touch { tensors, .. } => all(known, tensors),
            Action::CriticalSection { tensors, body } => {
                let fits = all(known, tensors);
                if fits {
                    retain(body, known, recorded, executables);
                }
                fits && !body.is_empty()
            }
            Action::Launch(launch) => {
                let into = |target: &Option<Target>| match target {
                    Some(Target::Into(value)) => known.contains(value),
                    Some(Target::New(_)) | None => true,
                };
                let fits = all(known, &launch.inputs)
                    && all(known, &launch.workspaces)
                    && all(known, &executables[launch.executable.index()].bound)
                    && launch.outputs.iter().all(into);
                for target in launch.outputs.iter().filter(|_| fits) {
                    if let Some(Target::New(value)) = target {
                        known.insert(*value);
                    }
                }
                fits
            }
            Action::StreamWait { .. }
            | Action::Barrier
            | Action::GlobalSync
            | Action::Synchronize(_) => true,
        }
    });
}

/// What a number in a statement names.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Stream,
    Value,
}

/// Returns the program without a stream or an initial tensor, if nothing names it. Later numbers of
/// its kind count down.
fn without(program: &Program, kind: Kind, at: usize) -> Option<Program> {
    let (mut program, mut is_used) = (program.clone(), false);
    each_number(&mut program, &mut |of, number| {
        if of == kind {
            is_used |= *number as usize == at;
            *number -= u32::from(*number as usize > at);
        }
    });
    match kind {
        Kind::Stream => drop(program.streams.remove(at)),
        Kind::Value => {
            program.tensors.remove(at);
            program.values.remove(at);
        }
    }
    (!is_used).then_some(program)
}

/// Calls `found` with the numbers of all that statements, executables and outputs name.
fn each_number(program: &mut Program, found: &mut dyn FnMut(Kind, &mut u32)) {
    for executable in &mut program.executables {
        let inputs = executable.inputs.iter_mut().map(|input| &mut input.value);
        let results = executable.results.iter_mut().map(|result| &mut result.value);
        let values = inputs.chain(results).chain(&mut executable.bound);
        values.for_each(|value| found(Kind::Value, &mut value.0));
        numbers_of(&mut executable.block.statements, found);
    }
    let outputs = program.outputs.iter_mut().filter_map(|output| output.value.as_mut());
    outputs.for_each(|value| found(Kind::Value, &mut value.0));
    if let Body::Statements(block) = &mut program.body {
        numbers_of(&mut block.statements, found);
    }
}

fn numbers_of(statements: &mut [Statement], found: &mut dyn FnMut(Kind, &mut u32)) {
    for statement in statements {
        let mut streams: Vec<&mut StreamRef> = Vec::new();
        let mut values: Vec<&mut ValueRef> = Vec::new();
        match &mut statement.action {
            Action::Call(call) => {
                streams.extend(&mut call.stream);
                values.extend(&mut call.inputs);
                match &mut call.results {
                    Results::New(results) | Results::Into(results) => values.extend(results),
                }
            }
            Action::Touch { stream, tensors, .. } => {
                streams.extend(stream);
                values.extend(tensors);
            }
            Action::Launch(launch) => {
                streams.extend(&mut launch.stream);
                values.extend(launch.inputs.iter_mut().chain(&mut launch.workspaces));
                values.extend(launch.outputs.iter_mut().flatten().map(|target| match target {
                    Target::New(value) | Target::Into(value) => value,
                }));
            }
            Action::Record { stream, .. } | Action::Wait { stream, .. } => streams.push(stream),
            Action::StreamWait { from, to } => streams.extend([from, to]),
            Action::Synchronize(stream) => streams.push(stream),
            Action::Release(released) => values.extend(released),
            Action::Read(value) => values.push(value),
            Action::CriticalSection { tensors, body } => {
                values.extend(tensors);
                numbers_of(body, found);
            }
            Action::Barrier | Action::GlobalSync => {}
        }
        streams.into_iter().for_each(|stream| found(Kind::Stream, &mut stream.0));
        values.into_iter().for_each(|value| found(Kind::Value, &mut value.0));
    }
}
