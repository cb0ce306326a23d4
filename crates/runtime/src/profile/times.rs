//! The times of a run.

use std::collections::BTreeMap;

use millstream_instructions::InstructionList;
use millstream_instructions::builder::InferenceStats;
use millstream_types::{ListId, Point, StreamId, StreamKey};

/// How an instruction ended.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let recording = machine.profile(&[])?;
/// # let x = Tensor::full(2, 1.5, &machine)?;
/// # x.relu()?;
/// # let times = recording.finish()?;
/// let instructions = &times.streams[0].instructions;
/// assert!(instructions.iter().all(|i| i.outcome == Outcome::Completed));
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// As it should.
    #[default]
    Completed,
    /// It failed, and poisoned its outputs.
    Failed,
    /// It was skipped, as its operands were poisoned.
    Skipped,
}

/// The times of an instruction, in nanoseconds since the recording began.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let recording = machine.profile(&[])?;
/// # let x = Tensor::full(2, 1.5, &machine)?;
/// # x.relu()?;
/// # let times = recording.finish()?;
/// for instruction in &times.streams[0].instructions {
///     assert!(instruction.start <= instruction.end && instruction.end <= times.total);
/// }
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionTimes {
    /// Its sequence number.
    pub seq: u64,
    /// When its worker first tried to run it: everything before it on its stream had been launched.
    /// A wait blocks the stream from here on.
    pub ready: u64,
    /// When it began. On a device that reports no times of its own, an instruction begins when it
    /// was given to the device and the one before it has completed.
    pub start: u64,
    /// When it had completed.
    pub end: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// The times of a stream's instructions, by sequence number.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let recording = machine.profile(&[])?;
/// # let x = Tensor::full(2, 1.5, &machine)?;
/// # x.relu()?;
/// # let times = recording.finish()?;
/// assert_eq!(times.streams[0].key.to_string(), "cpu:0 compute 0");
/// assert!(!times.streams[0].instructions.is_empty());
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamTimes {
    /// The stream. Its id in the list is its position among all.
    pub key: StreamKey,
    /// The times, in the order of the sequence numbers.
    pub instructions: Vec<InstructionTimes>,
    /// Whether the device measured them by its own clock.
    pub by_device: bool,
    /// The number of the worker that launches them, or none if the stream is not open.
    pub worker: Option<usize>,
}

/// The times of a step of an executable, in nanoseconds since the recording began.
///
/// ```
/// # use millstream_types::{DType, TensorSpec};
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let f = machine.record(|r| {
/// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// #     let y = r.call("relu", &[x]).run()?;
/// #     r.output("y", &y[0])
/// # })?.compile()?;
/// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
/// let recording = machine.profile(&[("x", &x)])?;
/// f.launch().input("x", &x).run()?;
/// let times = recording.finish()?;
/// let list = &times.list.executables[times.launches[0].executable.index()];
/// for step in &times.launches[0].steps {
///     assert!((step.instruction as usize) < list.instructions.len());
/// }
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTimes {
    /// The index of its instruction in the executable's list.
    pub instruction: u32,
    /// If that launches another executable: the index of its instruction in that one's list.
    pub inner: Option<u32>,
    /// Its tape, by position in [`LaunchTimes::tapes`].
    pub tape: u16,
    /// Whether it waits for another tape, before its instruction or in its stead.
    pub waits: bool,
    /// The step that it waits for, by position in [`LaunchTimes::steps`]; none if it waits for
    /// none, or for one without times.
    pub until: Option<u32>,
    /// When it was first tried.
    pub ready: u64,
    /// When it began, as [`InstructionTimes::start`].
    pub start: u64,
    /// When it had completed.
    pub end: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// A tape of a launch: its steps run one after another, in the order of the executable's list.
///
/// ```
/// # use millstream_types::{DType, TensorSpec};
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let f = machine.record(|r| {
/// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// #     let y = r.call("relu", &[x]).run()?;
/// #     r.output("y", &y[0])
/// # })?.compile()?;
/// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
/// let recording = machine.profile(&[("x", &x)])?;
/// f.launch().input("x", &x).run()?;
/// let launch = &recording.finish()?.launches[0];
/// assert_eq!(launch.tapes.len(), 1);
/// assert!(launch.tapes[0].worker.is_some());
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapeTimes {
    /// The machine's stream that runs it. Launches on one instance of private memory share it.
    pub stream: StreamId,
    /// The number of the host's worker that runs it; none for the tape of another device.
    pub worker: Option<usize>,
}

/// The times of a launch of an executable.
///
/// ```
/// # use millstream_types::{DType, TensorSpec};
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let f = machine.record(|r| {
/// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// #     let y = r.call("relu", &[x]).run()?;
/// #     r.output("y", &y[0])
/// # })?.compile()?;
/// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
/// let recording = machine.profile(&[("x", &x)])?;
/// f.launch().input("x", &x).run()?;
/// let times = recording.finish()?;
/// assert_eq!(times.launches.len(), 1);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchTimes {
    /// The point of the launch.
    pub at: Point,
    /// The executable, by its id in the list.
    pub executable: ListId,
    /// Its tapes.
    pub tapes: Vec<TapeTimes>,
    /// Its steps, tape by tape. A tape that a device launches as a graph has none.
    pub steps: Vec<StepTimes>,
}

/// A range of the program that the user named.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let recording = machine.profile(&[])?;
/// {
///     let _range = machine.range("first step");
///     Tensor::full(2, -1.5, &machine)?.relu()?;
/// }
/// let range = &recording.finish()?.ranges[0];
/// assert!(range.begin <= range.end && range.thread == 0);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its name.
    pub name: String,
    /// The thread, counted from 0 in the order of their first ranges.
    pub thread: u32,
    /// When it began.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
}

impl Range {
    /// The name of the range of a whole program, until everything has completed.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let _range = machine.range(Range::PROGRAM);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub const PROGRAM: &str = "the program";

    /// The name of the range behind it that reads the program's outputs.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let _range = machine.range(Range::READING);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub const READING: &str = "reading the outputs";
}

/// A time during which a thread of the program waited.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let recording = machine.profile(&[])?;
/// Tensor::full(2, -1.5, &machine)?.to_vec::<f32>()?; // may wait
/// for pause in recording.finish()?.pauses {
///     assert!(pause.begin <= pause.end, "{}", pause.reason);
/// }
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Why it waited.
    pub reason: &'static str,
    /// The point that it waited for, if it was one.
    pub until: Option<Point>,
    /// When it began to wait.
    pub begin: u64,
    /// When it went on.
    pub end: u64,
}

/// The times of a run, with its list. All times are nanoseconds since the recording began.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let recording = machine.profile(&[])?;
/// let y = Tensor::full(2, -1.5, &machine)?.relu()?;
/// let times = recording.finish()?; // waits for all instructions
/// assert_eq!(times.issued.len(), times.list.instructions.len());
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunTimes {
    /// The instructions that were emitted.
    pub list: InstructionList,
    /// When each of them was emitted.
    pub issued: Vec<u64>,
    /// The times on each stream of the list.
    pub streams: Vec<StreamTimes>,
    /// The launches of executables, with the times of their steps.
    pub launches: Vec<LaunchTimes>,
    /// The ranges that the user named.
    pub ranges: Vec<Range>,
    /// The times during which the program waited: for results, for room, for memory.
    pub pauses: Vec<Pause>,
    /// The time of the whole recording.
    pub total: u64,
    /// When the recording began, in nanoseconds of a clock that all recordings of the process
    /// share.
    pub began: u64,
    /// How many workers the host's streams share.
    pub host_workers: usize,
    /// Whether the program ran the host's streams itself, by the inline driver.
    pub is_inline: bool,
    /// The mean time from the end of a call of one worker to the beginning of a call of another one
    /// that has waited for it, in nanoseconds, if there are several. A process measures it once, at
    /// the end of its first recording.
    pub handoff: Option<u64>,
    /// How often calls of each op were found in the inference cache.
    pub inference: BTreeMap<String, InferenceStats>,
}

impl RunTimes {
    /// Returns when the program began and ended, without the reads of its outputs: its range, or
    /// the whole recording if it has none.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let recording = machine.profile(&[])?;
    /// Tensor::full(2, -1.5, &machine)?.relu()?;
    /// let times = recording.finish()?;
    /// assert_eq!(times.program(), [0, times.total]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn program(&self) -> [u64; 2] {
        let own = self.ranges.iter().find(|range| range.name == Range::PROGRAM);
        own.map_or([0, self.total], |range| [range.begin, range.end])
    }
}
