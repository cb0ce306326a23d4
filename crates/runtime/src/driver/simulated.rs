//! All workers on the caller's thread, each step chosen by seed among the legal ones.
//!
//! # Rules
//! 1. A step is an action of a worker, a device or the host without a look at the others in
//!    between: a worker takes one task or handles one message, a device runs one command, a host
//!    function runs. Every order of these that a threaded machine could produce, some seed
//!    produces.
//! 2. Nothing here reads a clock or starts a thread, and the log names no address. The same calls
//!    with the same seed give the same steps, byte for byte.
//! 3. The program is one thread. While it emits, as many steps pass as the seed says; while it
//!    waits, steps pass until its wait is over. If no step is left, the wait never ends: it returns
//!    an error with the state of all streams.
//! 4. A worker learns of a device's completion only from a message, and continues a blocked stream
//!    only after a message. So completions and wake-ups are as late as the seed likes, and so is
//!    the answer of a query.
//!
//! Planned faults are further steps.

use std::collections::HashMap;
use std::fmt::{self, Display, Write};
use std::sync::Arc;

use millstream_ep::sim::{CommandKind, SimControl, SimStreamId};
use millstream_stream_policy::WorkerGroup;
use millstream_types::{Error, Origin, Point, Result};

use crate::scope::cancel::Cancellation;
use crate::sync::points::Milestone;
use crate::tables::Tables;
use crate::thread_ctx::task::Task;

use super::log::{Log, Schedule};
use super::schedule::{Chooser, Step};
use super::simulated_worker::SimulatedWorker;
use super::worker_groups::WorkerGroups;

/// The configuration of a simulated run.
///
/// ```
/// # use millstream_vm::*;
/// for seed in 0..3 {
///     let simulation = Simulation { seed, ..Simulation::default() };
///     let config = MachineConfig::default().driver(DriverKind::Simulated).simulation(simulation);
///     let x = Tensor::arange(0..4, Machine::new(config)?)?;
///     assert_eq!(x.sum(..)?.item::<i64>()?, 6); // in every order
/// }
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// Chooses the order of steps.
    pub seed: u64,
    /// The simulated devices of the machine's registry, if there are any. Their commands are steps,
    /// so they have to complete by hand ([`Completion::ByHand`](millstream_ep::sim::Completion)).
    pub devices: Option<SimControl>,
    /// Whether the log is kept, and not only its hash.
    pub keep_log: bool,
    /// A cancellation, and the step before which it is cancelled, counted from 1: as by another
    /// thread.
    pub cancel: Option<(Cancellation, u64)>,
}

/// The workers, and the choice among them.
pub struct Simulated {
    workers: Vec<SimulatedWorker>,
    groups: WorkerGroups,
    /// The worker that stands for the pools of each group.
    pools: HashMap<WorkerGroup, usize>,
    devices: Option<SimControl>,
    chooser: Chooser,
    log: Log,
    /// For each stream the sequence number up to which the program has observed completion.
    observed: Vec<u64>,
    cancel: Option<(Cancellation, u64)>,
    // Kept for their memory.
    steps: Vec<Step>,
    runnable: Vec<(SimStreamId, u64, CommandKind)>,
}

impl Simulated {
    pub(super) fn new(host_workers: usize, simulation: Simulation) -> Simulated {
        Simulated {
            workers: Vec::new(),
            groups: WorkerGroups::new(host_workers),
            pools: HashMap::new(),
            devices: simulation.devices,
            chooser: Chooser::new(simulation.seed),
            log: Log::new(simulation.keep_log),
            observed: Vec::new(),
            cancel: simulation.cancel,
            steps: Vec::new(),
            runnable: Vec::new(),
        }
    }

    pub(super) fn host_worker(&mut self, tables: &Arc<Tables>, count: usize) -> Result<usize> {
        let Simulated { workers, groups, .. } = self;
        groups.host(count, |group| Ok(start(workers, tables, group)))
    }

    pub(super) fn host_worker_after(
        &mut self,
        tables: &Arc<Tables>,
        worker: usize,
        count: usize,
    ) -> Result<usize> {
        let Simulated { workers, groups, .. } = self;
        groups.host_after(worker, count, |group| Ok(start(workers, tables, group)))
    }

    pub(super) fn own_worker(&mut self, tables: &Arc<Tables>, group: WorkerGroup) -> Result<usize> {
        let Simulated { workers, groups, .. } = self;
        groups.own(group, |group| Ok(start(workers, tables, group)))
    }

    /// Returns the worker that stands for the workers of all pools of the group. Each of its steps
    /// runs one ready instruction, so that they complete in any order.
    pub(super) fn pool(&mut self, tables: &Arc<Tables>, group: WorkerGroup) -> usize {
        if let Some(&worker) = self.pools.get(&group) {
            return worker;
        }
        let worker = start(&mut self.workers, tables, group.clone());
        self.workers[worker].pools = Some(Box::default());
        self.pools.insert(group, worker);
        worker
    }

    pub(super) fn push(&mut self, worker: usize, task: Task) {
        self.workers[worker].tasks.push_back(task);
    }

    /// Returns the steps so far.
    pub fn schedule(&self) -> Schedule {
        self.log.so_far()
    }

    /// The program has emitted something: runs as many steps as the seed says.
    pub(super) fn advance(&mut self, tables: &Arc<Tables>) {
        self.chooser.emitted();
        self.run_some_steps(tables);
    }

    /// Runs as many steps as pass while the program does something else.
    pub(crate) fn run_some_steps(&mut self, tables: &Arc<Tables>) {
        while self.chooser.keeps_going() && self.step(tables) {}
    }

    /// Returns whether the program sees a point as completed: at most one step passes. A completed
    /// point may be "not yet" a few times, but once observed it stays so.
    pub(crate) fn query(&mut self, tables: &Arc<Tables>, point: Point) -> bool {
        if self.chooser.once_in(2) {
            self.step(tables);
        }
        let at = point.stream.index();
        let known = self.observed.get(at).is_some_and(|seq| *seq >= point.seq);
        if known || point.seq == 0 {
            return true;
        }
        let admits = tables.points.reached(point, Milestone::Completed) && self.chooser.once_in(2);
        if admits {
            self.note_observed(point);
        }
        self.log.note(format_args!("program asks for {point}: {admits}"));
        admits
    }

    /// Notes that the program has observed a point.
    pub(crate) fn note_observed(&mut self, point: Point) {
        let at = point.stream.index();
        if self.observed.len() <= at {
            self.observed.resize(at + 1, 0);
        }
        self.observed[at] = self.observed[at].max(point.seq);
    }

    /// Runs steps until `done`, and some more. Where no step is left, waits for other ranks, if
    /// that is wanted.
    ///
    /// # Errors
    /// No step is left, and no other rank can add one; the error has the state of all streams.
    pub(crate) fn wait(
        &mut self,
        tables: &Arc<Tables>,
        what: &dyn Display,
        waits_for_ranks: bool,
        done: impl Fn() -> bool,
    ) -> Result<()> {
        self.log.note(format_args!("program waits for {what}"));
        while !done() {
            let communicator = &tables.communicator;
            let deliveries = communicator.deliveries();
            if !self.step(tables) {
                if let Some(deliveries) = deliveries.filter(|_| waits_for_ranks) {
                    communicator.report_stall(deliveries);
                    if communicator.wait_for_delivery(deliveries) {
                        self.log.note(format_args!("another rank has acted"));
                        continue;
                    }
                }
                self.log.note(format_args!("nothing can move"));
                return Err(Error::Stuck { what: what.to_string(), state: self.state() });
            }
        }
        self.run_some_steps(tables);
        self.log.note(format_args!("program continues"));
        Ok(())
    }

    /// Lets the devices run their queues to the end. A lost device has reported that, and may still
    /// hold commands, which hold the machine.
    pub(super) fn stop(&mut self) {
        if let Some(devices) = &self.devices {
            devices.run_all();
        }
    }

    /// Takes one of the legal steps. Returns false if there is none.
    pub(crate) fn step(&mut self, tables: &Arc<Tables>) -> bool {
        if let Some((cancellation, _)) = self.cancel.take_if(|(_, at)| self.log.steps() + 1 >= *at)
        {
            self.log.note(format_args!("another thread cancels"));
            cancellation.cancel_at(Origin::Unknown);
        }
        self.steps.clear();
        for (k, worker) in self.workers.iter().enumerate() {
            if !worker.tasks.is_empty() {
                self.steps.push(Step::TakeTask(k));
            }
            if worker.inbox.has_messages() {
                self.steps.push(Step::PollInbox(k));
            }
            let ready = worker.pools.as_ref().map_or(0, |pools| pools.ready());
            self.steps.extend((0..ready).map(|which| Step::Run(k, which)));
        }
        self.runnable.clear();
        if let Some(devices) = &self.devices {
            devices.collect_runnable(&mut self.runnable);
            self.steps.extend(self.runnable.iter().map(|(stream, ..)| Step::Device(*stream)));
        }
        self.steps.extend((0..tables.host_workers.waiting()).map(Step::Host));
        if self.steps.is_empty() {
            return self.poll_all(tables);
        }
        // Polling without a notification changes nothing by itself, so it is not among the steps
        // that show that something can move.
        if self.chooser.once_in(16) {
            let in_flight =
                self.workers.iter().enumerate().filter(|(_, w)| w.worker.has_in_flight());
            self.steps.extend(in_flight.map(|(k, _)| Step::Poll(k)));
        }
        let step = self.chooser.pick(&mut self.steps);
        self.take(tables, step);
        true
    }

    fn take(&mut self, tables: &Arc<Tables>, step: Step) {
        let Simulated { workers, log, .. } = self;
        let worker = match step {
            Step::TakeTask(k) => {
                let Some(task) = workers[k].tasks.pop_front() else { return };
                log.step(format_args!("w{k} takes {}", task.name()));
                workers[k].accept(task, tables);
                k
            }
            Step::PollInbox(k) => {
                log.step(format_args!("w{k} polls its inbox"));
                workers[k].poll_inbox(tables);
                k
            }
            Step::Run(k, which) => {
                workers[k].run(which, tables, log);
                k
            }
            Step::Poll(k) => {
                log.step(format_args!("w{k} polls"));
                workers[k].worker.poll_devices();
                k
            }
            Step::Device(stream) => {
                let of = self.runnable.iter().find(|(s, ..)| *s == stream);
                let (ticket, kind) = of.map_or((0, CommandKind::Work), |(_, t, kind)| (*t, *kind));
                log.step(format_args!("{stream} runs {kind} {ticket}"));
                if let Some(Err(error)) = self.devices.as_ref().map(|d| d.step(stream)) {
                    log.note(format_args!("{error}"));
                }
                return;
            }
            Step::Host(k) => {
                log.step(format_args!("host function {k} runs"));
                tables.host_workers.run_waiting(k);
                return;
            }
        };
        workers[worker].end_step(tables, log);
    }

    /// Polls all devices, for those that progress only when polled. Returns whether one did.
    fn poll_all(&mut self, tables: &Tables) -> bool {
        for k in 0..self.workers.len() {
            if !self.workers[k].worker.has_in_flight() {
                continue;
            }
            let moved = self.workers[k].worker.poll_devices();
            // One worker's poll may produce a message for another.
            if moved || self.workers.iter().any(|w| w.inbox.has_messages()) {
                self.log.step(format_args!("w{k} polls"));
                self.workers[k].end_step(tables, &mut self.log);
                return true;
            }
        }
        false
    }

    /// Describes the waits of all unfinished streams.
    fn state(&self) -> String {
        let mut text = String::new();
        for (k, worker) in self.workers.iter().enumerate() {
            if !worker.tasks.is_empty() {
                let _ = writeln!(text, "w{k}: {} tasks in its queue", worker.tasks.len());
            }
            match &worker.pools {
                Some(pools) => pools.describe(&mut text),
                None => worker.worker.describe(&mut text),
            }
        }
        for stream in self.devices.iter().flat_map(SimControl::streams) {
            if let Some(head) = stream.commands.first() {
                let (id, kind, count) = (stream.id, head.kind, stream.commands.len());
                let _ = writeln!(text, "{id}: {count} commands, the first is {kind}");
            }
        }
        text
    }
}

fn start(workers: &mut Vec<SimulatedWorker>, tables: &Arc<Tables>, group: WorkerGroup) -> usize {
    workers.push(SimulatedWorker::new(tables, group));
    workers.len() - 1
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulated").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}
