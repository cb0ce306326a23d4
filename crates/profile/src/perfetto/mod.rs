//! A profile as a trace of Perfetto, which <https://ui.perfetto.dev> opens.
//!
//! Each device is a process, each stream a thread, each instruction a slice; each wait that was
//! made is a flow from the end of what it waits for to its own end. Each arena is a counter. The
//! file holds the profile itself too, where Perfetto passes over it, so that [`read`] gets it back.
//!
//! Slices of a thread must nest, so instructions that overlap (on a pool) have lanes of their own.

mod messages;

use std::collections::HashMap;

use prost::Message;

use crate::interned::Interned;
use crate::model::{Instruction, NONE, Outcome, Profile, Role, Times};
use crate::{columns, lanes, memory};

use messages::{
    COUNTER, CounterDescriptor, DebugAnnotation, InternedBytes, InternedData, InternedName,
    NEEDS_STATE, ProcessDescriptor, SLICE_BEGIN, SLICE_END, STATE_CLEARED, ThreadDescriptor, Trace,
    TracePacket, TrackDescriptor, TrackEvent, UNIT_SIZE_BYTES,
};

/// The number of the one sequence of packets.
const SEQUENCE: u32 = 1;

/// The names of annotations, by their ids from 1.
const ANNOTATIONS: [&str; 7] =
    ["place", "operands", "issued_ns", "ready_ns", "seq", "outcome", "instruction"];

/// The categories, by their ids from 1.
const CATEGORIES: [&str; 4] = ["work", "wait", "order", "program"];

const fn category(role: Role) -> u64 {
    match role {
        Role::Work | Role::Launch => 1,
        Role::Wait => 2,
        Role::Record
        | Role::Fence
        | Role::Order
        | Role::Allocate
        | Role::View
        | Role::Release
        | Role::Observe => 3,
    }
}

/// Returns the bytes of a Perfetto trace.
pub fn write(profile: &Profile) -> Vec<u8> {
    let (names, values) = (Texts::default(), Texts::default());
    let mut writing = Writing { profile, out: Vec::new(), events: Vec::new(), names, values };
    writing.tracks();
    writing.instructions();
    writing.program();
    writing.memory();
    writing.finish()
}

/// Reads the profile in a Perfetto trace that [`write()`] has written.
///
/// # Errors
/// The bytes are no trace, or hold no profile.
pub fn read(bytes: &[u8]) -> Result<Profile, String> {
    let trace = Trace::decode(bytes).map_err(|_| {
        "it holds no profile: expected a file that `--profile` or `--html` has written, or another \
         program's timeline; `millstream run PROGRAM --profile FILE` records a profile"
    })?;
    let own = trace.packet.into_iter().find_map(|packet| packet.millstream);
    let own = own.ok_or("the trace holds no profile of Millstream's; only such traces are read")?;
    columns::read(&own)
}

/// Texts with their ids, from 1.
#[derive(Default)]
struct Texts {
    known: Interned<String>,
    all: Vec<String>,
}

impl Texts {
    fn id(&mut self, text: &str) -> Option<u64> {
        Some(u64::from(self.known.number_of(text, &mut self.all)) + 1)
    }
}

/// Returns names with their ids, from 1.
fn interned<N: AsRef<str>>(names: &[N]) -> Vec<InternedName> {
    let one = |(iid, name): (u64, &N)| InternedName {
        iid: Some(iid),
        name: Some(name.as_ref().to_owned()),
    };
    (1..).zip(names).map(one).collect()
}

struct Writing<'a> {
    profile: &'a Profile,
    out: Vec<u8>,
    /// Packets with the time by which they are sorted; ends before begins of the same time.
    events: Vec<((u64, u8, u64), TracePacket)>,
    names: Texts,
    values: Texts,
}

/// The ids of tracks.
fn process(device: usize) -> u64 {
    (1 << 32) | device as u64
}

fn lane_track(stream: u32, lane: u32) -> u64 {
    (2 << 32) | u64::from(stream) << 12 | u64::from(lane.min(4095))
}

fn program_track(kind: u64, number: u32) -> u64 {
    (3 << 32) | kind << 24 | u64::from(number)
}

fn counter_track(arena: u32) -> u64 {
    (4 << 32) | u64::from(arena)
}

impl Writing<'_> {
    fn packet(&mut self, packet: TracePacket) {
        let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        let trace = Trace { packet: vec![packet] };
        // A buffer takes everything.
        let _ = trace.encode(&mut self.out);
    }

    fn describe(&mut self, descriptor: TrackDescriptor) {
        self.packet(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
    }

    fn tracks(&mut self) {
        self.packet(TracePacket {
            sequence_flags: Some(STATE_CLEARED),
            interned_data: Some(InternedData {
                event_categories: interned(&CATEGORIES),
                debug_annotation_names: interned(&ANNOTATIONS),
                ..InternedData::default()
            }),
            ..TracePacket::default()
        });
        let mut devices: Vec<String> = vec!["program".to_owned()];
        for stream in &self.profile.streams {
            if !devices.contains(&stream.device) {
                devices.push(stream.device.clone());
            }
        }
        for (k, device) in devices.iter().enumerate() {
            self.describe(TrackDescriptor {
                uuid: Some(process(k)),
                process: Some(ProcessDescriptor {
                    pid: Some(k as i32 + 1),
                    process_name: Some(device.clone()),
                }),
                ..TrackDescriptor::default()
            });
        }
        let lanes = lanes::counts(self.profile);
        for (k, stream) in self.profile.streams.iter().enumerate() {
            let device = devices.iter().position(|d| *d == stream.device).unwrap_or(0);
            for lane in 0..lanes[k] {
                let name = match lane {
                    0 => stream.name.clone(),
                    lane => format!("{} lane {}", stream.name, lane + 1),
                };
                let (pid, tid) = (device as i32 + 1, (k as i32 + 1) * 4096 + lane as i32);
                self.describe(thread(lane_track(k as u32, lane), pid, tid, name));
            }
        }
        let mut threads: Vec<u32> = self.profile.ranges.iter().map(|r| r.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        for of in threads {
            let name = format!("ranges of thread {of}");
            self.describe(thread(program_track(0, of), 1, of as i32 + 100, name));
        }
        if !self.profile.pauses.is_empty() {
            let name = "the program waits".to_owned();
            self.describe(thread(program_track(1, 0), 1, 99, name));
        }
        for (k, arena) in self.profile.arenas.clone().iter().enumerate() {
            self.describe(TrackDescriptor {
                uuid: Some(counter_track(k as u32)),
                name: Some(format!("memory of {arena}")),
                parent_uuid: Some(process(0)),
                counter: Some(CounterDescriptor { unit: Some(UNIT_SIZE_BYTES) }),
                ..TrackDescriptor::default()
            });
        }
    }

    /// Adds an event. `order` sorts the events of one moment: ends from the inside, then begins.
    fn event(&mut self, at: u64, order: (u8, u64), event: TrackEvent) {
        let packet = TracePacket {
            timestamp: Some(at),
            sequence_flags: Some(NEEDS_STATE),
            track_event: Some(event),
            ..TracePacket::default()
        };
        self.events.push(((at, order.0, order.1), packet));
    }

    fn slice(
        &mut self,
        track: u64,
        begin: TrackEvent,
        end: TrackEvent,
        times: [u64; 2],
        depth: u64,
    ) {
        let [start, stop] = times;
        // A slice without duration ends after it begins.
        let last = if stop == start { 2 } else { 0 };
        let begin = TrackEvent { r#type: Some(SLICE_BEGIN), track_uuid: Some(track), ..begin };
        self.event(start, (1, depth), begin);
        let end = TrackEvent { r#type: Some(SLICE_END), track_uuid: Some(track), ..end };
        self.event(stop, (last, u64::MAX - depth), end);
    }

    fn instructions(&mut self) {
        let profile = self.profile;
        let mut from: HashMap<u32, Vec<u64>> = HashMap::new();
        let mut to: HashMap<u32, Vec<u64>> = HashMap::new();
        for (flow, wait) in profile.waits.iter().enumerate() {
            let known = wait.until != NONE && wait.waiter != NONE && !wait.resolution.is_elided();
            let shown = |k: u32| profile.instructions[k as usize].is_shown();
            if known && shown(wait.until) && shown(wait.waiter) {
                from.entry(wait.until).or_default().push(flow as u64 + 1);
                to.entry(wait.waiter).or_default().push(flow as u64 + 1);
            }
        }
        let lanes = lanes::of(profile);
        for (k, instruction, times) in profile.shown() {
            let begin = TrackEvent {
                category_iids: vec![category(instruction.role)],
                name_iid: self.names.id(profile.name_of(instruction)),
                debug_annotations: self.annotations(k, instruction, times),
                ..TrackEvent::default()
            };
            let end = TrackEvent {
                flow_ids: from.remove(&(k as u32)).unwrap_or_default(),
                terminating_flow_ids: to.remove(&(k as u32)).unwrap_or_default(),
                ..TrackEvent::default()
            };
            let track = lane_track(instruction.stream, lanes[k]);
            self.slice(track, begin, end, [times.start, times.end], k as u64);
        }
    }

    fn annotations(
        &mut self,
        index: usize,
        instruction: &Instruction,
        times: Times,
    ) -> Vec<DebugAnnotation> {
        let profile = self.profile;
        let mut all = Vec::new();
        let name = |k: u64| DebugAnnotation { name_iid: Some(k), ..DebugAnnotation::default() };
        let place = profile.place_of(instruction);
        if !place.is_empty() {
            let string_value_iid = self.values.id(place);
            all.push(DebugAnnotation { string_value_iid, ..name(1) });
        }
        if instruction.operands[0] < instruction.operands[1] {
            let string_value = Some(profile.shapes_of(instruction));
            all.push(DebugAnnotation { string_value, ..name(2) });
        }
        if let Some(issued) = instruction.issued {
            all.push(DebugAnnotation { uint_value: Some(issued), ..name(3) });
        }
        if times.ready != times.start {
            all.push(DebugAnnotation { uint_value: Some(times.ready), ..name(4) });
        }
        all.push(DebugAnnotation { uint_value: Some(instruction.seq), ..name(5) });
        if instruction.outcome != Outcome::Completed {
            let string_value_iid = self.values.id(&instruction.outcome.to_string());
            all.push(DebugAnnotation { string_value_iid, ..name(6) });
        }
        all.push(DebugAnnotation { uint_value: Some(index as u64), ..name(7) });
        all
    }

    fn program(&mut self) {
        let profile = self.profile;
        let ranges = profile.ranges.iter();
        let ranges = ranges.map(|r| (program_track(0, r.thread), &r.name, [r.begin, r.end]));
        let pauses = profile.pauses.iter();
        let pauses = pauses.map(|p| (program_track(1, 0), &p.reason, [p.begin, p.end]));
        for (k, (track, name, times)) in (0..).zip(ranges.chain(pauses)) {
            let name_iid = self.names.id(name);
            let begin = TrackEvent { category_iids: vec![4], name_iid, ..TrackEvent::default() };
            self.slice(track, begin, TrackEvent::default(), times, k);
        }
    }

    fn memory(&mut self) {
        for arena in 0..self.profile.arenas.len() as u32 {
            let held = memory::held(self.profile, arena);
            for level in memory::curve(self.profile, &held) {
                let event = TrackEvent {
                    r#type: Some(COUNTER),
                    track_uuid: Some(counter_track(arena)),
                    counter_value: Some(level.bytes as i64),
                    ..TrackEvent::default()
                };
                self.event(level.at, (3, 0), event);
            }
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let value = |(iid, value): (u64, String)| InternedBytes {
            iid: Some(iid),
            str: Some(value.into_bytes()),
        };
        let values = std::mem::take(&mut self.values.all);
        let interned_data = Some(InternedData {
            event_names: interned(&self.names.all),
            debug_annotation_string_values: (1..).zip(values).map(value).collect(),
            ..InternedData::default()
        });
        self.packet(TracePacket {
            sequence_flags: Some(NEEDS_STATE),
            interned_data,
            ..TracePacket::default()
        });
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|(order, _)| *order);
        for (_, packet) in events {
            self.packet(packet);
        }
        let own = Some(columns::write(self.profile));
        self.packet(TracePacket { millstream: own, ..TracePacket::default() });
        self.out
    }
}

fn thread(uuid: u64, pid: i32, tid: i32, name: String) -> TrackDescriptor {
    let thread = ThreadDescriptor { pid: Some(pid), tid: Some(tid), thread_name: Some(name) };
    TrackDescriptor { uuid: Some(uuid), thread: Some(thread), ..TrackDescriptor::default() }
}
