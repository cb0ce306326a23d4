//! Two uses of the same memory by a PyTorch program that may run at once, in its own words: ops,
//! Python functions, streams, and the line that orders the two.

use millstream_profile::model::Instruction;
use millstream_profile::summary::{plural, time};
use millstream_timelines::Timeline;
use millstream_timelines::verdict::{Conflict, Side};
use millstream_types::Access;

/// The most functions of a stack that are shown.
const FRAMES: usize = 8;

/// The most waits that are shown of those that an order depends on.
const WAITS: usize = 4;

/// A race, or a pair that is undecided, as it is printed.
pub(super) struct Race {
    pub(super) title: String,
    /// The two uses, the earlier one first, and the missing order.
    pub(super) notes: Vec<String>,
    pub(super) help: String,
    /// The op before which the wait belongs.
    pub(super) before: String,
    /// The wait.
    pub(super) wait: String,
}

impl Race {
    /// Describes a conflict of a timeline.
    pub(super) fn of(file: &str, timeline: &Timeline, conflict: &Conflict, is_race: bool) -> Race {
        let [last, first] =
            [conflict.later, conflict.earlier].map(|side| Kernel::of(timeline, side));
        let profile = &timeline.profile;
        let shown = |tensor: u32| {
            let tensor = profile.tensors.get(tensor as usize);
            tensor.map_or_else(String::new, |tensor| format!("{} {}", tensor.name, tensor.spec))
        };
        let mut tensor = shown(conflict.tensor);
        if let Some(freed) = conflict.freed {
            tensor = format!("the memory of {tensor}, which {} had before", shown(freed));
        }
        let what = if is_race { "race" } else { "undecided" };
        let title = format!(
            "{file}: {what} on {tensor}: {} {} it while {} may still {} it",
            last.op(),
            third_person(conflict.later.access),
            first.op(),
            infinitive(conflict.earlier.access),
        );
        let (from, to) = (first.stream, last.stream);
        let known = match conflict.known {
            None => format!("{to} waits for nothing of {from}"),
            Some(upto) => {
                let upto = profile.name_of(&profile.instructions[upto as usize]);
                format!("{to} waits for {from} only up to {upto}")
            }
        };
        let bytes = &conflict.bytes;
        let shared = format!("both use bytes {}..{} of the storage; ", bytes.start, bytes.end);
        let mut notes = vec![first.note(), last.note(), format!("{shared}{known}")];
        let at = last.own_function().map_or_else(String::new, |place| format!(", at {place}"));
        let before = &last.before;
        let (wait, mut help) = if conflict.later.by_host {
            let wait = "event.synchronize()".to_owned();
            let help = format!(
                "write `{wait}` before `{before}`{at}\n\
                 event is a torch.cuda.Event, recorded on {from} after `{}`",
                first.before,
            );
            (wait, help)
        } else {
            let [source, waiter] = variables(from, to);
            let wait = format!("{waiter}.wait_stream({source})");
            let help = format!(
                "write `{wait}` before `{before}`{at}\n\
                 {source} and {waiter} are the torch.cuda.Stream objects of {from} and {to}",
            );
            let named = match conflict.freed {
                Some(_) => {
                    format!(",\nor `tensor.record_stream({source})` before the tensor is freed")
                }
                None => String::new(),
            };
            (wait, format!("{help}{named}"))
        };
        if !is_race {
            let waits = conflict.depends.iter().take(WAITS).map(|&wait| {
                let side = Side { instruction: wait, ..conflict.later };
                format!("\n  {}", Kernel::of(timeline, side).brief())
            });
            let mut note = match conflict.depends.len() as u64 {
                0 => "the order depends on what is not known".to_owned(),
                n => {
                    let waits = plural(n, "wait");
                    format!("the order depends on {waits} whose event or stream is not known")
                }
            };
            note.extend(waits);
            if let Some(left) = conflict.depends.len().checked_sub(WAITS).filter(|left| *left > 0) {
                note.push_str(&format!("\n  and {left} more"));
            }
            notes.push(note);
            help = "record the program with millstream.record(…, streams=True), which names \
                    every event and stream"
                .to_owned();
        }
        Race { title, notes, help, before: last.before, wait }
    }
}

/// An instruction of a timeline: a kernel, a copy, an op or a call of the host.
pub(super) struct Kernel<'a> {
    name: String,
    stream: &'a str,
    instruction: &'a Instruction,
    /// The ops around the call that launches it: `aten::linear > aten::addmm [node 5]`.
    ops: String,
    /// The outermost of these ops, or the kernel itself.
    before: String,
    /// The functions around that call, the innermost first.
    stack: Vec<&'a str>,
}

impl<'a> Kernel<'a> {
    pub(super) fn of(timeline: &'a Timeline, side: Side) -> Kernel<'a> {
        let profile = &timeline.profile;
        let instruction = &profile.instructions[side.instruction as usize];
        let name = profile.name_of(instruction).to_owned();
        let stack = timeline.stack(side.instruction);
        let place = profile.place_of(instruction);
        // A place begins with the innermost function, if there is one.
        let function = stack.first().and_then(|innermost| place.strip_prefix(innermost));
        let ops = function.map_or(place, |rest| rest.trim_start_matches(" > ")).to_owned();
        let outermost = ops.split(" > ").next().unwrap_or_default();
        let outermost = outermost.split("[node ").next().unwrap_or_default().trim_end();
        let before = if outermost.is_empty() { name.clone() } else { outermost.to_owned() };
        let stream = profile.stream_name(instruction.stream);
        Kernel { name, stream, instruction, ops, before, stack }
    }

    /// Returns the innermost op around the call, or the name if there is none.
    fn op(&self) -> &str {
        let op = self.ops.rsplit(" > ").next().unwrap_or_default();
        let op = op.split("[node ").next().unwrap_or_default().trim_end();
        if op.is_empty() { &self.name } else { op }
    }

    /// Returns the name with its stream, time and the program's own line.
    pub(super) fn brief(&self) -> String {
        let at = self.instruction.times.map(|times| format!(", at {}", time(times.start)));
        let line = self.own_function().map(|function| format!(": {function}"));
        let (at, line) = (at.unwrap_or_default(), line.unwrap_or_default());
        format!("{} on {}{at}{line}", self.name, self.stream)
    }

    /// Returns the kernel with its place, and the functions of the program below.
    fn note(&self) -> String {
        let at = self.instruction.times.map(|times| format!(", at {}", time(times.start)));
        let of = if self.ops.is_empty() { "" } else { ": " };
        let at = at.unwrap_or_default();
        let mut text = format!("{} on {}{at}{of}{}", self.name, self.stream, self.ops);
        let written = self.stack.iter().filter(|frame| !frame.starts_with('<'));
        let count = written.clone().count();
        for frame in written.take(FRAMES) {
            text.push_str(&format!("\n  {frame}"));
        }
        if let Some(left) = count.checked_sub(FRAMES).filter(|left| *left > 0) {
            text.push_str(&format!("\n  and {left} more functions"));
        }
        text
    }

    /// Returns the innermost function that is not of PyTorch itself.
    fn own_function(&self) -> Option<&str> {
        let is_own = |frame: &&&str| {
            let has_line = frame.contains("): ") && !frame.starts_with('<');
            has_line && !frame.starts_with("torch/") && !frame.contains("/torch/")
        };
        self.stack.iter().find(is_own).copied()
    }
}

/// Returns names of variables for two streams: by their numbers, and by their devices as well if
/// two devices number them alike.
fn variables(from: &str, to: &str) -> [String; 2] {
    let number = |stream: &str| {
        let own = stream.split(" of process ").next().unwrap_or_default();
        own.rsplit(' ').next().unwrap_or_default().to_owned()
    };
    let device = |stream: &str| {
        let device = stream.split(' ').next().unwrap_or_default();
        device.rsplit(':').next().unwrap_or_default().to_owned()
    };
    let is_same = number(from) == number(to);
    [from, to].map(|stream| match is_same {
        true => format!("s{}_{}", device(stream), number(stream)),
        false => format!("s{}", number(stream)),
    })
}

const fn third_person(access: Access) -> &'static str {
    match access {
        Access::Read => "reads",
        Access::Write => "writes",
        Access::ReadWrite => "reads and writes",
    }
}

const fn infinitive(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
        Access::ReadWrite => "read and write",
    }
}
