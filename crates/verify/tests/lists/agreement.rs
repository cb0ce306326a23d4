//! The checker and a brute-force oracle agree on random lists, and on correct lists with a wait
//! removed.

use millstream_testing::list_oracle;
use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use millstream_instructions::text::print_list;
use millstream_instructions::{Body, InstructionList};
use millstream_verify::{Violation, check, verify, violations};

use crate::common::{generate, modes, steps};

fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(Default::default()),
    )
}

/// Returns whether a violation is one of order, which the oracle decides.
fn is_order(violation: &Violation) -> bool {
    matches!(violation, Violation::Race { .. } | Violation::ReusedTooEarly { .. })
}

/// Asserts that checker and oracle agree. Returns their verdict.
fn agree(list: &InstructionList) -> Result<bool, TestCaseError> {
    let found = violations(list);
    let sound = list_oracle::is_sound(list, false);
    let other = found.iter().find(|v| !is_order(v));
    prop_assert!(other.is_none(), "{}\n{}", print_list(list), other.unwrap());
    let said: Vec<String> = found.iter().map(|v| v.to_string()).collect();
    prop_assert_eq!(said.is_empty(), sound, "{}{}", print_list(list), said.join("\n"));
    let proof = agree_by_bytes(list)?;
    prop_assert!(proof || !sound, "what holds of storages holds of bytes\n{}", print_list(list));
    Ok(sound)
}

/// Asserts that verifier and oracle agree on conflicts by bytes. Returns their verdict.
fn agree_by_bytes(list: &InstructionList) -> Result<bool, TestCaseError> {
    let verdict = verify(list);
    let sound = list_oracle::is_sound(list, true);
    let said: Vec<String> = verdict.violations.iter().map(|v| v.to_string()).collect();
    prop_assert_eq!(verdict.proven(), sound, "{}{}", print_list(list), said.join("\n"));
    Ok(sound)
}

#[test]
fn random_lists() {
    let (accepted, refused) = (Cell::new(0), Cell::new(0));
    for careful in [0.0, 0.7, 0.9, 0.97] {
        let lists = (modes(), steps(careful, 30));
        runner(4000)
            .run(&lists, |(modes, steps)| {
                let verdict = if agree(&generate(&modes, &steps))? { &accepted } else { &refused };
                verdict.set(verdict.get() + 1);
                Ok(())
            })
            .unwrap();
    }
    // Agreement is meaningful only if both verdicts occur.
    assert!(accepted.get() > 600 && refused.get() > 600, "{accepted:?} {refused:?}");
}

fn is_wait(body: &Body) -> bool {
    matches!(body, Body::StreamWaitEvent { .. } | Body::HostObserved { .. })
}

#[test]
fn a_needed_wait_is_missed() {
    let (needed, needless) = (Cell::new(0), Cell::new(0));
    let lists = (modes(), steps(1.0, 14));
    runner(1200)
        .run(&lists, |(modes, steps)| {
            let list = generate(&modes, &steps);
            prop_assert!(agree(&list)?, "correct by construction");
            prop_assert!(check(list.clone()).is_ok());
            let waits: Vec<usize> = (0..list.instructions.len())
                .filter(|&k| is_wait(&list.instructions[k].body))
                .collect();
            for at in waits {
                let mut fewer = list.clone();
                fewer.instructions.remove(at);
                // A later wait may name the removed point; then the oracle has no order to decide.
                if violations(&fewer).iter().any(|v| !is_order(v)) {
                    continue;
                }
                let verdict = if agree(&fewer)? { &needless } else { &needed };
                verdict.set(verdict.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    assert!(needed.get() > 200 && needless.get() > 200, "{needed:?} {needless:?}");
}
