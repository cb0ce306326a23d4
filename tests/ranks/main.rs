//! Programs of several ranks in one process: each file in `cases` holds the traces of all ranks and
//! what is expected of them, under every driver.
//!
//! | field | meaning |
//! |---|---|
//! | `about` | what the case shows |
//! | `ranks` | a native trace for each rank |
//! | `program`, `on` | instead of `ranks`: one native trace that names ranks, and their number |
//! | `fails` | for each rank the texts that one failure contains; none for a rank that matches |
//! | `refused` | the texts of the error by which the comparison of the programs refuses the run |
//! | `proven` | whether the verifier accepts the ranks' lists; by default if no rank fails |
//! | `nccl` | whether it accepts them by NCCL's rules; by default as otherwise |
//! | `not_replayed` | whether the case needs the host amid the calls, which no executable has |

mod executables;
mod explored;
mod global;
mod placed;
mod recorded;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use millstream::{DeviceId, DriverKind, InstructionList};
use millstream_runner::{CollectiveChecks, RunError, RunOptions, RunReport, lists, run_ranks};
use millstream_trace::{LoadOptions, Program, load_bytes};
use millstream_verify::{CommunicatorRules, verify_ranks};
use serde_json::Value;

/// How long a case may take: far longer than it does, unless it hangs.
const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Case {
    name: String,
    pub(crate) programs: Vec<Arc<Program>>,
    /// For each rank the texts that one of its failures contains.
    fails: Vec<Option<Vec<String>>>,
    refused: Option<Vec<String>>,
    proven: bool,
    proven_by_nccl: bool,
    not_replayed: bool,
}

pub(crate) fn case(path: &Path) -> Case {
    let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let text = fs::read_to_string(path).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    for field in all.as_object().unwrap().keys() {
        assert!(
            [
                "about",
                "ranks",
                "program",
                "on",
                "fails",
                "refused",
                "proven",
                "nccl",
                "not_replayed"
            ]
            .contains(&&**field),
            "{name}: {field}"
        );
    }
    let loaded = |file: &str, program: &Value| {
        let text = serde_json::to_string_pretty(program).unwrap();
        let program = load_bytes(file, text.as_bytes(), None, &LoadOptions::default());
        program.unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    let programs: Vec<Arc<Program>> = match all["ranks"].as_array() {
        Some(ranks) => {
            let ranks = ranks.iter().enumerate();
            ranks.map(|(k, rank)| Arc::new(loaded(&format!("rank{k}.json"), rank))).collect()
        }
        None => {
            let count = u32::try_from(all["on"].as_u64().unwrap()).unwrap();
            placed::parts(&loaded("program.json", &all["program"]), count)
        }
    };
    let texts = |of: &Value| {
        let all = of.as_array()?.iter().map(|text| text.as_str().unwrap().to_owned());
        Some(all.collect())
    };
    let fails = match all.get("fails") {
        Some(fails) => fails.as_array().unwrap().iter().map(texts).collect(),
        None => vec![None; programs.len()],
    };
    let refused = all.get("refused").and_then(texts);
    let not_replayed = all.get("not_replayed").is_some_and(|not| not.as_bool().unwrap());
    let proven = match all.get("proven") {
        Some(proven) => proven.as_bool().unwrap(),
        None => fails.iter().all(Option::is_none),
    };
    let proven_by_nccl = all.get("nccl").map_or(proven, |nccl| nccl.as_bool().unwrap());
    Case { name, programs, fails, refused, proven, proven_by_nccl, not_replayed }
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ranks/cases");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 5, "the cases are missing");
    paths.iter().map(|path| case(path)).collect()
}

/// The ways to run a program: drivers, devices, one and two compute streams, few and many workers.
fn ways() -> Vec<(String, RunOptions)> {
    let mut ways = Vec::new();
    for device in [DeviceId::cpu(0), DeviceId::sim(0)] {
        for streams in [1, 2] {
            for threads in [1, 2] {
                let options = RunOptions::default().threads(threads);
                let options = options.device(device.clone()).in_turn(streams).repeat(2);
                // The comparison of the programs would leave nothing to the calls.
                let options = options.collective_checks(CollectiveChecks::Calls);
                let name = format!("{device}, {streams} streams, {threads} workers");
                for driver in [DriverKind::Threaded, DriverKind::Inline, DriverKind::Simulated] {
                    let options = options.clone().machine(|config| config.driver(driver));
                    ways.push((format!("{driver:?}, {name}"), options.clone()));
                    ways.push((format!("{driver:?}, {name}, replayed"), options.replay(true)));
                }
            }
        }
    }
    ways
}

/// Runs a program on a thread of its own.
///
/// # Panics
/// It hangs.
pub(crate) fn run(
    way: &str,
    programs: Vec<Arc<Program>>,
    options: RunOptions,
) -> Result<Vec<RunReport>, RunError> {
    let (sender, result) = mpsc::channel();
    thread::spawn(move || sender.send(run_ranks(programs, &options)));
    result.recv_timeout(LONG).unwrap_or_else(|e| panic!("{way}: {e}"))
}

fn compare(way: &str, case: &Case, reports: &[RunReport]) {
    for (rank, (report, fails)) in reports.iter().zip(&case.fails).enumerate() {
        let failures: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
        match fails {
            None => assert!(report.ok(), "{way}: rank {rank}: {failures:?}"),
            Some(texts) => {
                assert!(!report.ok(), "{way}: rank {rank} does not fail");
                let names_all = |failure: &String| texts.iter().all(|text| failure.contains(text));
                assert!(failures.iter().any(names_all), "{way}: rank {rank}: {failures:?}");
            }
        }
    }
}

#[test]
fn every_case_under_every_driver() {
    for case in &cases() {
        for (way, options) in ways() {
            if case.not_replayed && options.replay {
                continue;
            }
            let way = format!("{}: {way}", case.name);
            let reports = run(&way, case.programs.clone(), options);
            compare(&way, case, &reports.unwrap_or_else(|e| panic!("{way}: {e}")));
        }
    }
}

/// Programs whose calls differ are refused before any runs. What the comparison cannot see, the
/// calls still show.
#[test]
fn every_case_is_compared_before_it_runs() {
    let mut wrong = Vec::new();
    for case in &cases() {
        for driver in [DriverKind::Threaded, DriverKind::Inline, DriverKind::Simulated] {
            let options = RunOptions::default().machine(|config| config.driver(driver));
            let way = format!("{}: {driver:?}, compared", case.name);
            match (run(&way, case.programs.clone(), options), &case.refused) {
                (Ok(reports), None) => compare(&way, case, &reports),
                (Ok(_), Some(_)) => wrong.push(format!("{way}: it is not refused")),
                (Err(error), Some(texts))
                    if !error.runtime
                        && texts.iter().all(|text| error.to_string().contains(text)) => {}
                (Err(error), _) => wrong.push(format!("{way}: {error}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Without comparison, wrong calls give wrong results, and right ones the same as ever.
#[test]
fn unchecked_collectives_are_not_compared() {
    for case in &cases() {
        let is_right = case.fails.iter().all(Option::is_none);
        if !is_right && case.name != "other_reductions" {
            continue;
        }
        let options = RunOptions::default().collective_checks(CollectiveChecks::None);
        let way = format!("{}: unchecked", case.name);
        let reports = run(&way, case.programs.clone(), options);
        let reports = reports.unwrap_or_else(|e| panic!("{way}: {e}"));
        let failures = reports.iter().flat_map(|report| &report.failures);
        assert_eq!(failures.count(), 0, "{way}");
        if is_right {
            compare(&way, case, &reports);
        }
    }
}

/// The verifier decides by the lists alone what the runs show.
#[test]
fn every_case_is_decided_before_it_runs() {
    for case in &cases() {
        for device in [DeviceId::cpu(0), DeviceId::sim(0)] {
            for streams in [1, 2] {
                let options = RunOptions::default().device(device.clone()).in_turn(streams);
                let count = case.programs.len();
                let of_ranks = case.programs.iter().enumerate().map(|(rank, program)| {
                    let options = options.checked_on_rank(rank, count);
                    let lists = lists(program, &options).unwrap_or_else(|e| panic!("{e}"));
                    lists.into_iter().next().expect("the program's own list").list
                });
                let of_ranks: Vec<InstructionList> = of_ranks.collect();
                let of_ranks: Vec<&InstructionList> = of_ranks.iter().collect();
                for (rules, proven) in [
                    (CommunicatorRules::Own, case.proven),
                    (CommunicatorRules::Nccl, case.proven_by_nccl),
                ] {
                    let verdict = verify_ranks(&of_ranks, rules);
                    let violations = verdict.violations.iter().map(ToString::to_string);
                    let pending = verdict.pending.iter().map(|site| format!("pending: {site}"));
                    let found: Vec<String> = violations.chain(pending).collect();
                    let way = format!("{}: {rules:?}, {device}, {streams} streams", case.name);
                    assert_eq!(verdict.proven(), proven, "{way}: {found:?}");
                    assert!(found.iter().all(|text| text.contains("rank0.json:")), "{way}");
                }
            }
        }
    }
}
