//! The walk over one list: the content of each storage, and the side effects.

use millstream_instructions::{Accesses, Body, InstructionList, Operand};
use millstream_ops::batch_norm::again;
use millstream_ops::fused::{FUSED, Program};
use millstream_ops::{collective, fused};
use millstream_types::{Access, Attrs, OpId, Point, StreamId, TensorId, TensorSpec, WorkKind};
use rustc_hash::FxHashMap;

use crate::same::values::{Node, Side, Use, Value, Values};

/// An instruction with a side effect.
#[derive(Clone, Debug)]
pub(crate) struct SideEffect {
    /// What it is, and which one of its kind. Each of a list differs.
    pub(crate) name: String,
    /// What it does, to which values.
    pub(crate) value: Value,
    pub(crate) at: Point,
    pub(crate) index: usize,
}

/// A list's side effects, and the contents of its externals at its end.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) side_effects: Vec<SideEffect>,
    /// By the order of the externals.
    pub(crate) finals: Vec<Value>,
}

struct Storage {
    content: Value,
    bytes: u64,
}

struct Reader<'a> {
    list: &'a InstructionList,
    side: Side,
    values: &'a mut Values,
    storages: Vec<Storage>,
    tensors: FxHashMap<TensorId, (usize, TensorSpec)>,
    /// How many side effects of each name there were.
    counts: FxHashMap<String, usize>,
    reading: Reading,
}

/// Reads a list.
///
/// # Errors
/// The index of an instruction that names what the list does not have, with the reason.
pub(crate) fn read(
    list: &InstructionList,
    side: Side,
    values: &mut Values,
) -> Result<Reading, (usize, String)> {
    read_after(list, side, values, &FxHashMap::default())
}

/// Reads a list whose externals of these names begin with these contents.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_after(
    list: &InstructionList,
    side: Side,
    values: &mut Values,
    contents: &FxHashMap<String, Value>,
) -> Result<Reading, (usize, String)> {
    let mut reader = Reader {
        list,
        side,
        values,
        storages: Vec::new(),
        tensors: FxHashMap::default(),
        counts: FxHashMap::default(),
        reading: Reading::default(),
    };
    for external in &list.externals {
        let node = Node::External(external.name.clone());
        let first = || reader.values.number(node, side, None);
        let content = contents.get(&external.name).copied().unwrap_or_else(first);
        let storage = reader.storages.len();
        reader.storages.push(Storage { content, bytes: external.bytes });
        reader.tensors.insert(external.tensor, (storage, external.spec.clone()));
    }
    for (index, instruction) in list.instructions.iter().enumerate() {
        reader.instruction(index, &instruction.body).map_err(|reason| (index, reason))?;
    }
    let externals = reader.storages.iter().take(list.externals.len());
    reader.reading.finals = externals.map(|s| s.content).collect();
    Ok(reader.reading)
}

impl Reader<'_> {
    fn number(&mut self, node: Node, index: usize) -> Value {
        self.values.number(node, self.side, Some(index))
    }

    fn tensor(&self, tensor: TensorId) -> Result<(usize, TensorSpec), String> {
        let found = self.tensors.get(&tensor).cloned();
        found.ok_or_else(|| format!("{tensor} never began"))
    }

    /// Returns the elements of a tensor.
    fn content(&mut self, tensor: TensorId, index: usize) -> Result<Value, String> {
        let (storage, spec) = self.tensor(tensor)?;
        let content = self.storages[storage].content;
        if let Node::Stored(value, whole) = self.values.node(content)
            && *whole == spec
        {
            return Ok(*value);
        }
        Ok(self.number(Node::Part(content, spec), index))
    }

    /// Returns the operation of these operands, and writes its results.
    fn operation(
        &mut self,
        name: String,
        operands: &[Operand],
        index: usize,
    ) -> Result<Value, String> {
        let operation = self.number_of(name, operands, index)?;
        self.results(operation, operands, index)?;
        Ok(operation)
    }

    /// Returns the operation of these operands.
    fn number_of(
        &mut self,
        name: String,
        operands: &[Operand],
        index: usize,
    ) -> Result<Value, String> {
        let mut uses = Vec::new();
        for &Operand { tensor, access } in operands {
            let reads = match access {
                Access::Write => None,
                Access::Read | Access::ReadWrite => Some(self.content(tensor, index)?),
            };
            uses.push(Use { access, reads, spec: self.tensor(tensor)?.1 });
        }
        Ok(self.number(Node::Operation { name, uses }, index))
    }

    /// Writes the results of an operation of these operands.
    fn results(
        &mut self,
        operation: Value,
        operands: &[Operand],
        index: usize,
    ) -> Result<(), String> {
        for (k, operand) in operands.iter().enumerate().filter(|(_, o)| o.access.writes()) {
            let result = self.number(Node::Result(operation, k), index);
            self.write(operand.tensor, result, index)?;
        }
        Ok(())
    }

    fn write(&mut self, tensor: TensorId, value: Value, index: usize) -> Result<(), String> {
        let (storage, spec) = self.tensor(tensor)?;
        let Storage { content, bytes } = self.storages[storage];
        let size = spec.dtype.size() as u64;
        let is_whole = bytes % size == 0 && spec.layout.covers((bytes / size) as usize);
        let node = match is_whole {
            true => Node::Stored(value, spec),
            false => Node::Overlay { content, part: value, spec },
        };
        self.storages[storage].content = self.number(node, index);
        Ok(())
    }

    /// Adds a side effect: the next one of this name.
    fn side_effect(&mut self, name: String, value: Value, at: Point, index: usize) {
        let count = self.counts.entry(name.clone()).or_insert(0);
        *count += 1;
        let name = format!("{name}, number {count}");
        self.reading.side_effects.push(SideEffect { name, value, at, index });
    }

    fn key(&self, stream: StreamId) -> Result<String, String> {
        let decl = self.list.streams.get(stream.index());
        decl.map(|d| d.key.to_string()).ok_or_else(|| format!("{stream} is not declared"))
    }

    fn instruction(&mut self, index: usize, body: &Body) -> Result<(), String> {
        if let Some((tensor, spec)) = body.begins() {
            let storage = match body.view_of() {
                Some(of) => self.tensor(of)?.0,
                None => {
                    let content = self.number(Node::Undefined, index);
                    let bytes = body.placement().map_or(0, |p| p.size);
                    self.storages.push(Storage { content, bytes });
                    self.storages.len() - 1
                }
            };
            self.tensors.insert(tensor, (storage, spec.clone()));
        }
        let Some(at) = body.at() else { return Ok(()) };
        if let Body::OpCall { op, operands, attrs, .. } = body {
            self.call(index, at, *op, operands, attrs.as_deref())?;
        } else if body.kind().has_side_effect() {
            let kind = body.kind().name();
            let on_stream =
                |name: &str| Ok::<_, String>(format!("{name} on {}", self.key(at.stream)?));
            let (name, effect) = match body {
                Body::AccessBlobByCallback { callback, .. } => {
                    let name = format!("{kind} {callback}");
                    (name.clone(), name)
                }
                Body::SyncRead { into, .. } => (kind.to_owned(), format!("{kind} into {into}")),
                Body::LazyJobLauncher { list, attrs, .. } => {
                    let name = operation_name(&format!("{kind} {list}"), attrs.as_deref());
                    let effect = on_stream(&name)?;
                    (name, effect)
                }
                _ => (kind.to_owned(), on_stream(kind)?),
            };
            let uses = body.operands().iter().map(|o| match body.kind().accesses() {
                Accesses::Reads | Accesses::Holds => Operand { access: Access::Read, ..*o },
                Accesses::Stated | Accesses::Nothing => *o,
            });
            let value = self.operation(name, &uses.collect::<Vec<_>>(), index)?;
            self.side_effect(effect, value, at, index);
        }
        Ok(())
    }

    fn call(
        &mut self,
        index: usize,
        at: Point,
        op: OpId,
        operands: &[Operand],
        attrs: Option<&Attrs>,
    ) -> Result<(), String> {
        let op = self.list.ops.get(op).ok_or_else(|| format!("{op} is not declared"))?;
        let work = self.list.streams.get(at.stream.index()).map(|d| d.work);
        let is_collective =
            collective::is(op) || work.is_some_and(|w| w.contains(WorkKind::Collective));
        if op == FUSED {
            return self.fused(operands, attrs, index);
        }
        if let Some((left_out, again)) = again(op, attrs.unwrap_or(&Attrs::new()), operands.len()) {
            // Its new results are those of the call that leaves the updated operands out, so that
            // such a call makes them again.
            let is_kept = |k: &usize| !left_out.contains(k);
            let kept: Vec<Operand> =
                (0..operands.len()).filter(is_kept).map(|k| operands[k]).collect();
            let updates = self.number_of(operation_name(op, attrs), operands, index)?;
            let makes = self.number_of(operation_name(op, Some(&again)), &kept, index)?;
            self.results(makes, &kept, index)?;
            for k in left_out {
                let result = self.number(Node::Result(updates, k), index);
                self.write(operands[k].tensor, result, index)?;
            }
            return Ok(());
        }
        let value = self.operation(operation_name(op, attrs), operands, index)?;
        if is_collective {
            let name = format!("{op} on {}", self.key(at.stream)?);
            self.side_effect(name, value, at, index);
        } else if operands.iter().all(|o| !o.access.writes()) {
            // Two calls of the same values may be swapped. Their places tell which is which.
            let origin = &self.list.instructions[index].origin;
            self.side_effect(format!("{op} from {origin}"), value, at, index);
        }
        Ok(())
    }

    /// Reads a call of the op `fused` as the calls of its steps.
    fn fused(
        &mut self,
        operands: &[Operand],
        attrs: Option<&Attrs>,
        index: usize,
    ) -> Result<(), String> {
        let program = Program::of(attrs.unwrap_or(&Attrs::new())).map_err(|e| e.to_string())?;
        let Some((output, inputs)) = operands.split_last() else {
            return Err(format!("{FUSED} has no result"));
        };
        let mut values = Vec::new();
        let mut specs = Vec::new();
        for input in inputs {
            values.push(self.content(input.tensor, index)?);
            specs.push(self.tensor(input.tensor)?.1);
        }
        let results = program.infer(&specs).map_err(|e| e.to_string())?;
        let mut made: Vec<Value> = Vec::new();
        for (step, result) in program.steps().iter().zip(&results) {
            let operand = |value: &fused::Value| match *value {
                fused::Value::Input(k) => (values[k], specs[k].clone()),
                fused::Value::Step(k) => (made[k], results[k].clone()),
            };
            let read = |(value, spec)| Use { access: Access::Read, reads: Some(value), spec };
            let mut uses: Vec<Use> = step.operands.iter().map(operand).map(read).collect();
            let output = uses.len();
            uses.push(Use { access: Access::Write, reads: None, spec: result.clone() });
            let name = operation_name(&step.op, Some(&step.attrs));
            let operation = self.number(Node::Operation { name, uses }, index);
            made.push(self.number(Node::Result(operation, output), index));
        }
        match made.last() {
            Some(&last) => self.write(output.tensor, last, index),
            None => Err(format!("{FUSED} has no step")),
        }
    }
}

/// Returns the name of an operation: the op with its arguments.
fn operation_name(op: &str, attrs: Option<&Attrs>) -> String {
    let attrs = attrs.into_iter().flat_map(Attrs::iter);
    attrs.fold(op.to_owned(), |name, (attr, value)| format!("{name} {attr:?}={value}"))
}
