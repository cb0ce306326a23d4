//! Recordings of a program's streams, events and memory, as the recorder writes them:
//! `streams.json`. They have no times; docs/record.md describes the format.
//!
//! # Rules
//! - Every entry is a call of the host: an op, which submits work to a stream or runs on the host,
//!   or a call of the CUDA runtime. All waits name what they wait for.
//! - A device is one piece of memory, and a storage a part of it: the verifier orders the uses of
//!   storages that share addresses as it orders those of one storage.
//! - The allocator gives a block to the stream that had it, in the order of the host's calls. It
//!   waits for the streams that a program named with `record_stream` before it does; a block that
//!   another stream gets was given back to the driver, which waits for all work.

mod form;

use std::collections::{BTreeMap, HashMap, HashSet};

use millstream_profile::model::{NONE, Operand, Storage, Tensor};
use millstream_trace::et::nodes::written;
use millstream_types::{DType, Layout, TensorSpec};

use self::form::{EntryForm, FileForm, OpForm, StorageForm, What};
use crate::error::Result;
use crate::input::Input;
use crate::link::{LinkedNode, Links, Uses};
use crate::recording::{
    DeviceEvent, HostEvent, HostKind, Record, Recording, StreamId, Sync, SyncKind, Thread,
};

/// The version of the format.
const VERSION: u32 = 1;

/// Ops that do not read what they write.
const OVERWRITING: &[&str] =
    &["aten::copy_", "aten::fill_", "aten::zero_", "aten::_foreach_copy_", "aten::_foreach_zero_"];

/// The nanoseconds of an entry: the recording has an order and no times.
const STEP: i64 = 1000;

/// A block that was freed.
struct Freed {
    end: u64,
    /// The stream that it was allocated for, if the recording has that.
    stream: Option<usize>,
    /// The calls that recorded events on the streams that `record_stream` named, and the streams.
    uses: Vec<(u64, usize)>,
}

struct Reader<'a> {
    file: &'a FileForm,
    recording: Recording,
    links: Links,
    /// The time of the next call, and the number of the last one.
    now: i64,
    calls: u64,
    /// The call and the stream of each record.
    records: HashMap<u64, (u64, usize)>,
    /// By device and address.
    freed: BTreeMap<(&'a str, u64), Freed>,
    allocated: HashMap<usize, usize>,
    used: HashMap<usize, Vec<usize>>,
    /// The streams that have work or waits.
    busy: HashSet<StreamId>,
}

/// Reads a recording, and the tensors of its ops.
pub(crate) fn read(input: Input) -> Result<(Recording, Links)> {
    let (name, help) = (input.error(""), "record it again with millstream.streams");
    let wrong = |message: String| crate::TimelineError { message, ..name.clone() }.help(help);
    let mut file: FileForm = serde_json::from_reader(std::io::BufReader::new(input))
        .map_err(|e| wrong(format!("it is no recording of streams: {e}")))?;
    if file.version != VERSION {
        return Err(wrong(format!("it has version {}; expected {VERSION}", file.version)));
    }
    let entries = std::mem::take(&mut file.entries);
    let mut reader = Reader::new(&file).map_err(wrong)?;
    for (k, entry) in entries.iter().enumerate() {
        reader.entry(entry).map_err(|message| wrong(message).at(format!("entry {}", k + 1)))?;
    }
    let is_op = |entry: &EntryForm| matches!(&entry.what, What::Op(op) if !op.unknown);
    if !entries.iter().any(is_op) {
        return Err(wrong("none of its ops has known tensors".to_owned()));
    }
    Ok((reader.recording, reader.links))
}

/// Returns an element of a table.
fn get<'a, T>(table: &'a [T], k: usize, what: &str) -> std::result::Result<&'a T, String> {
    table.get(k).ok_or_else(|| format!("{what} {k} of {}", table.len()))
}

fn device_number(device: &str) -> i64 {
    device.rsplit(':').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl<'a> Reader<'a> {
    fn new(file: &'a FileForm) -> std::result::Result<Reader<'a>, String> {
        let mut reader = Reader {
            file,
            recording: Recording::default(),
            links: Links::default(),
            now: 0,
            calls: 0,
            records: HashMap::new(),
            freed: BTreeMap::new(),
            allocated: HashMap::new(),
            used: HashMap::new(),
            busy: HashSet::new(),
        };
        reader.recording.processes.push(String::new());
        // The first address of each device.
        let mut bases: BTreeMap<&str, u64> = BTreeMap::new();
        for StorageForm { device, address, .. } in &file.storages {
            if device != "cpu" {
                let base = bases.entry(device).or_insert(*address);
                *base = (*base).min(*address);
            }
        }
        reader.links.arenas = bases.keys().map(|device| (*device).to_owned()).collect();
        for StorageForm { device, address, bytes } in &file.storages {
            let arena = bases.keys().position(|known| known == device);
            let known = arena.map(|arena| (arena as u32, address - bases[&**device]));
            let (arena, offset) = known.unwrap_or((NONE, u64::MAX));
            let storage = Storage { arena, offset, size: *bytes, ..Storage::default() };
            reader.links.storages.push(storage);
        }
        for (k, form) in file.tensors.iter().enumerate() {
            get(&file.storages, form.storage, "storage")?;
            let dtype: DType = form.dtype.parse().map_err(|e| format!("tensor {k}: {e}"))?;
            let layout = Layout::strided(&form.shape, &form.strides, form.offset);
            let spec = layout.and_then(|layout| TensorSpec::new(dtype, layout));
            let spec = spec.map_err(|e| format!("tensor {k}: {e}"))?;
            reader.tensor(form.storage as u32, spec);
        }
        Ok(reader)
    }

    fn tensor(&mut self, storage: u32, spec: TensorSpec) -> u32 {
        let number = self.links.tensors.len() as u32;
        let name = format!("t{number}");
        self.links.tensors.push(Tensor { name, spec: spec.brief(), storage });
        self.links.specs.push(spec);
        let known = &mut self.links.storages[storage as usize];
        if known.tensor == NONE {
            known.tensor = number;
        }
        number
    }

    fn on(&self, stream: usize) -> std::result::Result<StreamId, String> {
        let device = device_number(&get(&self.file.streams, stream, "stream")?.device);
        Ok(StreamId { process: 0, device, stream: stream as i64 })
    }

    /// Adds an event of the host, and returns its start.
    fn host(&mut self, entry: &EntryForm, kind: HostKind, name: &str, link: u32) -> i64 {
        let start = self.now;
        let correlation = if kind == HostKind::Call { self.calls } else { 0 };
        let (end, name) = (self.end(), self.recording.name(name));
        let index = self.recording.host.len() as u64;
        let event = HostEvent::new(name, entry.thread, kind, (start, end));
        self.recording.host.push(HostEvent { correlation, index, link, ..event });
        start
    }

    /// Returns the end of the entry that now lasts.
    fn end(&self) -> i64 {
        (self.now / STEP + 1) * STEP - 1
    }

    /// Adds a call of the CUDA runtime, and returns its number.
    fn call(&mut self, entry: &EntryForm, name: &str) -> u64 {
        self.calls += 1;
        self.host(entry, HostKind::Call, name, NONE);
        let last = self.recording.host.len() - 1;
        self.now += 1;
        self.recording.host[last].end = self.now;
        self.calls
    }

    fn entry(&mut self, entry: &EntryForm) -> std::result::Result<(), String> {
        if entry.thread as usize > self.recording.threads.len() {
            return Err(format!("thread {} of {}", entry.thread, self.recording.threads.len()));
        }
        if entry.thread as usize == self.recording.threads.len() {
            let name = format!("thread {}", entry.thread);
            self.recording.threads.push(Thread { name, process: 0 });
        }
        self.now = self.end() + 1;
        for function in get(&self.file.stacks, entry.at, "stack")?.iter().rev() {
            self.host(entry, HostKind::Function, function, NONE);
        }
        match &entry.what {
            What::Op(op) => self.op(entry, op)?,
            What::Record { stream, event } => {
                let call = self.record(entry, *stream)?;
                self.records.insert(*event, (call, *stream));
            }
            // An event of before the recording orders nothing that is recorded.
            What::Wait { event: None, .. } | What::SyncEvent { event: None } => {}
            What::Wait { stream, event: Some(event) } => {
                let (on, record) = (self.on(*stream)?, self.recorded(*event)?);
                self.busy.insert(on);
                let (name, kind) = ("cudaStreamWaitEvent", SyncKind::StreamWait);
                self.sync(entry, name, kind, Some(on), Some(record));
            }
            What::SyncEvent { event: Some(event) } => {
                let record = self.recorded(*event)?;
                self.sync(entry, "cudaEventSynchronize", SyncKind::Event, None, Some(record));
            }
            What::SyncStream { stream } => {
                let on = self.on(*stream)?;
                // Without work there is nothing to wait for.
                if self.busy.contains(&on) {
                    self.sync(entry, "cudaStreamSynchronize", SyncKind::Stream, Some(on), None);
                }
            }
            What::SyncDevice { device } => self.sync_device(entry, device),
            What::Alloc { storage, stream } => self.alloc(entry, *storage, *stream)?,
            What::Free { storage } => self.free(entry, *storage)?,
            What::Use { storage, stream } => {
                self.on(*stream)?;
                let used = self.used.entry(*storage).or_default();
                if !used.contains(stream) {
                    used.push(*stream);
                }
            }
        }
        Ok(())
    }

    fn op(&mut self, entry: &EntryForm, op: &OpForm) -> std::result::Result<(), String> {
        let schema = get(&self.file.ops, op.op, "op")?;
        let name = schema.split(['(', '.']).next().unwrap_or_default();
        let (written, is_known) = written(schema, &op.flags);
        let mut uses = Uses { is_known: is_known && !op.unknown, touches: true, ..Uses::default() };
        // A device also uses memory of the host: the copies' pinned one.
        let by_host = op.stream.is_none();
        for &(argument, tensor) in &op.inputs {
            get(&self.file.tensors, tensor, "tensor")?;
            let writes = written.get(argument).copied().unwrap_or(false);
            let reads = !writes || !OVERWRITING.contains(&name);
            uses.add(by_host, Operand { tensor: tensor as u32, reads, writes });
        }
        let is_input = |tensor: u32| {
            let storage = |tensor: u32| self.file.tensors[tensor as usize].storage;
            op.inputs.iter().any(|(_, input)| storage(*input as u32) == storage(tensor))
        };
        for &tensor in &op.outputs {
            get(&self.file.tensors, tensor, "tensor")?;
            // A result in the memory of an argument has the argument's access.
            if !is_input(tensor as u32) {
                uses.add(by_host, Operand { tensor: tensor as u32, reads: false, writes: true });
            }
        }
        for &storage in &op.scratch {
            let bytes = get(&self.file.storages, storage, "storage")?.bytes.max(1);
            let spec = TensorSpec::contiguous(DType::U8, &[bytes as usize]);
            let tensor = self.tensor(storage as u32, spec.map_err(|e| e.to_string())?);
            uses.add(by_host, Operand { tensor, reads: false, writes: true });
        }
        let link = self.links.add(LinkedNode { id: op.node, uses: Some(uses) });
        let start = self.host(entry, HostKind::Op, name, link);
        let Some(stream) = op.stream else { return Ok(()) };
        let (on, correlation) = (self.on(stream)?, self.call(entry, "cudaLaunchKernel"));
        self.busy.insert(on);
        let name = self.recording.name(name);
        let (start, end) = (start + 2, start + 3);
        self.recording.work.push(DeviceEvent { name, on, start, end, correlation });
        Ok(())
    }

    /// Adds the record of an event, and returns its call.
    fn record(&mut self, entry: &EntryForm, stream: usize) -> std::result::Result<u64, String> {
        let (on, correlation) = (self.on(stream)?, self.call(entry, "cudaEventRecord"));
        let event = correlation as i64;
        self.recording.records.push(Record { on, context: 0, event, correlation, shared: None });
        Ok(correlation)
    }

    /// Returns the call that recorded an event, and the stream.
    fn recorded(&self, event: u64) -> std::result::Result<(u64, usize), String> {
        let known = self.records.get(&event).copied();
        known.ok_or_else(|| format!("event {event} is not recorded before"))
    }

    /// Adds a wait of the host or a stream.
    fn sync(
        &mut self,
        entry: &EntryForm,
        name: &str,
        kind: SyncKind,
        on: Option<StreamId>,
        record: Option<(u64, usize)>,
    ) {
        let source = record.and_then(|(_, stream)| self.on(stream).ok());
        let correlation = self.call(entry, name);
        self.recording.syncs.push(Sync {
            kind,
            correlation,
            on,
            process: 0,
            device: on.or(source).map_or(0, |stream| stream.device),
            context: 0,
            event: None,
            source,
            record: record.map(|(call, _)| call),
            shared: None,
        });
    }

    fn sync_device(&mut self, entry: &EntryForm, device: &str) {
        self.sync(entry, "cudaDeviceSynchronize", SyncKind::Context, None, None);
        if let Some(sync) = self.recording.syncs.last_mut() {
            sync.device = device_number(device);
        }
    }

    /// Adds the waits of the allocator before it gives a block out again.
    fn alloc(
        &mut self,
        entry: &EntryForm,
        storage: usize,
        stream: usize,
    ) -> std::result::Result<(), String> {
        let file = self.file;
        let StorageForm { device, address, bytes } = get(&file.storages, storage, "storage")?;
        self.on(stream)?;
        self.allocated.insert(storage, stream);
        let end = address.saturating_add((*bytes).max(1));
        let device = device.as_str();
        let below = self.freed.range((device, 0)..(device, end)).rev();
        let reused = below.take_while(|(_, block)| block.end > *address);
        let reused: Vec<(&str, u64)> = reused.map(|(key, _)| *key).collect();
        for key in reused {
            let Some(block) = self.freed.remove(&key) else { continue };
            for used in block.uses {
                self.sync(entry, "cudaEventSynchronize", SyncKind::Event, None, Some(used));
            }
            if block.stream.is_some_and(|before| before != stream) {
                self.sync_device(entry, device);
            }
        }
        Ok(())
    }

    fn free(&mut self, entry: &EntryForm, storage: usize) -> std::result::Result<(), String> {
        let StorageForm { device, address, bytes } = get(&self.file.storages, storage, "storage")?;
        let mut uses = Vec::new();
        for stream in self.used.remove(&storage).unwrap_or_default() {
            uses.push((self.record(entry, stream)?, stream));
        }
        let (end, stream) =
            (address.saturating_add((*bytes).max(1)), self.allocated.remove(&storage));
        self.freed.insert((device, *address), Freed { end, stream, uses });
        Ok(())
    }
}
