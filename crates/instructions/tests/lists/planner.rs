//! The planner against a model of memory that keeps every byte's past uses.
//!
//! Long because each step of the planner has a case of its own.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use millstream_instructions::planner::{GRANULARITY, Knowledge, LARGE, Placed, Points};
use millstream_instructions::{Answer, ArenaId, Frontier, Placement, Planner};
use millstream_types::{DeviceId, Point, StreamId};

/// A size between small and large.
const CHUNK: u64 = 1 << 16;

/// Three in-order streams and a pool.
const STREAMS: u16 = 4;

fn point(stream: u16, seq: u64) -> Point {
    Point::new(StreamId(stream), seq)
}

/// Returns the growth in bytes, if that is the answer.
fn grows(answer: Answer) -> Option<u64> {
    match answer {
        Answer::NeedGrow { bytes, .. } => Some(bytes),
        _ => None,
    }
}

fn frontier(points: &[Point]) -> Frontier {
    points.iter().copied().collect()
}

/// The points that each stream knows. Stream 3 is a pool.
#[derive(Default)]
struct Known {
    streams: Vec<(Frontier, u64)>,
    seen: Frontier,
}

impl Known {
    fn nothing() -> Known {
        Known { streams: vec![Default::default(); 4], seen: Frontier::new() }
    }

    fn learn(&mut self, stream: u16, point: Point) {
        let (known, version) = &mut self.streams[usize::from(stream)];
        *version += u64::from(known.add(point));
    }

    /// Records that the host has waited for `point`: all streams know it.
    fn see(&mut self, point: Point) {
        self.seen.add(point);
        (0..self.streams.len()).for_each(|s| self.learn(s as u16, point));
    }
}

impl Knowledge for Known {
    fn knows(&self, stream: StreamId, point: Point) -> bool {
        let own = stream == point.stream && self.keeps_waits(stream);
        own || self.streams[stream.index()].0.covers(point)
    }

    fn version(&self, stream: StreamId) -> u64 {
        self.streams[stream.index()].1
    }

    fn keeps_waits(&self, stream: StreamId) -> bool {
        stream.index() != 3
    }

    fn seen(&self, point: Point) -> bool {
        self.seen.covers(point)
    }
}

#[track_caller]
fn placed(answer: Answer) -> Placed {
    match answer {
        Answer::Placed(placed) => placed,
        other => panic!("{other:?}"),
    }
}

/// Returns the range of bytes that a placement takes.
fn taken(place: &Placement) -> (u64, u64) {
    (place.offset, place.offset + place.size.max(1).next_multiple_of(GRANULARITY))
}

/// A model of the arena's memory.
#[derive(Default)]
struct Model {
    /// Sizes, by start.
    chunks: BTreeMap<u64, u64>,
    live: Vec<(Placed, u16)>,
    /// Every released range with the points of its last uses.
    past: Vec<((u64, u64), Frontier)>,
    generations: u64,
}

impl Model {
    fn placed(&mut self, new: Placed, size: u64, stream: u16, known: &Known) {
        let place = new.placement;
        let (start, end) = taken(&place);
        assert_eq!(place.size, size);
        assert_eq!(start % GRANULARITY, 0);
        assert!(self.chunks.iter().any(|(&from, &to)| from <= start && end <= to), "in a chunk");
        for (other, _) in &self.live {
            let (from, to) = taken(&other.placement);
            assert!(end <= from || to <= start, "{place:?} overlaps {other:?}");
        }
        for ((from, to), last_uses) in &self.past {
            if start < *to && *from < end {
                let open = known.open(StreamId(stream), last_uses);
                assert_eq!(open, None, "{last_uses} is not known");
            }
        }
        assert!(place.generation > self.generations, "generations count up");
        self.generations = place.generation;
        self.live.push((new, stream));
    }

    /// The largest run of free bytes.
    fn largest_free(&self) -> u64 {
        let mut used: Vec<_> = self.live.iter().map(|(p, _)| taken(&p.placement)).collect();
        used.sort_unstable();
        let gaps = self.chunks.iter().map(|(&from, &to)| {
            let mut cursor = from;
            let mut best = 0;
            for &(start, end) in used.iter().filter(|&&(start, _)| from <= start && start < to) {
                best = best.max(start - cursor);
                cursor = end;
            }
            best.max(to - cursor)
        });
        gaps.max().unwrap_or(0)
    }

    fn reserved(&self) -> u64 {
        self.chunks.iter().map(|(from, to)| to - from).sum()
    }

    /// The bytes of the chunks that nothing is placed in.
    fn unused(&self) -> u64 {
        let used = |from: u64, to: u64| {
            self.live.iter().any(|(p, _)| from <= p.placement.offset && p.placement.offset < to)
        };
        self.chunks.iter().filter(|&(&from, &to)| !used(from, to)).map(|(from, to)| to - from).sum()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Place { stream: u16, bytes: u64 },
    Release { which: prop::sample::Index, last_uses: BTreeMap<u16, u64> },
    Learn { stream: u16, point: (u16, u64) },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![0u64..4 * GRANULARITY, 0u64..CHUNK, Just(CHUNK), Just(u64::MAX)];
    let step = prop_oneof![
        3 => (0..STREAMS, bytes).prop_map(|(stream, bytes)| Step::Place { stream, bytes }),
        2 => (any::<prop::sample::Index>(), prop::collection::btree_map(0..STREAMS, 1u64..9, 0..3))
            .prop_map(|(which, last_uses)| Step::Release { which, last_uses }),
        1 => (0..STREAMS, (0..STREAMS, 1u64..9))
            .prop_map(|(stream, point)| Step::Learn { stream, point }),
    ];
    vec(step, 0..60)
}

fn run(limit: u64, steps: &[Step]) {
    let device = DeviceId::cpu(0);
    let mut planner = Planner::new();
    let arena = planner.arena(&device);
    planner.set_limit(&device, limit);
    let mut model = Model::default();
    let mut known = Known::nothing();
    for step in steps {
        match step {
            Step::Place { stream, bytes } => {
                place(&mut planner, arena, &mut model, &mut known, (*stream, *bytes, limit));
            }
            Step::Release { which, last_uses } if !model.live.is_empty() => {
                let (gone, stream) = model.live.swap_remove(which.index(model.live.len()));
                let mut last_uses: Frontier =
                    last_uses.iter().map(|(&s, &n)| point(s, n)).collect();
                // A block's uses come after the points that its stream knew when the block was
                // placed. Without them the planner would lose earlier uses of a block without uses
                // of its own.
                last_uses.join(&known.streams[usize::from(stream)].0);
                last_uses.add(point(stream, 100));
                planner.release(gone.block, last_uses.clone(), &known);
                model.past.push((taken(&gone.placement), last_uses));
            }
            Step::Release { .. } => {}
            Step::Learn { stream, point: (s, n) } => known.learn(*stream, point(*s, *n)),
        }
        let usage = planner.usage(&known).swap_remove(arena.index());
        let in_use: u64 =
            model.live.iter().map(|(p, _)| taken(&p.placement).1 - p.placement.offset).sum();
        assert_eq!((usage.in_use, usage.reserved), (in_use, model.reserved()));
        assert!(usage.peak >= usage.in_use && usage.reserved <= limit);
        assert_eq!(usage.reserved, usage.in_use + usage.cached + usage.pending, "all is accounted");
        assert_eq!(usage.largest_free, model.largest_free());
    }
    for (gone, _) in std::mem::take(&mut model.live) {
        planner.release(gone.block, Frontier::new(), &known);
    }
    (0..STREAMS).for_each(|s| known.see(point(s, 100)));
    let usage = planner.usage(&known).swap_remove(arena.index());
    assert_eq!((usage.in_use, usage.pending), (0, 0));
    // Each chunk is one piece again: all are placed whole, and nothing grows.
    planner.set_limit(&device, usage.reserved);
    let mut chunks: Vec<u64> = model.chunks.iter().map(|(from, to)| to - from).collect();
    chunks.sort_unstable();
    for bytes in chunks.into_iter().rev() {
        assert_eq!(placed(planner.place(arena, bytes, StreamId(0), &known)).after.len(), 0);
    }
}

/// A request, with all that it takes to meet it.
fn place(
    planner: &mut Planner,
    arena: ArenaId,
    model: &mut Model,
    known: &mut Known,
    (stream, bytes, limit): (u16, u64, u64),
) {
    let want = bytes.max(1).checked_next_multiple_of(GRANULARITY);
    // Bounded: each wait makes one more point known, each growth takes of the limit.
    for turn in 0.. {
        assert!(turn < 100, "no end of waiting and growing");
        let room = limit / GRANULARITY * GRANULARITY - model.reserved();
        match planner.place(arena, bytes, StreamId(stream), known) {
            Answer::Placed(new) => {
                let open = |p: &Point| !known.knows(StreamId(stream), *p);
                assert!(new.after.iter().all(open), "a wait for what is known");
                assert!(new.after.is_empty() || want.unwrap() > room, "a wait while it could grow");
                new.after.iter().for_each(|&p| known.learn(stream, p));
                return model.placed(new, bytes, stream, known);
            }
            Answer::NeedGrow { bytes: more, least } => {
                assert_eq!((more % GRANULARITY, Some(least)), (0, want));
                assert!(more >= least && more <= room);
                let from = planner.next_chunk(arena, more);
                planner.grown(arena, more);
                model.chunks.insert(from, from + more);
            }
            Answer::NeedWait(wanted) => {
                assert!(!known.keeps_waits(StreamId(stream)), "a stream waits by itself");
                let open = |p: &Point| !known.knows(StreamId(stream), *p);
                assert!(!wanted.is_empty() && wanted.iter().all(open), "a wait for what is known");
                wanted.iter().for_each(|&p| known.see(p));
            }
            Answer::NeedReturn(room) => {
                assert!(model.largest_free() < want.unwrap());
                while limit / GRANULARITY * GRANULARITY - model.reserved() < room {
                    let (start, points) = planner.next_return(arena).unwrap();
                    points.iter().for_each(|&p| known.see(p));
                    assert!(planner.give_back(arena, start, known));
                    let end = model.chunks.remove(&start).unwrap();
                    model.past.retain(|((from, _), _)| *from < start || *from >= end);
                }
            }
            Answer::Full => {
                let fits = want.is_some_and(|want| {
                    model.largest_free() >= want || room.saturating_add(model.unused()) >= want
                });
                assert!(!fits, "{bytes} bytes would have fitted");
                return;
            }
        }
    }
}

proptest! {
    #[test]
    fn places_are_disjoint_and_their_past_is_known(
        chunks in 0u64..6,
        odd in 0u64..GRANULARITY,
        steps in steps(),
    ) {
        run(chunks * CHUNK / 2 + odd, &steps);
    }
}

const A: StreamId = StreamId(0);
const B: StreamId = StreamId(1);
const POOL: StreamId = StreamId(3);

/// A planner with one arena of `bytes` bytes, at its limit.
fn full_of(bytes: u64) -> (Planner, ArenaId, Known) {
    let device = DeviceId::cpu(0);
    let mut planner = Planner::new();
    let arena = planner.arena(&device);
    planner.set_limit(&device, bytes);
    if bytes > 0 {
        planner.grown(arena, bytes);
    }
    (planner, arena, Known::nothing())
}

fn counts(planner: &Planner, known: &Known) -> Vec<(&'static str, u64)> {
    let usage = planner.usage(known).swap_remove(0);
    usage.steps.named().into_iter().filter(|(_, n)| *n > 0).collect()
}

#[test]
fn blocks_split_and_merge() {
    let (mut planner, arena, mut known) = full_of(4 * GRANULARITY);
    let new: Vec<Placed> = [1, GRANULARITY, 2 * GRANULARITY]
        .map(|n| placed(planner.place(arena, n, A, &known)))
        .into();
    assert_eq!(
        new.iter().map(|p| p.placement.offset).collect::<Vec<_>>(),
        [0, GRANULARITY, 2 * GRANULARITY]
    );
    assert_eq!(planner.place(arena, 1, A, &known), Answer::Full);
    planner.release(new[0].block, frontier(&[point(0, 1)]), &known);
    planner.release(new[2].block, frontier(&[point(1, 2)]), &known);
    assert_eq!(planner.place(arena, 3 * GRANULARITY, A, &known), Answer::Full, "not neighbours");
    planner.release(new[1].block, Frontier::new(), &known);
    // The first two are merged. The third is pending, and stays apart until A knows its last use.
    let usage = planner.usage(&known).swap_remove(0);
    assert_eq!((usage.cached, usage.pending, usage.largest_free), (1024, 1024, 2048));
    known.learn(0, point(1, 2));
    let usage = planner.usage(&known).swap_remove(0);
    assert_eq!((usage.cached, usage.pending), (2048, 0));
    let whole = placed(planner.place(arena, 4 * GRANULARITY, A, &known));
    assert_eq!((whole.placement.offset, whole.after.len()), (0, 0));
}

#[test]
fn the_smallest_block_that_fits_is_taken() {
    let (mut planner, arena, known) = full_of(8 * GRANULARITY);
    let new: Vec<Placed> =
        [3, 1, 2, 1, 1].map(|n| placed(planner.place(arena, n * GRANULARITY, A, &known))).into();
    planner.release(new[0].block, Frontier::new(), &known);
    planner.release(new[2].block, Frontier::new(), &known);
    let mut next = || placed(planner.place(arena, 2 * GRANULARITY, A, &known)).placement.offset;
    assert_eq!((next(), next()), (new[2].placement.offset, 0));
}

/// The planner takes its steps in their order, and counts each.
#[test]
fn the_steps_are_taken_in_order() {
    let (mut planner, arena, mut known) = full_of(4 * GRANULARITY);
    let next = |planner: &mut Planner, stream, known: &Known| {
        placed(planner.place(arena, GRANULARITY, stream, known))
    };
    let [a, b, c, d] = [A, A, B, B].map(|s| next(&mut planner, s, &known));
    planner.release(a.block, frontier(&[point(0, 1)]), &known);
    planner.release(b.block, frontier(&[point(0, 2), point(2, 7)]), &known);
    planner.release(c.block, frontier(&[point(1, 3)]), &known);
    planner.release(d.block, frontier(&[point(1, 9), point(2, 9)]), &known);
    // Idle on A; pending on A, now known; idle on B, whose use A knows; and one wait.
    assert_eq!(next(&mut planner, A, &known).placement.offset, a.placement.offset);
    known.learn(0, point(2, 8));
    assert_eq!(next(&mut planner, A, &known).placement.offset, b.placement.offset);
    known.learn(0, point(1, 5));
    assert_eq!(next(&mut planner, A, &known).placement.offset, c.placement.offset);
    let last = next(&mut planner, A, &known);
    assert_eq!(
        (last.placement.offset, &last.after[..]),
        (d.placement.offset, &[point(1, 9), point(2, 9)][..])
    );
    assert_eq!(planner.place(arena, 1, A, &known), Answer::Full);
    let steps = counts(&planner, &known);
    let expected =
        [("idle", 5), ("covered", 1), ("elsewhere", 1), ("grown", 1), ("stream_waits", 1)];
    assert_eq!(steps, expected, "the first four blocks were unused memory");
}

#[test]
fn the_fewest_waits_come_first_then_the_oldest() {
    let (mut planner, arena, known) = full_of(3 * GRANULARITY);
    let new = [(); 3].map(|()| placed(planner.place(arena, 1, A, &known)));
    planner.release(new[0].block, frontier(&[point(1, 1), point(2, 1)]), &known);
    planner.release(new[1].block, frontier(&[point(1, 9)]), &known);
    planner.release(new[2].block, frontier(&[point(1, 4)]), &known);
    for (expected, waits) in [(1, 1), (2, 1), (0, 2)] {
        let next = placed(planner.place(arena, 1, A, &known));
        assert_eq!((next.placement.offset, next.after.len()), (expected * GRANULARITY, waits));
    }
}

#[test]
fn pending_neighbours_are_waited_for_together() {
    let (mut planner, arena, known) = full_of(4 * GRANULARITY);
    let new = [(); 4].map(|()| placed(planner.place(arena, 1, A, &known)));
    for (k, stream) in [1u16, 2, 1].into_iter().enumerate() {
        planner.release(new[k].block, frontier(&[point(stream, k as u64 + 1)]), &known);
    }
    let wide = placed(planner.place(arena, 2 * GRANULARITY, A, &known));
    assert_eq!((wide.placement.offset, &wide.after[..]), (0, &[point(1, 1), point(2, 2)][..]));
    assert_eq!(planner.place(arena, 2 * GRANULARITY, A, &known), Answer::Full, "one block is left");
    // A pool cannot wait for itself.
    assert_eq!(
        planner.place(arena, 1, POOL, &known),
        Answer::NeedWait(Points::from_slice(&[point(1, 3)]))
    );
}

#[test]
fn chunks_are_given_back_for_a_larger_one() {
    let (mut planner, arena, mut known) = full_of(0);
    let device = DeviceId::cpu(0);
    planner.set_limit(&device, 3 * LARGE);
    let [a, b] = [A, A].map(|s| {
        assert_eq!(grows(planner.place(arena, LARGE, s, &known)), Some(LARGE));
        planner.grown(arena, LARGE);
        placed(planner.place(arena, LARGE, s, &known))
    });
    planner.release(a.block, frontier(&[point(0, 5)]), &known);
    planner.release(b.block, frontier(&[point(1, 2)]), &known);
    assert_eq!(planner.place(arena, 3 * LARGE, A, &known), Answer::NeedReturn(3 * LARGE));
    assert_eq!(planner.next_return(arena), Some((0, Points::from_slice(&[point(0, 5)]))));
    assert!(!planner.give_back(arena, 0, &known), "the host has not seen its last use");
    known.see(point(0, 5));
    assert!(planner.give_back(arena, 0, &known));
    assert!(!planner.give_back(arena, 0, &known), "it is gone");
    assert_eq!(planner.reserved(arena), LARGE);
    known.see(point(1, 2));
    assert!(planner.give_back(arena, LARGE, &known));
    assert_eq!(grows(planner.place(arena, 3 * LARGE, A, &known)), Some(3 * LARGE));
    assert_eq!(planner.next_chunk(arena, 3 * LARGE), 0, "the gap is used again");
}

#[test]
fn a_gap_between_chunks_is_used_again() {
    let (mut planner, arena, mut known) = full_of(0);
    for _ in 0..3 {
        planner.grown(arena, LARGE);
    }
    known.see(point(0, 1));
    assert!(planner.give_back(arena, LARGE, &known));
    assert_eq!(planner.next_chunk(arena, LARGE), LARGE);
    assert_eq!(planner.next_chunk(arena, LARGE + GRANULARITY), 3 * LARGE);
}

#[test]
fn growth_stops_at_the_limit() {
    let (mut planner, arena, known) = full_of(0);
    assert_eq!(planner.place(arena, 1, A, &known), Answer::Full);
    let device = DeviceId::cpu(0);
    planner.set_limit(&device, 3 * CHUNK / 2 + 1);
    assert_eq!(grows(planner.place(arena, CHUNK, A, &known)), Some(CHUNK));
    planner.grown(arena, CHUNK);
    let first = placed(planner.place(arena, CHUNK, A, &known));
    assert_eq!(grows(planner.place(arena, 1, A, &known)), Some(CHUNK / 16), "a share");
    planner.grown(arena, CHUNK / 2);
    placed(planner.place(arena, CHUNK / 2, A, &known));
    assert_eq!(planner.place(arena, 1, A, &known), Answer::Full);
    assert_eq!(planner.place(arena, u64::MAX, A, &known), Answer::Full);
    planner.release(first.block, Frontier::new(), &known);
    assert_eq!(planner.place(arena, 3 * CHUNK / 2, A, &known), Answer::Full, "chunks stay apart");
    planner.set_limit(&device, 3 * CHUNK / 2 + GRANULARITY);
    placed(planner.place(arena, CHUNK, A, &known));
    assert_eq!(grows(planner.place(arena, 1, A, &known)), Some(GRANULARITY), "what is left");
}

#[test]
fn an_unknown_limit_is_found_out_by_growing() {
    let mut planner = Planner::new();
    let known = Known::nothing();
    let arena = planner.arena(&DeviceId::sim(1));
    assert_eq!(planner.arena(&DeviceId::sim(1)), arena);
    assert_eq!(planner.device(arena), &DeviceId::sim(1));
    assert_eq!(planner.limit(&DeviceId::sim(1)), None);
    assert_eq!(grows(planner.place(arena, 3 * CHUNK, A, &known)), Some(3 * CHUNK));
    assert_ne!(planner.arena(&DeviceId::cpu(0)), arena);
}

/// Small, long-lived blocks do not cut up large ones while there is room.
#[test]
fn large_blocks_lie_apart() {
    let mut planner = Planner::new();
    let known = Known::nothing();
    let arena = planner.arena(&DeviceId::cpu(0));
    planner.grown(arena, 4 * LARGE);
    assert_eq!(grows(planner.place(arena, GRANULARITY, A, &known)), Some(4 * LARGE / 16));
    placed(planner.place(arena, 2 * LARGE, A, &known));
    planner.set_limit(&DeviceId::cpu(0), 4 * LARGE);
    placed(planner.place(arena, GRANULARITY, A, &known));
}

/// A block that moves between streams many times leaves no entries in the queues.
#[test]
fn queues_do_not_grow() {
    let (mut planner, arena, mut known) = full_of(GRANULARITY);
    let mut early = 0;
    for k in 1..10_000 {
        let (stream, other) = if k % 2 == 0 { (A, 1) } else { (B, 0) };
        let block = placed(planner.place(arena, 1, stream, &known));
        planner.release(block.block, frontier(&[point(other, k), point(2, k)]), &known);
        known.learn(other, point(2, k));
        if k == 1000 {
            early = format!("{planner:?}").len();
        }
    }
    let late = format!("{planner:?}").len();
    assert!(late < early + 2000, "{early} characters after 1,000 uses, {late} after 10,000");
}
