//! `millstream bench traces`: rows and checks. Times are not checked.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::root;

fn bench(paths: &[PathBuf], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(["bench", "traces"]).args(paths).args(["--rounds", "1", "--steps", "2"]);
    command.args(arguments).output().unwrap()
}

#[test]
fn every_way_to_run_a_program_has_a_row() {
    let cases = ["mlp_train_sgd", "views_inplace_alias"];
    let paths = cases.map(|case| root().join("tests/traces/pytorch").join(case));
    let output = bench(&paths, &["--json", "-"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of = |case: &str| -> Vec<&str> {
        let rows = rows.iter().filter(|row| row["case"] == case);
        rows.map(|row| row["row"].as_str().unwrap()).collect()
    };
    let inline = ["eager inline", "replayed inline"];
    assert_eq!(of(cases[0]), [["eager", "replayed"], inline].concat());
    // The size of a result is known only by running it, so it cannot be compiled.
    assert_eq!(of(cases[1]), ["eager", "eager inline"]);
    assert!(said.contains("skipped: replayed: ") && said.contains("masked_select"), "{said}");
    for row in &rows {
        let positive = |key: &str| row[key].as_f64().unwrap() > 0.0;
        assert!(positive("ms") && positive("calls"), "{row}");
        assert!(row["steps"].as_u64().unwrap() >= 2, "{row}");
    }
}

/// A result that is not the recorded one fails the command, with the output's name.
#[test]
fn a_wrong_result_is_no_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let from = root().join("tests/traces/pytorch/mlp_train_sgd");
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let tensors = folder.path().join("tensors.safetensors");
    let mut bytes = fs::read(&tensors).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let fields: Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let loss = fields["out/loss"]["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[8 + header + loss..][..4].copy_from_slice(&7f32.to_le_bytes());
    fs::write(&tensors, bytes).unwrap();
    let output = bench(&[folder.path().to_owned()], &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("out/loss is wrong"), "{said}");
}
