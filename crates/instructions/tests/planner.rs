//! The planner against a model of memory that remembers every byte's past.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use millstream_instructions::planner::{CHUNK, GRAIN};
use millstream_instructions::{Answer, ArenaId, Frontier, Placement, Planner};
use millstream_types::{DeviceId, Point, StreamId};

const STREAMS: u16 = 3;

fn point(stream: u16, seq: u64) -> Point {
    Point::new(StreamId(stream), seq)
}

fn at(placed: Answer) -> Placement {
    match placed {
        Answer::Placed(place) => place,
        other => panic!("{other:?}"),
    }
}

/// The bytes that a placement takes.
fn taken(place: &Placement) -> (u64, u64) {
    (place.offset, place.offset + place.size.max(1).next_multiple_of(GRAIN))
}

/// What memory looks like from outside.
#[derive(Default)]
struct Model {
    chunks: Vec<(u64, u64)>,
    /// What is held, with what the holder knew when it was placed.
    live: Vec<(Placement, Frontier)>,
    /// Every released range with the points of its last uses, oldest first.
    past: Vec<((u64, u64), Frontier)>,
    generations: u64,
}

impl Model {
    fn placed(&mut self, place: Placement, size: u64, known: &Frontier) {
        let (start, end) = taken(&place);
        assert_eq!(place.size, size);
        assert_eq!(start % GRAIN, 0);
        assert!(self.chunks.iter().any(|&(from, to)| from <= start && end <= to), "within a chunk");
        for (other, _) in &self.live {
            let (from, to) = taken(other);
            assert!(end <= from || to <= start, "{place:?} overlaps {other:?}");
        }
        for ((from, to), death) in &self.past {
            if start < *to && *from < end {
                assert!(death.iter().all(|p| known.covers(p)), "{death} is not in {known}");
            }
        }
        assert!(place.generation > self.generations, "generations count up");
        self.generations = place.generation;
        self.live.push((place, known.clone()));
    }

    /// The largest run of free bytes.
    fn largest_free(&self) -> u64 {
        let mut used: Vec<_> = self.live.iter().map(|(p, _)| taken(p)).collect();
        used.sort_unstable();
        let gaps = self.chunks.iter().map(|&(from, to)| {
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

    fn capacity(&self) -> u64 {
        self.chunks.iter().map(|(from, to)| to - from).sum()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Place { stream: u16, bytes: u64 },
    Release { which: prop::sample::Index, death: BTreeMap<u16, u64> },
    Learn { stream: u16, point: (u16, u64) },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![0u64..4 * GRAIN, 0u64..CHUNK, Just(CHUNK), Just(u64::MAX)];
    let step = prop_oneof![
        3 => (0..STREAMS, bytes).prop_map(|(stream, bytes)| Step::Place { stream, bytes }),
        2 => (any::<prop::sample::Index>(), prop::collection::btree_map(0..STREAMS, 1u64..9, 0..3))
            .prop_map(|(which, death)| Step::Release { which, death }),
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
    let mut known: Vec<Frontier> =
        (0..STREAMS).map(|s| [point(s, 100)].into_iter().collect()).collect();
    for step in steps {
        match step {
            Step::Place { stream, bytes } => {
                let known = &mut known[*stream as usize];
                // Bounded: each wait makes one more point known, each growth takes of the limit.
                for turn in 0.. {
                    assert!(turn < 100, "no end of waiting and growing");
                    match planner.place(arena, *bytes, |p| known.covers(p)) {
                        Answer::Placed(place) => {
                            model.placed(place, *bytes, known);
                            break;
                        }
                        Answer::NeedGrow(more) => {
                            assert_eq!(more % GRAIN, 0);
                            assert!(more >= *bytes && model.capacity() + more <= limit);
                            let from = model.capacity();
                            planner.grown(arena, more);
                            model.chunks.push((from, from + more));
                        }
                        Answer::NeedWait(wanted) => {
                            assert!(!known.covers(wanted), "a wait for what is known");
                            assert!(model.past.iter().any(|(_, d)| d.iter().any(|p| p == wanted)));
                            known.add(wanted);
                        }
                        Answer::Full => {
                            let want = (*bytes).max(1).checked_next_multiple_of(GRAIN);
                            let fits = want.is_some_and(|w| {
                                model.largest_free() >= w
                                    || model.capacity().saturating_add(w) <= limit / GRAIN * GRAIN
                            });
                            assert!(!fits, "{bytes} bytes would have fitted");
                            break;
                        }
                    }
                }
            }
            Step::Release { which, death } if !model.live.is_empty() => {
                let (place, born) = model.live.swap_remove(which.index(model.live.len()));
                let mut death: Frontier = death.iter().map(|(&s, &n)| point(s, n)).collect();
                // A holder's uses come after what it knew; one without uses dies where it was
                // born, or earlier holders would be forgotten.
                death.join(&born);
                planner.release(place, death.clone());
                model.past.push((taken(&place), death));
            }
            Step::Release { .. } => {}
            Step::Learn { stream, point: (s, n) } => {
                known[*stream as usize].add(point(*s, *n));
            }
        }
        let usage = &planner.usage()[arena.index()];
        let in_use: u64 = model.live.iter().map(|(p, _)| taken(p).1 - taken(p).0).sum();
        assert_eq!((usage.in_use, usage.reserved), (in_use, model.capacity()));
        assert!(usage.peak >= usage.in_use && usage.reserved <= limit);
    }
    for (place, _) in std::mem::take(&mut model.live) {
        planner.release(place, Frontier::new());
    }
    assert_eq!(planner.usage()[arena.index()].in_use, 0);
    // Each chunk is one block again: all are placed whole, and nothing grows.
    for &(from, to) in &model.chunks {
        at(planner.place(arena, to - from, |_| true));
    }
}

proptest! {
    #[test]
    fn places_are_disjoint_and_their_past_is_known(
        chunks in 0u64..6,
        odd in 0u64..GRAIN,
        steps in steps(),
    ) {
        run(chunks * CHUNK / 2 + odd, &steps);
    }
}

/// A planner with one arena of `bytes` bytes, at its limit.
fn full_of(bytes: u64) -> (Planner, ArenaId) {
    let device = DeviceId::cpu(0);
    let mut planner = Planner::new();
    let arena = planner.arena(&device);
    planner.set_limit(&device, bytes);
    if bytes > 0 {
        assert_eq!(planner.place(arena, bytes, |_| true), Answer::NeedGrow(bytes));
        planner.grown(arena, bytes);
    }
    (planner, arena)
}

#[test]
fn blocks_split_and_merge() {
    let (mut planner, arena) = full_of(4 * GRAIN);
    let places: Vec<Placement> =
        [1, GRAIN, 2 * GRAIN].map(|n| at(planner.place(arena, n, |_| true))).into();
    assert_eq!(places.iter().map(|p| p.offset).collect::<Vec<_>>(), [0, GRAIN, 2 * GRAIN]);
    assert_eq!(planner.place(arena, 1, |_| true), Answer::Full);
    planner.release(places[0], [point(0, 1)].into_iter().collect());
    planner.release(places[2], [point(1, 2)].into_iter().collect());
    assert_eq!(planner.place(arena, 3 * GRAIN, |_| true), Answer::Full, "not side by side");
    planner.release(places[1], Frontier::new());
    // One block now, with both deaths.
    let knows = |p: Point| p == point(0, 1);
    assert_eq!(planner.place(arena, 4 * GRAIN, knows), Answer::NeedWait(point(1, 2)));
    assert_eq!(at(planner.place(arena, 4 * GRAIN, |_| true)).offset, 0);
}

#[test]
fn the_smallest_block_that_fits_is_taken() {
    let (mut planner, arena) = full_of(8 * GRAIN);
    let places: Vec<Placement> =
        [3, 1, 2, 1, 1].map(|n| at(planner.place(arena, n * GRAIN, |_| true))).into();
    planner.release(places[0], Frontier::new());
    planner.release(places[2], Frontier::new());
    assert_eq!(at(planner.place(arena, 2 * GRAIN, |_| true)).offset, places[2].offset);
    assert_eq!(at(planner.place(arena, 2 * GRAIN, |_| true)).offset, 0);
}

#[test]
fn the_shortest_wait_is_asked_for() {
    let (mut planner, arena) = full_of(2 * GRAIN);
    let a = at(planner.place(arena, 1, |_| true));
    let b = at(planner.place(arena, 1, |_| true));
    planner.release(a, [point(0, 9)].into_iter().collect());
    assert_eq!(planner.place(arena, 1, |_| false), Answer::NeedWait(point(0, 9)));
    planner.release(b, [point(1, 4)].into_iter().collect());
    let Answer::NeedWait(first) = planner.place(arena, 1, |_| false) else { panic!() };
    let Answer::NeedWait(second) = planner.place(arena, 1, |p| p == first) else { panic!() };
    assert_ne!(first, second, "merged blocks ask for both");
    assert_eq!(planner.place(arena, 3 * GRAIN, |_| false), Answer::Full, "no wait would help");
}

#[test]
fn growth_stops_at_the_limit() {
    let (mut planner, arena) = full_of(0);
    assert_eq!(planner.place(arena, 1, |_| true), Answer::Full);
    let device = DeviceId::cpu(0);
    planner.set_limit(&device, 3 * CHUNK / 2 + 1);
    assert_eq!(planner.place(arena, 1, |_| true), Answer::NeedGrow(CHUNK));
    planner.grown(arena, CHUNK);
    let first = at(planner.place(arena, CHUNK, |_| true));
    assert_eq!(planner.place(arena, 1, |_| true), Answer::NeedGrow(CHUNK / 2), "what is left");
    planner.grown(arena, CHUNK / 2);
    at(planner.place(arena, CHUNK / 2, |_| true));
    assert_eq!(planner.place(arena, 1, |_| true), Answer::Full);
    assert_eq!(planner.place(arena, u64::MAX, |_| true), Answer::Full);
    planner.release(first, Frontier::new());
    assert_eq!(planner.place(arena, 3 * CHUNK / 2, |_| true), Answer::Full, "chunks stay apart");
}

#[test]
fn an_unknown_limit_is_found_out_by_growing() {
    let mut planner = Planner::new();
    let arena = planner.arena(&DeviceId::sim(1));
    assert_eq!(planner.arena(&DeviceId::sim(1)), arena);
    assert_eq!(planner.device(arena), &DeviceId::sim(1));
    assert_eq!(planner.limit(&DeviceId::sim(1)), None);
    assert_eq!(planner.place(arena, 3 * CHUNK, |_| true), Answer::NeedGrow(3 * CHUNK));
    assert_ne!(planner.arena(&DeviceId::cpu(0)), arena);
}
