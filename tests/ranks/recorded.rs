//! Recorded repeats of a program of several ranks: all ranks keep the times of the same repeat.

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
fn kept(times: &[u64]) -> usize {
    let mut kept = 0;
    for run in 1..times.len() {
        let mut sorted = times[..=run].to_vec();
        sorted.sort_unstable();
        let off = |run: usize| times[run].abs_diff(sorted[(sorted.len() - 1) / 2]);
        if off(run) <= off(kept) {
            kept = run;
        }
    }
    kept
}

#[test]
fn all_ranks_keep_the_same_repeat() {
    for name in ["every_collective.json", "disjoint_groups.json", "placed_layers.json"] {
        let reports = recorded(name, REPEATS);
        assert!(reports.len() > 1);
        let times = |report: &RunReport| -> Vec<u64> {
            report.recorded.iter().map(|run| run.program).collect()
        };
        let all = times(&reports[0]);
        for report in &reports {
            assert!(report.ok(), "{name}: {:?}", report.failures);
            assert_eq!(report.recorded.len(), REPEATS);
            assert_eq!(times(report), all, "{name}");
            assert_eq!(report.kept, kept(&all), "{name}");
            let own = report.times.as_ref().unwrap();
            let [begin, end] = own.program();
            assert!(end - begin <= all[report.kept], "{name}");
        }
        let kept_times = || reports.iter().filter_map(|report| report.times.as_ref());
        let begun = kept_times().map(|times| times.began + times.program()[0]).min().unwrap();
        let ended = kept_times().map(|times| times.began + times.program()[1]).max().unwrap();
        assert_eq!(ended - begun, all[reports[0].kept], "{name}");
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
