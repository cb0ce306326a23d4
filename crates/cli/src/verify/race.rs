//! A race between two kernels of a PyTorch program, in its own words: ops, Python functions,
//! streams, and the line that orders the two.

use millstream_instructions::InstructionList;
use millstream_profile::model::Instruction;
use millstream_profile::summary::time;
use millstream_types::{Access, Point};
use millstream_verify::Violation;

use super::subject::OfTimeline;

/// The most functions of a stack that are shown.
const FRAMES: usize = 8;

/// A race as it is printed.
pub(crate) struct Race {
    pub(crate) title: String,
    /// The two kernels, the earlier one first, and the missing order.
    pub(crate) notes: Vec<String>,
    pub(crate) help: String,
    /// The op before which the wait belongs.
    pub(super) before: String,
    /// The wait.
    pub(super) wait: String,
}

impl Race {
    /// Describes a violation, if it is a race of two kernels or copies.
    pub(super) fn of(
        of: &OfTimeline,
        file: &str,
        list: &InstructionList,
        violation: &Violation,
    ) -> Option<Race> {
        let Violation::Race { bytes, later, earlier, missing, .. } = violation else { return None };
        let [last, first] = [later, earlier].map(|used| of.kernel(used.site.index));
        let (last, first) = (last?, first?);
        let profile = &of.timeline.profile;
        let tensor = (later.tensor.0 as usize).checked_sub(profile.storages.len())?;
        let tensor = profile.tensors.get(tensor)?;
        let [reads, may_read] = [later, earlier].map(|used| used.access.unwrap_or(Access::Write));
        let title = format!(
            "{file}: race on {} {}: {} {} it while {} may still {} it",
            tensor.name,
            tensor.spec,
            last.name,
            third_person(reads),
            first.name,
            infinitive(may_read),
        );
        let (from, to) = (first.stream, last.stream);
        let known = match missing.known {
            0 => format!("{to} waits for nothing of {from}"),
            seq => {
                let point = Point::new(missing.point.stream, seq);
                let upto = list.instructions.iter().position(|i| i.body.at() == Some(point));
                let upto = upto.and_then(|index| of.kernel(index));
                let upto = upto.map_or_else(|| "an earlier point".to_owned(), |k| k.name);
                format!("{to} waits for {from} only up to {upto}")
            }
        };
        let shared = bytes.as_ref().map_or_else(String::new, |bytes| {
            format!("both use bytes {}..{} of the storage; ", bytes.start, bytes.end)
        });
        let [source, waiter] = variables(from, to);
        let wait = format!("{waiter}.wait_stream({source})");
        let at = last.own_function().map_or_else(String::new, |place| format!(", at {place}"));
        let help = format!(
            "write `{wait}` before `{}`{at}\n\
             {source} and {waiter} are the torch.cuda.Stream objects of {from} and {to}",
            last.before,
        );
        let notes = vec![first.note(), last.note(), format!("{shared}{known}")];
        Some(Race { title, notes, help, before: last.before, wait })
    }
}

/// A kernel or copy of a timeline.
struct Kernel<'a> {
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

impl OfTimeline {
    /// Returns the kernel or copy of an instruction of the list.
    fn kernel(&self, index: usize) -> Option<Kernel<'_>> {
        let (timeline, profile) = (&self.timeline, &self.timeline.profile);
        let k = (*self.positions.get(index)?)?;
        let instruction = profile.instructions.get(k as usize)?;
        let name = profile.name_of(instruction).to_owned();
        let stack = timeline.stack(k);
        let place = profile.place_of(instruction);
        // A place begins with the innermost function, if there is one.
        let function = stack.first().and_then(|innermost| place.strip_prefix(innermost));
        let ops = function.map_or(place, |rest| rest.trim_start_matches(" > ")).to_owned();
        let outermost = ops.split(" > ").next().unwrap_or_default();
        let outermost = outermost.split(" [node ").next().unwrap_or_default();
        let before = if outermost.is_empty() { name.clone() } else { outermost.to_owned() };
        let stream = profile.stream_name(instruction.stream);
        Some(Kernel { name, stream, instruction, ops, before, stack })
    }

    /// Names an instruction of the list.
    pub(super) fn described(&self, index: usize) -> Option<String> {
        let kernel = self.kernel(index)?;
        let within = if kernel.ops.is_empty() { "" } else { " of " };
        Some(format!("{}{within}{} on {}", kernel.name, kernel.ops, kernel.stream))
    }
}

impl Kernel<'_> {
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
    let number = |stream: &str| stream.rsplit(' ').next().unwrap_or_default().to_owned();
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
