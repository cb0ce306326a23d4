//! Tensors' lives, their memory and their uses.

use smallvec::SmallVec;

use millstream_instructions::{Body, Operand, Placement};
use millstream_types::{Access, Point, StreamId, TensorId, TensorSpec};

use crate::check::Walk;
use crate::clock::Clock;
use crate::memory::{ALIGNMENT, Owner};
use crate::rules;
use crate::storage::{Storage, Use};
use crate::violation::{Missing, Place, UseSite, Violation};

/// The storages that an instruction uses: their numbers, the tensor that names each first, and how
/// each is used altogether, however often it is named.
type Used = SmallVec<[(usize, TensorId, Access); 4]>;

impl Walk<'_> {
    /// The live tensor of this id; a violation if there is none.
    pub(super) fn live(&mut self, index: usize, tensor: TensorId) -> Option<usize> {
        match self.lives.live(tensor) {
            Ok(found) => Some(found.storage),
            Err(released) => {
                self.report(|walk| Violation::NotAlive {
                    site: walk.site(index),
                    tensor,
                    released: released.map(|at| walk.site(at)),
                });
                None
            }
        }
    }

    pub(super) fn begins(&mut self, index: usize, tensor: TensorId, spec: &TensorSpec, bytes: u64) {
        if let Ok(live) = self.lives.live(tensor) {
            self.report(|walk| Violation::LivesAlready {
                site: walk.site(index),
                tensor,
                begun: live.begun.map(|at| walk.site(at)),
            });
        }
        if spec.span_bytes() as u64 > bytes {
            self.report(|walk| Violation::PastStorage {
                site: walk.site(index).to_string(),
                spec: Box::new(spec.clone()),
                bytes,
            });
        }
    }

    pub(super) fn view(&mut self, index: usize, tensor: TensorId, of: TensorId, spec: &TensorSpec) {
        let Some(storage) = self.live(index, of) else { return };
        self.begins(index, tensor, spec, self.lives.storage(storage).bytes);
        self.lives.view(tensor, storage, index);
    }

    pub(super) fn allocate(
        &mut self,
        index: usize,
        on: StreamId,
        tensor: TensorId,
        spec: &TensorSpec,
        placement: &Placement,
    ) {
        self.begins(index, tensor, spec, placement.size);
        let knows = self.streams.knows(on).clone();
        let point = self.streams.tail(on);
        let write = Use { point, index, tensor, access: Access::Write, clock: None };
        let storage = Storage::new(tensor, placement.size, Some(index), Some(write));
        let number = self.lives.begin(tensor, storage);
        let fence = self.streams.is_pool(on);
        self.give(index, on, placement, Owner::Storage(number), &knows, fence);
    }

    /// Gives memory to a new owner that knows `clock`.
    pub(super) fn give(
        &mut self,
        index: usize,
        stream: StreamId,
        placement: &Placement,
        owner: Owner,
        clock: &Clock,
        fence: bool,
    ) {
        let place = Place(*placement);
        let aligned = placement.size == 0 || placement.offset.is_multiple_of(ALIGNMENT);
        let before = self.arenas[placement.arena.index()].give(placement, owner);
        let Some(before) = before.filter(|_| aligned) else {
            self.report(|walk| Violation::BadPlace { site: walk.site(index), place });
            return;
        };
        for region in before {
            if region.generation == placement.generation {
                self.report(|walk| Violation::SameGeneration { site: walk.site(index), place });
            }
            let (owner, uses): (String, Vec<Use>) = match region.owner {
                Owner::Workspace(user) => ("a workspace".to_owned(), vec![user]),
                Owner::Storage(number) => {
                    let storage = self.lives.storage(number);
                    let (owner, begun) = (storage.root, storage.begun.unwrap_or(index));
                    if storage.released.is_none() {
                        self.report(|walk| Violation::MemoryInUse {
                            new: walk.site(index),
                            place,
                            owner,
                            begun: walk.site(begun),
                        });
                        continue;
                    }
                    let open = |u: &&Use| !u.is_over(stream, clock, &self.streams);
                    (owner.to_string(), storage.last_uses().filter(open).cloned().collect())
                }
            };
            for last in uses {
                if last.is_over(stream, clock, &self.streams) {
                    continue;
                }
                self.report(|walk| Violation::ReusedTooEarly {
                    new: walk.site(index),
                    place,
                    owner: owner.clone(),
                    last: Box::new(walk.shown(&last)),
                    missing: Missing { waiter: stream, point: last.point, fence },
                });
            }
        }
    }

    pub(super) fn shown(&self, used: &Use) -> UseSite {
        let site = self.site(used.index);
        let allocates =
            matches!(self.list.instructions[used.index].body, Body::AllocateTensor { .. });
        let names = |o: &Operand| o.tensor == used.tensor;
        let named = self.list.instructions[used.index].body.operands().iter().any(names);
        let access = (!allocates && named).then_some(used.access);
        UseSite { site, tensor: used.tensor, access }
    }

    /// The storages of an instruction's operands.
    pub(super) fn used(&mut self, index: usize, body: &Body) -> Used {
        let mut used = Used::new();
        for operand in body.operands() {
            let Some(storage) = self.live(index, operand.tensor) else { continue };
            used.push((storage, operand.tensor, rules::access(body.kind(), operand.access)));
        }
        // Stable, so that the tensor named first stays first.
        used.sort_by_key(|&(storage, ..)| storage);
        used.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.2 = kept.2.join(next.2);
            }
            same
        });
        used
    }

    /// An instruction that uses operands and perhaps memory of its own.
    pub(super) fn work(
        &mut self,
        index: usize,
        at: Point,
        body: &Body,
        workspace: Option<&Placement>,
    ) {
        self.counts_up(index, at);
        let used = self.used(index, body);
        let mut clock = self.streams.arrive(at);
        let pool = self.streams.is_pool(at.stream);
        if pool {
            // The pool orders conflicting operands, all of them before the instruction starts.
            for &(number, _, access) in &used {
                self.lives.storage(number).follow(at.stream, access, &mut clock);
            }
        }
        for &(number, tensor, access) in &used {
            let storage = self.lives.storage(number);
            let root = storage.root;
            let ordered = |u: &Use| u.point.stream == at.stream || clock.covers(u.point);
            let racing: SmallVec<[Use; 1]> =
                storage.conflicts(access).filter(|u| !ordered(u)).cloned().collect();
            for earlier in racing {
                self.report(|walk| Violation::Race {
                    storage: root,
                    later: Box::new(UseSite {
                        site: walk.site(index),
                        tensor,
                        access: Some(access),
                    }),
                    earlier: Box::new(walk.shown(&earlier)),
                    missing: Missing { waiter: at.stream, point: earlier.point, fence: false },
                });
            }
        }
        if let Some(placement) = workspace {
            let user = Use {
                point: at,
                index,
                // A workspace has no name; the instruction's line shows it.
                tensor: TensorId(u32::MAX),
                access: Access::ReadWrite,
                clock: None,
            };
            self.give(index, at.stream, placement, Owner::Workspace(user), &clock, false);
        }
        for (number, tensor, access) in used {
            let known = pool.then(|| clock.clone());
            let new = Use { point: at, index, tensor, access, clock: known };
            self.lives.storage_mut(number).note(new);
        }
        self.streams.leave(at, &clock);
    }
}
