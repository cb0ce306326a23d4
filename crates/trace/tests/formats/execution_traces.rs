//! The import of execution traces, and the errors of broken ones.

use std::fs;
use std::path::Path;

use millstream_trace::{
    Action, Body, EtOptions, LoadOptions, Number, Program, Results, TraceError, load,
};

use crate::unknown_elements::ending;

/// Returns the attributes of a node since schema 1.0.2.
fn attrs(schema: &str) -> String {
    format!(
        r#"[{{"name":"tid","type":"uint64","value":1}},
            {{"name":"op_schema","type":"string","value":"{schema}"}}]"#
    )
}

pub(crate) fn node(id: u32, name: &str, schema: &str, inputs: &str, outputs: &str) -> String {
    format!(
        r#"{{"id":{id},"name":"{name}","ctrl_deps":1,
            "inputs":{inputs},"outputs":{outputs},"attrs":{}}}"#,
        attrs(schema)
    )
}

pub(crate) const NONE: &str = r#"{"values":[],"shapes":[],"types":[],"strides":[]}"#;

/// Returns the values of one f32 tensor of shape [2, 3].
pub(crate) fn tensor(id: u32, storage: u32) -> String {
    one(&format!("[{id},{storage},0,6,4,\"cpu\"]"), "[2,3]", "Tensor(float)", "[3,1]")
}

pub(crate) fn one(value: &str, shape: &str, ty: &str, strides: &str) -> String {
    format!(r#"{{"values":[{value}],"shapes":[{shape}],"types":["{ty}"],"strides":[{strides}]}}"#)
}

pub(crate) const RELU: &str = "aten::relu(Tensor self) -> Tensor";

/// Returns the text of a trace with these nodes.
pub(crate) fn file(schema: &str, nodes: &[String]) -> String {
    format!(r#"{{"schema":"{schema}","pid":1,"nodes":[{}]}}"#, nodes.join(","))
}

/// Returns the nodes of `y = relu(x)`, with labels for x and y.
pub(crate) fn standard() -> Vec<String> {
    vec![
        node(1, "[pytorch|profiler|execution_trace|process]", "", NONE, NONE),
        node(2, "bind:in/x", "", &tensor(5, 6), NONE),
        node(3, "aten::relu", RELU, &tensor(5, 6), &tensor(7, 8)),
        node(4, "bind:out/y", "", &tensor(7, 8), NONE),
    ]
}

pub(crate) const BINDINGS: &str = r#"{
    "in/x": {"et":[5,6,0,6,4,"cpu"],"shape":[2,3],"strides":[3,1],"type":"Tensor(float)","node":2},
    "out/y": {"et":[7,8,0,6,4,"cpu"],"shape":[2,3],"strides":[3,1],"type":"Tensor(float)","node":4}
}"#;

/// Returns a safetensors file with f32 tensors of shape [2, 3] of these names.
pub(crate) fn tensors(names: &[&str]) -> Vec<u8> {
    let entry = |(k, name): (usize, &&str)| {
        let (from, to) = (k * 24, k * 24 + 24);
        format!(r#""{name}":{{"dtype":"F32","shape":[2,3],"data_offsets":[{from},{to}]}}"#)
    };
    let header: Vec<String> = names.iter().enumerate().map(entry).collect();
    let header = format!("{{{}}}", header.join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + names.len() * 24, 0);
    bytes
}

/// A folder with a trace and its sidecar notes.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new(trace: &str) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.with("et.json", trace.as_bytes());
        folder.with("bindings.json", BINDINGS.as_bytes());
        folder.with("tensors.safetensors", &tensors(&["in/x", "out/y"]));
        folder
    }

    pub(crate) fn with(&self, name: &str, content: &[u8]) -> &Folder {
        fs::write(self.0.path().join(name), content).unwrap();
        self
    }

    pub(crate) fn without(&self, name: &str) -> &Folder {
        fs::remove_file(self.0.path().join(name)).unwrap();
        self
    }

    pub(crate) fn load(&self) -> Result<Program, TraceError> {
        self.load_as(EtOptions::default())
    }

    pub(crate) fn load_as(&self, et: EtOptions) -> Result<Program, TraceError> {
        load(self.path(), &LoadOptions { et, ..LoadOptions::default() })
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("et.json")
    }
}

#[track_caller]
pub(crate) fn refuses(folder: &Folder, parts: &[&str]) {
    let error = folder.load().expect_err("an error").to_string();
    for part in parts {
        assert!(error.contains(part), "no '{part}' in: {error}");
    }
}

pub(crate) fn calls(program: &Program) -> Vec<String> {
    let Body::Statements(block) = &program.body else { panic!("statements") };
    let call = |action: &Action| match action {
        Action::Call(call) => Some(match &call.results {
            Results::New(_) => format!("{}({}){}", call.op, call.inputs.len(), call.attrs),
            Results::Into(_) => format!("{}({}){} into", call.op, call.inputs.len(), call.attrs),
        }),
        Action::Read(_) => Some("read".to_owned()),
        _ => None,
    };
    block.statements.iter().filter_map(|s| call(&s.action)).collect()
}

#[test]
fn wide_unsigned_integers() {
    const TO: &str = "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, \
                      Device? device=None, bool? pin_memory=None, bool non_blocking=False, \
                      MemoryFormat? memory_format=None) -> Tensor";
    for (code, name, bytes, dtype) in [
        (27, "unsigned short", 2, "u16"),
        (28, "unsigned int", 4, "u32"),
        (29, "long unsigned int", 8, "u64"),
    ] {
        let whole = one(
            &format!("[9,10,0,6,{bytes},\"cpu\"]"),
            "[2,3]",
            &format!("Tensor({name})"),
            "[3,1]",
        );
        let to = |from: &str, ty: &str, code: i64| {
            let (none, lists) = (r#""<None>""#, ",[]".repeat(6));
            format!(
                r#"{{"values":[{from},{code},{none},{none},{none},false,{none}],
                    "shapes":[[2,3]{lists}],"strides":[[3,1]{lists}],
                    "types":["Tensor({ty})","Int","None","None","None","Bool","None"]}}"#
            )
        };
        let there = to("[5,6,0,6,4,\"cpu\"]", "float", code);
        let back = to(&format!("[9,10,0,6,{bytes},\"cpu\"]"), name, 6);
        let mut nodes = standard()[..2].to_vec();
        nodes.push(node(3, "aten::_to_copy", TO, &there, &whole));
        nodes.push(node(4, "aten::_to_copy", TO, &back, &tensor(7, 8)));
        let program = ending(nodes).load().unwrap();
        let expected = [format!("cast(1){{dtype={dtype}}}"), "cast(1){dtype=f32}".to_owned()];
        assert_eq!(calls(&program), expected);
    }
}

#[test]
fn a_complete_trace() {
    let program = Folder::new(&file("1.1.1-chakra.0.0.4", &standard())).load().unwrap();
    assert_eq!(calls(&program), ["relu(1){}"]);
    let names = |p: &Program| {
        let tensors = p.tensors.iter().map(|t| t.name.clone());
        tensors.chain(p.outputs.iter().map(|o| o.name.clone())).collect::<Vec<_>>()
    };
    assert_eq!(names(&program), ["in/x", "out/y"]);
    let report = program.imported.unwrap();
    assert_eq!((report.nodes, report.ops, report.executed()), (4, 1, 1));
}

#[test]
fn the_flat_spelling_of_1_0_1() {
    let flat = |id: u32, name: &str, schema: &str, inputs: &str, outputs: &str| {
        let part = |values: &str, key: &str| match values {
            "" => format!(r#""{key}s":[],"{key}_shapes":[],"{key}_types":[]"#),
            values => format!(
                r#""{key}s":[{values}],"{key}_shapes":[[2,3]],"{key}_types":["Tensor(float)"]"#
            ),
        };
        format!(
            r#"{{"id":{id},"name":"{name}","rf_id":0,"parent":1,"fw_parent":0,"seq_id":-1,
                "scope":0,"tid":1,"fw_tid":0,"op_schema":"{schema}",{},{}}}"#,
            part(inputs, "input"),
            part(outputs, "output")
        )
    };
    let (x, y) = (r#"[5,6,0,6,4,"cpu"]"#, r#"[7,8,0,6,4,"cpu"]"#);
    let nodes = [
        flat(4, "bind:out/y", "", y, ""),
        flat(2, "bind:in/x", "", x, ""),
        flat(1, "[pytorch|profiler|execution_graph|process]", "", "", ""),
        flat(3, "aten::relu", RELU, x, y),
    ];
    let program = Folder::new(&file("1.0.1", &nodes)).load().unwrap();
    assert_eq!(calls(&program), ["relu(1){}"]);
}

#[test]
fn files_that_are_not_traces() {
    let whole = file("1.1.1", &standard());
    for (text, parts) in [
        (&whole[..whole.len() - 40], &["et.json:", "the file ends too early"][..]),
        (&whole[..30], &["the file ends too early"]),
        ("\u{1}garbage", &["not valid JSON"]),
        (&file("0.9", &standard()), &["schema '0.9'", "1.0.1", "1.1.1"]),
        (&file("2.0.0", &standard()), &["schema '2.0.0'"]),
        (&file("1.1.1", &[]), &["the trace has no nodes"]),
        (r#"{"schema":"1.1.1"}"#, &["the trace has no nodes"]),
        (r#"{"schema":"1.1.1","nodes":7}"#, &["not valid JSON"]),
        (r#"{"schema":"1.1.1","nodes":[{"name":"x"}]}"#, &["entry 0", "has no id"]),
        (r#"{"schema":"1.1.1","nodes":[{"id":-4}]}"#, &["not valid JSON"]),
        (r#"{"schema":"1.1.1","nodes":[{"id":4294967296}]}"#, &["4294967296 is too large"]),
    ] {
        refuses(&Folder::new(text), parts);
    }
    let deep = format!(r#"{{"schema":"1.1.1","nodes":[{{"id":1,"inputs":{}"#, "[".repeat(100_000));
    refuses(&Folder::new(&deep), &["et.json"]);
}

#[test]
fn invalid_nodes() {
    let with = |at: usize, node: String| {
        let mut nodes = standard();
        nodes[at] = node;
        Folder::new(&file("1.1.1", &nodes))
    };
    let result = |value: &str, shape: &str, strides: &str| {
        node(3, "aten::relu", RELU, &tensor(5, 6), &one(value, shape, "Tensor(float)", strides))
    };
    let sized = |numel: &str| format!("[7,8,0,{numel},4,\"cpu\"]");
    let input = |inputs: &str| node(3, "aten::relu", RELU, inputs, &tensor(7, 8));
    let op = |name: &str, schema: &str| node(3, name, schema, &tensor(5, 6), &tensor(7, 8));
    let here = "node 3 (aten::relu)";
    for (node, parts) in [
        (result(&sized("4"), "[2,2]", "[2,1]"), &[here, "result 0 is f32[2,3]", "f32[2, 2]"][..]),
        (result(&sized("6"), "[2,4]", "[4,1]"), &[here, "impossible shape"]),
        (result(&sized("6"), "[2,-3]", "[3,1]"), &[here, "impossible shape"]),
        (result(&sized("6"), r#""x""#, "[3,1]"), &[here, "impossible shape"]),
        (result(&sized("6"), "[2,3]", "[-3,1]"), &[here, "impossible strides"]),
        (result(&sized("6"), "[2,3]", "[99999999999999999,1]"), &[here, "impossible strides"]),
        (result(&sized("6"), "[2,3]", "[1]"), &[here, "strides"]),
        (result("[7,8,-4,6,4,\"cpu\"]", "[2,3]", "[3,1]"), &[here, "impossible offset -4"]),
        (result("[7,8]", "[2,3]", "[3,1]"), &[here, "is not a tensor"]),
        (input(r#"{"values":[1],"shapes":[],"types":[],"strides":[]}"#), &[here, "1 values"]),
        (input(r#"{"values":7}"#), &[here, "inputs"]),
        (
            input(&tensor(5, 6).replace("float", "c10::complex<c10::Half>")),
            &[here, "not supported"],
        ),
        (
            op("aten::rellu", "aten::rellu(Tensor self) -> Tensor"),
            &["node 3 (aten::rellu)", "no op that does", "did you mean 'relu'?"],
        ),
        (op("my::op", "my::op(Tensor self) -> Tensor"), &["node 3 (my::op)", "custom kernel"]),
        (op("aten::bernoulli", "aten::bernoulli(Tensor self) -> Tensor"), &["node 3", "random"]),
        (op("aten::relu", "aten::relu(Tensor"), &["node 3", "not the schema of an op"]),
        (node(2, "aten::relu", RELU, &tensor(5, 6), &tensor(7, 8)), &["node 2", "two nodes"]),
    ] {
        refuses(&with(2, node), parts);
    }
}

#[test]
fn sidecar_notes_that_are_missing_or_broken() {
    let folder = || Folder::new(&file("1.1.1", &standard()));
    refuses(folder().without("bindings.json"), &["node 2", "there is no bindings.json"]);
    refuses(folder().without("tensors.safetensors"), &["node 2 (bind:in/x)", "no such file"]);
    refuses(folder().with("bindings.json", b"{"), &["bindings.json", "not the bindings.json"]);
    refuses(folder().with("bindings.json", b"{}"), &["node 2", "does not bind 'in/x'"]);
    let elsewhere = BINDINGS.replace("\"node\":4", "\"node\":3");
    refuses(folder().with("bindings.json", elsewhere.as_bytes()), &["node 4", "does not bind"]);
    let other = BINDINGS.replace(
        "[2,3],\"strides\":[3,1],\"type\":\"Tensor(float)\",\"node\":2",
        "[3,2],\"strides\":[3,1],\"type\":\"Tensor(float)\",\"node\":2",
    );
    refuses(folder().with("bindings.json", other.as_bytes()), &["node 2", "of shape [3, 2]"]);
    let twice = BINDINGS.replace("\"node\":4", "\"node\":2");
    refuses(folder().with("bindings.json", twice.as_bytes()), &["node 2 has two names"]);
    refuses(folder().with("consts.json", b"[{}]"), &["consts.json"]);
    let empty = br#"[{"node":3,"arg":0}]"#;
    refuses(folder().with("consts.json", empty), &["entry 0, node 3", "either 'scalar', 'list'"]);
    refuses(folder().with("meta.json", b"[]"), &["meta.json"]);
    refuses(folder().with("tensors.safetensors", b"short"), &["node 2", "not a safetensors file"]);
    let huge = u64::MAX.to_le_bytes();
    refuses(folder().with("tensors.safetensors", &huge), &["node 2", "not a safetensors file"]);
    let lacks = tensors(&["in/z", "out/y"]);
    refuses(folder().with("tensors.safetensors", &lacks), &["node 2", "no tensor 'in/x'", "in/z"]);
}

/// Returns a product with a Python number, which the format does not record.
fn with_lost_number() -> Folder {
    let mul = "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor";
    let inputs = r#"{"values":[[5,6,0,6,4,"cpu"],[11,12,0,1,8,"cpu"]],"shapes":[[2,3],[]],
        "types":["Tensor(float)","Tensor(double)"],"strides":[[3,1],[]]}"#;
    let mut nodes = standard();
    nodes[2] = node(3, "aten::mul", mul, inputs, &tensor(7, 8));
    Folder::new(&file("1.1.1", &nodes))
}

#[test]
fn a_number_that_the_trace_lost() {
    let folder = with_lost_number();
    refuses(&folder, &["node 3 (aten::mul.Tensor)", "argument 1", "consts.json"]);
    let given = EtOptions { missing_scalar: Some(Number::Float(2.5)), ..EtOptions::default() };
    let program = folder.load_as(given).unwrap();
    assert_eq!(calls(&program), ["mul(1){other=2.5}"]);
    assert_eq!(program.imported.unwrap().missing_scalars, 1);
    folder.with("consts.json", br#"[{"node":3,"op":"aten::mul.Tensor","arg":1,"scalar":3}]"#);
    let program = folder.load().unwrap();
    assert_eq!(calls(&program), ["mul(1){other=3.0}"]);
    assert_eq!(program.imported.unwrap().missing_scalars, 0);
}

#[test]
fn structural_imports_skip_unsupported_nodes() {
    let mut nodes = standard();
    let unknown = "my::op(Tensor self) -> Tensor";
    nodes[2] = node(3, "my::op", unknown, &tensor(5, 6), &tensor(7, 8));
    let folder = Folder::new(&file("1.1.1", &nodes));
    folder.without("bindings.json").without("tensors.safetensors");
    let structural = EtOptions { structural: true, ..EtOptions::default() };
    let program = folder.load_as(structural).unwrap();
    let report = program.imported.unwrap();
    assert_eq!((report.ops, report.executed(), report.made_up), (1, 0, 1));
    assert_eq!((report.skipped[0].node, report.skipped[0].op.as_str()), (3, "my::op"));
    assert_eq!((report.bytes, report.bytes_skipped), (48, 48));
}

#[test]
fn a_reused_address_is_another_tensor() {
    // y = relu(x), then z = relu(y) at y's own address; z is the output.
    let mut nodes = standard();
    nodes.insert(3, node(4, "aten::relu", RELU, &tensor(7, 8), &tensor(7, 8)));
    nodes[4] = nodes[4].replacen("\"id\":4", "\"id\":5", 1);
    let folder = Folder::new(&file("1.1.1", &nodes));
    folder.with("bindings.json", BINDINGS.replace("\"node\":4", "\"node\":5").as_bytes());
    let program = folder.load().unwrap();
    assert_eq!(calls(&program), ["relu(1){}", "relu(1){}"]);
    let Body::Statements(block) = &program.body else { panic!("statements") };
    let results: Vec<_> = block
        .statements
        .iter()
        .filter_map(|s| match &s.action {
            Action::Call(call) => Some((call.inputs.clone(), call.results.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(Results::New(results[1].0.clone()), results[0].1);
    assert_ne!(results[0].1, results[1].1);
}

#[test]
fn truncated_and_changed_traces_do_not_panic() {
    let text = file("1.1.1", &standard());
    let folder = Folder::new(&text);
    for length in 0..text.len() {
        folder.with("et.json", &text.as_bytes()[..length]);
        folder.load().expect_err("a cut trace is refused");
    }
    for at in 0..text.len() {
        for byte in [b'0', b'9', b'-', b'[', b'"', b'}', 0xff] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = byte;
            folder.with("et.json", &bytes);
            drop(folder.load());
        }
    }
    assert!(Path::new(&folder.path()).exists());
}
