//! The SQLite export of Nsight Systems: `nsys export --type sqlite`.
//!
//! Older exports lack some columns, and tables exist only if the recording has such events: what is
//! absent is read as unknown. Names of tables may end with a version. Times are nanoseconds. Thread
//! numbers hold the process in the bits from the 24th on; each process numbers its calls.
//!
//! Source: "SQLite Schema Reference" of the Nsight Systems User Guide.

mod database;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::kineto::short;
use crate::recording::{
    DeviceEvent, HostEvent, HostKind, Named, Record, Recording, StreamId, Sync, SyncKind, Thread,
    counted,
};
use crate::{Result, TimelineError};

use database::{Database, Value};

/// What the docs of CUPTI call the kinds of copies, by number.
const COPY_KINDS: [&str; 11] =
    ["", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"];

/// The kinds of events of NVTX that are ranges: pushed and popped, started and ended.
const RANGES: [i64; 2] = [59, 60];

/// Reads an export.
///
/// # Errors
/// The file is no database, is damaged, or has none of the tables of CUDA.
pub(crate) fn read(path: &Path) -> Result<Recording> {
    let database = Database::open(path)?;
    let mut reading = Reading {
        database,
        recording: Recording::default(),
        strings: HashMap::new(),
        threads: HashMap::new(),
        processes: HashMap::new(),
        untimed: BTreeMap::new(),
    };
    reading.strings()?;
    reading.calls()?;
    reading.kernels()?;
    reading.copies()?;
    reading.records()?;
    reading.syncs()?;
    reading.ranges()?;
    reading.remarks()?;
    let recording = reading.recording;
    if recording.host.is_empty() && recording.work.is_empty() {
        let message = "no table of it has a call of CUDA or a kernel";
        let help = "record with `nsys profile --trace cuda,nvtx`, then `nsys export --type sqlite`";
        return Err(TimelineError::of_file(path, message).help(help));
    }
    Ok(recording)
}

struct Reading<'a> {
    database: Database<'a>,
    recording: Recording,
    /// The texts of the file, by id.
    strings: HashMap<i64, String>,
    /// The threads, by the file's number.
    threads: HashMap<i64, u32>,
    /// The processes, by the file's number without its thread.
    processes: HashMap<i64, u32>,
    /// How many rows of each table have no times.
    untimed: BTreeMap<&'static str, usize>,
}

/// Returns the number of a call; 0 if there is none.
fn call(correlation: &Value) -> u64 {
    correlation.known().unwrap_or(0) as u64
}

/// Returns the number that a record shares with its waits, of which each process has its own.
fn shared_number(process: u32, number: &Value) -> Option<i64> {
    number.known().filter(|number| *number > 0).map(|number| (i64::from(process) << 40) | number)
}

impl Reading<'_> {
    fn strings(&mut self) -> Result<()> {
        for row in self.database.rows("StringIds", "id value")? {
            if let [Value::Whole(id), Value::Text(text)] = row {
                self.strings.insert(id, text);
            }
        }
        Ok(())
    }

    fn text<'t>(&'t self, id: &'t Value) -> &'t str {
        match id {
            Value::Whole(id) => self.strings.get(id).map_or("?", String::as_str),
            Value::Text(text) => text,
            Value::None => "?",
        }
    }

    /// Returns the process of a thread's number. Older exports do not name the process of work; it
    /// is that of the calls, which are read first.
    fn process(&mut self, thread: &Value) -> u32 {
        let Some(thread) = thread.whole() else { return 0 };
        let next = self.processes.len() as u32;
        *self.processes.entry(thread >> 24).or_insert_with(|| {
            self.recording.processes.push(((thread >> 24) & 0xff_ffff).to_string());
            next
        })
    }

    fn thread(&mut self, number: &Value) -> u32 {
        let process = self.process(number);
        let number = number.whole().unwrap_or(0);
        let threads = &mut self.recording.threads;
        *self.threads.entry(number).or_insert_with(|| {
            let name = format!("thread {}", number & 0xff_ffff);
            threads.push(Thread { name, process });
            threads.len() as u32 - 1
        })
    }

    /// Returns the times of a row, which has a begin and an end. Otherwise it is left out.
    fn times(&mut self, table: &'static str, start: &Value, end: &Value) -> Option<(i64, i64)> {
        let times = start.whole().zip(end.whole());
        if times.is_none() {
            *self.untimed.entry(table).or_default() += 1;
        }
        times
    }

    /// Adds remarks on the rows that are left out and on the tables of events that are not read.
    fn remarks(&mut self) -> Result<()> {
        for (table, count) in &self.untimed {
            let lacks = format!("left out, without a 'start' or 'end', of the table {table}");
            let more = format!("rows are {lacks}");
            self.recording.remarks.extend(counted(*count, &format!("row is {lacks}"), &more));
            self.recording.skipped += count;
        }
        let unread = self.database.unread()?;
        let unread: Vec<(&String, &u64)> = unread.iter().map(|(name, rows)| (name, rows)).collect();
        self.recording.not_read("rows of tables", &unread);
        Ok(())
    }

    fn calls(&mut self) -> Result<()> {
        let columns = "start end globalTid correlationId? nameId";
        for table in ["CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER"] {
            for [start, end, thread, correlation, name] in &self.database.rows(table, columns)? {
                let Some(times) = self.times(table, start, end) else { continue };
                let text = self.text(name).to_owned();
                // The names end with the version of the function: cudaLaunchKernel_v7000.
                let text = text.split("_v").next().unwrap_or_default();
                let thread = self.thread(thread);
                let name = self.recording.name(text);
                let event = HostEvent::new(name, thread, HostKind::Call, times);
                self.recording.host.push(HostEvent { correlation: call(correlation), ..event });
            }
        }
        Ok(())
    }

    fn kernels(&mut self) -> Result<()> {
        let table = "CUPTI_ACTIVITY_KIND_KERNEL";
        let columns =
            "start end globalPid? deviceId streamId correlationId? demangledName? shortName";
        let rows = self.database.rows(table, columns)?;
        for [start, end, process, device, stream, correlation, long, name] in &rows {
            let Some((start, end)) = self.times(table, start, end) else { continue };
            let name = if *long == Value::None { name } else { long };
            let name = short(self.text(name)).into_owned();
            self.work(&name, [process, device, stream, correlation], (start, end));
        }
        Ok(())
    }

    fn work(&mut self, name: &str, of: [&Value; 4], times: (i64, i64)) {
        let [process, device, stream, correlation] = of;
        let process = self.process(process);
        let (device, stream) = (device.whole().unwrap_or(0), stream.whole().unwrap_or(0));
        let name = self.recording.name(name);
        self.recording.work.push(DeviceEvent {
            name,
            on: StreamId { process, device, stream },
            start: times.0,
            end: times.1,
            correlation: call(correlation),
        });
    }

    fn copies(&mut self) -> Result<()> {
        for table in ["CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"] {
            let columns = "start end globalPid? deviceId streamId correlationId? copyKind?";
            let rows = self.database.rows(table, columns)?;
            for [start, end, process, device, stream, correlation, kind] in &rows {
                let Some(times) = self.times(table, start, end) else { continue };
                let kind = kind.known().and_then(|kind| COPY_KINDS.get(kind as usize));
                let name = match kind {
                    Some(kind) => format!("Memcpy {kind}"),
                    None if table.ends_with("MEMSET") => "Memset".to_owned(),
                    None => "Memcpy".to_owned(),
                };
                self.work(&name, [process, device, stream, correlation], times);
            }
        }
        Ok(())
    }

    fn records(&mut self) -> Result<()> {
        let columns = "globalPid? deviceId contextId? streamId eventId correlationId eventSyncId?";
        let rows = self.database.rows("CUPTI_ACTIVITY_KIND_CUDA_EVENT", columns)?;
        for [process, device, context, stream, event, correlation, shared] in &rows {
            let process = self.process(process);
            let (device, stream) = (device.whole().unwrap_or(0), stream.whole().unwrap_or(0));
            self.recording.records.push(Record {
                on: StreamId { process, device, stream },
                context: context.whole().unwrap_or(0),
                event: event.whole().unwrap_or(0),
                correlation: call(correlation),
                shared: shared_number(process, shared),
            });
        }
        Ok(())
    }

    fn syncs(&mut self) -> Result<()> {
        let columns = "globalPid? deviceId? contextId? streamId? eventId? \
                       correlationId syncType eventSyncId?";
        let rows = self.database.rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", columns)?;
        for [process, device, context, stream, event, correlation, kind, shared] in &rows {
            // Source: CUpti_ActivitySynchronizationType.
            let kind = match kind.whole() {
                Some(1) => SyncKind::Event,
                Some(2) => SyncKind::StreamWait,
                Some(3) => SyncKind::Stream,
                Some(4) => SyncKind::Context,
                _ => continue,
            };
            let process = self.process(process);
            let device = device.known().unwrap_or(0);
            let stream = stream.known().filter(|_| kind != SyncKind::Context);
            self.recording.syncs.push(Sync {
                kind,
                correlation: call(correlation),
                on: stream.map(|stream| StreamId { process, device, stream }),
                process,
                device,
                context: context.whole().unwrap_or(0),
                event: event.known(),
                source: None,
                record: None,
                shared: shared_number(process, shared),
            });
        }
        Ok(())
    }

    fn ranges(&mut self) -> Result<()> {
        let table = "NVTX_EVENTS";
        let columns = "start end eventType text? textId? globalTid?";
        for [start, end, kind, text, id, thread] in &self.database.rows(table, columns)? {
            let is_range = kind.whole().is_some_and(|kind| RANGES.contains(&kind));
            // A range that the recording cut off has no end.
            if !is_range || *end == Value::None {
                continue;
            }
            let Some((start, end)) = self.times(table, start, end) else { continue };
            let text = if *text == Value::None { id } else { text };
            let text = self.text(text).to_owned();
            let thread = self.thread(thread);
            // `torch.autograd.profiler.emit_nvtx` writes ops: "aten::add, seq = 3, op_id = 5".
            if let Some((name, _)) = text.split_once(", seq = ").or(text.split_once(", op_id = ")) {
                let name = self.recording.name(name);
                let event = HostEvent::new(name, thread, HostKind::Op, (start, end));
                self.recording.host.push(event);
                continue;
            }
            let name = self.recording.name(&text);
            self.recording.ranges.push(Named { name, thread, start, end });
        }
        Ok(())
    }
}
