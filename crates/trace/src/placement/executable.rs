//! Executables of a mesh: one rank's list of each, and its launches.
//!
//! The statements of an executable are divided once, as the program's are. They use its inputs and
//! bound tensors alone. Every rank of the mesh has a list of its own with the collectives in it.
//! The ranks outside have no list; they have the specs and shardings of a launch's results.

use std::collections::{BTreeMap, BTreeSet};

use millstream_ops::formula::{Emitter, Symbol};
use millstream_types::{Attrs, Mesh, Result as Made, Sharding};

use super::calls::PartCalls;
use super::global::{self, Global, Globals, Site};
use super::part::Declared;
use super::walk::Walk;
use crate::error::{Result, TraceError, wrap};
use crate::program::{
    Action, Block, Call, Executable, ExecutableRef, Input, Launch, Returned, Target, ValueRef,
};
use crate::source::Span;

/// An executable whose tensors the ranks of a mesh hold.
pub(super) struct DividedExecutable {
    mesh: Mesh,
    inputs: Vec<Global>,
    bound: Vec<Global>,
    results: Vec<Global>,
    /// The memories that it changes.
    written: BTreeSet<usize>,
    /// The memories that are one on one rank and several on the ranks of a mesh.
    divided: BTreeSet<usize>,
    /// The list of the rank of the walk, if the mesh has the rank.
    own: Option<ExecutableRef>,
}

/// How an input is held, and the span that says so.
type Held = (Sharding, Span);

impl Walk<'_> {
    /// Divides an executable. Returns none if it has mistakes, or follows from one.
    pub(super) fn executable(
        &mut self,
        of: &Executable,
        errors: &mut Vec<TraceError>,
    ) -> Option<DividedExecutable> {
        let program = self.program;
        let before = errors.len();
        let (mesh, shardings) = self.mesh_of(of).unwrap_or_else(|error| {
            errors.push(error);
            None
        })?;
        let mut within = Globals::default();
        let mut own_inputs = Vec::new();
        for (input, (sharding, span)) in of.inputs.iter().zip(shardings) {
            let declared = match Declared::of(&input.spec, &sharding, self.rank) {
                Ok(declared) => declared,
                Err(error) => {
                    errors.push(wrap(&program.source, span, &error));
                    continue;
                }
            };
            within.declare(input.value, &input.spec, sharding, declared.as_ref());
            let own = |part: Declared| Input { spec: part.spec, held: None, ..input.clone() };
            own_inputs.extend(declared.map(own));
        }
        for value in &of.bound {
            let memory = within.memory();
            within.of.insert(*value, Global { memory, ..self.globals.of[value].clone() });
        }
        let formals: BTreeMap<ValueRef, Global> = within.of.clone();

        let outer = std::mem::replace(&mut self.globals, within);
        let statements = std::mem::take(&mut self.part.statements);
        self.within = Some(mesh.clone());
        self.statements(&of.block.statements, errors);
        let results = self.returned(of, errors);
        self.within = None;
        let Globals { written, divided, .. } = std::mem::replace(&mut self.globals, outer);
        let statements = std::mem::replace(&mut self.part.statements, statements);
        if errors.len() > before {
            return None;
        }

        let own = mesh.coordinates(self.rank).map(|_| {
            let returned = of.results.iter().zip(&results).filter_map(|(result, global)| {
                let (value, _) = *global.part.as_ref()?;
                Some(Returned { value, shape: None, ..result.clone() })
            });
            self.part.executables.push(Executable {
                name: of.name.clone(),
                inputs: own_inputs,
                scalars: of.scalars.clone(),
                block: Block { statements, events: of.block.events.clone() },
                results: returned.collect(),
                bound: of.bound.clone(),
                remat: of.remat.clone(),
                span: of.span,
            });
            ExecutableRef(self.part.executables.len() as u32 - 1)
        });
        let inputs = of.inputs.iter().map(|input| formals[&input.value].clone()).collect();
        let bound = of.bound.iter().map(|value| formals[value].clone()).collect();
        Some(DividedExecutable { mesh, inputs, bound, results, written, divided, own })
    }

    /// Returns the mesh of an executable, and how each input is held; none if that follows from an
    /// earlier mistake.
    fn mesh_of(&self, of: &Executable) -> Result<Option<(Mesh, Vec<Held>)>> {
        let program = self.program;
        let (mut named, mut shardings, mut local) = (Vec::new(), Vec::new(), None);
        for input in &of.inputs {
            match &input.held {
                Some(held) => {
                    let sharding = global::declared(program, held)?;
                    named.push((format!("'{}'", input.name), sharding.mesh().clone(), held.span));
                    shardings.push((sharding, held.span));
                }
                None => {
                    local = local.or(Some((&input.name, program.value(input.value).span)));
                }
            }
        }
        for value in &of.bound {
            let name = &program.value(*value).name;
            match self.globals.of.get(value) {
                Some(global) => {
                    named.push((format!("'{name}'"), global.sharding.mesh().clone(), of.span));
                }
                None if self.held(*value).is_some() => local = local.or(Some((name, of.span))),
                None => return Ok(None),
            }
        }
        for statement in &of.block.statements {
            if let Action::Call(call) = &statement.action
                && let Some(held) = &call.held
                && let Some((_, mesh)) = &held.mesh
            {
                named.push((format!("the result of {}", call.op), mesh.clone(), held.span));
            }
        }
        let executable = &of.name;
        let Some((first, mesh, span)) = named.first() else {
            let message = format!("'{executable}' names no mesh, and the program names ranks");
            let help = "give its inputs a 'mesh' and an 'sbp', or write its calls in the program";
            return Err(program.error(of.span, message).help(help));
        };
        if let Some((name, span)) = local {
            let message =
                format!("'{name}' of '{executable}' is not held by a mesh, and others are");
            let error = program.error(span, message);
            return Err(error.help("declare it with a 'mesh' and an 'sbp'"));
        }
        if let Some((other, on, span)) = named.iter().find(|(_, other, _)| other != mesh) {
            let message = format!("'{executable}': {first} on mesh {mesh}, {other} on mesh {on}");
            let help = "an executable is on one mesh: redistribute before or after its launch";
            return Err(program.error(*span, message).help(help));
        }
        self.known_ranks(mesh, *span)?;
        Ok(Some((mesh.clone(), shardings)))
    }

    /// Returns whether the program has ranks that a mesh does not have.
    pub(super) fn lacks_ranks(&self, mesh: &Mesh) -> bool {
        mesh.ranks().len() < self.all.len()
    }

    /// Returns the results of an executable.
    fn returned(&mut self, of: &Executable, errors: &mut Vec<TraceError>) -> Vec<Global> {
        let (mut results, mut returned) = (Vec::new(), BTreeSet::new());
        for result in &of.results {
            // What follows from an earlier mistake is not reported again.
            let Some(mut global) = self.globals.of.get(&result.value).cloned() else { continue };
            errors.extend(result.check(self.program, &global.spec).err());
            // Each output of a list is named after its tensor, so two outputs have two tensors.
            if let Some((part, _)) = &global.part
                && !returned.insert(*part)
            {
                match self.viewed(result.span, &global) {
                    Ok(view) => global = view,
                    Err(error) => {
                        errors.push(wrap(&self.program.source, result.span, &error));
                    }
                }
            }
            results.push(global);
        }
        results
    }

    /// Returns the tensor again, with a view of its whole part as its part.
    fn viewed(&mut self, span: Span, of: &Global) -> Made<Global> {
        let Some((part, spec)) = of.part.clone() else { return Ok(of.clone()) };
        let call = Call::new("reshape", span, vec![part], Vec::new());
        let shape: Vec<i64> = spec.shape().iter().map(|length| *length as i64).collect();
        let (site, symbols) = (Site { span, call: &call }, vec![(part, spec)]);
        let mut calls = PartCalls { walk: self, site, symbols };
        let made = calls.call("reshape", &[Symbol(0)], Attrs::new().with("shape", shape))?;
        let view = made.first().map(|symbol| calls.symbols[symbol.0].clone());
        Ok(Global { part: view, ..of.clone() })
    }

    /// Makes the part of this rank of a launch on tensors of a mesh.
    pub(super) fn launch(&mut self, span: Span, launch: &Launch) -> Result<()> {
        let program = self.program;
        let of = self.executables.get(launch.executable.index()).cloned().flatten();
        // What follows from an earlier mistake is not reported again.
        let Some(of) = of else { return Ok(()) };
        let declared = &program.executables[launch.executable.index()];
        let name = &declared.name;
        // The memories of the executable, each with that of the program.
        let mut memories: BTreeMap<usize, usize> = BTreeMap::new();
        let mut own = Launch {
            executable: of.own.unwrap_or(launch.executable),
            inputs: Vec::new(),
            scalars: launch.scalars.clone(),
            outputs: Vec::new(),
            workspaces: Vec::new(),
            stream: launch.stream,
        };
        let mut changed = Vec::new();
        for ((input, formal), given) in declared.inputs.iter().zip(&of.inputs).zip(&launch.inputs) {
            let what = format!("the input '{}' of '{name}'", input.name);
            let help = "redistribute it, and launch with the result";
            let Some(given) = self.given(span, &what, formal, *given, help)? else { return Ok(()) };
            memories.insert(formal.memory, given.memory);
            own.inputs.extend(given.part.as_ref().map(|(part, _)| *part));
            changed.extend(of.written.contains(&formal.memory).then_some(given));
        }
        for (value, formal) in declared.bound.iter().zip(&of.bound) {
            let Some(global) = self.globals.of.get(value) else { return Ok(()) };
            memories.insert(formal.memory, global.memory);
            changed.extend(of.written.contains(&formal.memory).then(|| global.clone()));
        }
        for value in &launch.workspaces {
            let tensor = &program.value(*value).name;
            let held = self.globals.of.get(value).filter(|held| *held.sharding.mesh() == of.mesh);
            let Some(held) = held.cloned() else {
                let message = format!("the workspace '{tensor}' is not held by mesh {}", of.mesh);
                let help = "declare it with this 'mesh' and an 'sbp'";
                return Err(program.error(span, message).help(help));
            };
            own.workspaces.extend(held.part.as_ref().map(|(part, _)| *part));
            changed.push(held);
        }
        let outputs = declared.results.iter().zip(&of.results).zip(&launch.outputs);
        let (mut made, mut divided) = (Vec::new(), Vec::new());
        for ((output, result), target) in outputs {
            let memory = match memories.get(&result.memory) {
                Some(memory) => *memory,
                None => self.globals.memory(),
            };
            memories.insert(result.memory, memory);
            divided.extend(of.divided.contains(&result.memory).then_some(memory));
            own.outputs.push(match target {
                None => None,
                Some(Target::New(name)) => {
                    let part = result.part.as_ref().map(|(_, spec)| (*name, spec.clone()));
                    made.push((*name, Global { part, memory, ..result.clone() }));
                    Some(Target::New(*name))
                }
                Some(Target::Into(into)) => {
                    let what = format!("the output '{}' of '{name}'", output.name);
                    let help = "name it in 'out', and redistribute that";
                    let given = self.given(span, &what, result, *into, help)?;
                    let Some(given) = given else { return Ok(()) };
                    let part = given.part.as_ref().map(|(part, _)| Target::Into(*part));
                    changed.push(given);
                    part
                }
            });
        }
        for global in changed {
            let fits = self.globals.check_change(&format!("launch of '{name}'"), &global);
            fits.map_err(|error| wrap(&program.source, span, &error))?;
        }
        self.globals.divided.extend(divided);
        self.globals.of.extend(made);
        if of.own.is_some() {
            self.push(span, Action::Launch(Box::new(own)));
        }
        Ok(())
    }

    /// Returns a tensor given to a launch, after a check that it is held and described as the
    /// executable's; none after an earlier mistake.
    fn given(
        &self,
        span: Span,
        what: &str,
        formal: &Global,
        value: ValueRef,
        help: &str,
    ) -> Result<Option<Global>> {
        let (program, name) = (self.program, &self.program.value(value).name);
        let Some(global) = self.globals.of.get(&value) else {
            if self.held(value).is_none() {
                return Ok(None);
            }
            let message = format!("{what} is held by a mesh, and '{name}' is not");
            let help = "declare it with a 'mesh' and an 'sbp'";
            return Err(program.error(span, message).help(help));
        };
        let (held, given) = (&formal.sharding, &global.sharding);
        if held != given {
            let message = format!("{what} is held as {held:?}, and '{name}' as {given:?}");
            return Err(program.error(span, message).help(help));
        }
        let (spec, given) = (&formal.spec, &global.spec);
        let mistake = || program.error(span, format!("{what} is {spec}, and '{name}' is {given}"));
        if (spec.dtype, spec.shape()) != (given.dtype, given.shape()) {
            return Err(mistake());
        }
        if spec.layout.strides() != given.layout.strides() {
            return Err(mistake().help("copy it first, with the op contiguous"));
        }
        Ok(Some(global.clone()))
    }
}
