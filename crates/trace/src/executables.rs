//! Reads a program and its executables, which share the tensors of the trace.

use std::collections::HashMap;

use millstream_types::layout::contiguous_strides;
use millstream_types::{ByteCount, Error, Layout, TensorSpec};

use crate::error::Result;
use crate::json::{At, Entries, Key, Raw, Reader};
use crate::meshes::{self, Meshes};
use crate::program::{Block, Executable, ExecutableRef, Input, Returned, Value, ValueRef};
use crate::raw_form::{ExecutableForm, InputForm, OutputForm, ReturnedForm, StatementForm};
use crate::schema_types::{Float, Map};
use crate::statements::Statements;
use crate::streams::StreamNames;
use crate::symbol_table::SymbolTable;

/// The declarations that the program and its executables refer to.
pub(crate) struct Table<'r, 'a> {
    pub(crate) reader: &'r Reader<'a>,
    pub(crate) streams: &'r StreamNames,
    pub(crate) meshes: &'r Meshes,
    /// The number of leading values that are the tensors of the trace.
    pub(crate) initial: usize,
    pub(crate) values: Vec<Value>,
}

/// The executables in order and by name.
pub(crate) struct Executables {
    pub(crate) list: Vec<Executable>,
    pub(crate) by_name: HashMap<String, ExecutableRef>,
    /// The executables that are bound to each tensor of the trace.
    pub(crate) users: HashMap<ValueRef, Vec<ExecutableRef>>,
}

impl<'a> Table<'_, 'a> {
    fn tensors(&self) -> HashMap<String, ValueRef> {
        let tensors = self.values[..self.initial].iter().zip(0..);
        tensors.map(|(v, n)| (v.name.clone(), ValueRef(n))).collect()
    }

    /// Reads the executables.
    pub(crate) fn executables(
        &mut self,
        raw: Option<Raw<'a, Map<ExecutableForm<'a>>>>,
    ) -> Result<Executables> {
        let tensors = self.tensors();
        let (list, by_name, users) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut all = Executables { list, by_name, users };
        for (key, raw) in self.reader.map(raw, "executables, by name")? {
            let made = self.executable(&tensors, &key, raw)?;
            let executable = ExecutableRef(all.list.len() as u32);
            for value in &made.bound {
                all.users.entry(*value).or_default().push(executable);
            }
            all.by_name.insert(key.take().into_owned(), executable);
            all.list.push(made);
        }
        Ok(all)
    }

    fn executable(
        &mut self,
        tensors: &HashMap<String, ValueRef>,
        key: &Key<'a>,
        raw: Raw<'a, ExecutableForm<'a>>,
    ) -> Result<Executable> {
        let reader = self.reader;
        let form = reader.read(raw)?;
        let mut symbols = SymbolTable::new(tensors, &mut self.values, true);
        let mut inputs = Vec::new();
        for (key, raw) in reader.map(form.inputs, "inputs, by name")? {
            let value = symbols.input(&key, reader.span(key.text));
            let input = input(reader, self.meshes, key.take().into_owned(), value, raw);
            inputs.extend(reader.recover(input)?);
        }
        let scalar = |(key, raw): (Key<'a>, Raw<'a, Float>)| {
            Ok((key.take().into_owned(), reader.read(raw)?.0))
        };
        let scalars = reader.map(form.scalars, "numbers, by scalar")?.into_iter().map(scalar);
        let scalars = scalars.collect::<Result<Vec<(String, f64)>>>()?;
        let names = scalars.iter().map(|(name, _)| name.clone()).collect();
        let mut statements =
            Statements::new(reader, self.streams, self.meshes, symbols, None, names);
        let block = statements.block(form.program)?;
        let mut symbols = statements.symbols;
        let mut results = Vec::new();
        for (key, raw) in reader.map(form.outputs, "outputs, by name")? {
            let found = symbols.find(&key);
            let value = found.map_err(|e| e.at(|message| reader.error(key.text, message)))?;
            let ReturnedForm { dtype, shape, device, .. } = reader.read(raw)?;
            results.push(Returned {
                name: key.to_string(),
                value,
                dtype: dtype.map(At::take),
                shape: shape.map(At::take),
                device: device.map(At::take),
                span: reader.span(key.text),
            });
        }
        let mut remat = Vec::new();
        for (key, raw) in reader.map(form.remat, "bytes, by device")? {
            let device = key.parse().map_err(|e: Error| reader.error(key.text, e.to_string()))?;
            let ByteCount(bytes) = reader.read(raw.cast())?;
            remat.push((device, bytes));
        }
        let (name, span) = (key.to_string(), reader.span(key.text));
        let bound = symbols.into_uses();
        Ok(Executable { name, inputs, scalars, block, results, bound, remat, span })
    }

    /// Reads the program; returns it with the tensor of each output.
    pub(crate) fn program(
        &mut self,
        raw: Raw<'a, Vec<StatementForm<'a>>>,
        executables: &Executables,
        outputs: &Entries<'a, OutputForm<'a>>,
    ) -> Result<(Block, Vec<Option<ValueRef>>)> {
        let tensors = self.tensors();
        let symbols = SymbolTable::new(&tensors, &mut self.values, false);
        let all = Some(executables);
        let (streams, meshes) = (self.streams, self.meshes);
        let mut statements =
            Statements::new(self.reader, streams, meshes, symbols, all, Vec::new());
        let block = statements.block(raw)?;
        let mut symbols = statements.symbols;
        let finals = outputs.iter().map(|(key, _)| {
            let found = symbols.find(key);
            let found = found.map_err(|e| e.at(|why| self.reader.error(key.text, why)));
            self.reader.recover(found)
        });
        let finals = finals.collect::<Result<_>>()?;
        Ok((block, finals))
    }
}

/// Reads the declaration of an input.
fn input<'a>(
    reader: &Reader<'a>,
    meshes: &Meshes,
    name: String,
    value: ValueRef,
    raw: Raw<'a, InputForm<'a>>,
) -> Result<Input> {
    let InputForm { dtype, shape, strides, device, mesh, sbp, .. } = reader.read(raw)?;
    let held = meshes.held(reader, mesh, sbp)?;
    let given = strides.as_ref().map(|strides| strides.text);
    meshes::check_dense(reader, held.as_ref(), given)?;
    let text = given.unwrap_or(shape.text);
    let strides = strides.map_or_else(|| contiguous_strides(&shape), |strides| Ok(strides.take()));
    let spec = strides
        .and_then(|strides| Layout::strided(&shape, &strides, 0))
        .and_then(|layout| TensorSpec::new(*dtype, layout))
        .map_err(|e| reader.wrap(text, &e))?;
    Ok(Input { name, value, spec, device: device.map(At::take), held })
}
