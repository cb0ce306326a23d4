//! Recorded programs with random numbers of their own, replayed: the first launch draws the numbers
//! of the program, and each later one goes on from there.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use millstream::instructions::{Body, InstructionList};
use millstream_runner::{RunOptions, run};
use millstream_trace::{EtOptions, LoadOptions, Program, load};

use super::run_trace::{assert_ok, bytes};

/// Returns a recorded program without the results of its random ops, and its folder.
fn program() -> (Arc<Program>, tempfile::TempDir) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/own/random_ops");
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = folder.path().join("consts.json");
    let recorded: Vec<serde_json::Value> =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let numbers: Vec<_> = recorded.into_iter().filter(|one| one.get("arg").is_some()).collect();
    fs::write(&path, serde_json::to_string(&numbers).unwrap()).unwrap();
    let et = EtOptions { random: Some(7), ..EtOptions::default() };
    let loading = LoadOptions { et, ..LoadOptions::default() };
    (Arc::new(load(folder.path().join("et.json.gz"), &loading).unwrap()), folder)
}

/// Returns the seed and the offset of a program's only launch.
fn drawn(list: &InstructionList) -> [i64; 2] {
    let launches = list.instructions.iter().filter_map(|instruction| match &instruction.body {
        Body::LazyJobLauncher { attrs, .. } => attrs.clone(),
        _ => None,
    });
    let launches: Vec<_> = launches.collect();
    assert_eq!(launches.len(), 1);
    ["seed0", "offset0"].map(|name| launches[0].int(name).unwrap().unwrap())
}

#[test]
fn each_launch_goes_on_from_the_last() {
    let (program, _folder) = program();
    let draws = program.imported.as_ref().unwrap().drawn as i64;
    assert!(draws > 1);
    let eager = run(program.clone(), &RunOptions::default()).unwrap();
    for repeat in [1, 3] {
        let options = RunOptions::default().replay(true).repeat(repeat).profile(true);
        let report = run(program.clone(), &options).unwrap();
        assert_ok(&report);
        assert_eq!(bytes(&report), bytes(&eager));
        // The times are those of one of the launches.
        let kept = &report.times.as_ref().unwrap().list;
        let each: Vec<_> = (0..repeat).map(|k| [7, 1 + draws * i64::from(k)]).collect();
        assert!(each.contains(&drawn(kept)), "{:?}", drawn(kept));
        assert_eq!(kept.executables[0].generators[0].draws, draws as u64);
    }
}
