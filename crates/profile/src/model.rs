//! The data of a profile.
//!
//! Instructions, tensors, storages and names are known by their positions, so that a million
//! instructions fit in few allocations, and a file is the same columns (`file`).
//!
//! Long because a field of each kind has its documentation.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use millstream_vm::Range as Measured;
use serde::{Deserialize, Serialize};

use crate::spread::Spread;
use crate::summary::time;
use crate::work::Rates;

/// The position of an instruction, a stream, a name, … that does not exist.
pub const NONE: u32 = u32::MAX;

/// Where the times of a profile come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A run whose times were measured.
    #[default]
    Measured,
    /// A prediction.
    Predicted,
    /// The timeline of another program.
    Imported,
}

millstream_types::names! {
    Source: Measured "measured", Predicted "predicted", Imported "imported"
}

/// A stream, or a thread of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// The device that it belongs to.
    pub device: String,
    /// Whether its instructions run in any order that their data allow.
    pub pool: bool,
    /// Whether the device measured its times by its own clock.
    pub by_device: bool,
    /// The worker that runs its instructions one at a time, together with those of other streams;
    /// none if the stream is alone, or runs by itself as that of an asynchronous device does.
    #[serde(default)]
    pub worker: Option<u32>,
    /// The tape of an executable that runs its instructions, together with those of other streams,
    /// in the order of the executable's list; none for a stream of no executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tape: Option<u32>,
    /// The program that it belongs to: the rank. Barriers and waits of one program's threads say
    /// nothing about the streams of another one.
    #[serde(default)]
    pub rank: u32,
    /// Whether it is a thread of the program, which submits instructions to other streams.
    #[serde(default)]
    pub thread: bool,
}

impl Stream {
    /// Returns the stream's name without that of the program.
    pub fn key(&self) -> &str {
        let inner = self.name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("));
        let name = inner.map_or(self.name.as_str(), |(_, key)| key);
        name.strip_prefix("rank ")
            .and_then(|name| name.split_once(": "))
            .map_or(name, |(_, key)| key)
    }

    /// Returns the stream's key in the list that has it, and what names that list: nothing for the
    /// streams of the machine, ` in list0` for those of an executable.
    pub fn key_and_list(&self) -> (&str, &str) {
        let key = self.key();
        key.split_at(key.find(" in ").unwrap_or(key.len()))
    }

    /// Returns the program's name of the stream, if it has one.
    pub fn own_name(&self) -> Option<&str> {
        let inner = self.name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("));
        inner.map(|(own, _)| own)
    }
}

/// The part of an instruction in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Role {
    /// It computes or copies.
    #[default]
    Work,
    /// It waits for another stream.
    Wait,
    /// It marks a place that others wait for.
    Record,
    /// It orders all streams.
    Fence,
    /// It begins a tensor with a storage.
    Allocate,
    /// It begins a view.
    View,
    /// It ends a tensor.
    Release,
    /// The host waits for points.
    Observe,
    /// It launches a list.
    Launch,
    /// It orders its stream and does nothing itself.
    Order,
}

millstream_types::names! {
    Role: Work "work", Wait "wait", Record "record", Fence "fence", Allocate "allocate",
    View "view", Release "release", Observe "observe", Launch "launch", Order "order"
}

/// How an instruction ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Outcome {
    /// It completed, as far as is known.
    #[default]
    Completed,
    /// It failed, and poisoned its outputs.
    Failed,
    /// It was skipped, as an operand was poisoned.
    Skipped,
}

millstream_types::names! {
    Outcome: Completed "completed", Failed "failed", Skipped "skipped"
}

/// When an instruction ran, in nanoseconds since the profile's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When its stream got to it.
    pub ready: u64,
    /// When it began to run. A wait begins when its stream gets to it.
    pub start: u64,
    /// When it had completed.
    pub end: u64,
}

/// An instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Its name: the op, or the kind.
    pub name: u32,
    /// Its part in the run.
    pub role: Role,
    /// Its stream, or [`NONE`].
    pub stream: u32,
    /// Its position on the stream, from 1; 0 if it takes none.
    pub seq: u64,
    /// Its place in the program.
    pub place: u32,
    /// When the host submitted it.
    pub issued: Option<u64>,
    /// When it ran.
    pub times: Option<Times>,
    /// How it ended.
    pub outcome: Outcome,
    /// Its operands, as a range of [`Profile::operands`].
    pub operands: [u32; 2],
    /// The arguments of an op's call, as a position in [`Profile::arguments`]. What the host does
    /// (a function of the program, an access, a read) has none, nor has a run of another program.
    pub arguments: Option<u32>,
    /// The launch that it is a step of, or [`NONE`]. The launch stands behind its steps, and ends
    /// when the last of them has ended. It stands before them if their order is not known; then
    /// they are parts of it, and no instructions of their own.
    pub parent: u32,
    /// The instruction on a thread of the program that submitted it, if the profile has threads.
    pub submitter: Option<u32>,
}

impl Instruction {
    /// Returns the time that it took.
    pub fn duration(&self) -> u64 {
        self.times.map_or(0, |t| t.end - t.start)
    }

    /// Returns whether it stands on its stream: a state of the stream that a timeline shows.
    pub fn is_shown(&self) -> bool {
        self.times.is_some() && self.stream != NONE
    }
}

/// A use of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operand {
    /// The tensor.
    pub tensor: u32,
    /// Whether it is read.
    pub reads: bool,
    /// Whether it is written.
    pub writes: bool,
}

/// How the need to wait for another stream was resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Resolution {
    /// The device waits.
    #[default]
    Device,
    /// The stream's worker waits.
    Host,
    /// No wait: the stream comes after the point already.
    Known,
    /// No wait: the host has observed the point, or a barrier stands between.
    Fenced,
    /// No wait: another wait of the same instruction implies it.
    Implied,
}

millstream_types::names! {
    Resolution: Device "device", Host "host", Known "known", Fenced "fenced", Implied "implied"
}

impl Resolution {
    /// Returns whether no wait was made.
    pub const fn is_elided(self) -> bool {
        matches!(self, Resolution::Known | Resolution::Fenced | Resolution::Implied)
    }
}

/// A need of a stream to come after an instruction of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The instruction that waits; for an elided wait, the one that would have waited.
    pub waiter: u32,
    /// The instruction that is waited for, or [`NONE`].
    pub until: u32,
    /// The instruction that the need is for: its first one after the wait.
    pub user: u32,
    /// How it was resolved.
    pub resolution: Resolution,
    /// An earlier wait because of which this one is not needed, or [`NONE`].
    pub covered_by: u32,
    /// The tensors whose uses need it; none if the program asked for it.
    pub tensors: Vec<u32>,
}

impl Default for Wait {
    fn default() -> Wait {
        let ([waiter, until, user, covered_by], resolution) = ([NONE; 4], Resolution::default());
        Wait { waiter, until, user, resolution, covered_by, tensors: Vec::new() }
    }
}

/// A tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its dtype and shape, as in `f32[2,3]`.
    pub spec: String,
    /// Its storage.
    pub storage: u32,
}

/// A storage: bytes of an arena for some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The arena.
    pub arena: u32,
    /// The first byte; `u64::MAX` if that is not known.
    pub offset: u64,
    /// The number of bytes that it takes.
    pub size: u64,
    /// The generation of the placement; 0 for a storage from outside.
    pub generation: u64,
    /// The tensor that it was made for.
    pub tensor: u32,
    /// The instruction that allocates it, or [`NONE`] for one that exists before.
    pub allocated: u32,
    /// The instruction that releases its last tensor, or [`NONE`].
    pub released: u32,
    /// The last instruction that uses it, or [`NONE`].
    pub last_use: u32,
}

impl Default for Storage {
    fn default() -> Storage {
        let ([arena, tensor, allocated, released, last_use], offset) = ([NONE; 5], u64::MAX);
        let (size, generation) = (0, 0);
        Storage { arena, offset, size, generation, tensor, allocated, released, last_use }
    }
}

/// A part of the program with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Its name.
    pub name: String,
    /// The thread of the program.
    pub thread: u32,
    /// When it began.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
}

/// A time in which the program waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Why.
    pub reason: String,
    /// The instruction that it waited for last, or [`NONE`].
    pub until: u32,
    /// The program that waited: the rank.
    #[serde(default)]
    pub rank: u32,
    /// When it began to wait.
    pub begin: u64,
    /// When it went on.
    pub end: u64,
}

/// The repeats of a program, of which a profile has the times of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// The time of the program in each.
    pub totals: Vec<u64>,
    /// The time of the calls of each op in each, by name.
    pub ops: BTreeMap<String, Vec<u64>>,
}

/// A profile. In files, what `#[serde(skip)]` stands at is columns of numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The program's name.
    pub title: String,
    /// Where the times come from.
    pub source: Source,
    /// Facts that a reader should know: what was lost, what is not known.
    pub remarks: Vec<String>,
    /// The streams.
    pub streams: Vec<Stream>,
    /// The arenas, by their devices' names.
    pub arenas: Vec<String>,
    /// The names of instructions.
    pub names: Vec<String>,
    /// The places of instructions.
    pub places: Vec<String>,
    /// The arguments of calls, as `dim=[0], keepdim=true`; empty for a call without any. Seed and
    /// offset of a random op are left out: they only tell one draw from another.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The tensors.
    pub tensors: Vec<Tensor>,
    /// The storages.
    #[serde(skip)]
    pub storages: Vec<Storage>,
    /// The instructions, in program order; the steps of a launch stand before it.
    #[serde(skip)]
    pub instructions: Vec<Instruction>,
    /// The operands of all instructions.
    #[serde(skip)]
    pub operands: Vec<Operand>,
    /// The needs to wait.
    #[serde(skip)]
    pub waits: Vec<Wait>,
    /// The ranges of the program.
    pub ranges: Vec<Range>,
    /// The times in which the program waited.
    pub pauses: Vec<Pause>,
    /// The time of the whole run: [`Profile::parts`] divides it.
    pub total: u64,
    /// How many workers the host's streams share; 0 if that is not known.
    #[serde(default)]
    pub host_workers: u32,
    /// Whether the program ran the host's streams itself, call by call: by the inline driver.
    #[serde(default)]
    pub is_inline: bool,
    /// The mean time from the end of a call of one worker to the beginning of a call of another one
    /// that has waited for it, in nanoseconds, on the computer of the run; none if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<u64>,
    /// All repeats of the program, if it was run several times: this profile is of one in the
    /// middle.
    #[serde(default)]
    pub runs: Runs,
    /// The rates that the computer of the run reaches, if they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<Rates>,
    /// The time of PyTorch's calls of each op, without `aten::`, if the recording has a timeline.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recorded: BTreeMap<String, u64>,
}

/// What a position in a profile is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// [`Profile::instructions`].
    Instructions,
    /// [`Profile::streams`].
    Streams,
    /// [`Profile::names`].
    Names,
    /// [`Profile::places`].
    Places,
    /// [`Profile::arguments`].
    Arguments,
    /// [`Profile::tensors`].
    Tensors,
    /// [`Profile::storages`].
    Storages,
    /// [`Profile::arenas`].
    Arenas,
}

/// The times of a program, and of the reads of its outputs behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// The time of the program.
    pub program: u64,
    /// The time of the reads.
    pub reading: u64,
    /// When the reads begin.
    pub reads_at: u64,
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reading {
            0 => f.write_str(&time(self.program)),
            reading => write!(f, "{}, outputs read in {}", time(self.program), time(reading)),
        }
    }
}

impl Profile {
    /// Returns the times of the program and of the reads of its outputs: those of their ranges.
    /// Without these, as in a prediction from a list, the reads are what begins when everything
    /// else has ended.
    pub fn parts(&self) -> Parts {
        // The ranges of a rank have its number in their names.
        let of = |name: &str| {
            let own = self.ranges.iter().filter(|range| range.name.ends_with(name));
            own.map(|r| [r.begin, r.end]).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
        };
        match (of(Measured::PROGRAM), of(Measured::READING)) {
            (Some([from, to]), Some([begin, end])) => {
                Parts { program: to - from, reading: end - begin, reads_at: begin }
            }
            _ => {
                let others = self.shown().filter(|(_, i, _)| self.name_of(i) != "SyncRead");
                let last = others.map(|(_, _, times)| times.end).max().unwrap_or(self.total);
                let has_reads = self.shown().any(|(_, _, times)| times.end > last);
                let program = if has_reads { last } else { self.total };
                Parts { program, reading: self.total - program, reads_at: program }
            }
        }
    }

    /// Returns the spread of the program's time over its repeats.
    pub fn spread(&self) -> Spread {
        let of_runs = Spread::of(self.runs.totals.iter().copied());
        of_runs.unwrap_or_else(|| Spread::one(self.parts().program))
    }

    /// Gives streams and tensors the names that the program has for them: those of an executable,
    /// by its name as in `list0`, or of the program itself. A stream keeps its own name in
    /// parentheses: `work (cpu:0 compute 1)`.
    pub fn rename(
        &mut self,
        list: Option<&str>,
        streams: &HashMap<String, &str>,
        tensors: &HashMap<String, &str>,
    ) {
        for stream in &mut self.streams {
            if let Some(name) = within(&stream.name, list).and_then(|own| streams.get(own)) {
                stream.name = format!("{name} ({})", stream.name);
            }
        }
        for tensor in &mut self.tensors {
            if let Some(name) = within(&tensor.name, list).and_then(|own| tensors.get(own)) {
                tensor.name = (*name).to_owned();
            }
        }
    }

    /// Returns whether an instruction, by position, is a part of another one: a step of a launch
    /// whose steps have no known order.
    pub fn is_part(&self, instruction: usize) -> bool {
        let parent = self.instructions[instruction].parent;
        parent != NONE && (parent as usize) < instruction
    }

    /// Returns the launch by the program that an instruction is a step of, or the instruction
    /// itself.
    pub fn root_of(&self, instruction: u32) -> u32 {
        let mut root = instruction;
        // A step stands before its launch, so that this ends.
        while let Some(next) = self.instructions.get(root as usize).map(|i| i.parent)
            && next != NONE
            && next > root
        {
            root = next;
        }
        root
    }

    /// Calls `found` with every position in the profile but those of operands.
    pub fn each_position(&mut self, found: &mut dyn FnMut(Of, &mut u32)) {
        for instruction in &mut self.instructions {
            found(Of::Names, &mut instruction.name);
            found(Of::Places, &mut instruction.place);
            found(Of::Streams, &mut instruction.stream);
            found(Of::Instructions, &mut instruction.parent);
            instruction.arguments.iter_mut().for_each(|k| found(Of::Arguments, k));
            instruction.submitter.iter_mut().for_each(|k| found(Of::Instructions, k));
        }
        self.operands.iter_mut().for_each(|operand| found(Of::Tensors, &mut operand.tensor));
        for Wait { waiter, until, user, covered_by, tensors, .. } in &mut self.waits {
            let instructions = [waiter, until, user, covered_by];
            instructions.into_iter().for_each(|k| found(Of::Instructions, k));
            tensors.iter_mut().for_each(|k| found(Of::Tensors, k));
        }
        self.tensors.iter_mut().for_each(|tensor| found(Of::Storages, &mut tensor.storage));
        for Storage { arena, tensor, allocated, released, last_use, .. } in &mut self.storages {
            found(Of::Arenas, arena);
            found(Of::Tensors, tensor);
            let instructions = [allocated, released, last_use];
            instructions.into_iter().for_each(|k| found(Of::Instructions, k));
        }
        self.pauses.iter_mut().for_each(|pause| found(Of::Instructions, &mut pause.until));
    }

    /// Returns the operands of an instruction.
    pub fn operands_of(&self, instruction: &Instruction) -> &[Operand] {
        let [from, to] = instruction.operands;
        self.operands.get(from as usize..to as usize).unwrap_or_default()
    }

    /// Returns the name of an instruction.
    pub fn name_of(&self, instruction: &Instruction) -> &str {
        self.names.get(instruction.name as usize).map_or("?", String::as_str)
    }

    /// Returns the place of an instruction in the program; empty if it is not known.
    pub fn place_of(&self, instruction: &Instruction) -> &str {
        self.places.get(instruction.place as usize).map_or("", String::as_str)
    }

    /// Returns the arguments of an op's call, as text.
    pub fn arguments_of(&self, instruction: &Instruction) -> Option<&str> {
        self.arguments.get(instruction.arguments? as usize).map(String::as_str)
    }

    /// Returns the name of a stream.
    pub fn stream_name(&self, stream: u32) -> &str {
        self.streams.get(stream as usize).map_or("?", |s| s.name.as_str())
    }

    /// Returns the operands of an instruction in one line: `t3 f32[2,3], t1 f32[3]`.
    pub fn shapes_of(&self, instruction: &Instruction) -> String {
        let one = |operand: &Operand| {
            let Some(tensor) = self.tensors.get(operand.tensor as usize) else { return "?".into() };
            let arrow = if operand.writes { "→ " } else { "" };
            format!("{arrow}{} {}", tensor.name, tensor.spec)
        };
        self.operands_of(instruction).iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Returns the instructions that a timeline shows, by position.
    pub fn shown(&self) -> impl Iterator<Item = (usize, &Instruction, Times)> {
        let timed =
            |(k, i): (usize, &'_ Instruction)| i.times.filter(|_| i.is_shown()).map(|t| (k, t));
        self.instructions
            .iter()
            .enumerate()
            .filter_map(move |(k, i)| timed((k, i)).map(|(k, t)| (k, i, t)))
    }
}

/// Returns the name that a stream or tensor has within an executable, if it is one of it.
fn within<'a>(name: &'a str, list: Option<&str>) -> Option<&'a str> {
    let Some(list) = list else { return Some(name) };
    // Instances of private memory have streams and tensors of their own.
    let (own, of) = name.split_once(" in ")?;
    let of = of.split_once(", instance").map_or(of, |(list, _)| list);
    (of == list).then_some(own)
}
