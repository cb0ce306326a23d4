//! Checks of tensors' liveness, memory and uses.

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

/// The uses of an instruction: the storage's number, the bytes, the tensor that names them first,
/// and the join of all accesses to them.
type Used = SmallVec<[(usize, Rc<Footprint>, TensorId, Access); 4]>;

impl Walk<'_> {
    /// Returns the storage of the live tensor of this id. Reports a violation if none is live.
    pub(super) fn live(&mut self, index: usize, tensor: TensorId) -> Option<usize> {
        match self.liveness.live(tensor) {
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

    /// Reports a violation if the id is live already, or if the tensor exceeds its storage.
    pub(super) fn check_new_tensor(
        &mut self,
        index: usize,
        tensor: TensorId,
        spec: &TensorSpec,
        bytes: u64,
    ) {
        if let Ok(begun) = self.liveness.live(tensor).map(|live| live.begun) {
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
        self.check_new_tensor(index, tensor, spec, self.liveness.storage(storage).bytes);
        let footprint = self.footprint(spec);
        self.liveness.insert_view(tensor, footprint, storage, index);
    }

    pub(super) fn allocate(
        &mut self,
        index: usize,
        on: StreamId,
        tensor: TensorId,
        spec: &TensorSpec,
        placement: &Placement,
    ) {
        self.check_new_tensor(index, tensor, spec, placement.size);
        let knows = self.streams.knows(on).clone();
        let (point, held) = (self.streams.tail(on), self.streams.last_wait(on));
        let write = Use { point, held, index, tensor, access: Access::Write };
        let mut storage = Storage::new(tensor, placement.size, Some(index));
        storage.record_use(&self.all_of(placement.size), write);
        let number = self.liveness.insert_storage(tensor, self.footprint(spec), storage);
        let fence = self.streams.is_pool(on);
        self.assign_memory(index, on, placement, Owner::Storage(number), &knows, fence);
    }

    /// Assigns memory to a new owner that knows `clock`. Reports earlier owners that are live, or
    /// whose last uses `clock` does not cover.
    pub(super) fn assign_memory(
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
        let before = self.arenas[placement.arena.index()].assign(placement, owner);
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
                    let storage = self.liveness.storage(*number);
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
            for last in self.unfinished_uses(index, stream, &region.owner, clock) {
                self.report(|walk| Violation::ReusedTooEarly {
                    new: walk.site(index),
                    place,
                    owner: name.clone(),
                    last: Box::new(walk.use_site(&last)),
                    missing: Missing::of(&last, stream, clock, fence),
                });
            }
        }
    }

    /// Returns the last uses by an earlier owner that may be unfinished, as far as `clock` knows.
    fn unfinished_uses(
        &mut self,
        index: usize,
        stream: StreamId,
        owner: &Owner,
        clock: &Clock,
    ) -> Vec<Use> {
        let Walk { liveness, streams, needs, pairs, .. } = self;
        let mut open = Vec::new();
        let mut compare = |last: &Use| {
            *pairs += 1;
            if !last.is_over(stream, clock, streams) {
                open.push(last.clone());
            } else if last.point.stream != stream || streams.is_pool(stream) {
                let earlier = last.index;
                needs.require(clock, last, |_| Reason::Frees { later: index, earlier });
            }
        };
        match owner {
            Owner::Workspace(user) => compare(user),
            Owner::Storage(number) => liveness.storage(*number).last_uses().for_each(compare),
        }
        open
    }

    pub(super) fn use_site(&self, used: &Use) -> UseSite {
        let site = self.site(used.index);
        let allocates =
            matches!(self.list.instructions[used.index].body, Body::AllocateTensor { .. });
        let names = |o: &Operand| o.tensor == used.tensor;
        let named = self.list.instructions[used.index].body.operands().iter().any(names);
        let access = (!allocates && named).then_some(used.access);
        UseSite { site, tensor: used.tensor, access }
    }

    /// Returns the uses of an instruction's operands, one for each storage and footprint.
    pub(super) fn operand_uses(&mut self, index: usize, body: &Body) -> Used {
        let mut used = Used::new();
        for operand in body.operands() {
            let Some(storage) = self.live(index, operand.tensor) else { continue };
            let Ok(tensor) = self.liveness.live(operand.tensor) else { continue };
            let access = rules::access(body.kind(), operand.access);
            used.push((storage, tensor.footprint.clone(), operand.tensor, access));
        }
        // The sort is stable: the tensor named first stays first.
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

    /// Returns the earlier uses that race with a use of these bytes, each with bytes that both use.
    fn racing(
        &mut self,
        index: usize,
        at: Point,
        (number, footprint, access): (usize, &Footprint, Access),
        clock: &Clock,
    ) -> SmallVec<[(Use, Range<u64>); 1]> {
        let Walk { liveness, needs, pairs, mode, .. } = self;
        let is_thread = |stream: StreamId| stream.index() < mode.threads;
        let mut racing = SmallVec::new();
        let known = |u: &Use, needs: &Needs| {
            u.point.stream == at.stream || needs.covers_without_unneeded(clock, u)
        };
        let storage = liveness.storage(number);
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
                    let are_threads = is_thread(earlier.point.stream) && is_thread(at.stream);
                    racing.extend((!are_threads).then(|| (earlier.clone(), bytes)));
                    return;
                }
                let (later, earlier_index) = (index, earlier.index);
                let reason = |_| Reason::Orders { later, earlier: earlier_index };
                needs.borrow_mut().require(clock, earlier, reason);
            },
        );
        racing
    }

    /// Checks an instruction that uses operands and may have a workspace.
    pub(super) fn work(
        &mut self,
        index: usize,
        at: Point,
        body: &Body,
        workspace: Option<&Placement>,
    ) {
        self.counts_up(index, at);
        let used = self.operand_uses(index, body);
        let mut clock = self.streams.begin_instruction(at);
        let pool = self.streams.is_pool(at.stream);
        if pool {
            // The pool orders all conflicting uses of the operands before the instruction starts.
            for &(number, _, _, access) in &used {
                self.liveness.storage(number).join_pool_knowledge(at.stream, access, &mut clock);
            }
        }
        if let Some(clocks) = &mut self.clocks {
            clocks.insert(index, clock.clone());
        }
        for (number, footprint, tensor, access) in &used {
            let root = self.liveness.storage(*number).root;
            for (earlier, bytes) in self.racing(index, at, (*number, footprint, *access), &clock) {
                self.report(|walk| Violation::Race {
                    storage: root,
                    bytes: walk.mode.bytes.then_some(bytes),
                    later: Box::new(UseSite {
                        site: walk.site(index),
                        tensor: *tensor,
                        access: Some(*access),
                    }),
                    earlier: Box::new(walk.use_site(&earlier)),
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
            self.assign_memory(index, at.stream, placement, Owner::Workspace(user), &clock, false);
        }
        for (number, footprint, tensor, access) in used {
            let new = Use { point: at, held: None, index, tensor, access };
            let storage = self.liveness.storage_mut(number);
            storage.record_use(&footprint, new);
            if pool {
                storage.add_pool_knowledge(at.stream, access, &clock, self.streams.nothing());
            }
        }
        self.streams.end_instruction(at, &clock);
    }
}

impl Missing {
    fn of(earlier: &Use, waiter: StreamId, clock: &Clock, fence: bool) -> Missing {
        let point = earlier.point;
        Missing { waiter, point, known: clock.get(point.stream), fence }
    }
}
