//! Properties of plans: no overlaps, honest bounds, the optimum where it is known.

use proptest::prelude::*;

use super::bound::{Sections, antichain};
use super::buffers::{Buffers, Conflicts};
use super::{Effort, Interval, Offsets, Solver, plan, plan_buffers};

impl Buffers {
    /// Whether one buffer is over before another one begins.
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (lane, position) = self.place[b];
        self.after(a, lane as usize) <= position as usize
    }
}

/// Buffers as instructions on streams make them: each event begins one, may learn what another lane
/// knows, and may end an earlier one, which it then comes after.
fn on_lanes(lanes: usize, most: usize, end: usize) -> impl Strategy<Value = Buffers> {
    let event = (0..lanes, 1u64..9, 0..lanes, any::<bool>(), 0usize..end);
    proptest::collection::vec(event, 0..most).prop_map(move |events| {
        // For each lane and buffer, the event on the lane from which on its end is known.
        let mut known = vec![vec![false; events.len()]; lanes];
        let mut over: Vec<Vec<bool>> = Vec::new();
        let mut is_over = vec![false; events.len()];
        for (k, &(lane, _, other, learns, ends)) in events.iter().enumerate() {
            if learns {
                let learned = known[other].clone();
                known[lane].iter_mut().zip(learned).for_each(|(own, other)| *own |= other);
            }
            over.push(known[lane].clone());
            if let Some(ended) = k.checked_sub(ends).filter(|e| !is_over[*e]) {
                let learned = over[ended].clone();
                known[lane].iter_mut().zip(learned).for_each(|(own, other)| *own |= other);
                (is_over[ended], known[lane][ended]) = (true, true);
            }
        }
        let of: Vec<(u64, usize)> = events.iter().map(|e| (e.1 * 3, e.0)).collect();
        Buffers::new(&of, lanes, |k, lane| lane.partition_point(|&b| !over[b as usize][k]))
    })
}

fn intervals(most: usize, times: u64) -> impl Strategy<Value = Vec<Interval>> {
    let interval = (0..times, 1..times, 0u64..7);
    proptest::collection::vec(interval, 0..most).prop_map(|all| {
        all.into_iter()
            .map(|(begin, length, size)| Interval { begin, end: begin + length, bytes: size * 5 })
            .collect()
    })
}

fn is_apart(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 + a.1 <= b.0 || b.0 + b.1 <= a.0
}

/// Checks that no two buffers in conflict overlap, and what the plan says of itself.
fn check(buffers: &Buffers, plan: &Offsets) {
    let at = |k: usize| (plan.offsets[k], buffers.bytes[k]);
    for b in 0..buffers.len() {
        for a in 0..b {
            let is_free = buffers.is_before(a, b) || buffers.is_before(b, a);
            assert!(is_free || is_apart(at(a), at(b)), "{a} and {b} of {buffers:?}: {plan:?}");
        }
    }
    let highest = (0..buffers.len()).map(|k| at(k).0 + at(k).1).max();
    assert_eq!(plan.bytes, highest.unwrap_or(0));
    assert!(plan.bound <= plan.bytes);
}

/// Returns the least bytes of all placements: in some best one each buffer lies at 0 or at the end
/// of another.
fn least(buffers: &Buffers, placed: &mut Vec<(usize, u64)>, highest: u64, best: &mut u64) {
    if highest >= *best {
        return;
    }
    if placed.len() == buffers.len() {
        *best = highest;
        return;
    }
    for k in 0..buffers.len() {
        if placed.iter().any(|(other, _)| *other == k) {
            continue;
        }
        let lower =
            placed.iter().filter(|(o, _)| !buffers.is_before(*o, k) && !buffers.is_before(k, *o));
        let low = lower.map(|(o, at)| at + buffers.bytes[*o]).max().unwrap_or(0);
        // In the order of offsets.
        if placed.last().is_none_or(|(_, at)| *at <= low) {
            placed.push((k, low));
            least(buffers, placed, highest.max(low + buffers.bytes[k]), best);
            placed.pop();
        }
    }
}

fn optimum(buffers: &Buffers) -> u64 {
    let mut best = buffers.bytes.iter().sum::<u64>() + 1;
    least(buffers, &mut Vec::new(), 0, &mut best);
    best
}

/// Returns the bytes of the heaviest set of buffers that are all in conflict.
fn heaviest(buffers: &Buffers) -> u64 {
    let sets = 0u32..1 << buffers.len();
    let bytes = |set: u32| {
        let members: Vec<usize> = (0..buffers.len()).filter(|k| set >> k & 1 == 1).collect();
        let pairs = members.iter().flat_map(|a| members.iter().map(move |b| (*a, *b)));
        let is_clique = pairs.into_iter().all(|(a, b)| !buffers.is_before(a, b));
        if is_clique { members.iter().map(|k| buffers.bytes[*k]).sum() } else { 0 }
    };
    sets.map(bytes).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn plans_share_no_bytes(buffers in on_lanes(3, 60, 9)) {
        for effort in [Effort::Fast, Effort::Usual] {
            let plan = plan_buffers(&buffers, effort).unwrap();
            check(&buffers, &plan);
            prop_assert_eq!(&plan, &plan_buffers(&buffers, effort).unwrap());
        }
    }

    #[test]
    fn conflicts_are_pairs_without_an_order(buffers in on_lanes(3, 40, 9)) {
        let conflicts = Conflicts::of(&buffers);
        for k in 0..buffers.len() {
            let mut found = Vec::new();
            conflicts.each(k, |other| found.push(other));
            found.sort_unstable();
            let free = |o: usize| buffers.is_before(o, k) || buffers.is_before(k, o);
            let expected: Vec<usize> = (0..buffers.len()).filter(|&o| o != k && !free(o)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_exact_search_finds_the_optimum(buffers in on_lanes(2, 9, 5)) {
        let plan = plan_buffers(&buffers, Effort::Exact).unwrap();
        check(&buffers, &plan);
        prop_assert_eq!((plan.bytes, plan.bound), (optimum(&buffers), plan.bytes));
    }

    #[test]
    fn the_exact_search_finds_the_optimum_of_a_sequence(buffers in on_lanes(1, 10, 6)) {
        let plan = plan_buffers(&buffers, Effort::Exact).unwrap();
        check(&buffers, &plan);
        prop_assert_eq!((plan.bytes, plan.bound), (optimum(&buffers), plan.bytes));
    }

    #[test]
    fn the_antichain_is_the_heaviest(buffers in on_lanes(3, 12, 6)) {
        let most = heaviest(&buffers);
        prop_assert_eq!(antichain(&buffers), Some(most));
        let sections = Sections::of(&buffers).most();
        prop_assert!(sections <= most);
        prop_assert!(buffers.lanes.len() > 1 || sections == most);
    }

    #[test]
    fn orders_of_intervals_become_sequences(buffers in on_lanes(3, 12, 4)) {
        let len = buffers.len();
        let pairs = || (0..len).flat_map(|a| (0..len).map(move |b| (a, b)));
        let before = |(a, b): (usize, usize)| buffers.is_before(a, b);
        // An order is one of intervals unless two pairs are ordered and nothing else of them is.
        let is_free = |&(a, b): &(usize, usize)| {
            pairs().filter(|&p| before(p)).any(|(c, d)| !before((a, d)) && !before((c, b)))
        };
        let has_two = pairs().filter(|&p| before(p)).any(|p| is_free(&p));
        let sequence = buffers.as_sequence();
        prop_assert_eq!(sequence.is_some(), !has_two);
        if let Some((sequence, order)) = sequence {
            for (a, b) in pairs() {
                let old = before((order[a] as usize, order[b] as usize));
                prop_assert_eq!(sequence.is_before(a, b), old);
            }
        }
    }

    #[test]
    fn intervals_are_planned_in_any_order(all in intervals(40, 20)) {
        let planned = plan(&all, Effort::Usual).unwrap();
        let mut most = 0;
        for time in 0..40 {
            let live = all.iter().filter(|i| (i.begin..i.end).contains(&time));
            most = most.max(live.map(|i| i.bytes).sum());
        }
        prop_assert!(most <= planned.bound && planned.bound <= planned.bytes);
        for (k, a) in all.iter().enumerate() {
            for (l, b) in all.iter().enumerate().skip(k + 1) {
                let is_free = a.end <= b.begin || b.end <= a.begin || a.bytes == 0 || b.bytes == 0;
                let (at, to) = ((planned.offsets[k], a.bytes), (planned.offsets[l], b.bytes));
                prop_assert!(is_free || is_apart(at, to));
            }
        }
    }
}

/// Rectangles that fill a square: every order leaves gaps.
#[test]
fn the_search_improves_on_orders() {
    let square = [
        (0, 4, 3),
        (0, 4, 8),
        (0, 14, 3),
        (0, 16, 2),
        (4, 7, 8),
        (4, 13, 3),
        (7, 14, 8),
        (13, 16, 3),
        (14, 16, 11),
    ];
    let all = square.map(|(begin, end, bytes)| Interval { begin, end, bytes });
    let [fast, usual, exact] = Effort::ALL.map(|effort| plan(&all, effort).unwrap());
    assert_eq!((fast.bytes, fast.bound, fast.nodes), (19, 16, 0));
    assert_eq!((usual.bytes, usual.bound, usual.solver), (16, 16, Solver::Search));
    assert_eq!(usual, exact);
}

/// At most eight bytes live at one time, and no plan has fewer than nine.
#[test]
fn the_search_proves_that_a_bound_is_out_of_reach() {
    let all =
        [(0, 1, 4), (0, 4, 2), (1, 5, 3), (2, 3, 3), (3, 7, 2), (4, 5, 3), (5, 7, 1), (6, 9, 4)];
    let all = all.map(|(begin, end, bytes)| Interval { begin, end, bytes });
    let buffers = Buffers::of_sequence(&all);
    assert_eq!((Sections::of(&buffers).most(), optimum(&buffers)), (8, 9));
    let planned = plan(&all, Effort::Usual).unwrap();
    assert_eq!((planned.bytes, planned.bound), (9, 9));
}

#[test]
fn sums_past_all_numbers_have_no_plan() {
    let huge = Interval { begin: 0, end: 1, bytes: u64::MAX / 2 + 1 };
    assert_eq!(plan(&[huge, huge], Effort::Exact), None);
    assert_eq!(plan(&[], Effort::Exact).map(|plan| plan.bytes), Some(0));
}
