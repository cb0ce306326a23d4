//! Statements on tensors that the ranks of a mesh hold together.
//!
//! Every rank makes them as they stand: its machine divides them. The walk knows the mesh of each
//! tensor, and refuses statements whose tensors are not on one mesh.

use millstream_types::{Mesh, Sharding, TensorSpec};

use super::walk::Walk;
use crate::error::{Result, wrap};
use crate::program::{Action, Call, Executable, Held, Launch, REDISTRIBUTE, Target, ValueRef};
use crate::source::Span;

/// A mesh, and its name in the file.
pub(super) type Named = (String, Mesh);

/// What is to be on one mesh: its name, the mesh, if it is on one, and the span to refuse.
type Member<'a> = (String, Option<&'a Named>, Span);

/// What to do about members on several meshes.
const OF_CALL: &str = "redistribute one of them to the other's mesh";
const OF_EXECUTABLE: &str = "an executable is on one mesh: redistribute before or after its launch";

impl Walk<'_> {
    /// Returns whether a call is one of a mesh, as all calls of an executable are.
    pub(super) fn is_global(&self, call: &Call) -> bool {
        let mut all = call.inputs.iter().chain(call.results.targets());
        self.within.is_some() || call.held.is_some() || all.any(|of| self.meshes.contains_key(of))
    }

    /// Keeps a call on tensors of a mesh.
    pub(super) fn global_call(&mut self, span: Span, call: &Call) -> Result<()> {
        let program = self.program;
        if let Some(placed) = &call.ranks {
            let message = "a call on tensors of a mesh is made by the ranks of the mesh";
            return Err(program.error(placed.span, message).help("leave out 'ranks'"));
        }
        // What follows from an earlier mistake is not reported again.
        if call.inputs.iter().chain(call.results.targets()).any(|value| self.is_unknown(*value)) {
            return Ok(());
        }
        let given = call.held.as_ref().and_then(|held| held.mesh.as_ref());
        let mut members =
            self.members(call.inputs.iter().chain(call.results.targets()), call.op_span);
        if call.op == REDISTRIBUTE && given.is_some() {
            members.retain(|(_, mesh, _)| mesh.is_none());
        }
        members.extend(given.map(|mesh| ("the result".to_owned(), Some(mesh), call.op_span)));
        let Some((name, mesh)) = self.one_mesh(&call.op, &members, OF_CALL)? else {
            let error = program.error(call.op_span, "a call without operands needs a 'mesh'");
            return Err(error.help("give the mesh that holds its result"));
        };
        let mut own = call.clone();
        if let Some(held) = &mut own.held {
            held.mesh = Some((name.clone(), mesh.clone()));
            held.sharding().map_err(|e| wrap(&program.source, held.span, &e))?;
        }
        let made = call.results.new_values().iter();
        self.meshes.extend(made.map(|of| (*of, (name.clone(), mesh.clone()))));
        self.push(span, Action::Call(Box::new(own)));
        Ok(())
    }

    /// Begins a tensor of a mesh. Returns its sharding.
    pub(super) fn hold(
        &mut self,
        value: ValueRef,
        spec: &TensorSpec,
        held: &Held,
    ) -> Result<Sharding> {
        let sharding = held.sharding().and_then(|sharding| {
            sharding.check(spec.dtype, spec.shape())?;
            Ok(sharding)
        });
        let sharding = sharding.map_err(|e| wrap(&self.program.source, held.span, &e))?;
        self.known_ranks(sharding.mesh(), held.span)?;
        self.meshes.extend(held.mesh.iter().map(|mesh| (value, mesh.clone())));
        Ok(sharding)
    }

    /// Returns tensors as members of a mesh, which are refused at a span.
    fn members<'v>(&self, of: impl Iterator<Item = &'v ValueRef>, at: Span) -> Vec<Member<'_>> {
        let name = |value: &ValueRef| format!("'{}'", self.program.value(*value).name);
        of.map(|value| (name(value), self.meshes.get(value), at)).collect()
    }

    /// Returns the mesh of all members; none if none has one.
    ///
    /// # Errors
    /// A member is on no mesh or another one, or the program lacks a rank of the mesh.
    fn one_mesh(&self, what: &str, members: &[Member<'_>], help: &str) -> Result<Option<Named>> {
        let on = members.iter().find_map(|(name, mesh, span)| Some((name, (*mesh)?, *span)));
        let Some((first, mesh, span)) = on else { return Ok(None) };
        for (name, of, span) in members {
            let Some((_, of)) = of else {
                let message = format!("{what}: {name} is not held by a mesh, and others are");
                let error = self.program.error(*span, message);
                return Err(error.help("declare it with a 'mesh' and an 'sbp'"));
            };
            if *of != mesh.1 {
                let message = format!("{what}: {first} on mesh {}, {name} on mesh {of}", mesh.1);
                let error = self.program.error(*span, message);
                return Err(error.help(help));
            }
        }
        self.known_ranks(&mesh.1, span).map(|()| Some(mesh.clone()))
    }

    /// Refuses a mesh with ranks that the program does not have.
    fn known_ranks(&self, mesh: &Mesh, span: Span) -> Result<()> {
        self.check_ranks(mesh.ranks(), span, |rank, count| {
            format!("mesh {mesh} names rank {rank}, and the program has {count}")
        })
    }

    /// Returns the mesh of an executable; none if that follows from an earlier mistake.
    ///
    /// # Errors
    /// It is on no mesh, on several, or an input is not held as declared.
    pub(super) fn mesh_of(&mut self, of: &Executable) -> Result<Option<Named>> {
        for input in &of.inputs {
            if let Some(held) = &input.held {
                self.hold(input.value, &input.spec, held)?;
            }
        }
        let mut members = Vec::new();
        for input in &of.inputs {
            let span = input.held.as_ref().map(|held| held.span);
            let span = span.unwrap_or_else(|| self.program.value(input.value).span);
            members.extend(self.members([input.value].iter(), span));
        }
        if of.bound.iter().any(|value| self.is_unknown(*value)) {
            return Ok(None);
        }
        members.extend(self.members(of.bound.iter(), of.span));
        for statement in &of.block.statements {
            if let Action::Call(call) = &statement.action
                && let Some(Held { mesh: Some(mesh), span, .. }) = &call.held
            {
                members.push((format!("the result of {}", call.op), Some(mesh), *span));
            }
        }
        let Some(mesh) = self.one_mesh(&format!("'{}'", of.name), &members, OF_EXECUTABLE)? else {
            let message = format!("'{}' names no mesh, and the program names ranks", of.name);
            let help = "give its inputs a 'mesh' and an 'sbp', or write its calls in the program";
            return Err(self.program.error(of.span, message).help(help));
        };
        Ok(Some(mesh))
    }

    /// Keeps a launch, whose tensors are all of the executable's mesh.
    pub(super) fn launch(&mut self, span: Span, launch: &Launch) -> Result<()> {
        let at = launch.executable.index();
        let targets = || launch.outputs.iter().flatten();
        let into = targets().filter_map(|target| match target {
            Target::Into(value) => Some(value),
            Target::New(_) => None,
        });
        let given = launch.inputs.iter().chain(into).chain(&launch.workspaces);
        // What follows from an earlier mistake is not reported again.
        let Some(mesh) = self.executables[at].clone() else { return Ok(()) };
        if given.clone().any(|value| self.is_unknown(*value)) {
            return Ok(());
        }
        let name = format!("'{}'", self.program.executables[at].name);
        let mut members = vec![(name.clone(), Some(&mesh), span)];
        members.extend(self.members(given, span));
        self.one_mesh(&format!("launch of {name}"), &members, OF_EXECUTABLE)?;
        self.meshes.extend(targets().filter_map(|target| match target {
            Target::New(value) => Some((*value, mesh.clone())),
            Target::Into(_) => None,
        }));
        self.push(span, Action::Launch(Box::new(launch.clone())));
        Ok(())
    }
}
