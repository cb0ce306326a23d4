//! Files of PyTorch's profiler: Kineto's JSON, in Chrome's Trace Event Format.
//!
//! The file is read event by event and is never in memory as a whole. What is kept of an event is a
//! few numbers; names are kept once.
//!
//! Source: `libkineto/src/output_json.cpp` of <https://github.com/pytorch/kineto>.

mod event;
mod names;

use std::collections::HashMap;
use std::fmt;
use std::io::BufReader;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use millstream_profile::model::NONE;

use crate::input::Input;
use crate::recording::{
    Arrow, DeviceEvent, HostEvent, HostKind, Name, Named, Record, Recording, StreamId, Sync,
    SyncKind, Thread,
};
use crate::{Result, TimelineError};

use event::{EventForm, Text};
pub(crate) use names::short;

/// The kinds of events that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Category {
    Host(HostKind),
    Device,
    Range,
    Sync,
    Record,
    /// From a forward op to its backward op.
    Arrow,
    Other,
}

impl Category {
    /// Returns the kind of an event, by its category. The names with capitals are those of 2020 to
    /// 2022.
    fn of(name: &str) -> Category {
        match name {
            "cpu_op" | "Operator" => Category::Host(HostKind::Op),
            "cuda_runtime" | "cuda_driver" | "Runtime" | "hip_runtime" | "xpu_runtime" => {
                Category::Host(HostKind::Call)
            }
            "python_function" => Category::Host(HostKind::Function),
            "kernel" | "gpu_memcpy" | "gpu_memset" | "Kernel" | "Memcpy" | "Memset" => {
                Category::Device
            }
            "user_annotation" | "cpu_instant_event" => Category::Range,
            "cuda_sync" => Category::Sync,
            "cuda_event" => Category::Record,
            "fwdbwd" | "forward_backward" => Category::Arrow,
            _ => Category::Other,
        }
    }
}

/// A recording while its file is read.
#[derive(Default)]
struct Reading {
    recording: Recording,
    threads: HashMap<(i64, i64), u32>,
    labels: HashMap<(i64, i64), String>,
    /// Where arrows begin and end, by their numbers.
    tails: HashMap<i64, (u32, i64)>,
    heads: Vec<(i64, Name, (u32, i64))>,
    /// The number of events so far.
    events: u64,
    /// Whether the file has events at all: some JSON files are something else.
    has_events: bool,
}

/// Reads a Kineto file.
///
/// # Errors
/// The file cannot be read, is no JSON, has no events, or an event lacks its time.
pub(crate) fn read(input: Input) -> Result<Recording> {
    let file = input.error("");
    let mut reading = Reading::default();
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 18, input));
    let read = json.deserialize_any(Root(&mut reading)).and_then(|()| json.end());
    read.map_err(|e| syntax(file.clone(), &e, reading.events))?;
    if !reading.has_events {
        let message = "it has no 'traceEvents': expected a file of PyTorch's profiler";
        return Err(TimelineError { message: message.to_owned(), ..file });
    }
    let mut recording = reading.recording;
    recording.processes = 1;
    for (id, name, to) in reading.heads {
        let tail = reading.tails.get(&id);
        recording.arrows.extend(tail.map(|&from| Arrow { name, from, to }));
    }
    for (key, thread) in &reading.threads {
        if let Some(label) = reading.labels.get(key) {
            let name = format!("thread {} {label}", key.1);
            recording.threads[*thread as usize].name = name;
        }
    }
    if recording.host.is_empty() && recording.work.is_empty() {
        let message = "no event of it is an op, a call or a kernel".to_owned();
        let help = "export the trace with the activities CPU and CUDA".to_owned();
        return Err(TimelineError { message, help, ..file });
    }
    Ok(recording)
}

/// Returns an error of the JSON reader with the event in which it was found.
fn syntax(file: TimelineError, error: &serde_json::Error, events: u64) -> TimelineError {
    let text = error.to_string();
    let message = match error.classify() {
        serde_json::error::Category::Eof => {
            "it ends within its JSON: expected the end of 'traceEvents'; it was cut off".to_owned()
        }
        serde_json::error::Category::Io => format!("it cannot be read to its end: {text}"),
        serde_json::error::Category::Syntax | serde_json::error::Category::Data => text,
    };
    let at = match events {
        0 => String::new(),
        events => format!("after event {events}"),
    };
    TimelineError { at, message, ..file }
}

/// The whole file: an object with the events under a key, or a list of events, as in 2020.
struct Root<'a>(&'a mut Reading);

impl<'de> Visitor<'de> for Root<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with 'traceEvents', or a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> std::result::Result<(), A::Error> {
        Events(self.0).visit_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(Text(key)) = map.next_key::<Text>()? {
            match key.as_deref() {
                Some("traceEvents") => map.next_value_seed(Events(self.0))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The list of events.
struct Events<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        self.0.has_events = true;
        while let Some(event) = seq.next_element::<EventForm>()? {
            self.0.events += 1;
            self.0.event(event).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

impl Reading {
    fn thread(&mut self, pid: i64, tid: i64) -> u32 {
        let threads = &mut self.recording.threads;
        *self.threads.entry((pid, tid)).or_insert_with(|| {
            threads.push(Thread { name: format!("thread {tid}"), process: 0 });
            threads.len() as u32 - 1
        })
    }

    fn event(&mut self, event: EventForm) -> std::result::Result<(), String> {
        let phase = event.ph.0.as_deref().unwrap_or_default();
        let name = event.name.0.as_deref().unwrap_or_default();
        let (pid, tid) = (event.pid.whole(), event.tid.whole());
        if phase == "M" {
            if let ("thread_name", Some(pid), Some(tid), Some(label)) =
                (name, pid, tid, event.args.name.0)
            {
                // Kineto's own labels repeat the number.
                if !label.starts_with("thread ") && !label.starts_with("stream ") {
                    self.labels.insert((pid, tid), label);
                }
            }
            return Ok(());
        }
        let category = Category::of(event.cat.0.as_deref().unwrap_or_default());
        if category == Category::Record {
            self.record(&event, pid, tid);
            return Ok(());
        }
        if category == Category::Arrow {
            self.arrow(&event, phase, pid, tid);
            return Ok(());
        }
        if phase != "X" || category == Category::Other {
            return Ok(());
        }
        let lacks = |what: &str| format!("event {} ('{}') lacks {what}", self.events, short(name));
        let start = event.ts.nanoseconds();
        let start = start.ok_or_else(|| lacks("'ts', its begin in microseconds"))?;
        let length = event.dur.nanoseconds().unwrap_or(0).max(0);
        let end = start.saturating_add(length);
        let correlation = event.args.correlation.known().unwrap_or(0) as u64;
        match category {
            Category::Host(kind) => {
                let (Some(pid), Some(tid)) = (pid, tid) else {
                    return Err(lacks("'pid' and 'tid', the numbers of its process and thread"));
                };
                let (name, thread) = (self.recording.name(name), self.thread(pid, tid));
                self.recording.host.push(HostEvent {
                    name,
                    thread,
                    kind,
                    start,
                    end,
                    correlation,
                    record_function: event.args.record_function.known().map(|id| id as u64),
                    index: event.args.index.known().unwrap_or(0) as u64,
                    link: NONE,
                });
            }
            Category::Device => {
                let on = self.stream(&event, pid, tid);
                let on = on.ok_or_else(|| lacks("'stream' and 'device' in its 'args'"))?;
                let name = self.recording.name(&short(name));
                self.recording.work.push(DeviceEvent { name, on, start, end, correlation });
            }
            Category::Range => {
                if let (Some(pid), Some(tid)) = (pid, tid) {
                    let (name, thread) = (self.recording.name(name), self.thread(pid, tid));
                    self.recording.ranges.push(Named { name, thread, start, end });
                }
            }
            Category::Sync => self.sync(&event, name, pid),
            Category::Record | Category::Arrow | Category::Other => {}
        }
        Ok(())
    }

    /// Returns the stream of an event: of its arguments, or of the row that it is drawn in.
    fn stream(&self, event: &EventForm, pid: Option<i64>, tid: Option<i64>) -> Option<StreamId> {
        let device = event.args.device.known().or(pid)?;
        let stream = event.args.stream.known().or(tid)?;
        Some(StreamId { process: 0, device, stream })
    }

    fn arrow(&mut self, event: &EventForm, phase: &str, pid: Option<i64>, tid: Option<i64>) {
        let (Some(id), Some(time)) = (event.id.whole(), event.ts.nanoseconds()) else { return };
        let (Some(pid), Some(tid)) = (pid, tid) else { return };
        let at = (self.thread(pid, tid), time);
        match phase {
            "s" => drop(self.tails.insert(id, at)),
            "f" => {
                let name = self.recording.name(event.name.0.as_deref().unwrap_or_default());
                self.heads.push((id, name, at));
            }
            _ => {}
        }
    }

    fn record(&mut self, event: &EventForm, pid: Option<i64>, tid: Option<i64>) {
        let Some(on) = self.stream(event, pid, tid) else { return };
        let Some(id) = event.args.event.known().or(event.args.wait_event.known()) else { return };
        let Some(correlation) = event.args.correlation.known() else { return };
        let context = event.args.context.known().unwrap_or(0);
        let correlation = correlation as u64;
        self.recording.records.push(Record { on, context, event: id, correlation, shared: None });
    }

    fn sync(&mut self, event: &EventForm, name: &str, pid: Option<i64>) {
        let kind = match name {
            "Stream Wait Event" => SyncKind::StreamWait,
            "Event Sync" => SyncKind::Event,
            "Stream Sync" => SyncKind::Stream,
            "Context Sync" => SyncKind::Context,
            _ => return,
        };
        let args = &event.args;
        let device = args.device.known().or(pid).unwrap_or(0);
        let stream =
            |number: Option<i64>| number.map(|stream| StreamId { process: 0, device, stream });
        self.recording.syncs.push(Sync {
            kind,
            correlation: args.correlation.known().unwrap_or(0) as u64,
            on: stream(args.stream.known()),
            process: 0,
            device,
            context: args.context.known().unwrap_or(0),
            event: args.wait_event.known(),
            source: stream(args.wait_stream.known()),
            record: args.wait_record.known().filter(|id| *id > 0).map(|id| id as u64),
            shared: None,
        });
    }
}
