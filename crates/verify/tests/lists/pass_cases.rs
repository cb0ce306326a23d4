//! One file per case under `passes/`: a list, a line `---`, and the list that passes make of it.
//!
//! `#! passes LIST` names the passes, `#! streams N` the number of streams to spread over,
//! `#! outputs NAMES` the externals that are results (all by default, or `none`), `#! callbacks`
//! allows host callbacks. `MILLSTREAM_BLESS=1` rewrites the results.

use std::collections::BTreeMap;
use std::path::Path;

use millstream_instructions::passes::{
    self, CoreCosts, Effort, Outputs, Pass, PassOptions, arena_bytes, sync_points,
};
use millstream_instructions::text::{parse_list, print_list};
use millstream_instructions::{CheckedList, InstructionList};
use millstream_types::DeviceId;
use millstream_verify::{CheckOptions, check_with, same_operations, verify};

/// Returns the text after a directive, if the source has it.
fn directive<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let found = source.lines().find_map(|line| line.strip_prefix("#! ")?.strip_prefix(name));
    found.map(str::trim)
}

fn accepted(name: &str, list: &InstructionList) -> CheckedList {
    let checked = check_with(list.clone(), CheckOptions { callbacks: true });
    let checked = checked.unwrap_or_else(|found| panic!("{name}: {}", found[0]));
    assert!(verify(list).proven(), "{name}");
    checked
}

/// Returns the passes' result in the format of the files.
fn result(name: &str, source: &str) -> String {
    let list = parse_list(source).unwrap_or_else(|e| panic!("{name}:{e}"));
    accepted(name, &list);
    let outputs = match directive(source, "outputs") {
        None => Outputs::All,
        Some("none") => Outputs::Named([].into()),
        Some(names) => Outputs::Named(names.split(',').map(str::to_owned).collect()),
    };
    let streams = directive(source, "streams").map_or(1, |n| n.parse().unwrap());
    let ops = millstream_ops::standard();
    let costs = COSTS;
    // As in `budget cpu:0 1024`.
    let budget = directive(source, "budget").and_then(|text| text.split_once(' '));
    let budget = budget.map(|(device, n)| (device.parse().unwrap(), n.parse().unwrap()));
    let budgets: BTreeMap<DeviceId, u64> = budget.into_iter().collect();
    let options = PassOptions {
        ops: &ops,
        standard_kernels: &|_| true,
        costs: &costs,
        streams,
        threads: 1,
        outputs: &outputs,
        effort: Effort::Usual,
        budgets: &budgets,
    };
    let chosen = Pass::parse_list(directive(source, "passes").unwrap()).unwrap();
    let mut before = list.clone();
    let after = passes::run(&list, &chosen, &options, |pass, after| {
        accepted(&format!("{name} after {pass}"), after);
        let same = same_operations(&before, after, &outputs);
        same.unwrap_or_else(|e| panic!("{name} after {pass}: {e}"));
        before = after.clone();
        Ok(())
    });
    let after = after.unwrap();
    let sizes = arena_bytes(&list).into_iter().zip(arena_bytes(&after));
    let sizes: Vec<String> = sizes.map(|(a, b)| format!("{a} -> {b}")).collect();
    let (waits, fewer) = (sync_points(&list), sync_points(&after));
    let sizes = sizes.join(", ");
    format!("# {waits} -> {fewer} records and waits, {sizes} bytes\n{}", print_list(&after))
}

/// Waits that cost little, so that small cases are spread.
const COSTS: CoreCosts =
    CoreCosts { bytes: 10, operations: 16, hand_over: 100, ..CoreCosts::COMPILED };

#[test]
fn pass_cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes");
    let bless = std::env::var_os("MILLSTREAM_BLESS").is_some_and(|v| v == "1");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 18, "the cases are gone");
    let mut wrong = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let Some((source, expected)) = text.split_once("\n---\n") else {
            panic!("{name}: a line '---' parts the list from the result");
        };
        let made = result(&name, source);
        if bless {
            std::fs::write(&path, format!("{source}\n---\n{made}")).unwrap();
        } else if made != expected {
            wrong.push(format!("{name}: expected\n{expected}\nfound\n{made}"));
        }
    }
    assert!(wrong.is_empty(), "{}\nMILLSTREAM_BLESS=1 rewrites", wrong.join("\n"));
}

/// The lists of the checker's cases were not made by a builder: ids are used again, points have
/// gaps, waits name their own stream.
#[test]
fn foreign_lists_stay_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let ops = millstream_ops::standard();
    let (costs, outputs) = (COSTS, Outputs::All);
    let options = PassOptions {
        ops: &ops,
        standard_kernels: &|_| true,
        costs: &costs,
        streams: 2,
        threads: 1,
        outputs: &outputs,
        effort: Effort::Usual,
        budgets: &BTreeMap::new(),
    };
    let mut lists = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let source = text.split_once("\n---\n").unwrap().0;
        let list = parse_list(source).unwrap();
        if check_with(list.clone(), CheckOptions { callbacks: true }).is_err() {
            continue;
        }
        lists += 1;
        for pass in Pass::ALL {
            let name = format!("{} after {pass}", path.display());
            let after = pass.apply(&list, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
            accepted(&name, &after);
            let same = same_operations(&list, &after, &outputs);
            same.unwrap_or_else(|e| panic!("{name}: {e}\n{}", print_list(&after)));
        }
    }
    assert!(lists > 20, "{lists}");
}
