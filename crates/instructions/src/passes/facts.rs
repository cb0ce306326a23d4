//! The facts about a list that passes ask for: its tensors and storages, and which instructions
//! have side effects.

use std::fmt;

use millstream_ops::collective;
use millstream_types::{Error, Point, Result, StreamId, TensorId, TensorSpec, WorkKind, WorkSet};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::builder::is_whole;
use crate::ids::{Id, Remap, Role};
use crate::instruction::Class;
use crate::list::InstructionList;
use crate::table::{Body, Instruction};

/// A tensor of a list.
#[derive(Debug)]
pub(super) struct Tensor<'a> {
    /// The number of its storage.
    pub(super) storage: usize,
    pub(super) spec: &'a TensorSpec,
    /// The tensor that it is a view of.
    pub(super) of: Option<TensorId>,
    /// The index of the instruction that begins it; none for an external.
    pub(super) begun: Option<usize>,
    /// The index of its release.
    pub(super) released: Option<usize>,
}

/// A storage of a list.
#[derive(Debug)]
pub(super) struct Storage {
    pub(super) bytes: u64,
    /// The number of the external that it belongs to.
    pub(super) external: Option<usize>,
}

/// The tensors and storages of a list in which no id of a tensor is used again.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) list: &'a InstructionList,
    tensors: FxHashMap<TensorId, Tensor<'a>>,
    pub(super) storages: Vec<Storage>,
}

impl<'a> Facts<'a> {
    /// Reads a list.
    ///
    /// # Errors
    /// An instruction names a tensor that is not live, or a stream, an arena or an op that the list
    /// does not declare.
    pub(super) fn of(list: &'a InstructionList) -> Result<Facts<'a>> {
        let mut facts = Facts { list, tensors: FxHashMap::default(), storages: Vec::new() };
        for (number, external) in list.externals.iter().enumerate() {
            let storage = facts.storages.len();
            facts.storages.push(Storage { bytes: external.bytes, external: Some(number) });
            let spec = &external.spec;
            let tensor = Tensor { storage, spec, of: None, begun: None, released: None };
            facts.tensors.insert(external.tensor, tensor);
        }
        for (index, instruction) in list.instructions.iter().enumerate() {
            facts
                .read(index, &instruction.body)
                .map_err(|message| Error::List { message }.at(&instruction.origin))?;
        }
        Ok(facts)
    }

    fn read(&mut self, index: usize, body: &'a Body) -> Result<(), String> {
        self.declared(body)?;
        for operand in body.operands() {
            self.live(operand.tensor)?;
        }
        if let Some(tensor) = body.ends() {
            self.live(tensor)?;
            if let Some(ended) = self.tensors.get_mut(&tensor) {
                ended.released = Some(index);
            }
        }
        if let Some((tensor, spec)) = body.begins() {
            let of = body.view_of();
            let storage = match of {
                Some(of) => self.live(of)?,
                None => {
                    let bytes = body.placement().map_or(0, |p| p.size);
                    self.storages.push(Storage { bytes, external: None });
                    self.storages.len() - 1
                }
            };
            let made = Tensor { storage, spec, of, begun: Some(index), released: None };
            if self.tensors.insert(tensor, made).is_some() {
                return Err(format!("{tensor} begins twice"));
            }
        }
        Ok(())
    }

    /// Checks that the list declares all that an instruction names.
    fn declared(&self, body: &Body) -> Result<(), String> {
        let list = self.list;
        let mut missing = None;
        body.visit_ids(&mut |id, _| {
            let name: &dyn fmt::Display = match &id {
                Id::Stream(s) | Id::Point(Point { stream: s, .. })
                    if s.index() >= list.streams.len() =>
                {
                    s
                }
                Id::Arena(arena) if arena.index() >= list.arenas.len() => arena,
                Id::Op(op) if list.ops.get(*op).is_none() => op,
                _ => return,
            };
            missing = Some(format!("{name} is not declared"));
        });
        missing.map_or(Ok(()), Err)
    }

    fn live(&self, tensor: TensorId) -> Result<usize, String> {
        match self.tensors.get(&tensor) {
            Some(live) if live.released.is_none() => Ok(live.storage),
            Some(_) => Err(format!("{tensor} is used after its release")),
            None => Err(format!("{tensor} never began")),
        }
    }

    /// Returns a tensor that an instruction of the list names.
    pub(super) fn tensor(&self, tensor: TensorId) -> &Tensor<'a> {
        &self.tensors[&tensor]
    }

    /// Returns all tensors with their ids, in no order.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (TensorId, &Tensor<'a>)> {
        self.tensors.iter().map(|(id, tensor)| (*id, tensor))
    }

    /// Returns the number of a tensor's storage.
    pub(super) fn storage_of(&self, tensor: TensorId) -> usize {
        self.tensors[&tensor].storage
    }

    /// Whether a tensor covers all of its storage.
    pub(super) fn is_whole(&self, tensor: TensorId) -> bool {
        let tensor = self.tensor(tensor);
        is_whole(tensor.spec, self.storages[tensor.storage].bytes)
    }

    /// Whether an instruction does more than to change data: the host, another rank, another list
    /// or a section outside could tell whether and when it runs. A call that writes nothing counts,
    /// since nothing else can be its purpose.
    pub(super) fn has_side_effect(&self, body: &Body) -> bool {
        let of_op = || {
            let (op, at) = body.op().zip(body.at())?;
            Some(self.is_collective(op, self.list.streams[at.stream.index()].work))
        };
        let writes = || body.operands().iter().any(|o| o.access.writes());
        body.kind().has_side_effect()
            || body.class() == Class::Computes && !writes()
            || of_op().unwrap_or(false)
    }

    /// Whether a call involves other ranks: a collective by its name, or any call on a stream of
    /// collectives.
    pub(super) fn is_collective(&self, op: millstream_types::OpId, work: WorkSet) -> bool {
        work.intersects(WorkSet::of(&[WorkKind::Collective]))
            || collective::is(self.list.ops.name(op))
    }

    /// Returns the stream whose work an instruction is, if it has a point.
    pub(super) fn stream_of(body: &Body) -> Option<StreamId> {
        body.at().map(|at| at.stream)
    }
}

/// Returns the list with an id of its own for every tensor, if an id is used again after its
/// release.
///
/// # Errors
/// An instruction names a tensor that never began.
pub(super) fn with_own_ids(list: &InstructionList) -> Result<Option<InstructionList>> {
    let mut begun: FxHashSet<TensorId> = list.externals.iter().map(|e| e.tensor).collect();
    let mut begins = list.instructions.iter().filter_map(|i| i.body.begins());
    if begins.all(|(tensor, _)| begun.insert(tensor)) {
        return Ok(None);
    }
    let mut ids = OwnIds::default();
    let mut copy = list.clone();
    for external in &mut copy.externals {
        external.tensor = ids.define(external.tensor);
    }
    for Instruction { body, origin } in &mut copy.instructions {
        body.remap(&mut ids).map_err(|e| e.at(origin))?;
    }
    Ok(Some(copy))
}

/// New ids for tensors, which count up in the order of their beginning.
#[derive(Default)]
struct OwnIds {
    tensors: FxHashMap<TensorId, TensorId>,
    next: u32,
}

impl OwnIds {
    fn define(&mut self, old: TensorId) -> TensorId {
        let new = TensorId(self.next);
        self.next += 1;
        self.tensors.insert(old, new);
        new
    }
}

impl Remap for OwnIds {
    type Error = Error;

    fn tensor(&mut self, id: TensorId, role: Role) -> Result<TensorId> {
        if role == Role::Defines {
            return Ok(self.define(id));
        }
        self.tensors
            .get(&id)
            .copied()
            .ok_or_else(|| Error::List { message: format!("{id} never began") })
    }
}
