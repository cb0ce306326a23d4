//! Tensors' lives, their memory and their uses.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use smallvec::SmallVec;

use millstream_instructions::{Body, Operand, Placement};
use millstream_types::{Access, Point, StreamId, TensorId, TensorSpec};

use crate::check::Walk;
use crate::clock::Clock;
use crate::footprint::Footprint;
use crate::memory::{ALIGNMENT, Owner};
use crate::needs::Needs;
use crate::rules;
use crate::storage::{Storage, Use};
use crate::verdict::Reason;
use crate::violation::{Missing, Place, UseSite, Violation};

/// What an instruction uses: the number of the storage, the bytes of it, the tensor that names them
/// first, and how they are used altogether, however often they are named.
type Used = SmallVec<[(usize, Rc<Footprint>, TensorId, Access); 4]>;

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
        if let Ok(begun) = self.lives.live(tensor).map(|live| live.begun) {
            self.report(|walk| Violation::LivesAlready {
                site: walk.site(index),
                tensor,
                begun: begun.map(|at| walk.site(at)),
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
        let footprint = self.footprint(spec);
        self.lives.view(tensor, footprint, storage, index);
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
        let (point, held) = (self.streams.tail(on), self.streams.held(on));
        let write = Use { point, held, index, tensor, access: Access::Write };
        let mut storage = Storage::new(tensor, placement.size, Some(index));
        storage.note(&self.all_of(placement.size), write);
        let number = self.lives.begin(tensor, self.footprint(spec), storage);
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
            let name = match &region.owner {
                Owner::Workspace(_) => "a workspace".to_owned(),
                Owner::Storage(number) => {
                    let storage = self.lives.storage(*number);
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
                    owner.to_string()
                }
            };
            for last in self.open_uses(index, stream, &region.owner, clock) {
                self.report(|walk| Violation::ReusedTooEarly {
                    new: walk.site(index),
                    place,
                    owner: name.clone(),
                    last: Box::new(walk.shown(&last)),
                    missing: Missing::of(&last, stream, clock, fence),
                });
            }
        }
    }

    /// The uses by an earlier owner of memory that may still be going on for who knows `clock`.
    fn open_uses(
        &mut self,
        index: usize,
        stream: StreamId,
        owner: &Owner,
        clock: &Clock,
    ) -> Vec<Use> {
        let Walk { lives, streams, needs, pairs, .. } = self;
        let mut open = Vec::new();
        let mut compare = |last: &Use| {
            *pairs += 1;
            if !last.is_over(stream, clock, streams) {
                open.push(last.clone());
            } else if last.point.stream != stream || streams.is_pool(stream) {
                let earlier = last.index;
                needs.rest(clock, last, |_| Reason::Frees { later: index, earlier });
            }
        };
        match owner {
            Owner::Workspace(user) => compare(user),
            Owner::Storage(number) => lives.storage(*number).last_uses().for_each(compare),
        }
        open
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
            let Ok(tensor) = self.lives.live(operand.tensor) else { continue };
            let access = rules::access(body.kind(), operand.access);
            used.push((storage, tensor.footprint.clone(), operand.tensor, access));
        }
        // Stable, so that the tensor named first stays first.
        used.sort_by_key(|(storage, bytes, ..)| (*storage, bytes.start(), bytes.end()));
        used.dedup_by(|next, kept| {
            let same = (next.0, &next.1) == (kept.0, &kept.1);
            if same {
                kept.3 = kept.3.join(next.3);
            }
            same
        });
        used
    }

    /// The uses that race with one of these bytes, and bytes that both use.
    fn racing(
        &mut self,
        index: usize,
        at: Point,
        (number, footprint, access): (usize, &Footprint, Access),
        clock: &Clock,
    ) -> SmallVec<[(Use, Range<u64>); 1]> {
        let Walk { lives, needs, pairs, .. } = self;
        let mut racing = SmallVec::new();
        let known = |u: &Use, needs: &Needs| u.point.stream == at.stream || needs.is_safe(clock, u);
        let storage = lives.storage(number);
        let needs = RefCell::new(needs);
        *pairs += storage.conflicts(
            footprint,
            access,
            |newest| known(newest, &needs.borrow()),
            |earlier, bytes| {
                if earlier.point.stream == at.stream {
                    return;
                }
                if !clock.covers(earlier.point) {
                    racing.push((earlier.clone(), bytes));
                    return;
                }
                let (later, earlier_index) = (index, earlier.index);
                let reason = |_| Reason::Orders { later, earlier: earlier_index };
                needs.borrow_mut().rest(clock, earlier, reason);
            },
        );
        racing
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
            for &(number, _, _, access) in &used {
                self.lives.storage(number).follow(at.stream, access, &mut clock);
            }
        }
        for (number, footprint, tensor, access) in &used {
            let root = self.lives.storage(*number).root;
            for (earlier, bytes) in self.racing(index, at, (*number, footprint, *access), &clock) {
                self.report(|walk| Violation::Race {
                    storage: root,
                    bytes: walk.mode.bytes.then_some(bytes),
                    later: Box::new(UseSite {
                        site: walk.site(index),
                        tensor: *tensor,
                        access: Some(*access),
                    }),
                    earlier: Box::new(walk.shown(&earlier)),
                    missing: Missing::of(&earlier, at.stream, &clock, false),
                });
            }
        }
        if let Some(placement) = workspace {
            let user = Use {
                point: at,
                held: None,
                index,
                // A workspace has no name; the instruction's line shows it.
                tensor: TensorId(u32::MAX),
                access: Access::ReadWrite,
            };
            self.give(index, at.stream, placement, Owner::Workspace(user), &clock, false);
        }
        for (number, footprint, tensor, access) in used {
            let new = Use { point: at, held: None, index, tensor, access };
            let storage = self.lives.storage_mut(number);
            storage.note(&footprint, new);
            if pool {
                storage.lead(at.stream, access, &clock, self.streams.nothing());
            }
        }
        self.streams.leave(at, &clock);
    }
}

impl Missing {
    fn of(earlier: &Use, waiter: StreamId, clock: &Clock, fence: bool) -> Missing {
        let point = earlier.point;
        Missing { waiter, point, known: clock.get(point.stream), fence }
    }
}
