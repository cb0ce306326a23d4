//! Random ops of execution traces: recorded results, own numbers, and the outputs that depend on
//! them.

use millstream_trace::EtOptions;

use crate::execution_traces::{
    Folder, RELU, calls, file, node, refuses, standard, tensor, tensors,
};

const DRAW: &str = "aten::uniform_(Tensor(a!) self, float from=0, float to=1, *, Generator? \
                    generator=None) -> Tensor(a!)";

/// Returns a trace of `y = relu(x.uniform_())`, whose draw is node 3.
fn random() -> Folder {
    let mut nodes = standard()[..2].to_vec();
    nodes.push(node(3, "aten::uniform_", DRAW, &tensor(5, 6), &tensor(5, 6)));
    nodes.push(node(4, "aten::relu", RELU, &tensor(5, 6), &tensor(7, 8)));
    nodes.push(node(5, "bind:out/y", "", &tensor(7, 8), crate::execution_traces::NONE));
    let folder = Folder::new(&file("1.1.1", &nodes));
    let bindings = crate::execution_traces::BINDINGS.replace("\"node\":4", "\"node\":5");
    folder.with("bindings.json", bindings.as_bytes());
    folder
}

fn with_results(entries: &str) -> Folder {
    let folder = random();
    folder.with("tensors.safetensors", &tensors(&["in/x", "out/y", "random/3/result0"]));
    folder.with("consts.json", entries.as_bytes());
    folder
}

#[test]
fn a_draw_without_its_results_is_refused() {
    refuses(&random(), &["node 3 (aten::uniform_)", "it is random", "--random SEED"]);
}

#[test]
fn recorded_results_are_copied() {
    let entries = r#"[{"node":3,"op":"aten::uniform_","result":0,"tensor":"random/3/result0"}]"#;
    let program = with_results(entries).load().unwrap();
    assert_eq!(calls(&program), ["clone(1){}", "copy_(2){}", "relu(1){}"]);
    assert!(program.outputs[0].expected.is_some());
    assert_eq!(program.imported.unwrap().diagnostics(), [""; 0]);
}

#[test]
fn recorded_results_must_fit_the_trace() {
    for (entries, parts) in [
        (
            r#"[{"node":3,"result":1,"tensor":"random/3/result0"}]"#,
            &["node 3", "consts.json does not have result 0"][..],
        ),
        (r#"[{"node":3,"result":0}]"#, &["consts.json", "entry 0, node 3", "expected 'tensor'"]),
        (r#"[{"node":3,"result":0,"tensor":"random/9"}]"#, &["consts.json", "random/9"]),
        (
            r#"[{"node":3,"result":0,"arg":0,"tensor":"random/3/result0"}]"#,
            &["expected either 'arg', 'result' or 'written'"],
        ),
        (
            r#"[{"node":3,"result":0,"tensor":"random/3/result0"},
                {"node":3,"result":0,"tensor":"random/3/result0"}]"#,
            &["entry 1, node 3", "duplicate entry"],
        ),
    ] {
        refuses(&with_results(entries), parts);
    }
    let folder = with_results(r#"[{"node":3,"result":0,"tensor":"random/3/result0"}]"#);
    let (part, mut other) = (b"result0", tensors(&["in/x", "out/y", "random/3/result0"]));
    let at = other.windows(part.len()).position(|bytes| bytes == part).unwrap();
    let shape = at + other[at..].windows(5).position(|bytes| bytes == b"[2,3]").unwrap();
    other[shape..shape + 5].copy_from_slice(b"[3,2]");
    folder.with("tensors.safetensors", &other);
    refuses(&folder, &["node 3", "f32[3, 2]", "f32[2, 3]"]);
}

#[test]
fn outputs_that_depend_on_own_numbers_are_not_compared() {
    let options = EtOptions { random: Some(7), ..EtOptions::default() };
    let program = random().load_as(options).unwrap();
    assert_eq!(calls(&program), ["uniform_(1){offset=1, seed=7}", "relu(1){}"]);
    assert!(program.outputs[0].expected.is_none());
    let report = program.imported.unwrap();
    assert_eq!((report.drawn, &report.not_compared[..]), (1, &["out/y".to_owned()][..]));
    assert!(report.diagnostics()[0].contains("NOT COMPARED"), "{:?}", report.diagnostics());
}
