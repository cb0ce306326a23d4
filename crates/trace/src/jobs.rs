//! Reads a program and its jobs, which share the tensors of the trace.

use std::collections::HashMap;

use crate::error::Result;
use crate::json::{Entries, Raw, Reader};
use crate::program::{Block, Job, JobRef, Value, ValueRef};
use crate::raw_form::{JobForm, StatementForm};
use crate::schema_types::Map;
use crate::statements::Statements;
use crate::streams::StreamNames;
use crate::symbol_table::SymbolTable;

/// The declarations that the program and its jobs refer to.
pub(crate) struct Table<'r, 'a> {
    pub(crate) reader: &'r Reader<'a>,
    pub(crate) streams: &'r StreamNames,
    /// The number of leading values that are the tensors of the trace.
    pub(crate) initial: usize,
    pub(crate) values: Vec<Value>,
}

/// The jobs in order and by name.
pub(crate) struct Jobs {
    pub(crate) list: Vec<Job>,
    pub(crate) by_name: HashMap<String, JobRef>,
    /// The jobs that use each tensor of the trace.
    pub(crate) users: HashMap<ValueRef, Vec<JobRef>>,
}

impl<'a> Table<'_, 'a> {
    fn tensors(&self) -> HashMap<String, ValueRef> {
        let tensors = self.values[..self.initial].iter().zip(0..);
        tensors.map(|(v, n)| (v.name.clone(), ValueRef(n))).collect()
    }

    /// Reads the jobs.
    pub(crate) fn jobs(&mut self, raw: Option<Raw<'a, Map<JobForm<'a>>>>) -> Result<Jobs> {
        let tensors = self.tensors();
        let mut jobs = Jobs { list: Vec::new(), by_name: HashMap::new(), users: HashMap::new() };
        for (key, raw) in self.reader.optional_entries(raw, "jobs, by name")? {
            let raw = raw.cast::<JobForm<'a>>();
            let form = self.reader.object(raw, "a job")?;
            self.reader.check_note(form.note)?;
            let program = self.reader.require(form.program, raw, "program", "a job")?;
            let symbols = SymbolTable::new(&tensors, &mut self.values, true);
            let mut statements = Statements::new(self.reader, self.streams, symbols, None);
            let block = statements.block(program)?;
            let uses = statements.into_symbols().into_uses();
            let job = JobRef(jobs.list.len() as u32);
            for value in &uses {
                jobs.users.entry(*value).or_default().push(job);
            }
            jobs.by_name.insert(key.name.to_string(), job);
            let span = self.reader.key_span(&key);
            jobs.list.push(Job { name: key.name.into_owned(), block, uses, span });
        }
        Ok(jobs)
    }

    /// Reads the program; returns it with the tensor of each output.
    pub(crate) fn program(
        &mut self,
        raw: Raw<'a, Vec<StatementForm<'a>>>,
        jobs: &Jobs,
        outputs: &Entries<'a, ()>,
    ) -> Result<(Block, Vec<Option<ValueRef>>)> {
        let tensors = self.tensors();
        let symbols = SymbolTable::new(&tensors, &mut self.values, false);
        let mut statements = Statements::new(self.reader, self.streams, symbols, Some(jobs));
        let block = statements.block(raw)?;
        let mut symbols = statements.into_symbols();
        let finals = outputs.iter().map(|(key, _)| {
            let found = symbols.find(&key.name);
            found.map(Some).map_err(|e| e.attach_to(self.reader.key_error(key, e.message())))
        });
        let finals = finals.collect::<Result<_>>()?;
        Ok((block, finals))
    }
}
