//! The calls that stand for one on tensors of a mesh: those of a composite on whole tensors, and
//! those of one rank on its parts.

use millstream_ops::formula::{Emitter, Symbol};
use millstream_ops::{CallSpec, OutputSpec, collective};
use millstream_types::{Attrs, Error, Mesh, Result, TensorSpec};

use super::global::{Global, Site};
use super::part::transfers;
use super::walk::Walk;
use crate::program::{Action, Call, Statement, StreamRef, Value, ValueRef};

/// Makes the calls of a composite on whole tensors.
pub(super) struct WholeCalls<'w, 'p> {
    pub(super) walk: &'w mut Walk<'p>,
    pub(super) site: Site<'w>,
    pub(super) mesh: &'w Mesh,
    pub(super) symbols: Vec<Global>,
}

impl Emitter for WholeCalls<'_, '_> {
    fn spec(&self, tensor: Symbol) -> &TensorSpec {
        &self.symbols[tensor.0].spec
    }

    fn call(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Vec<Symbol>> {
        let given: Vec<Global> = inputs.iter().map(|x| self.symbols[x.0].clone()).collect();
        let made = self.walk.made(self.site, self.mesh, op, &given, &attrs, None)?;
        let first = self.symbols.len();
        self.symbols.extend(made);
        Ok((first..self.symbols.len()).map(Symbol).collect())
    }
}

/// Makes the calls of this rank on its parts, as statements.
pub(super) struct PartCalls<'w, 'p> {
    pub(super) walk: &'w mut Walk<'p>,
    pub(super) site: Site<'w>,
    pub(super) symbols: Vec<(ValueRef, TensorSpec)>,
}

impl Emitter for PartCalls<'_, '_> {
    fn spec(&self, tensor: Symbol) -> &TensorSpec {
        &self.symbols[tensor.0].1
    }

    fn call(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Vec<Symbol>> {
        let ops = self.walk.ops;
        let known = ops
            .get(ops.id(op)?)
            .ok_or_else(|| Error::Internal { message: format!("no schema of '{op}'") })?;
        let specs: Vec<TensorSpec> = inputs.iter().map(|x| self.symbols[x.0].1.clone()).collect();
        let signature = known.check(CallSpec { inputs: &specs, attrs: &attrs })?;
        let (mut made, mut results) = (Vec::new(), Vec::new());
        for output in &signature.outputs {
            let spec = match output {
                OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => spec.clone(),
                OutputSpec::View { of, layout, dtype } => {
                    TensorSpec::new(dtype.unwrap_or(specs[*of].dtype), layout.clone())?
                }
                OutputSpec::Same(of) => {
                    // The name of the operand stands for it.
                    made.push(inputs[*of]);
                    if signature.outputs.len() > 1 {
                        let alias = self.walk.unnamed(self.site.call);
                        self.walk.aliases.insert(alias);
                        results.push(alias);
                    }
                    continue;
                }
            };
            let value = self.walk.unnamed(self.site.call);
            results.push(value);
            self.symbols.push((value, spec));
            made.push(Symbol(self.symbols.len() - 1));
        }
        let is_collective = collective::is(op);
        self.walk.part.transfers |= is_collective;
        let stream: Option<StreamRef> = match is_collective {
            true => Some(transfers(self.walk.program)),
            false => self.site.call.stream,
        };
        let Site { span, call } = self.site;
        let operands = inputs.iter().map(|x| self.symbols[x.0].0).collect();
        let priority = call.priority;
        let own = Call::new(op, call.op_span, operands, results);
        let own = Call { attrs, stream, priority, ..own };
        self.walk.part.statements.push(Statement { span, action: Action::Call(Box::new(own)) });
        Ok(made)
    }
}

impl Walk<'_> {
    /// Begins a value that the program does not name.
    fn unnamed(&mut self, call: &Call) -> ValueRef {
        let unnamed = &mut self.part.unnamed;
        let name = format!("{} part {}", call.op, unnamed.len());
        unnamed.push(Value { name, span: call.op_span, recorded: None });
        self.unnamed_ref(self.part.unnamed.len() - 1)
    }
}
