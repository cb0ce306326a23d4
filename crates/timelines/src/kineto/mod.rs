//! Files of PyTorch's profiler: Kineto's JSON, in Chrome's Trace Event Format.
//!
//! The file is read event by event and is never in memory as a whole. What is kept of an event is a
//! few numbers; names are kept once.
//!
//! Source: `libkineto/src/output_json.cpp` of <https://github.com/pytorch/kineto>.

mod event;
mod names;
mod processes;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};

use millstream_profile::Interned;

use crate::input::Input;
use crate::json::{Json, Value};
use crate::recording::{
    Arrow, DeviceEvent, HostEvent, Name, Named, Record, Recording, StreamId, Sync, SyncKind,
    Thread, counted,
};
use crate::{Result, TimelineError};

use event::{Category, EventForm, id, known, last_number};
pub(crate) use names::short;
use processes::{Device, Devices};

/// The events that have something odd in common.
struct Odd {
    count: usize,
    /// The first one.
    first: String,
}

/// A recording while its file is read. Until the end, threads have positions in `ids` as processes.
#[derive(Default)]
struct Reading {
    recording: Recording,
    /// What the file calls its processes and threads: numbers, or texts.
    ids: Vec<String>,
    interned: Interned<String>,
    threads: HashMap<(u32, u32), u32>,
    labels: HashMap<(u32, u32), String>,
    devices: Devices,
    /// Where arrows begin and end, by their numbers.
    tails: HashMap<i64, (u32, i64)>,
    heads: Vec<(i64, Name, (u32, i64))>,
    /// The number of events so far.
    events: u64,
    /// By what is odd.
    odd: BTreeMap<&'static str, Odd>,
    /// How many events of each category are not read.
    unread: BTreeMap<String, u64>,
}

/// Reads a Kineto file.
///
/// # Errors
/// The file cannot be read to its end, or has no events.
pub(crate) fn read(input: Input) -> Result<Recording> {
    let file = input.error("");
    let mut reading = Reading::default();
    let mut json = Json::new(input);
    match reading.file(&mut json) {
        Ok(true) => {}
        Ok(false) => {
            let message = "it has no 'traceEvents': expected a file of PyTorch's profiler";
            return Err(TimelineError { message: message.to_owned(), ..file });
        }
        Err(e) => return Err(reading.broken(file, &e)),
    }
    reading.remarks();
    if json.has(b',').is_ok() {
        let remark = "what follows the end of its JSON is not read".to_owned();
        reading.recording.remarks.push(remark);
    }
    let mut recording = reading.recording;
    for (id, name, to) in reading.heads {
        let tail = reading.tails.get(&id);
        recording.arrows.extend(tail.map(|&from| Arrow { name, from, to }));
    }
    for (key, thread) in &reading.threads {
        if let Some(label) = reading.labels.get(key) {
            let name = format!("thread {} {label}", reading.ids[key.1 as usize]);
            recording.threads[*thread as usize].name = name;
        }
    }
    if recording.host.is_empty() && recording.work.is_empty() {
        let mut message = "no event of it is an op, a call or a kernel".to_owned();
        for remark in &recording.remarks {
            message = format!("{message}; {remark}");
        }
        let help = "export the trace with the activities CPU and CUDA".to_owned();
        return Err(TimelineError { message, help, ..file });
    }
    processes::assign(&mut recording, &reading.ids, &reading.devices);
    Ok(recording)
}

impl Reading {
    /// Reads a file: an object with the events under a key, or a list of events, as in 2020.
    /// Returns whether it has events at all.
    fn file(&mut self, json: &mut Json<Input>) -> io::Result<bool> {
        json.begin()?;
        if json.has(b'[')? {
            self.list(json)?;
            return Ok(true);
        }
        let mut has_events = false;
        json.has(b'{')?;
        while let Some(key) = json.key()? {
            if key == "traceEvents" && json.has(b'[')? {
                self.list(json)?;
                has_events = true;
            } else {
                json.value(&mut |_| {})?;
            }
        }
        Ok(has_events)
    }

    fn list(&mut self, json: &mut Json<Input>) -> io::Result<()> {
        let mut bytes = Vec::new();
        while json.continues(b']')? {
            bytes.clear();
            json.value(&mut |part| bytes.extend_from_slice(part))?;
            self.events += 1;
            let text = String::from_utf8_lossy(&bytes);
            self.text(&text);
            if matches!(text, std::borrow::Cow::Owned(_)) {
                let name = EventForm::of(&text).unwrap_or_default().name;
                self.odd("read with '\u{fffd}' for bytes that are not UTF-8", name);
            }
            // A bracket that closes nothing.
            if bytes.is_empty() {
                json.has(b'}')?;
            }
        }
        Ok(())
    }

    /// Returns the error of a file that ends early, with the event in which it does.
    fn broken(&self, file: TimelineError, error: &io::Error) -> TimelineError {
        let at = match self.events {
            0 => String::new(),
            events => format!("after event {events}"),
        };
        if error.kind() != ErrorKind::UnexpectedEof {
            return file.unreadable(error).at(at);
        }
        let message = "it ends within its JSON: expected the end of 'traceEvents'; it was cut off, \
                       or the next event lacks a quote or a bracket";
        TimelineError { message: message.to_owned(), ..file }.at(at)
    }

    /// Notes something odd about the event that is read.
    fn odd(&mut self, what: &'static str, name: Value<'_>) {
        let odd = self.odd.entry(what).or_insert_with(|| {
            let name = name.text().map(|name| format!(" ('{}')", short(&name)));
            Odd { count: 0, first: format!("event {}{}", self.events, name.unwrap_or_default()) }
        });
        odd.count += 1;
    }

    /// Adds to the remarks what is odd, and what is not read.
    fn remarks(&mut self) {
        let odd = self.odd.iter().filter_map(|(what, Odd { count, first })| {
            let more = format!("events are {what}; the first is {first}");
            counted(*count, &format!("event is {what}: {first}"), &more)
        });
        self.recording.remarks.extend(odd);
        let mut unread: Vec<(&String, &u64)> = self.unread.iter().collect();
        unread.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        self.recording.not_read("events", &unread);
    }

    fn text(&mut self, text: &str) {
        let (what, name) = match EventForm::of(text) {
            _ if !text.starts_with('{') => ("left out, as it is no JSON object", Value::Absent),
            Err(key) => ("left out, as it is no JSON behind a key", Value::Text(key)),
            Ok(form) => match self.event(&form) {
                Ok(()) => return,
                Err(what) => (what, form.name),
            },
        };
        self.recording.skipped += 1;
        self.odd(what, name);
    }

    fn id(&mut self, id: Value<'_>) -> Option<u32> {
        Some(self.interned.number_of(&id.text()?, &mut self.ids))
    }

    /// Returns what tells the process of an event of a device, which need not have a `pid`.
    fn device(&mut self, event: &EventForm<'_>, call: u64, start: i64) -> Device {
        let pid = event.pid.text().unwrap_or_default();
        let pid = self.interned.number_of(&pid, &mut self.ids);
        Device { pid, call, start, at: self.recording.host.len() as u32 }
    }

    /// Returns the file's names of an event's process and thread.
    fn ids(&mut self, event: &EventForm<'_>) -> Option<(u32, u32)> {
        Some((self.id(event.pid)?, self.id(event.tid)?))
    }

    fn thread(&mut self, event: &EventForm<'_>) -> std::result::Result<u32, &'static str> {
        let lacks = "left out, as its 'pid' or 'tid', which name its process and thread, is absent";
        let key = self.ids(event).ok_or(lacks)?;
        let threads = &mut self.recording.threads;
        Ok(*self.threads.entry(key).or_insert_with(|| {
            let name = format!("thread {}", self.ids[key.1 as usize]);
            threads.push(Thread { name, process: key.0 });
            threads.len() as u32 - 1
        }))
    }

    /// Takes an event.
    ///
    /// # Errors
    /// It is left out, and this is said about it.
    fn event(&mut self, event: &EventForm<'_>) -> std::result::Result<(), &'static str> {
        let phase = event.ph.text().unwrap_or_default();
        let name = event.name.text().unwrap_or_default();
        if phase == "M" {
            if let ("thread_name", Some(label)) = (name.as_ref(), event.label.text()) {
                // Kineto's own labels repeat the number.
                if !label.starts_with("thread ") && !label.starts_with("stream ") {
                    let key = self.ids(event);
                    self.labels.extend(key.map(|key| (key, label.into_owned())));
                }
            }
            return Ok(());
        }
        let text = event.cat.text().unwrap_or_default();
        let category = Category::of(&text);
        match category {
            Category::Record => return self.record(event),
            Category::Arrow => return self.arrow(event, &phase),
            Category::Repeated => return Ok(()),
            _ if phase != "X" || category == Category::Other => {
                self.recording.skipped += usize::from(phase == "X");
                *self.unread.entry(text.into_owned()).or_default() += 1;
                return Ok(());
            }
            _ => {}
        }
        let start = event.ts.scaled(3);
        let start =
            start.ok_or("left out, as its 'ts', the begin in microseconds, is no number")?;
        let length = match event.dur {
            Value::Absent => 0,
            length => length.scaled(3).ok_or("left out, as its 'dur' is no number")?,
        };
        let end = start.saturating_add(length);
        let correlation = id(event.correlation).unwrap_or(0);
        match category {
            Category::Host(kind) => {
                let (name, thread) = (self.recording.name(&name), self.thread(event)?);
                let record_function = id(event.record_function);
                let index = known(event.index).unwrap_or(0) as u64;
                let event = HostEvent::new(name, thread, kind, (start, end));
                let host = &mut self.recording.host;
                host.push(HostEvent { correlation, record_function, index, ..event });
            }
            Category::Device => {
                let lacks = "left out, as 'stream' and 'device' are not in its 'args'";
                let on = Self::stream(event).ok_or(lacks)?;
                let name = self.recording.name(&short(&name));
                self.recording.work.push(DeviceEvent { name, on, start, end, correlation });
                let device = self.device(event, correlation, start);
                self.devices.work.push(device);
            }
            Category::Range => {
                let (name, thread) = (self.recording.name(&name), self.thread(event)?);
                self.recording.ranges.push(Named { name, thread, start, end });
            }
            Category::Sync => return self.sync(event, &name),
            Category::Record | Category::Arrow | Category::Repeated | Category::Other => {}
        }
        Ok(())
    }

    /// Returns the stream of an event: of its arguments, or of the row that it is drawn in.
    fn stream(event: &EventForm<'_>) -> Option<StreamId> {
        let device = known(event.device).or_else(|| last_number(event.pid))?;
        let stream = known(event.stream).or_else(|| known(event.queue));
        let stream = stream.or_else(|| last_number(event.tid))?;
        Some(StreamId { process: 0, device, stream })
    }

    fn arrow(
        &mut self,
        event: &EventForm<'_>,
        phase: &str,
    ) -> std::result::Result<(), &'static str> {
        let lacks = "left out, as its 'id' or 'ts' is no number";
        let (id, time) = event.id.scaled(0).zip(event.ts.scaled(3)).ok_or(lacks)?;
        let at = (self.thread(event)?, time);
        match phase {
            "s" => drop(self.tails.insert(id, at)),
            "f" => {
                let name = self.recording.name(&event.name.text().unwrap_or_default());
                self.heads.push((id, name, at));
            }
            _ => {}
        }
        Ok(())
    }

    fn record(&mut self, event: &EventForm<'_>) -> std::result::Result<(), &'static str> {
        let of = known(event.event).or_else(|| known(event.wait_event)).zip(id(event.correlation));
        let lacks = "left out, as its 'event_id', 'stream' or 'correlation' is not known";
        let ((event_id, correlation), on) = of.zip(Self::stream(event)).ok_or(lacks)?;
        let context = known(event.context).unwrap_or(0);
        let shared = None;
        self.recording.records.push(Record { on, context, event: event_id, correlation, shared });
        let device = self.device(event, correlation, i64::MAX);
        self.devices.records.push(device);
        Ok(())
    }

    fn sync(&mut self, event: &EventForm<'_>, name: &str) -> std::result::Result<(), &'static str> {
        let kind = match name {
            "Stream Wait Event" => SyncKind::StreamWait,
            "Event Sync" => SyncKind::Event,
            "Stream Sync" => SyncKind::Stream,
            "Context Sync" => SyncKind::Context,
            _ => return Err("left out, as its name is none of the known kinds of synchronization"),
        };
        let device = known(event.device).or_else(|| last_number(event.pid)).unwrap_or(0);
        let correlation = id(event.correlation).unwrap_or(0);
        let process = 0;
        let stream =
            |number: Option<i64>| number.map(|stream| StreamId { process, device, stream });
        self.recording.syncs.push(Sync {
            kind,
            correlation,
            on: stream(known(event.stream)),
            process,
            device,
            context: known(event.context).unwrap_or(0),
            event: known(event.wait_event),
            source: stream(known(event.wait_stream)),
            record: id(event.wait_record),
            shared: None,
        });
        let device = self.device(event, correlation, i64::MAX);
        self.devices.syncs.push(device);
        Ok(())
    }
}
