//! Reads a program and its executables, which share the tensors of the trace.

use std::collections::HashMap;

use millstream_types::layout::contiguous_strides;
use millstream_types::{ByteCount, Error, Layout, TensorSpec};

use crate::attrs::float;
use crate::error::Result;
use crate::json::{Entries, Key, Raw, Reader};
use crate::meshes::{self, Meshes};
use crate::program::{Block, Executable, ExecutableRef, Input, Returned, Value, ValueRef};
use crate::raw_form::{ExecutableForm, InputForm, ReturnedForm, StatementForm};
use crate::schema_types::{Float, Map};
use crate::statements::Statements;
use crate::streams::StreamNames;
use crate::symbol_table::SymbolTable;
use crate::tensors::lengths;

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
        for (key, raw) in self.reader.optional_entries(raw, "executables, by name")? {
            let made = self.executable(&tensors, &key, raw.cast())?;
            let executable = ExecutableRef(all.list.len() as u32);
            for value in &made.bound {
                all.users.entry(*value).or_default().push(executable);
            }
            all.by_name.insert(key.name.into_owned(), executable);
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
        let form = reader.object(raw, "an executable")?;
        let program = reader.require(form.program, raw, "program", "an executable")?;
        let mut symbols = SymbolTable::new(tensors, &mut self.values, true);
        let mut inputs = Vec::new();
        for (key, raw) in reader.optional_entries(form.inputs, "inputs, by name")? {
            let value = symbols.input(&key.name, reader.key_span(&key));
            let input = input(reader, self.meshes, key.name.into_owned(), value, raw.cast());
            inputs.extend(reader.recover(input)?);
        }
        let scalars = scalars(reader, form.scalars)?;
        let names = scalars.iter().map(|(name, _)| name.clone()).collect();
        let mut statements =
            Statements::new(reader, self.streams, self.meshes, symbols, None, names);
        let block = statements.block(program)?;
        let mut symbols = statements.into_symbols();
        let mut results = Vec::new();
        for (key, raw) in reader.optional_entries(form.outputs, "outputs, by name")? {
            let found = symbols.find(&key.name);
            let value = found.map_err(|e| e.at(|message| reader.key_error(&key, message)))?;
            let form = reader.object(raw.cast::<ReturnedForm<'a>>(), "an output")?;
            let device = form.device.map(|d| reader.parse(d, "a device such as cpu:0"));
            results.push(Returned {
                name: key.name.to_string(),
                value,
                dtype: form.dtype.map(|d| reader.parse(d, "a dtype")).transpose()?,
                shape: form.shape.map(|s| lengths(reader, s, "a shape")).transpose()?,
                device: device.transpose()?,
                span: reader.key_span(&key),
            });
        }
        let mut remat = Vec::new();
        for (key, raw) in reader.optional_entries(form.remat, "bytes, by device")? {
            let device =
                key.name.parse().map_err(|e: Error| reader.key_error(&key, e.to_string()))?;
            let ByteCount(bytes) = reader.parse(raw, "a number of bytes, as in \"512MiB\"")?;
            remat.push((device, bytes));
        }
        let (name, span) = (key.name.to_string(), reader.key_span(key));
        let bound = symbols.into_uses();
        Ok(Executable { name, inputs, scalars, block, results, bound, remat, span })
    }

    /// Reads the program; returns it with the tensor of each output.
    pub(crate) fn program(
        &mut self,
        raw: Raw<'a, Vec<StatementForm<'a>>>,
        executables: &Executables,
        outputs: &Entries<'a, ()>,
    ) -> Result<(Block, Vec<Option<ValueRef>>)> {
        let tensors = self.tensors();
        let symbols = SymbolTable::new(&tensors, &mut self.values, false);
        let all = Some(executables);
        let (streams, meshes) = (self.streams, self.meshes);
        let mut statements =
            Statements::new(self.reader, streams, meshes, symbols, all, Vec::new());
        let block = statements.block(raw)?;
        let mut symbols = statements.into_symbols();
        let finals = outputs.iter().map(|(key, _)| {
            let found = symbols.find(&key.name);
            let found = found.map_err(|e| e.at(|why| self.reader.key_error(key, why)));
            self.reader.recover(found)
        });
        let finals = finals.collect::<Result<_>>()?;
        Ok((block, finals))
    }
}

/// Reads the scalars of an executable.
fn scalars<'a>(
    reader: &Reader<'a>,
    raw: Option<Raw<'a, Map<Float>>>,
) -> Result<Vec<(String, f64)>> {
    let entries = reader.optional_entries(raw, "numbers, by scalar")?;
    let scalar = |(key, raw): (Key<'a>, Raw<'a, ()>)| {
        Ok((key.name.into_owned(), float(reader, raw.cast())?))
    };
    entries.into_iter().map(scalar).collect()
}

/// Reads the declaration of an input.
fn input<'a>(
    reader: &Reader<'a>,
    meshes: &Meshes,
    name: String,
    value: ValueRef,
    raw: Raw<'a, InputForm<'a>>,
) -> Result<Input> {
    let form = reader.object(raw, "an input")?;
    let dtype = reader.require(form.dtype, raw, "dtype", "an input")?;
    let dtype = reader.parse(dtype, "a dtype")?;
    let shape_raw = reader.require(form.shape, raw, "shape", "an input")?;
    let shape = lengths(reader, shape_raw, "a shape")?;
    let held = meshes.held(reader, form.mesh, form.sbp)?;
    meshes::check_dense(reader, held.as_ref(), form.strides.map(Raw::cast))?;
    let layout_span = form.strides.unwrap_or(shape_raw);
    let strides = match form.strides {
        Some(raw) => lengths(reader, raw, "strides")?,
        None => contiguous_strides(&shape).map_err(|e| reader.wrap(layout_span, &e))?,
    };
    let spec = Layout::strided(&shape, &strides, 0)
        .and_then(|layout| TensorSpec::new(dtype, layout))
        .map_err(|e| reader.wrap(layout_span, &e))?;
    let device = form.device.map(|d| reader.parse(d, "a device such as cpu:0")).transpose()?;
    Ok(Input { name, value, spec, device, held })
}
