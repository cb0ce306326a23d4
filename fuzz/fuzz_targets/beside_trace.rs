//! Puts bytes beside a trace: as bindings, lost numbers or tolerances of an execution trace, or as
//! the safetensors file of a native one. The first byte chooses.
//!
//! `cargo +nightly fuzz run beside_trace`

#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use millstream::trace::{LoadOptions, load};
use tempfile::TempDir;

const NATIVE: &str = r#"{
  "millstream": 1,
  "tensors": { "x": { "dtype": "f32", "shape": [2], "file": "data.safetensors", "key": "x" } },
  "program": [ { "op": "relu", "in": "x", "out": "y" } ],
  "outputs": { "y": {} }
}"#;

const RECORDED: &str = r#"{ "schema": "1.1.1-chakra.0.0.4", "nodes": [
  { "id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1,
    "inputs": { "values": [], "shapes": [], "types": [] },
    "outputs": { "values": [], "shapes": [], "types": [] }, "attrs": [] },
  { "id": 2, "name": "bind:in/x", "ctrl_deps": 1,
    "inputs": { "values": [], "shapes": [], "types": [] },
    "outputs": { "values": [], "shapes": [], "types": [] }, "attrs": [] }
] }"#;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

static OPTIONS: LazyLock<LoadOptions> = LazyLock::new(LoadOptions::default);

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let names = ["bindings.json", "consts.json", "meta.json", "tensors.safetensors"];
    let (trace, name) = match usize::from(first % 5) {
        4 => (NATIVE, "data.safetensors"),
        k => (RECORDED, names[k]),
    };
    let folder = FOLDER.path();
    for name in names {
        // Most are not there.
        let _ = fs::remove_file(folder.join(name));
    }
    fs::write(folder.join("et.json"), trace).expect("written");
    fs::write(folder.join(name), bytes).expect("written");
    match load(folder.join("et.json"), &OPTIONS) {
        Ok(program) => {
            for tensor in program.tensors.iter().filter(|t| t.storage_bytes < 1 << 20) {
                // The file may end before its header says.
                if let Ok(made) = tensor.materialize() {
                    assert_eq!(made.len(), tensor.storage_bytes);
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
