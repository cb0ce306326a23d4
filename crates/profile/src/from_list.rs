//! From a list of instructions to a profile.

use std::collections::HashMap;

use millstream_instructions::planner::rounded;
use millstream_instructions::{
    Body, Class, InstructionList, Operand as Used, Placement, Resolution as Resolved, Via,
};
use millstream_types::{Access, Origin, Point, TensorId, TensorSpec};

use crate::describe::{arguments, describe};
use crate::interned::Interned;
use crate::launches::{LaunchSteps, stream_of};
use crate::model::{
    Instruction, NONE, Operand, Outcome, Profile, Resolution, Role, Source, Storage, Tensor, Times,
    Wait,
};
use crate::scope::Scope;

/// The times of a list's instructions.
pub trait ListTimes {
    /// Returns when the instruction with this index was submitted.
    fn issued(&self, index: usize) -> Option<u64>;

    /// Returns when the instruction at a point ran, and how it ended.
    fn at(&self, index: usize, point: Point) -> Option<(Times, Outcome)>;

    /// Returns when the steps of the launch at a point ran, if that is known.
    fn steps(&self, _: usize, _: Point) -> Option<LaunchSteps> {
        None
    }
}

/// Returns the profile of a list.
pub fn of_list(
    title: &str,
    source: Source,
    list: &InstructionList,
    times: &impl ListTimes,
) -> Profile {
    let mut building = Building::new(title, source, list);
    for external in &list.externals {
        let (arena, size) = (external.arena.index() as u32, external.bytes);
        let storage = Storage { arena, size, ..Storage::default() };
        building.begin(external.tensor, &external.name, &external.spec, storage);
    }
    for index in 0..list.instructions.len() {
        building.instruction(list, index, times);
    }
    building.finish()
}

/// A profile under construction.
pub(crate) struct Building {
    pub(crate) profile: Profile,
    names: Interned<String>,
    places: Interned<String>,
    arguments: Interned<String>,
    by_origin: HashMap<(usize, u32), u32>,
    /// The streams and arenas of executables, by name.
    streams: HashMap<String, u32>,
    arenas: HashMap<String, u32>,
    /// For each storage, how many of its tensors live.
    living: Vec<u32>,
    pub(crate) scope: Scope,
    /// The positions of the instructions of the launch that is added.
    pub(crate) step_positions: HashMap<(u32, Option<u32>), u32>,
}

impl Building {
    fn new(title: &str, source: Source, list: &InstructionList) -> Building {
        let mut scope = Scope::of(list, String::new());
        let profile = Profile {
            title: title.to_owned(),
            source,
            streams: scope.streams.clone(),
            arenas: scope.arenas.clone(),
            ..Profile::default()
        };
        // Those of the whole list are there from the start.
        scope.stream_numbers = (0..scope.streams.len()).map(|k| Some(k as u32)).collect();
        scope.arena_numbers = (0..scope.arenas.len()).map(|k| Some(k as u32)).collect();
        Building {
            profile,
            names: Interned::default(),
            places: Interned::default(),
            arguments: Interned::default(),
            by_origin: HashMap::new(),
            streams: HashMap::new(),
            arenas: HashMap::new(),
            living: Vec::new(),
            scope,
            step_positions: HashMap::new(),
        }
    }

    /// Returns the position of a stream of the list.
    pub(crate) fn stream(&mut self, stream: usize) -> u32 {
        let Some(number) = self.scope.stream_numbers.get_mut(stream) else { return stream as u32 };
        *number.get_or_insert_with(|| {
            let declared = &self.scope.streams[stream];
            *self.streams.entry(declared.name.clone()).or_insert_with(|| {
                let tape = self.scope.tapes.get(stream).copied().flatten();
                self.profile.streams.push(stream_of(declared.clone(), tape));
                self.profile.streams.len() as u32 - 1
            })
        })
    }

    /// Returns the position of an arena of the list.
    fn arena(&mut self, arena: usize) -> u32 {
        let Some(number) = self.scope.arena_numbers.get_mut(arena) else { return arena as u32 };
        *number.get_or_insert_with(|| {
            let name = &self.scope.arenas[arena];
            *self.arenas.entry(name.clone()).or_insert_with(|| {
                self.profile.arenas.push(name.clone());
                self.profile.arenas.len() as u32 - 1
            })
        })
    }

    pub(crate) fn name(&mut self, name: &str) -> u32 {
        self.names.number(name.to_owned(), &mut self.profile.names)
    }

    pub(crate) fn place(&mut self, origin: &Origin) -> u32 {
        // Most instructions come from few places, and printing one takes long.
        let key = match origin {
            Origin::Unknown => return NONE,
            Origin::Code(location) => Some((std::ptr::from_ref(*location) as usize, 0)),
            Origin::Trace(file, number) => Some((std::sync::Arc::as_ptr(file) as usize, *number)),
            Origin::Text(_) | Origin::Again(_) => None,
        };
        if let Some(&known) = key.as_ref().and_then(|key| self.by_origin.get(key)) {
            return known;
        }
        let place = self.places.number(origin.to_string(), &mut self.profile.places);
        self.by_origin.extend(key.map(|key| (key, place)));
        place
    }

    /// Begins a tensor with a storage of its own.
    fn begin(&mut self, id: TensorId, name: &str, spec: &TensorSpec, storage: Storage) {
        let number = self.profile.storages.len() as u32;
        let tensor = self.tensor(id, name, spec, number);
        let size = rounded(storage.size).unwrap_or(storage.size);
        let storage = Storage { tensor, size, ..storage };
        self.profile.storages.push(storage);
        self.living.push(1);
    }

    fn tensor(&mut self, id: TensorId, name: &str, spec: &TensorSpec, storage: u32) -> u32 {
        let number = self.profile.tensors.len() as u32;
        let name = format!("{name}{}", self.scope.suffix);
        let spec = spec.brief();
        self.profile.tensors.push(Tensor { name, spec, storage });
        self.scope.tensors.insert(id, number);
        number
    }

    /// Adds the operands of an instruction, and returns their range. `by` is the instruction if it
    /// uses their data.
    fn operands(&mut self, used: &[Used], by: Option<u32>) -> [u32; 2] {
        let from = self.profile.operands.len() as u32;
        for operand in used {
            let Some(&tensor) = self.scope.tensors.get(&operand.tensor) else { continue };
            let (reads, writes) = (operand.access.reads(), operand.access.writes());
            self.profile.operands.push(Operand { tensor, reads, writes });
            if let Some(by) = by {
                let storage = self.profile.tensors[tensor as usize].storage;
                self.profile.storages[storage as usize].last_use = by;
            }
        }
        [from, self.profile.operands.len() as u32]
    }

    /// Returns the last instruction at or before a point.
    pub(crate) fn at(&self, point: Point) -> u32 {
        let Some(track) = self.scope.tracks.get(point.stream.index()) else { return NONE };
        let upto = track.at.partition_point(|(seq, _)| *seq <= point.seq);
        track.at[..upto].last().map_or(NONE, |(_, index)| *index)
    }

    /// Returns the last instruction of a stream so far.
    pub(crate) fn last_of(&self, stream: usize) -> Option<u32> {
        self.scope.tracks.get(stream)?.at.last().map(|(_, index)| *index)
    }

    /// Adds an instruction of a list, behind the steps of the launch that it is.
    pub(crate) fn instruction(
        &mut self,
        list: &InstructionList,
        index: usize,
        times: &impl ListTimes,
    ) {
        let millstream_instructions::Instruction { body, origin } = &list.instructions[index];
        let first = self.profile.instructions.len();
        if let Some(steps) =
            body.at().filter(|_| body.list().is_some()).and_then(|at| times.steps(index, at))
        {
            self.launch(list, body, &steps, times.issued(index));
            self.own_steps(first, self.profile.instructions.len());
        }
        let own = self.profile.instructions.len() as u32;
        if let Body::SoftSyncStream { on, needs, tensors, resolution } = body {
            return self.need(on.index(), *needs, tensors, *resolution);
        }
        let (name, role) = describe(list, body);
        let mut used: Vec<Used> = body.operands().to_vec();
        let of = body.view_of().and_then(|of| self.scope.tensors.get(&of).copied());
        if let (Some((tensor, spec)), Some(placement)) = (body.begins(), body.placement()) {
            let storage = Storage { allocated: own, ..self.storage(placement) };
            self.begin(tensor, &tensor.to_string(), spec, storage);
            used.push(Used { tensor, access: Access::Write });
        } else if let (Some((tensor, spec)), Some(of)) = (body.begins(), of) {
            let storage = self.profile.tensors[of as usize].storage;
            self.living[storage as usize] += 1;
            self.tensor(tensor, &tensor.to_string(), spec, storage);
            let viewed = body.view_of().into_iter().chain([tensor]);
            used.extend(viewed.map(|tensor| Used { tensor, access: Access::Read }));
        } else if let Some(tensor) = body.ends() {
            self.release(tensor, own);
            used.push(Used { tensor, access: Access::Read });
        } else if let Some(workspace) = body.placement() {
            let (allocated, released, last_use) = (own, own, own);
            let storage = Storage { allocated, released, last_use, ..self.storage(workspace) };
            self.profile.storages.push(storage);
            self.living.push(0);
        } else if body.class() == Class::Observes {
            for &point in body.awaited() {
                let (until, resolution) = (self.at(point), Resolution::Host);
                self.profile.waits.push(Wait { waiter: own, until, resolution, ..Wait::default() });
            }
        }
        let is_use = matches!(role, Role::Work | Role::Launch | Role::Order | Role::Fence);
        let operands = self.operands(&used, is_use.then_some(own));
        let (name, place) = (self.name(&name), self.place(origin));
        let arguments = arguments(body)
            .map(|text| self.arguments.number_of(&text, &mut self.profile.arguments));
        let at = body.at();
        let stream = at.map_or(NONE, |at| self.stream(at.stream.index()));
        let timed = at.and_then(|at| times.at(index, at));
        self.profile.instructions.push(Instruction {
            name,
            role,
            stream,
            seq: at.map_or(0, |at| at.seq),
            place,
            issued: times.issued(index),
            times: timed.map(|(times, _)| times),
            outcome: timed.map_or(Outcome::Completed, |(_, outcome)| outcome),
            operands,
            arguments,
            parent: NONE,
            submitter: None,
        });
        if let Some(at) = at.filter(|at| at.stream.index() < self.scope.tracks.len()) {
            self.placed(at, body, own, role);
        }
    }

    /// Adds an instruction to its stream, and links its waits.
    fn placed(&mut self, at: Point, body: &Body, own: u32, role: Role) {
        let stream = at.stream.index();
        if let Some(until) = body.until() {
            let needed = std::mem::take(&mut self.scope.tracks[stream].needed);
            // A wait may be for a later point of the stream than the need.
            let (mine, rest): (Vec<_>, Vec<_>) = needed
                .into_iter()
                .partition(|(p, _)| p.stream == until.stream && p.seq <= until.seq);
            self.scope.tracks[stream].needed = rest;
            let mut tensors: Vec<u32> = mine.into_iter().flat_map(|(_, t)| t).collect();
            tensors.dedup();
            let resolution = match body.via() {
                Some(Via::Device(_)) => Resolution::Device,
                _ => Resolution::Host,
            };
            self.scope.tracks[stream].open.push(self.profile.waits.len() as u32);
            let (waiter, source) = (own, until.stream.index());
            let until_at = self.at(until);
            let wait = Wait { waiter, until: until_at, resolution, tensors, ..Wait::default() };
            self.profile.waits.push(wait);
            self.scope.tracks[stream].wait(source, until.seq, own);
        } else if !matches!(role, Role::Record) {
            for wait in std::mem::take(&mut self.scope.tracks[stream].open) {
                let wait = &mut self.profile.waits[wait as usize];
                wait.user = own;
                if wait.resolution.is_elided() {
                    wait.waiter = own;
                }
            }
            self.scope.tracks[stream].needed.clear();
        }
        self.scope.tracks[stream].at.push((at.seq, own));
    }

    /// Notes a need and its resolution, which come before the instruction that has the need.
    fn need(&mut self, stream: usize, needs: Point, tensors: &[TensorId], resolved: Resolved) {
        let tensors: Vec<u32> =
            tensors.iter().filter_map(|tensor| self.scope.tensors.get(tensor).copied()).collect();
        let resolution = match resolved {
            Resolved::Device | Resolved::Host => {
                if let Some(track) = self.scope.tracks.get_mut(stream) {
                    track.needed.push((needs, tensors));
                }
                return;
            }
            Resolved::Known => Resolution::Known,
            Resolved::Fenced => Resolution::Fenced,
            Resolved::Implied(_) => Resolution::Implied,
        };
        let covered_by = match resolution {
            Resolution::Known => self.covering(stream, needs),
            _ => NONE,
        };
        let until = self.at(needs);
        let waits = self.profile.waits.len() as u32;
        self.profile.waits.push(Wait { until, resolution, covered_by, tensors, ..Wait::default() });
        if let Some(track) = self.scope.tracks.get_mut(stream) {
            track.open.push(waits);
        }
    }

    /// Returns the first wait that brought a stream behind a point: directly, or by way of one
    /// other stream.
    pub(crate) fn covering(&self, stream: usize, needs: Point) -> u32 {
        let (source, seq) = (needs.stream.index(), needs.seq);
        let Some(own) = self.scope.tracks.get(stream) else { return NONE };
        if let Some(direct) = own.first_wait(source, seq) {
            return direct;
        }
        let by_way = own.waited.keys().filter_map(|&other| {
            let first = self.scope.tracks[other].first_wait(source, seq)?;
            own.first_wait(other, self.profile.instructions[first as usize].seq)
        });
        by_way.min().unwrap_or(NONE)
    }

    fn release(&mut self, tensor: TensorId, by: u32) {
        let Some(&tensor) = self.scope.tensors.get(&tensor) else { return };
        let storage = self.profile.tensors[tensor as usize].storage as usize;
        let living = &mut self.living[storage];
        *living = living.saturating_sub(1);
        if *living == 0 {
            self.profile.storages[storage].released = by;
        }
    }

    fn storage(&mut self, of: &Placement) -> Storage {
        let Placement { arena, offset, size, generation } = *of;
        let (arena, size) = (self.arena(arena.index()), rounded(size).unwrap_or(size));
        Storage { arena, offset, size, generation, ..Storage::default() }
    }

    fn finish(mut self) -> Profile {
        let ends = self.profile.instructions.iter().filter_map(|i| i.times.map(|t| t.end));
        self.profile.total = ends.max().unwrap_or(0);
        self.profile
    }
}
