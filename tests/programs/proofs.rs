//! The verifier on lists: the builder's lists of every example on four streams, and the lists of
//! runs. Without a needed wait a list is refused; without a needless wait it is proven.

use millstream_testing::{cases, list_oracle};
use std::path::PathBuf;

use millstream::instructions::text::print_list;
use millstream::{DeviceId, DriverKind, InstructionList, SyncPolicy};
use millstream_runner::{RunOptions, lists, run};
use millstream_verify::{Violation, verify};

use super::files;

fn traces() -> Vec<PathBuf> {
    let found: Vec<PathBuf> = files::traces(["examples/traces", "examples/pytorch"]).collect();
    assert!(found.len() >= 16, "{found:?}");
    found
}

fn ways() -> impl Iterator<Item = RunOptions> {
    [DeviceId::cpu(0), DeviceId::sim(0)].into_iter().flat_map(|device| {
        [SyncPolicy::Frontier, SyncPolicy::LastUsedStream].map(|sync| {
            RunOptions::default()
                .machine(|config| config.driver(DriverKind::Inline).sync(sync))
                .device(device.clone())
                .in_turn(4)
                .emit(true)
        })
    })
}

fn is_order(violation: &Violation) -> bool {
    matches!(violation, Violation::Race { .. } | Violation::ReusedTooEarly { .. })
}

/// Removes waits in turn: each of them, or some of a list that has many. Returns the numbers of
/// needed and of needless ones.
fn check_without_each_wait(list: &InstructionList, label: &str) -> (usize, usize) {
    let verdict = verify(list);
    assert!(verdict.proven(), "{label}: {}", verdict.violations[0]);
    assert!(list_oracle::is_sound(list, true), "{label}");
    let step = (verdict.waits.len() / cases(12, usize::MAX)).max(1);
    let tried: Vec<_> = verdict.waits.iter().step_by(step).collect();
    for wait in &tried {
        let mut fewer = list.clone();
        fewer.instructions.remove(wait.index);
        let found = verify(&fewer);
        let message = || format!("{label}: [{}] {}\n{}", wait.index, wait.reason, print_list(list));
        assert_eq!(found.proven(), !wait.needed, "{}", message());
        if found.violations.iter().all(is_order) {
            assert_eq!(list_oracle::is_sound(&fewer, true), !wait.needed, "{}", message());
        }
    }
    let needless = tried.iter().filter(|wait| !wait.needed).count();
    (tried.len() - needless, needless)
}

/// Long because the brute force beside the verifier compares all pairs of instructions.
#[test]
fn every_list_without_one_wait_is_judged_right() {
    let (mut needed, mut needless) = (0, 0);
    for path in traces() {
        let program = files::read(&path);
        for way in ways() {
            let label = format!("{}: {way:?}", path.display());
            let made = lists(&program, &way).unwrap_or_else(|e| panic!("{label}: {e}"));
            assert_eq!(made.len(), 1 + program.executables.len(), "{label}");
            let log = run(program.clone(), &way).unwrap().list.unwrap();
            for list in made.iter().map(|m| &m.list).chain([&log]) {
                let (yes, no) = check_without_each_wait(list, &label);
                needed += yes;
                needless += no;
            }
        }
    }
    assert!(needed > cases(150, 300) && needless > cases(50, 100), "{needed} {needless}");
}
