//! Which outputs a failure may affect, from the data flow alone.

use std::collections::BTreeSet;

use super::case::{Case, Step};

/// For each tensor the failed steps from which its content, or lack of it, comes.
type Tainted = Vec<BTreeSet<usize>>;

/// Where `failed` steps' failures go, if the steps of `emitted` were emitted.
pub fn tainted(case: &Case, emitted: &[bool], failed: &BTreeSet<usize>) -> Tainted {
    // Views share their base's storage.
    let mut storage: Vec<usize> = (0..=case.steps.len()).collect();
    let mut taint: Tainted = vec![BTreeSet::new(); case.steps.len() + 1];
    for (k, step) in case.steps.iter().enumerate().filter(|(k, _)| emitted[*k]) {
        // What it reads, what it writes, and whether it writes all of that and keeps nothing.
        let (reads, writes, whole) = match *step {
            Step::Upload(out, ..) => (vec![], out, true),
            Step::Empty(..) | Step::Event(..) | Step::Drop(_) => continue,
            Step::Call(_, a, b, out, _) => (std::iter::once(a).chain(b).collect(), out, true),
            Step::Into(_, a, to, _) => (vec![a], to, true),
            Step::AddTo(a, b, _) => (vec![a, b], a, false),
            Step::Fill(a, ..) => (vec![], a, storage[a] == a),
            Step::Access(a) => (vec![a], a, false),
            Step::Slice(a, out, ..) => {
                storage[out] = storage[a];
                continue;
            }
        };
        let from: BTreeSet<usize> =
            reads.iter().flat_map(|&r| taint[storage[r]].iter().copied()).collect();
        let written = &mut taint[storage[writes]];
        match (failed.contains(&k), from.is_empty()) {
            (true, _) => {
                written.extend(from);
                written.insert(k);
            }
            (false, false) => written.extend(from),
            (false, true) if whole => written.clear(),
            (false, true) => {}
        }
    }
    storage.iter().map(|&s| taint[s].clone()).collect()
}
