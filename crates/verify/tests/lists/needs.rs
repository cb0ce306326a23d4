//! One walk's decisions of which waits are needed agree with walks over the lists without each
//! wait.

use millstream_testing::list_oracle;
use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use millstream_instructions::InstructionList;
use millstream_instructions::text::print_list;
use millstream_verify::{Reason, Violation, verify};

use crate::common::{generate, modes, steps};

fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(Default::default()),
    )
}

fn without(list: &InstructionList, wait: usize) -> InstructionList {
    let mut fewer = list.clone();
    fewer.instructions.remove(wait);
    fewer
}

fn is_order(violation: &Violation) -> bool {
    matches!(violation, Violation::Race { .. } | Violation::ReusedTooEarly { .. })
}

/// Tries ten thousand programs: every mutant without a needed wait is rejected, every mutant
/// without a needless wait is proven, and the oracle agrees.
#[test]
fn each_wait_is_judged_right() {
    let (needed, needless) = (Cell::new(0), Cell::new(0));
    let reasons = Cell::new([false; 6]);
    for (programs, careful, length) in [(10_000, 1.0, 12), (4_000, 0.93, 24)] {
        runner(programs)
            .run(&(modes(), steps(careful, length)), |(modes, steps)| {
                let list = generate(&modes, &steps);
                let verdict = verify(&list);
                if !verdict.proven() {
                    return Ok(());
                }
                for wait in &verdict.waits {
                    let fewer = without(&list, wait.index);
                    let found = verify(&fewer);
                    prop_assert_eq!(
                        found.proven(),
                        !wait.needed,
                        "[{}] {}\n{}",
                        wait.index,
                        wait.reason,
                        print_list(&list)
                    );
                    let mut seen = reasons.get();
                    seen[match wait.reason {
                        Reason::Orders { .. } => 0,
                        Reason::Frees { .. } => 1,
                        Reason::Named { .. } => 2,
                        Reason::Records { .. } => 3,
                        Reason::Known => 4,
                        Reason::NotAlone => 5,
                        Reason::Refused => continue,
                        other => panic!("the list is proven: {other}"),
                    }] = true;
                    reasons.set(seen);
                    let count = if wait.needed { &needed } else { &needless };
                    count.set(count.get() + 1);
                    // The oracle decides order alone, and not references to a removed point.
                    if found.violations.iter().all(is_order) {
                        let sound = list_oracle::is_sound(&fewer, true);
                        prop_assert_eq!(sound, !wait.needed, "{}", print_list(&fewer));
                    }
                }
                Ok(())
            })
            .unwrap();
    }
    assert!(needed.get() > 2000 && needless.get() > 2000, "{needed:?} {needless:?}");
    assert_eq!(reasons.get(), [true; 6], "every reason is met");
}
