//! The examples run, and the pages docs/tutorial.md, docs/streams.md, docs/memory.md,
//! docs/executables.md and docs/traced-functions.md show their code and their output.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use millstream::instructions::text::print_list;
use millstream_runner::{RunOptions, run};
use millstream_trace::{LoadOptions, load_bytes};

use custom_op_trace::custom_op;
use mlp_replayed::mlp;

#[path = "../../examples/custom_op_trace.rs"]
#[allow(dead_code, reason = "an example is a program of its own")]
mod custom_op_trace;
#[path = "../../examples/data_parallel.rs"]
mod data_parallel;
#[path = "../../examples/data_pipeline.rs"]
mod data_pipeline;
#[path = "../../examples/decode.rs"]
#[allow(dead_code, reason = "an example is a program of its own")]
mod decode;
#[path = "../../examples/errors.rs"]
mod errors;
#[path = "../../examples/futures.rs"]
mod futures;
#[path = "../../examples/matmul.rs"]
mod matmul;
#[path = "../../examples/memory.rs"]
#[allow(dead_code, reason = "an example is a program of its own")]
mod memory;
#[path = "../../examples/mlp_replayed.rs"]
mod mlp_replayed;
#[path = "../../examples/pipeline.rs"]
#[allow(dead_code, reason = "an example is a program of its own")]
mod pipeline;
#[path = "../../examples/replay.rs"]
#[allow(dead_code, reason = "an example is a program of its own")]
mod replay;
#[path = "../../examples/streams.rs"]
#[allow(dead_code, reason = "an example is a program of its own")]
mod streams;
#[path = "../../examples/tensors.rs"]
mod tensors;
#[path = "../../examples/threads.rs"]
mod threads;
#[path = "../../examples/transformer.rs"]
mod transformer;
#[path = "../../examples/tutorial.rs"]
#[allow(dead_code, reason = "an example is a program of its own")]
mod tutorial;

const TUTORIAL: &str = "docs/tutorial.md";
const STREAMS: &str = "docs/streams.md";
const MEMORY: &str = "docs/memory.md";
const EXECUTABLES: &str = "docs/executables.md";
const TRACED: &str = "docs/traced-functions.md";

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the code blocks of a page in `language`.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = read(page);
    let fenced = text.split("```").skip(1).step_by(2);
    let blocks = fenced.filter_map(|block| {
        let (first, rest) = block.split_once('\n')?;
        (first == language).then(|| rest.to_owned())
    });
    let blocks: Vec<String> = blocks.collect();
    assert!(!blocks.is_empty(), "no block of {language}");
    blocks
}

#[test]
fn a_user_defined_op_runs_on_a_machine_and_from_a_trace() {
    assert_eq!(custom_op::call().unwrap(), [0.5, 2.0, 4.5]);
    let report = custom_op_trace::from_trace().unwrap();
    assert!(report.ok(), "{report:?}");
    let names: Vec<&str> = report.outputs.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(names, ["out/y", "out/z"]);
    assert!(report.outputs.iter().all(|o| o.expected));
}

const RUST: &str = "docs/rust.md";

#[test]
fn the_page_on_rust_shows_the_output_of_its_program() {
    let programs = ["tensors", "mlp", "autocast", "custom_op", "futures", "errors"];
    let programs = programs.map(|name| read(&format!("examples/{name}.rs")));
    for block in blocks(RUST, "rust") {
        assert!(programs.iter().any(|program| program.contains(&block)), "not found:\n{block}");
    }
    let shown = tensors::run().unwrap().join("\n") + "\n";
    assert!(blocks(RUST, "text").contains(&shown), "not in {RUST}:\n{shown}");
}

#[test]
fn the_first_programs_run() {
    matmul::main().unwrap();
    assert_eq!(futures::answers().unwrap(), [5, 285, 328_350, 332_833_500]);
    assert_eq!(threads::total().unwrap(), 4000);
    let messages = errors::messages().unwrap();
    let [refused, poisoned, failed, rest] = &messages[..] else { panic!("{messages:?}") };
    assert!(refused.contains("examples/errors.rs:15: add: "), "{refused}");
    assert!(poisoned.contains("poisoned by index_select at "), "{poisoned}");
    assert!(failed.contains("examples/errors.rs:20: "), "{failed}");
    assert_eq!(rest, "6 elements of x are readable");
}

const ENGINE: &str = "docs/engine.md";

/// The other blocks of the page are run as documentation of the crate.
#[test]
fn the_page_on_the_engine_quotes_its_program() {
    let program = read("examples/data_pipeline.rs");
    for block in blocks(ENGINE, "rust,ignore") {
        assert!(program.contains(&block), "not in examples/data_pipeline.rs:\n{block}");
    }
    let weight = data_pipeline::train(100).unwrap();
    assert!((weight - 3.0).abs() < 0.01, "{weight}");
}

#[test]
fn networks_learn() {
    let (first, last) = mlp::train(300).unwrap();
    assert!(first > 0.6 && last < 0.2, "{first} {last}");
    let (first, last) = mlp_replayed::replayed(300).unwrap();
    assert!(first > 0.6 && last < 0.2, "{first} {last}");
    let folder = tempfile::tempdir().unwrap();
    let [first, last, test] =
        transformer::train(150, &folder.path().join("p.safetensors")).unwrap();
    assert!(first > 1.9 && last < 0.5 && test < 0.5, "{first} {last} {test}");
}

const RANKS: &str = "docs/ranks.md";

/// Four ranks learn what one rank learns from all points, and the page shows it.
#[test]
fn ranks_learn_together() {
    let (first, last) = data_parallel::train_by_threads(4, 200).unwrap();
    let alone = data_parallel::train_by_threads(1, 200).unwrap();
    assert!((first - alone.0).abs() < 1e-5 && (last - alone.1).abs() < 0.01, "{last} {alone:?}");
    let shown = format!("loss: {first:.3} after the first step, {last:.3} after the last\n");
    assert!(blocks(RANKS, "text").contains(&shown), "not in {RANKS}:\n{shown}");
    let program = read("examples/data_parallel.rs");
    for block in blocks(RANKS, "rust") {
        assert!(program.contains(&block), "not in examples/data_parallel.rs:\n{block}");
    }
}

#[test]
fn the_tutorial_quotes_its_program() {
    let program = read("examples/tutorial.rs");
    for block in blocks(TUTORIAL, "rust") {
        assert!(program.contains(&block), "not in examples/tutorial.rs:\n{block}");
    }
    let (sum, _) = tutorial::run().unwrap();
    let shown = format!("{sum:?}");
    assert!(read("docs/tutorial.md").contains(&shown), "{shown}");
    let error = tutorial::refused().unwrap_err().to_string();
    let error = &error[error.find("examples/tutorial.rs:").unwrap()..];
    let found = blocks(TUTORIAL, "text").iter().any(|block| block.trim_end() == error);
    assert!(found, "not in docs/tutorial.md: {error}");
}

#[test]
fn the_tutorials_traces_give_its_lists() {
    let mut lists = Vec::new();
    for block in
        blocks(TUTORIAL, "json").into_iter().filter(|block| block.contains("\"millstream\""))
    {
        let loading = LoadOptions::default();
        let program = load_bytes("own.json", block.as_bytes(), None, &loading).unwrap();
        let options = RunOptions::default().in_turn(2).emit(true);
        let report = run(Arc::new(program), &options).unwrap();
        assert!(report.ok(), "{report:?}");
        lists.push(print_list(report.list.as_ref().unwrap()));
    }
    let mut shown = blocks(TUTORIAL, "text");
    shown.retain(|block| block.starts_with("millstream-list"));
    assert_eq!(shown.len(), 1);
    for block in shown {
        let found = lists.iter().any(|list| block.starts_with(list.as_str()));
        assert!(found, "no trace of the tutorial gives\n{block}but\n{}", lists.join("\n"));
    }
}

#[test]
fn the_page_on_streams_quotes_its_programs() {
    let programs = [read("examples/streams.rs"), read("examples/pipeline.rs")];
    for block in blocks(STREAMS, "rust") {
        let found = programs.iter().any(|program| program.contains(&block));
        assert!(found, "in neither example:\n{block}");
    }
    assert!(streams::run().unwrap() >= 0.0);
}

#[test]
fn the_page_on_streams_shows_the_timeline_of_its_pipeline() {
    let (timeline, results) = pipeline::run().unwrap();
    assert!(blocks(STREAMS, "text").contains(&timeline), "not in docs/streams.md:\n{timeline}");
    assert_eq!(results, [1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0, 0.0]);
}

#[test]
fn the_page_on_executables_quotes_its_programs_and_what_they_print() {
    let programs =
        ["replay", "decode", "mlp_replayed"].map(|name| read(&format!("examples/{name}.rs")));
    for block in blocks(EXECUTABLES, "rust").into_iter().chain(blocks(TRACED, "rust")) {
        let found = programs.iter().any(|program| program.contains(&block));
        assert!(found, "in neither example:\n{block}");
    }
    let (plain, replayed, report) = decode::decode(8).unwrap();
    assert_eq!(plain, replayed);
    let report = format!("{report}\n");
    assert!(blocks(TRACED, "text").contains(&report), "not in {TRACED}:\n{report}");
    let tape = replay::tape().unwrap();
    assert!(blocks(EXECUTABLES, "text").contains(&tape), "not in docs/executables.md:\n{tape}");
    let (first, last) = replay::train(200).unwrap();
    assert!(first > 1.0 && last < 1e-3, "{first} {last}");
}

#[test]
fn the_page_on_memory_quotes_its_program_and_its_output() {
    let program = read("examples/memory.rs");
    for block in blocks(MEMORY, "rust") {
        assert!(program.contains(&block), "not in the example:\n{block}");
    }
    let mut printed = Vec::from(memory::pending().unwrap());
    printed.push(memory::full().unwrap().to_string());
    printed.push(format!("{:?}", memory::checked().unwrap()));
    let shown = blocks(MEMORY, "text");
    for text in printed {
        // The example is a module of this test, so its path differs.
        let text = text.replace("tests/programs/../../", "");
        assert!(shown.iter().any(|b| b.trim_end() == text), "not in docs/memory.md:\n{text}");
    }
    assert_eq!(memory::copies().unwrap(), [1, 2, 3, 4]);
}
