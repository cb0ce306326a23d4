//! The programs of several ranks under schedules and faults that a seed chooses.

use std::collections::BTreeSet;

use millstream::DeviceId;
use millstream_explore::ranks::RankSimulator;
use millstream_runner::{CollectiveChecks, RunOptions};

use crate::cases;

#[test]
fn every_schedule_gives_the_inline_results() {
    for case in cases().iter().filter(|case| case.proven && case.fails.iter().all(Option::is_none))
    {
        for device in [DeviceId::cpu(0), DeviceId::sim(0)] {
            let options = RunOptions::default().device(device).in_turn(2);
            let simulator = RankSimulator::new(&case.programs, &options).unwrap();
            let mut hashes = BTreeSet::new();
            for seed in 0..millstream_testing::cases(8, 20) {
                let trial = simulator.seed(seed).unwrap();
                assert_eq!(trial.finding, None, "{}: seed {seed}", case.name);
                hashes.insert(trial.schedule.unwrap().hash);
            }
            let again = simulator.seed(7).unwrap().schedule.unwrap();
            assert!(hashes.contains(&again.hash), "{}: the same seed, other steps", case.name);
            assert!(hashes.len() > 1, "{}: every seed takes the same steps", case.name);
        }
    }
}

/// A rank that is lost, a call that fails, a cancelled rank: what arrives is right, and the errors
/// of the others name the rank. It takes 5 seconds, as each case runs with a fault for each of many
/// seeds.
#[test]
fn faults_reach_only_what_depends_on_them() {
    for case in cases().iter().filter(|case| case.proven && case.fails.iter().all(Option::is_none))
    {
        let options = RunOptions::default().device(DeviceId::sim(0));
        let simulator = RankSimulator::new(&case.programs, &options).unwrap();
        for seed in 0..millstream_testing::cases(15, 60) {
            let trial = simulator.seed_with_fault(seed).unwrap();
            assert_eq!(trial.finding, None, "{}: seed {seed}", case.name);
        }
    }
}

/// Ranks whose programs compute something else are noticed: the simulation can fail.
#[test]
fn ranks_that_do_not_meet_are_found() {
    let all = cases();
    let case = all.iter().find(|case| case.name == "both_receive_first").unwrap();
    // A comparison of the programs refuses them before any run.
    let options = RunOptions::default().collective_checks(CollectiveChecks::Calls);
    let simulator = RankSimulator::new(&case.programs, &options).unwrap();
    let finding = simulator.seed(0).unwrap().finding.unwrap().to_string();
    assert!(finding.contains("not proven to meet"), "{finding}");
}
