//! A list with calls made again.
//!
//! A storage that is computed again is a new one, and so are its views: later uses name them. The
//! old one ends with its last use, as memory is planned by exact lifetimes. No wait is inserted
//! here: the list is emitted anew, with all waits that its data need.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use millstream_types::{Error, Origin, Point, Result, StreamId, TensorId};
use rustc_hash::FxHashMap;

use super::reading::{Reading, left_out};
use super::simulation::Again;
use crate::ids::{Remap, Role};
use crate::instruction::Class;
use crate::list::InstructionList;
use crate::passes::facts::Facts;
use crate::table::{Body, Instruction};

/// Returns the list with these calls, which are in the order of the steps that they come before.
///
/// # Errors
/// The list has no further id for a tensor.
pub(super) fn insert(
    facts: &Facts<'_>,
    reading: &Reading,
    again: &[Again],
) -> Result<InstructionList> {
    let list = facts.list;
    let ids = list.externals.iter().map(|e| e.tensor);
    let begun = list.instructions.iter().filter_map(|i| i.body.begins());
    let last = ids.chain(begun.map(|(tensor, _)| tensor)).map(|t| t.0).max();
    let mut insertion = Insertion {
        facts,
        names: Names {
            newest: FxHashMap::default(),
            dropped: FxHashMap::default(),
            moved: vec![Vec::new(); list.streams.len()],
            next: last.map_or(Some(0), |last| last.checked_add(1)),
        },
        begun: FxHashMap::default(),
        last: vec![0; list.streams.len()],
        instructions: Vec::new(),
    };
    let mut releases = Vec::new();
    let mut again = again.iter().peekable();
    let mut steps = reading.steps.iter().copied().enumerate().peekable();
    for (index, instruction) in list.instructions.iter().enumerate() {
        if let Some((step, _)) = steps.next_if(|(_, at)| *at == index) {
            while let Some(call) = again.next_if(|again| again.before == step) {
                insertion.call(reading, call)?;
            }
        }
        if instruction.body.class() == Class::Ends {
            // A call made again may use the tensor later. Its memory ends with its last use.
            releases.push(instruction.clone());
            continue;
        }
        insertion.natural(index, instruction);
    }
    let mut instructions = insertion.instructions;
    instructions.append(&mut releases);
    Ok(InstructionList { instructions, ..list.clone() })
}

struct Insertion<'a> {
    facts: &'a Facts<'a>,
    names: Names,
    /// The tensors of each storage so far, each with the instruction that begins it.
    begun: FxHashMap<usize, Vec<(TensorId, usize)>>,
    /// The last sequence number of each stream in the old list.
    last: Vec<u64>,
    instructions: Vec<Instruction>,
}

impl Insertion<'_> {
    /// Adds an instruction of the old list.
    fn natural(&mut self, index: usize, instruction: &Instruction) {
        let mut instruction = instruction.clone();
        for at in [instruction.body.at(), instruction.body.second_point()].into_iter().flatten() {
            self.last[at.stream.index()] = at.seq;
        }
        if let Some((tensor, _)) = instruction.body.begins() {
            let storage = self.facts.storage_of(tensor);
            self.begun.entry(storage).or_default().push((tensor, index));
        }
        let Ok(()) = instruction.body.remap(&mut self.names);
        self.instructions.push(instruction);
    }

    /// Adds a call made again, with the tensors that it writes.
    fn call(&mut self, reading: &Reading, again: &Again) -> Result<()> {
        let Instruction { body, origin } = &self.facts.list.instructions[reading.steps[again.step]];
        let origin = Origin::Again(Arc::new(origin.first().clone()));
        let Body::OpCall { op, operands, attrs, at, .. } = body else {
            return Err(Error::Internal { message: "only calls are made again".to_owned() });
        };
        let name = self.facts.list.ops.name(*op);
        let (left_out, new) = left_out(name, attrs.as_deref(), operands.len());
        let mut body = body.clone();
        if let (Body::OpCall { operands, attrs, .. }, Some(new)) = (&mut body, new) {
            *attrs = Some(Arc::new(new));
            let mut position = 0..;
            operands.retain(|_| position.next().is_none_or(|k| !left_out.contains(&k)));
        }
        let storages = |buffers: &[usize]| -> Vec<usize> {
            buffers.iter().map(|&b| reading.storages[b]).collect()
        };
        let (of, begins) = (storages(&again.of), storages(&again.begins));
        for &storage in &begins {
            self.begin(storage, true, &origin)?;
        }
        let written = body.operands().iter().filter(|o| o.access.writes());
        let mut dropped: Vec<usize> = written.map(|o| self.facts.storage_of(o.tensor)).collect();
        dropped.sort_unstable();
        dropped.dedup();
        for storage in dropped.into_iter().filter(|storage| !of.contains(storage)) {
            self.begin(storage, false, &origin)?;
        }
        // Its stream runs it between the last instruction and the next one.
        let stream = at.stream.index();
        let seq = self.last[stream];
        self.names.moved[stream].push(seq);
        let Ok(()) = body.remap(&mut self.names);
        let moved = self.names.moved[stream].len() as u64;
        self.names.dropped.clear();
        if let Body::OpCall { at, .. } = &mut body {
            *at = Point::new(at.stream, seq + moved);
        }
        self.instructions.push(Instruction { body, origin });
        Ok(())
    }

    /// Begins a storage anew, with all of its tensors so far: for good, or for one call.
    fn begin(&mut self, storage: usize, stays: bool, origin: &Origin) -> Result<()> {
        let begun = self.begun.get(&storage).map_or(Cow::default(), |b| Cow::Borrowed(&b[..]));
        for &(tensor, index) in begun.iter() {
            let next = self.names.next.filter(|next| *next < u32::MAX);
            let next =
                next.ok_or_else(|| Error::List { message: "too many tensors".to_owned() })?;
            self.names.next = Some(next + 1);
            let new = TensorId(next);
            let mut body = self.facts.list.instructions[index].body.clone();
            let Ok(()) = body.remap(&mut Renamed { names: &mut self.names, new });
            let names = if stays { &mut self.names.newest } else { &mut self.names.dropped };
            names.insert(tensor, new);
            self.instructions.push(Instruction { body, origin: origin.clone() });
        }
        Ok(())
    }
}

/// The new ids of tensors, and the new points.
struct Names {
    newest: FxHashMap<TensorId, TensorId>,
    /// The results of the next call that nobody uses.
    dropped: FxHashMap<TensorId, TensorId>,
    /// For each stream, the old sequence numbers behind which there is one call more.
    moved: Vec<Vec<u64>>,
    next: Option<u32>,
}

impl Remap for Names {
    type Error = Infallible;

    fn point(&mut self, point: Point) -> Result<Point, Infallible> {
        let StreamId(_) = point.stream;
        let moved = &self.moved[point.stream.index()];
        let before = moved.partition_point(|&seq| seq < point.seq);
        Ok(Point { seq: point.seq + before as u64, ..point })
    }

    fn tensor(&mut self, id: TensorId, role: Role) -> Result<TensorId, Infallible> {
        if role == Role::Defines {
            return Ok(id);
        }
        let new = self.dropped.get(&id).or_else(|| self.newest.get(&id));
        Ok(new.copied().unwrap_or(id))
    }
}

/// The names with a new one for a tensor that begins.
struct Renamed<'a> {
    names: &'a mut Names,
    new: TensorId,
}

impl Remap for Renamed<'_> {
    type Error = Infallible;

    fn tensor(&mut self, id: TensorId, role: Role) -> Result<TensorId, Infallible> {
        if role == Role::Defines { Ok(self.new) } else { self.names.tensor(id, role) }
    }
}
