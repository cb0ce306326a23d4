//! Reading a program and its jobs, which share the tensors of the trace.

use std::collections::HashMap;

use crate::error::Result;
use crate::form::{JobForm, StatementForm};
use crate::json::{At, Entries, Reader};
use crate::names::Names;
use crate::program::{Block, Job, JobRef, Value, ValueRef};
use crate::statements::Statements;
use crate::streams::StreamNames;
use crate::words::Map;

/// What the program and its jobs are read against.
pub(crate) struct Table<'r, 'a> {
    pub(crate) reader: &'r Reader<'a>,
    pub(crate) streams: &'r StreamNames,
    /// How many of the values are the tensors of the trace.
    pub(crate) initial: usize,
    pub(crate) values: Vec<Value>,
}

/// The jobs by number and by name.
pub(crate) struct Jobs {
    pub(crate) list: Vec<Job>,
    pub(crate) by_name: HashMap<String, JobRef>,
    /// For each tensor of the trace the jobs that use it.
    pub(crate) users: HashMap<ValueRef, Vec<JobRef>>,
}

impl<'a> Table<'_, 'a> {
    fn tensors(&self) -> HashMap<String, ValueRef> {
        let tensors = self.values[..self.initial].iter().zip(0..);
        tensors.map(|(v, n)| (v.name.clone(), ValueRef(n))).collect()
    }

    pub(crate) fn jobs(&mut self, at: Option<At<'a, Map<JobForm<'a>>>>) -> Result<Jobs> {
        let tensors = self.tensors();
        let mut jobs = Jobs { list: Vec::new(), by_name: HashMap::new(), users: HashMap::new() };
        for (key, at) in self.reader.optional_entries(at, "jobs, by name")? {
            let at = at.cast::<JobForm<'a>>();
            let form = self.reader.object(at, "a job")?;
            self.reader.remark(form.note)?;
            let program = self.reader.need(form.program, at, "program", "a job")?;
            let names = Names::new(&tensors, &mut self.values, true);
            let mut statements = Statements::new(self.reader, self.streams, names, None);
            let block = statements.block(program)?;
            let uses = statements.into_names().into_uses();
            let job = JobRef(jobs.list.len() as u32);
            for value in &uses {
                jobs.users.entry(*value).or_default().push(job);
            }
            jobs.by_name.insert(key.name.to_string(), job);
            let place = self.reader.key_place(&key);
            jobs.list.push(Job { name: key.name.into_owned(), block, uses, place });
        }
        Ok(jobs)
    }

    /// The program, and the tensor that each output names.
    pub(crate) fn program(
        &mut self,
        at: At<'a, Vec<StatementForm<'a>>>,
        jobs: &Jobs,
        outputs: &Entries<'a, ()>,
    ) -> Result<(Block, Vec<Option<ValueRef>>)> {
        let tensors = self.tensors();
        let names = Names::new(&tensors, &mut self.values, false);
        let mut statements = Statements::new(self.reader, self.streams, names, Some(jobs));
        let block = statements.block(at)?;
        let mut names = statements.into_names();
        let ends = outputs.iter().map(|(key, _)| {
            let fault = names.find(&key.name);
            fault.map(Some).map_err(|f| f.error(self.reader.key_error(key, f.message())))
        });
        let ends = ends.collect::<Result<_>>()?;
        Ok((block, ends))
    }
}
