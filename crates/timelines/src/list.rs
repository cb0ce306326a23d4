//! A timeline as a list of instructions, for the verifier: conflicting kernels and copies without
//! order are violations of the list.
//!
//! Threads are streams of the host. A thread that synchronizes waits for a point of a device's
//! stream, and what it submits later waits for the thread's point. Storages are tensors from
//! outside: no recording says when memory is freed, so its reuse is not checked.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_instructions::{
    ArenaId, Body, External, Instruction, InstructionList, Operand, Operands, Priority, StreamDecl,
    Via,
};
use millstream_profile::Profile;
use millstream_profile::model::{NONE, Role};
use millstream_types::{
    Access, DType, DeviceId, EventId, Origin, Point, StreamId, StreamKey, StreamMode, TensorId,
    TensorSpec,
};

use crate::Timeline;

/// The list of a timeline.
#[derive(Clone, Debug)]
pub struct TimelineList {
    /// The list.
    pub list: InstructionList,
    /// The position in the profile of each of its instructions; none where a tensor begins.
    pub positions: Vec<Option<u32>>,
}

/// The instructions so far.
struct Listing<'a> {
    profile: &'a Profile,
    list: InstructionList,
    positions: Vec<Option<u32>>,
    /// The number of points of each stream.
    counts: Vec<u64>,
    /// The point of each of the profile's instructions.
    points: HashMap<u32, Point>,
    /// For each stream and thread, the thread's point that the stream comes after.
    known: HashMap<(u32, u32), u64>,
}

/// Returns the list of a timeline whose tensors are known.
///
/// # Errors
/// No kernel of the timeline has tensors, or it has more streams or tensors than a list.
pub fn list(timeline: &Timeline) -> Result<TimelineList, String> {
    let profile = &timeline.profile;
    if profile.operands.is_empty() {
        let message = "no kernel of it has known tensors: give the execution trace of the same \
                       run with --trace";
        return Err(message.to_owned());
    }
    if profile.streams.len() > usize::from(u16::MAX) {
        return Err(format!("it has {} streams: a list has fewer", profile.streams.len()));
    }
    let mut listing = Listing {
        profile,
        list: InstructionList::default(),
        positions: Vec::new(),
        counts: vec![0; profile.streams.len()],
        points: HashMap::new(),
        known: HashMap::new(),
    };
    listing.streams();
    listing.tensors(timeline)?;
    let mut waits: HashMap<u32, Vec<u32>> = HashMap::new();
    for wait in profile.waits.iter().filter(|wait| wait.until != NONE) {
        waits.entry(wait.waiter).or_default().push(wait.until);
    }
    for k in 0..profile.instructions.len() as u32 {
        listing.instruction(k, waits.get(&k).map_or(&[], Vec::as_slice));
    }
    let Listing { list, positions, .. } = listing;
    Ok(TimelineList { list, positions })
}

impl Listing<'_> {
    fn streams(&mut self) {
        let mut taken: HashMap<StreamKey, u32> = HashMap::new();
        for (k, stream) in self.profile.streams.iter().enumerate() {
            let device = match stream.thread {
                true => DeviceId::cpu(0),
                false => stream.device.parse().unwrap_or(DeviceId::cuda(0)),
            };
            let number = stream.name.rsplit(' ').next().and_then(|number| number.parse().ok());
            let mut index = number.filter(|_| !stream.thread).unwrap_or(k as u32);
            while taken.contains_key(&StreamKey::compute(device.clone(), index)) {
                index += 1;
            }
            let key = StreamKey::compute(device, index);
            taken.insert(key.clone(), index);
            self.list.streams.push(StreamDecl::new(key, StreamMode::InOrder));
        }
        self.list.arenas.push(DeviceId::cuda(0));
    }

    /// Declares the storages, and begins the tensors as views of them.
    fn tensors(&mut self, timeline: &Timeline) -> Result<(), String> {
        let profile = self.profile;
        let count = profile.storages.len() + profile.tensors.len();
        u32::try_from(count).map_err(|_| format!("it has {count} tensors: a list has fewer"))?;
        for (k, storage) in profile.storages.iter().enumerate() {
            let spec = TensorSpec::contiguous(DType::U8, &[storage.size as usize]);
            self.list.externals.push(External {
                tensor: TensorId(k as u32),
                name: format!("storage {k}"),
                spec: spec.map_err(|e| e.to_string())?,
                bytes: storage.size,
                arena: ArenaId(0),
            });
        }
        for (k, (tensor, spec)) in profile.tensors.iter().zip(&timeline.specs).enumerate() {
            let body = Body::ViewTensor {
                tensor: self.tensor(k as u32),
                of: TensorId(tensor.storage),
                spec: Box::new(spec.clone()),
            };
            self.list.instructions.push(Instruction { body, origin: Origin::Unknown });
            self.positions.push(None);
        }
        Ok(())
    }

    fn tensor(&self, tensor: u32) -> TensorId {
        TensorId(self.profile.storages.len() as u32 + tensor)
    }

    /// Returns the next point of a stream.
    fn point(&mut self, stream: u32) -> Point {
        let count = &mut self.counts[stream as usize];
        *count += 1;
        Point::new(StreamId(stream as u16), *count)
    }

    fn push(&mut self, k: u32, body: Body) {
        let instruction = &self.profile.instructions[k as usize];
        let place = self.profile.place_of(instruction);
        let name = self.profile.name_of(instruction);
        let text = if place.is_empty() { name.to_owned() } else { format!("{name} in {place}") };
        let origin = Origin::Text(Arc::new(text));
        self.list.instructions.push(Instruction { body, origin });
        self.positions.push(Some(k));
    }

    fn instruction(&mut self, k: u32, waits: &[u32]) {
        let instruction = &self.profile.instructions[k as usize];
        let stream = instruction.stream;
        if stream == NONE || instruction.parent != NONE {
            return;
        }
        if self.profile.streams[stream as usize].thread {
            for until in waits {
                let Some(&until) = self.points.get(until) else { continue };
                let at = self.point(stream);
                self.push(k, Body::StreamWaitEvent { at, until, via: Via::Host });
            }
            return;
        }
        self.submitted(k, stream, instruction.submitter);
        match instruction.role {
            Role::Record => {
                let at = self.point(stream);
                self.points.insert(k, at);
                self.push(k, Body::RecordEvent { at, event: EventId(k) });
            }
            Role::Wait => {
                for record in waits {
                    let Some(&until) = self.points.get(record) else { continue };
                    let at = self.point(stream);
                    let via = Via::Device(EventId(*record));
                    self.push(k, Body::StreamWaitEvent { at, until, via });
                }
            }
            Role::Work
            | Role::Launch
            | Role::Fence
            | Role::Allocate
            | Role::View
            | Role::Release
            | Role::Observe
            | Role::Order => self.call(k, stream),
        }
    }

    /// Orders a stream behind what the thread that submits an instruction has waited for.
    fn submitted(&mut self, k: u32, stream: u32, submitter: Option<u32>) {
        let Some(submitter) = submitter else { return };
        let thread = self.profile.instructions[submitter as usize].stream;
        let waited = self.counts.get(thread as usize).copied().unwrap_or(0);
        let known = self.known.entry((stream, thread)).or_default();
        if waited <= *known {
            return;
        }
        *known = waited;
        let until = Point::new(StreamId(thread as u16), waited);
        let at = self.point(stream);
        self.push(k, Body::StreamWaitEvent { at, until, via: Via::Host });
    }

    fn call(&mut self, k: u32, stream: u32) {
        let instruction = &self.profile.instructions[k as usize];
        let mut operands = Operands::new();
        for used in self.profile.operands_of(instruction) {
            let access = match (used.reads, used.writes) {
                (_, false) => Access::Read,
                (false, true) => Access::Write,
                (true, true) => Access::ReadWrite,
            };
            let tensor = self.tensor(used.tensor);
            match operands.iter_mut().find(|operand| operand.tensor == tensor) {
                Some(operand) => operand.access = operand.access.join(access),
                None => operands.push(Operand { tensor, access }),
            }
        }
        let name = self.profile.name_of(instruction).to_owned();
        let op = self.list.ops.id(&name);
        let at = self.point(stream);
        self.points.insert(k, at);
        let (attrs, workspace, priority) = (None, None, Priority::default());
        self.push(k, Body::OpCall { at, op, operands, attrs, workspace, priority });
    }
}
