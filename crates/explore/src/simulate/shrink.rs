//! Finds a small program that still fails under some seed.
//!
//! Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input",
//! 2002, doi:10.1109/32.988498) on the statements of the program, then on its outputs, tensors and
//! streams. With a statement go all statements that need its results. A smaller program takes other
//! steps under the same seed, so several seeds are tried for each candidate.

use std::collections::HashSet;
use std::sync::Arc;

use millstream_trace::{Action, Body, Executable, Program, Results, Statement, Target, ValueRef};

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
    fn count(statements: &[Statement]) -> usize {
        let one = |s: &Statement| match &s.action {
            Action::CriticalSection { body, .. } => 1 + count(body),
            _ => 1,
        };
        statements.iter().map(one).sum()
    }
    count(statements(program)) + program.outputs.len()
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
        for at in (0..self.best.program.streams.len()).rev() {
            let candidate = without_stream(&self.best.program, at);
            if let Some(program) = candidate {
                self.accept(program);
            }
        }
        for at in (0..self.best.program.tensors.len()).rev() {
            let candidate = without_tensor(&self.best.program, at);
            if let Some(program) = candidate {
                self.accept(program);
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

/// Returns the program without a stream, if nothing names it. Later streams may get other numbers.
fn without_stream(program: &Program, at: usize) -> Option<Program> {
    let mut program = program.clone();
    let mut used = false;
    let mut moved = |k: u32| {
        used |= k as usize == at;
        if k as usize > at { k - 1 } else { k }
    };
    for_each_statement(&mut program, &mut |statement| match &mut statement.action {
        Action::Call(call) => {
            if let Some(stream) = &mut call.stream {
                stream.0 = moved(stream.0);
            }
        }
        Action::Touch { stream, .. } => {
            if let Some(stream) = stream {
                stream.0 = moved(stream.0);
            }
        }
        Action::Launch(launch) => {
            if let Some(stream) = &mut launch.stream {
                stream.0 = moved(stream.0);
            }
        }
        Action::Record { stream, .. } | Action::Wait { stream, .. } => stream.0 = moved(stream.0),
        Action::StreamWait { from, to } => {
            from.0 = moved(from.0);
            to.0 = moved(to.0);
        }
        Action::Synchronize(stream) => stream.0 = moved(stream.0),
        Action::Release(_)
        | Action::Read(_)
        | Action::Barrier
        | Action::GlobalSync
        | Action::CriticalSection { .. } => {}
    });
    program.streams.remove(at);
    (!used).then_some(program)
}

/// Returns the program without an initial tensor, if nothing names it.
fn without_tensor(program: &Program, at: usize) -> Option<Program> {
    let mut program = program.clone();
    let mut used = false;
    let mut moved = |value: &mut ValueRef| {
        used |= value.index() == at;
        if value.index() > at {
            value.0 -= 1;
        }
    };
    for executable in &mut program.executables {
        executable.inputs.iter_mut().for_each(|input| moved(&mut input.value));
        executable.results.iter_mut().for_each(|result| moved(&mut result.value));
        executable.bound.iter_mut().for_each(&mut moved);
    }
    for output in &mut program.outputs {
        output.value.iter_mut().for_each(&mut moved);
    }
    for_each_statement(&mut program, &mut |statement| match &mut statement.action {
        Action::Call(call) => {
            call.inputs.iter_mut().for_each(&mut moved);
            match &mut call.results {
                Results::New(values) | Results::Into(values) => {
                    values.iter_mut().for_each(&mut moved);
                }
            }
        }
        Action::Release(values) => values.iter_mut().for_each(&mut moved),
        Action::Read(value) => moved(value),
        Action::Touch { tensors, .. } | Action::CriticalSection { tensors, .. } => {
            tensors.iter_mut().for_each(&mut moved);
        }
        Action::Launch(launch) => {
            launch.inputs.iter_mut().chain(&mut launch.workspaces).for_each(&mut moved);
            for target in launch.outputs.iter_mut().flatten() {
                match target {
                    Target::New(value) | Target::Into(value) => moved(value),
                }
            }
        }
        Action::Record { .. }
        | Action::Wait { .. }
        | Action::StreamWait { .. }
        | Action::Barrier
        | Action::GlobalSync
        | Action::Synchronize(_) => {}
    });
    program.tensors.remove(at);
    program.values.remove(at);
    (!used).then_some(program)
}

/// Applies `change` to every statement, also in executables and sections.
fn for_each_statement(program: &mut Program, change: &mut dyn FnMut(&mut Statement)) {
    fn all(statements: &mut [Statement], change: &mut dyn FnMut(&mut Statement)) {
        for statement in statements {
            change(statement);
            if let Action::CriticalSection { body, .. } = &mut statement.action {
                all(body, change);
            }
        }
    }
    for executable in &mut program.executables {
        all(&mut executable.block.statements, change);
    }
    if let Body::Statements(block) = &mut program.body {
        all(&mut block.statements, change);
    }
}
