//! Launches of jobs without a device: their operands and their private memory, as a machine has
//! them.

use millstream_instructions::builder::{Launch, LaunchOperand, SectionId};
use millstream_instructions::passes::{self, CoreCosts, Outputs, PassOptions, arena_bytes};
use millstream_instructions::{Builder, InstructionList, Outcome, TensorRef};
use millstream_types::{Access, DType, DeviceId, ListId, Origin, Result, StreamId, TensorSpec};
use millstream_vm::USUAL_PASSES;

use crate::dry_run::Log;
use crate::options::RunOptions;

/// A launch: where it stands in the program.
pub(crate) struct Launching<'a> {
    pub(crate) stream: StreamId,
    pub(crate) list: ListId,
    pub(crate) section: Option<SectionId>,
    pub(crate) origin: &'a Origin,
}

/// The launches of a job.
pub(crate) struct JobLaunches {
    /// The tensors of the trace that it uses, with its accesses.
    operands: Vec<(Option<TensorRef>, Access)>,
    /// Its list, if it is known.
    list: Option<InstructionList>,
    /// Its private memory, by device.
    memory: Vec<(DeviceId, TensorSpec)>,
    /// The tensors of that memory, after the first launch.
    instance: Vec<TensorRef>,
}

impl JobLaunches {
    /// Returns what launches of a job need, which uses these tensors. The job is compiled with the
    /// usual passes.
    pub(crate) fn new(
        used: Vec<Option<TensorRef>>,
        list: Option<&InstructionList>,
        options: &RunOptions,
    ) -> Result<JobLaunches> {
        let Some(list) = list else {
            let operands = used.into_iter().map(|tensor| (tensor, Access::ReadWrite)).collect();
            let (memory, instance) = (Vec::new(), Vec::new());
            return Ok(JobLaunches { operands, list: None, memory, instance });
        };
        let machine = &options.machine;
        let (costs, outputs) = (CoreCosts::default(), Outputs::All);
        let options = PassOptions {
            ops: &machine.ops,
            standard_kernels: &|op| machine.kernels.is_standard(op),
            costs: &costs,
            streams: machine.host_workers,
            outputs: &outputs,
        };
        let list = passes::run(list, USUAL_PASSES, &options, |_, _| Ok(()))?;
        let accesses = list.external_uses().into_iter().map(|a| a.unwrap_or(Access::Read));
        let bytes = list.arenas.iter().zip(arena_bytes(&list));
        let memory = bytes.filter(|(_, bytes)| *bytes > 0).map(|(device, bytes)| {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            Ok((device.clone(), TensorSpec::contiguous(DType::U8, &[bytes])?))
        });
        Ok(JobLaunches {
            operands: used.into_iter().zip(accesses).collect(),
            memory: memory.collect::<Result<_>>()?,
            list: Some(list),
            instance: Vec::new(),
        })
    }

    /// Launches the job.
    pub(crate) fn launch(
        &mut self,
        builder: &mut Builder,
        log: &mut Log,
        launching: Launching<'_>,
    ) -> Result<()> {
        let Launching { stream, list, section, origin } = launching;
        let JobLaunches { operands, list: of, memory, instance } = self;
        if let (Some(recorder), Some(of)) = (&mut log.0, of) {
            recorder.executable(list, of);
        }
        let given = |(tensor, access): &(Option<TensorRef>, Access)| {
            Some(LaunchOperand::Given((*tensor)?, *access))
        };
        let mut all: Vec<_> = operands.iter().filter_map(given).collect();
        let formals = all.len();
        if instance.is_empty() {
            let fresh = memory
                .iter()
                .map(|(device, spec)| LaunchOperand::Fresh(device, spec, spec.span_bytes() as u64));
            all.extend(fresh);
        } else {
            all.extend(instance.iter().map(|t| LaunchOperand::Given(*t, Access::Write)));
        }
        let launch = Launch { stream, list, operands: &all, section, origin };
        loop {
            match builder.launch(log, &launch)? {
                Outcome::Done((_, tensors)) => {
                    *instance = tensors[formals..].to_vec();
                    return Ok(());
                }
                Outcome::Need(need) => builder.assume(log, need, origin)?,
            }
        }
    }
}
