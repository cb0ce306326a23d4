//! Recorded repeats of a program of several ranks: all ranks keep the times of the same repeat, by
//! the time of the slowest.

use std::path::Path;

use millstream_runner::{RunOptions, RunReport};

use crate::{case, run};

const REPEATS: usize = 7;

fn recorded(name: &str, repeats: usize) -> Vec<RunReport> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ranks/cases");
    let case = case(&folder.join(name));
    let options = RunOptions::default().threads(2).repeat(repeats as u32).profile(true);
    run(name, case.programs, options).unwrap()
}

/// Returns the repeat that the rule keeps: the newest of those that were as near to the median of
/// the repeats so far as the one before it.
fn kept(slowest: &[u64]) -> usize {
    let mut kept = 0;
    for run in 1..slowest.len() {
        let mut sorted = slowest[..=run].to_vec();
        sorted.sort_unstable();
        let off = |run: usize| slowest[run].abs_diff(sorted[(sorted.len() - 1) / 2]);
        if off(run) <= off(kept) {
            kept = run;
        }
    }
    kept
}

#[test]
fn all_ranks_keep_the_same_repeat() {
    for name in ["every_collective.json", "three_ranks_in_a_circle.json"] {
        let reports = recorded(name, REPEATS);
        assert!(reports.len() > 1);
        let slowest: Vec<u64> = (0..REPEATS)
            .map(|run| reports.iter().map(|report| report.recorded[run].total).max().unwrap())
            .collect();
        for report in &reports {
            assert_eq!(report.recorded.len(), REPEATS);
            let own: Vec<u64> = report.recorded.iter().map(|run| run.slowest).collect();
            assert_eq!(own, slowest, "{name}");
            assert_eq!(report.kept, kept(&slowest), "{name}");
            let times = report.times.as_ref().unwrap();
            assert_eq!(times.total, report.recorded[report.kept].total, "{name}");
        }
        // The ranks of one repeat overlap; those of different ones would follow one another.
        let times = || reports.iter().filter_map(|report| report.times.as_ref());
        let begun = times().map(|times| times.began).max().unwrap();
        let ended = times().map(|times| times.began + times.total).min().unwrap();
        assert!(begun < ended, "{name}");
    }
}

/// A rank that fails ends the repeats of all, which have a profile of what they did.
#[test]
fn a_rank_that_fails_leaves_the_others_their_times() {
    let reports = recorded("a_rank_skips.json", REPEATS);
    assert!(reports.iter().any(|report| !report.ok()));
    for report in &reports {
        assert_eq!(report.kept, 0);
        assert!(report.times.is_some() && report.recorded.len() < REPEATS);
    }
}
