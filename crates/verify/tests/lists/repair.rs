//! The wait that a violation of order suggests orders the two uses, and inserting such waits one by
//! one makes every list proven.

use millstream_testing::list_oracle;
use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use millstream_instructions::text::{parse_list, print_list};
use millstream_instructions::{Body, InstructionList};
use millstream_verify::{Repair, Violation, repair, verify};

use crate::common::{generate, modes, steps};

/// Returns the indices of the two instructions, each reduced by one from `from` on.
fn pair(violation: &Violation, from: usize) -> Option<(usize, usize)> {
    let (later, earlier) = match violation {
        Violation::Race { later, earlier, .. } => (later.site.index, earlier.site.index),
        Violation::ReusedTooEarly { new, last, .. } => (new.index, last.site.index),
        _ => return None,
    };
    let back = |index: usize| if index > from { index - 1 } else { index };
    Some((back(later), back(earlier)))
}

/// Returns the list with a repair, inserted into its text.
fn repaired(list: &InstructionList, repair: &Repair) -> InstructionList {
    let mut more = list.clone();
    more.instructions.insert(repair.before, repair.wait.clone());
    parse_list(&print_list(&more)).unwrap()
}

#[test]
fn suggested_waits_repair() {
    let (waits, observed) = (Cell::new(0), Cell::new(0));
    let config = Config { cases: 4000, failure_persistence: None, ..Config::default() };
    let rng = proptest::test_runner::TestRng::deterministic_rng(Default::default());
    TestRunner::new_with_rng(config, rng)
        .run(&(modes(), steps(0.5, 20)), |(modes, steps)| {
            let mut list = generate(&modes, &steps);
            // One repair for each stream and instruction always suffices.
            for _ in 0..list.instructions.len() * 4 + 1 {
                let verdict = verify(&list);
                let Some(violation) = verdict.violations.first() else { return Ok(()) };
                let repair = repair(&list, violation);
                prop_assert!(repair.is_some(), "{violation}\n{}", print_list(&list));
                let repair = repair.unwrap();
                let count = match repair.wait.body {
                    Body::StreamWaitEvent { .. } => &waits,
                    _ => &observed,
                };
                count.set(count.get() + 1);
                let more = repaired(&list, &repair);
                let gone = pair(violation, usize::MAX);
                let still = verify(&more).violations;
                let found = still.iter().find(|v| pair(v, repair.before) == gone);
                prop_assert!(found.is_none(), "{violation}\n{}", print_list(&more));
                list = more;
            }
            let left = verify(&list).violations;
            prop_assert!(
                left.is_empty() && list_oracle::is_sound(&list, true),
                "{}",
                print_list(&list)
            );
            Ok(())
        })
        .unwrap();
    assert!(waits.get() > 100 && observed.get() > 100, "{waits:?} {observed:?}");
}
