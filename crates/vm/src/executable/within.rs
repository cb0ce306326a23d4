//! Launches within recorded lists.

use smallvec::SmallVec;

use millstream_instructions::builder::{Launch, LaunchOperand};
use millstream_instructions::{Body, Outcome};
use millstream_types::nearest::nearest;
use millstream_types::{Access, Error, ListId, Origin, Result, StreamType};

use crate::emission::origin;

use super::launch::moved;
use super::recorder::{RecordedTensor, Recorder};
use super::tape::{FormalKind, OutputSpec};
use super::{Executable, ExecutableInner};

impl Recorder {
    /// Launches another executable within the list, with tensors for its inputs, by name. Returns
    /// its outputs, in the order in which they were recorded. Its bound tensors are bound to this
    /// list, too; its private memory and its outputs are this list's.
    ///
    /// # Errors
    /// The executable is another machine's; an input is missing, unknown, or not what was recorded;
    /// a tensor was released or is held.
    #[track_caller]
    pub fn launch(
        &mut self,
        executable: &Executable,
        inputs: &[(&str, RecordedTensor)],
    ) -> Result<Vec<RecordedTensor>> {
        let origin = origin::caller();
        self.launch_at(executable, inputs, &origin).map_err(|e| e.at(&origin))
    }

    fn launch_at(
        &mut self,
        executable: &Executable,
        inputs: &[(&str, RecordedTensor)],
        origin: &Origin,
    ) -> Result<Vec<RecordedTensor>> {
        let inner = &executable.0;
        self.machine.own(inner.machine.shared.tables.machine, "the executable")?;
        let program = &inner.program;
        let formals = &program.formals;
        for (name, _) in inputs {
            if !formals.iter().any(|f| f.kind == FormalKind::Input && f.name == *name) {
                let names = formals.iter().filter(|f| f.kind == FormalKind::Input);
                let nearest = nearest(name, names.map(|f| f.name.as_str()));
                return Err(Error::Unknown { what: "input", name: (*name).to_owned(), nearest });
            }
        }
        let memory = inner.memory_specs()?;
        let mut operands: SmallVec<[LaunchOperand<'_>; 8]> = SmallVec::new();
        for (formal, bound) in formals.iter().zip(&inner.bound) {
            let given = inputs.iter().find(|(name, _)| *name == formal.name).map(|(_, t)| *t);
            let given = match (formal.kind, bound) {
                (FormalKind::Bound, Some(bound)) => Some(self.bind(bound)?),
                (FormalKind::Input, _) => given,
                (FormalKind::Output | FormalKind::Bound, _) => None,
            };
            let access = formal.access.unwrap_or(Access::Read);
            operands.push(match given {
                Some(tensor) => {
                    formal.check(self.builder.spec(tensor.0)?, self.builder.device(tensor.0)?)?;
                    LaunchOperand::Given(tensor.0, access)
                }
                None if formal.kind == FormalKind::Output => {
                    LaunchOperand::Fresh(&formal.device, &formal.spec, formal.bytes)
                }
                None => return Err(formal.missing()),
            });
        }
        let private = program.memory.iter().zip(&memory);
        operands.extend(private.map(|((d, bytes), s)| LaunchOperand::Fresh(d, s, *bytes)));
        let stream = self.host_stream(StreamType::LAZY_JOB_LAUNCHER)?;
        let list = self.executable(inner);
        let section = self.sections.last().copied();
        let Self { builder, sink, .. } = self;
        let launch = Launch { stream, list, operands: &operands, section, origin };
        let tensors = loop {
            match builder.launch(sink, &launch)? {
                Outcome::Done((_, tensors)) => break tensors,
                Outcome::Need(need) => builder.assume(sink, need, origin)?,
            }
        };
        let mut outputs = Vec::with_capacity(program.outputs.len());
        for OutputSpec { formal, spec, .. } in &program.outputs {
            let (declared, whole) = (&formals[*formal].spec, tensors[*formal]);
            let output = if spec == declared {
                whole
            } else {
                let actual = builder.spec(whole)?.layout.offset();
                let moved = moved(spec, declared.layout.offset(), actual)?;
                builder.view(sink, whole, moved, origin)?
            };
            outputs.push(RecordedTensor(output));
        }
        for private in &tensors[formals.len()..] {
            builder.release(sink, *private, None, origin)?;
        }
        Ok(outputs)
    }

    /// Adds an executable's list to this one. Its functions become functions of this list.
    fn executable(&mut self, inner: &ExecutableInner) -> ListId {
        let first = self.callbacks.len() as u32;
        let mut list = inner.program.list.clone();
        for instruction in &mut list.instructions {
            if let Body::AccessBlobByCallback { callback, .. } = &mut instruction.body {
                callback.0 += first;
            }
        }
        self.callbacks.extend(inner.program.callbacks.iter().cloned());
        // Each launch has an entry of its own, as its functions are numbered for it.
        let id = ListId(self.executables);
        self.executables += 1;
        self.sink.recorder.executable(id, &list);
        id
    }
}
