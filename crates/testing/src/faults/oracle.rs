//! Derives from the data flow alone which outputs a failure may affect.

use std::collections::BTreeSet;

use super::case::{Case, Step};

/// For each tensor, the failed steps that its content, or the lack of it, comes from.
type Tainted = Vec<BTreeSet<usize>>;

/// Returns the tensors that the failures of the `failed` steps reach, if the steps of `emitted`
/// were emitted.
pub fn tainted(case: &Case, emitted: &[bool], failed: &BTreeSet<usize>) -> Tainted {
    // Views share the storage of their base.
    let mut storage: Vec<usize> = (0..=case.steps.len()).collect();
    let mut taint: Tainted = vec![BTreeSet::new(); case.steps.len() + 1];
    for (k, step) in case.steps.iter().enumerate().filter(|(k, _)| emitted[*k]) {
        // The tensors that the step reads, the tensor that it writes, and whether it overwrites all
        // of it.
        let (reads, writes, whole) = match *step {
            Step::Upload(out, ..) => (vec![], out, true),
            Step::Empty(..) | Step::Event(..) | Step::Drop(_) => continue,
            Step::Call(_, a, b, out, _) => (std::iter::once(a).chain(b).collect(), out, true),
            Step::Into(_, a, to, _) => (vec![a], to, true),
            Step::Launch(a, out) => (vec![a], out, true),
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
