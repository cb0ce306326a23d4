//! Executables of a mesh in traces: every rank records its list and launches it, and the results
//! are those of one rank.
//!
//! Long because it has a case for each mistake, and the generator of random programs.

use std::path::Path;
use std::sync::Arc;

use millstream_runner::{RunOptions, RunReport};
use millstream_trace::{LoadOptions, Program, TraceError, load_bytes, write};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use crate::placed::{mistake, parts};
use crate::run;

const EXAMPLE: &str = "examples/placement/mesh_executable.json";

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(EXAMPLE);
    std::fs::read_to_string(path).unwrap()
}

fn loaded(text: &str) -> Result<Program, TraceError> {
    load_bytes("program.json", text.as_bytes(), None, &LoadOptions::default())
}

fn written(parts: &[Arc<Program>]) -> Vec<String> {
    parts.iter().map(|part| write(part).unwrap()).collect()
}

/// The outputs of the example are those that one rank computes.
#[test]
fn an_executable_runs_on_meshes_of_one_two_and_four_ranks() {
    let grid = "[[0, 1], [2, 3]]";
    assert!(example().contains(grid));
    for (ranks, mesh) in [
        (1, "[[0]]"),
        (2, "[[0, 1]]"),
        (2, "[[1], [0]]"),
        (3, "[[2, 0]]"),
        (4, grid),
        (4, "[[3, 1], [0, 2]]"),
    ] {
        let program = loaded(&example().replace(grid, mesh)).unwrap();
        for replay in [false, true] {
            let options = RunOptions::default().repeat(2).replay(replay);
            let reports = run(mesh, parts(&program, ranks), options).unwrap();
            for report in &reports {
                assert!(report.ok(), "{mesh}: {:?}", report.failures);
            }
            let on = reports.iter().filter(|report| report.outputs.len() == program.outputs.len());
            assert_eq!(on.count(), loaded_mesh(mesh), "{mesh}");
        }
    }
}

/// Returns the number of ranks in the text of a mesh.
fn loaded_mesh(text: &str) -> usize {
    text.chars().filter(char::is_ascii_digit).count()
}

/// A written program is the program, and the part of each rank reads as it was written.
#[test]
fn written_programs_are_divided_alike() {
    let case = include_str!("cases/executables_of_meshes.json");
    let case: Value = serde_json::from_str(case).unwrap();
    for (text, ranks) in [(example(), 4), (case["program"].to_string(), 5)] {
        let program = loaded(&text).unwrap();
        let again = loaded(&write(&program).unwrap()).unwrap();
        assert_eq!(write(&program).unwrap(), write(&again).unwrap());
        let own = parts(&program, ranks);
        assert_eq!(written(&own), written(&parts(&again, ranks)));
        let read: Vec<Arc<Program>> =
            written(&own).iter().map(|text| Arc::new(loaded(text).unwrap())).collect();
        assert_eq!(written(&own), written(&read));
    }
}

/// The programs of the page run as they stand there.
#[test]
fn the_page_shows_programs_that_run() {
    let page = include_str!("../../docs/global-tensors.md").split("```json\n").skip(1);
    let blocks = page.map(|block| block.split("```").next().unwrap());
    let programs: Vec<Program> = blocks.map(|block| loaded(block).unwrap()).collect();
    assert_eq!(programs.len(), 2);
    for (program, ranks) in programs.iter().zip([4, 2]) {
        for report in run("page", parts(program, ranks), RunOptions::default()).unwrap() {
            assert!(report.ok(), "{:?}", report.failures);
        }
    }
}

/// Mistakes, each with its error on a rank of the mesh; a rank outside has the same.
#[test]
fn what_no_executable_of_a_mesh_can_do_is_refused() {
    const INPUT: &str = r#""v": {"dtype": "f32", "shape": [4, 4], "mesh": "pair", "sbp": "S0"}"#;
    const BODY: &str = r#"{"op": "relu", "in": "v", "out": "w"}"#;
    const LAUNCH: &str = r#"{"launch": "step", "in": {"v": "x"}, "out": {"w": "y"}}"#;
    let program = |inputs: &str, body: &str, outputs: &str, statements: &str| {
        format!(
            r#"{{"millstream": 2,
"meshes": {{"pair": {{"ranks": [0, 1], "axes": ["tp"]}}, "turned": {{"ranks": [1, 0]}},
  "far": {{"ranks": [1, 7]}}}},
"tensors": {{"x": {{"dtype": "f32", "shape": [4, 4], "fill": 1, "mesh": "pair", "sbp": "S0"}},
  "columns": {{"dtype": "f32", "shape": [4, 4], "fill": 1, "mesh": "pair", "sbp": "S1"}},
  "other": {{"dtype": "f32", "shape": [4, 4], "fill": 1, "mesh": "turned", "sbp": "S0"}},
  "short": {{"dtype": "f32", "shape": [3, 4], "fill": 1, "mesh": "pair", "sbp": "S0"}},
  "local": {{"dtype": "f32", "shape": [4, 4], "fill": 1}}}},
"executables": {{"step": {{
  "inputs": {{{inputs}}},
  "program": [{body}],
  "outputs": {{{outputs}}}}}}},
"program": [
  {statements}
],
"outputs": {{}}}}"#
        )
    };
    let launch = |statements: &str| program(INPUT, BODY, r#""w": {}"#, statements);
    let body = |statements: &str| program(INPUT, statements, "", "");
    let input = |fields: &str| {
        let input = format!(r#""v": {{"dtype": "f32", "shape": [4, 4], {fields}}}"#);
        program(&input, BODY, r#""w": {}"#, LAUNCH)
    };
    let pair = |fields: &str| {
        let more = format!(r#"{INPUT}, "u": {{"dtype": "f32", "shape": [4, 4], {fields}}}"#);
        program(&more, BODY, r#""w": {}"#, "")
    };
    let cases = [
        ("a launch with another layout", launch(&LAUNCH.replace("\"x\"", "\"columns\""))),
        ("a launch with a tensor of another mesh", launch(&LAUNCH.replace("\"x\"", "\"other\""))),
        ("a launch with another shape", launch(&LAUNCH.replace("\"x\"", "\"short\""))),
        ("a launch with a local tensor", launch(&LAUNCH.replace("\"x\"", "\"local\""))),
        ("a launch with other strides", {
            let view = r#"{"op": "t", "in": "columns", "out": "view"}, "#;
            launch(&format!("{view}{}", LAUNCH.replace("\"x\"", "\"view\"")))
        }),
        ("a launch into another layout", {
            launch(r#"{"launch": "step", "in": {"v": "x"}, "into": {"w": "columns"}}"#)
        }),
        ("a launch with a local workspace", {
            let workspace = r#""v": "x"}, "workspace": "local""#;
            launch(&LAUNCH.replace(r#""v": "x"}"#, workspace))
        }),
        ("inputs on two meshes", pair(r#""mesh": "turned", "sbp": "B""#)),
        (
            "an input without a mesh",
            program(&format!(r#"{INPUT}, "u": {{"dtype": "f32", "shape": [4, 4]}}"#), BODY, "", ""),
        ),
        ("no mesh", input(r#""note": "local""#)),
        ("a mesh and ranks", input(r#""mesh": "pair", "sbp": "S0", "ranks": [0]"#)),
        ("a call with ranks", body(r#"{"op": "relu", "in": "v", "out": "w", "ranks": [0]}"#)),
        ("an unknown mesh", input(r#""mesh": "pear", "sbp": "S0""#)),
        ("ranks that the program lacks", input(r#""mesh": "far", "sbp": "S0""#)),
        ("an axis that the mesh lacks", input(r#""mesh": "pair", "sbp": ["S0", "B"]"#)),
        ("a dimension that the input lacks", input(r#""mesh": "pair", "sbp": "S2""#)),
        ("an sbp alone", input(r#""sbp": "S0""#)),
        ("a mesh alone", input(r#""mesh": "pair""#)),
        ("strides", input(r#""mesh": "pair", "sbp": "S0", "strides": [1, 4]"#)),
        ("a layout that the mesh lacks", {
            body(r#"{"redistribute": "v", "out": "w", "sbp": ["S0", "S1"]}"#)
        }),
        ("another mesh within", {
            body(r#"{"redistribute": "v", "out": "w", "mesh": "turned", "sbp": "B"}"#)
        }),
        ("a bound tensor of another mesh", {
            body(r#"{"op": "add", "in": ["other", "other"], "out": "w"}"#)
        }),
        ("a bound local tensor", body(r#"{"op": "add", "in": ["v", "local"], "out": "w"}"#)),
        ("a call on nothing", {
            body(r#"{"op": "full", "out": "w", "attrs": {"shape": [4], "value": 1}, "sbp": "B"}"#)
        }),
        ("more names than results", body(r#"{"op": "relu", "in": "v", "out": ["w", "u"]}"#)),
        ("an output of another shape", program(INPUT, BODY, r#""w": {"shape": [2, 4]}"#, "")),
        ("an output of another dtype", program(INPUT, BODY, r#""w": {"dtype": "f16"}"#, "")),
        ("a global_sync of some ranks", body(r#"{"global_sync": true}"#)),
        ("a section", body(r#"{"critical_section": "v", "body": []}"#)),
        ("a change beside a view that is a copy", {
            let inputs = r#""v": {"dtype": "f32", "shape": [4, 4], "mesh": "pair", "sbp": "S1"}"#;
            let view = r#"{"op": "reshape", "in": "v", "out": "w", "attrs": {"shape": [16]}}"#;
            let launch = r#"{"launch": "step", "in": {"v": "columns"}, "out": {"w": "y"}}"#;
            let change = r#"{"op": "relu_", "in": "columns"}"#;
            program(inputs, view, r#""w": {}"#, &format!("{launch}, {change}"))
        }),
        ("a launch that changes what has a view that is a copy", {
            let inputs = r#""v": {"dtype": "f32", "shape": [4, 4], "mesh": "pair", "sbp": "S1"}"#;
            let view =
                r#"{"op": "reshape", "in": "columns", "out": "z", "attrs": {"shape": [16]}}"#;
            let launch = r#"{"launch": "step", "in": {"v": "columns"}}"#;
            program(inputs, r#"{"op": "relu_", "in": "v"}"#, "", &format!("{view}, {launch}"))
        }),
    ];
    let mut texts = Vec::new();
    for (what, text) in cases {
        let refused = |rank: u32| match loaded(&text) {
            Ok(program) => mistake(program, rank, 3)
                .unwrap_or_else(|| panic!("{what} is not refused on rank {rank}")),
            Err(error) => error.to_string(),
        };
        assert_eq!(refused(0), refused(2), "{what}");
        texts.push(format!("{what}\n{}", refused(0)));
    }
    insta::assert_snapshot!(texts.join("\n\n"));
}

/// A launch computes in a tensor of its mesh: each rank in its part.
#[test]
fn a_launch_computes_in_a_workspace_of_its_mesh() {
    let text = r#"{"millstream": 2, "meshes": {"pair": {"ranks": [0, 1]}},
"tensors": {
  "x": {"dtype": "f32", "shape": [64, 8], "fill": 3, "mesh": "pair", "sbp": "S0"},
  "memory": {"dtype": "u8", "shape": [65536], "fill": 0, "mesh": "pair", "sbp": "S0"}},
"executables": {"step": {
  "inputs": {"v": {"dtype": "f32", "shape": [64, 8], "mesh": "pair", "sbp": "S0"}},
  "program": [
    {"op": "matmul", "in": ["v", "turned"], "out": "w"},
    {"op": "sum", "in": "w", "out": "total", "sbp": "B"}],
  "outputs": {"total": {}}}},
"program": [{"launch": "step", "in": {"v": "x"}, "out": {"total": "total"}, "workspace": "memory"}],
"outputs": {"total": {"fill": 589824}}}"#;
    let turned = r#"
  "turned": {"dtype": "f32", "shape": [8, 64], "fill": 6, "mesh": "pair", "sbp": "B"},
  "memory""#;
    let text = text.replace("\n  \"memory\"", turned);
    let reports = run("workspace", parts(&loaded(&text).unwrap(), 2), RunOptions::default());
    for report in reports.unwrap() {
        assert!(report.ok(), "{:?}", report.failures);
    }
}

/// A call of a random program: what it does, its operands among the tensors so far, and a number
/// for its layout.
type Step = (u8, usize, usize, usize);

/// The tensors that random programs begin with; their executables take them as inputs.
const INPUTS: usize = 4;

/// How random programs run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    OneRank,
    Mesh,
    Executable,
}

/// Returns the layout of a number, for each axis.
fn layout(axes: usize, number: usize) -> Value {
    let of = |axis: u32| ["B", "S0", "S1", "S0", "P"][number / 5usize.pow(axis) % 5];
    json!((0..axes as u32).map(of).collect::<Vec<_>>())
}

/// A random program whose statements run twice: once more on what the first run left.
struct Draft {
    statements: Vec<Value>,
    /// The names so far, and whether calls may change them: all but what broadcasts.
    known: Vec<(String, bool)>,
}

impl Draft {
    fn of(steps: &[Step], axes: usize, run: &str, form: Form) -> Draft {
        let inputs = (0..INPUTS).map(|k| (format!("t{k}"), true));
        let mut draft = Draft { statements: Vec::new(), known: inputs.collect() };
        for (k, step) in steps.iter().enumerate() {
            draft.call(*step, axes, format!("r{k}{run}"), form);
        }
        draft
    }

    fn call(&mut self, (what, a, b, number): Step, axes: usize, name: String, form: Form) {
        let (x, is_whole) = self.known[a % self.known.len()].clone();
        let (y, other_is_whole) = self.known[b % self.known.len()].clone();
        let (statement, is_whole) = match what {
            0..3 => {
                let op = ["add", "sub", "mul"][what as usize];
                (json!({"op": op, "in": [x, y], "out": name}), is_whole || other_is_whole)
            }
            3 => (json!({"op": "relu", "in": x, "out": name}), is_whole),
            4 => (json!({"op": "t", "in": x, "out": name}), is_whole),
            5 => {
                let attrs = json!({"dim": [number % 2], "keepdim": true});
                (json!({"op": "sum", "in": x, "out": name, "attrs": attrs}), false)
            }
            6 if is_whole => (json!({"op": "add_", "in": [x, y], "out": name}), true),
            7 if is_whole => {
                self.statements.push(json!({"op": "sub_", "in": [x, y]}));
                return;
            }
            8 => {
                let attrs = json!({"shape": [2, -1]});
                if !is_whole {
                    return;
                }
                (json!({"op": "reshape", "in": x, "out": name, "attrs": attrs}), false)
            }
            _ if form == Form::OneRank => (json!({"op": "copy", "in": x, "out": name}), is_whole),
            _ => {
                let sbp = layout(axes, number);
                (json!({"redistribute": x, "out": name, "sbp": sbp}), is_whole)
            }
        };
        self.statements.push(statement);
        // Of the shape [2, 8] is nothing more made.
        if what != 8 {
            self.known.push((name, is_whole));
        }
    }
}

/// Returns a random program.
fn program(steps: &[Step], mesh: &Value, layouts: &[usize; INPUTS], form: Form) -> Value {
    let axes = if mesh[0].is_array() { 2 } else { 1 };
    let (mut tensors, mut inputs) = (Map::new(), Map::new());
    for (k, number) in layouts.iter().enumerate() {
        let values: Vec<i64> = (0..16).map(|n| (n * 7 + 3 * k as i64) % 11 - 5).collect();
        let mut tensor = json!({"dtype": "i64", "shape": [4, 4], "values": values});
        let mut input = json!({"dtype": "i64", "shape": [4, 4]});
        if form != Form::OneRank {
            for held in [&mut tensor, &mut input] {
                (held["mesh"], held["sbp"]) = (json!("mesh"), layout(axes, *number));
            }
        }
        tensors.insert(format!("t{k}"), tensor);
        inputs.insert(format!("t{k}"), input);
    }
    let first = Draft::of(steps, axes, "", form);
    let made = |draft: &Draft| -> Vec<String> {
        let out = draft.statements.iter().filter_map(|s| s["out"].as_str());
        out.map(str::to_owned).collect()
    };
    let mut outputs: Map<String, Value> = tensors.keys().map(|k| (k.clone(), json!({}))).collect();
    let mut statements = Vec::new();
    for run in ["_1", "_2"] {
        let draft = Draft::of(steps, axes, run, form);
        outputs.extend(made(&draft).into_iter().map(|name| (name, json!({}))));
        if form == Form::Executable {
            let given: Map<_, _> = tensors.keys().map(|k| (k.clone(), json!(k))).collect();
            let names = made(&first).into_iter().map(|k| (k.clone(), json!(format!("{k}{run}"))));
            let out: Map<_, _> = names.collect();
            statements.push(json!({"launch": "all", "in": given, "out": out}));
        } else {
            statements.extend(draft.statements);
        }
    }
    let returned: Map<_, _> = made(&first).into_iter().map(|k| (k, json!({}))).collect();
    let mut program = json!({"millstream": 2, "tensors": tensors, "program": statements,
        "outputs": outputs});
    if form != Form::OneRank {
        program["meshes"] = json!({"mesh": {"ranks": mesh}});
    }
    if form == Form::Executable {
        program["executables"] =
            json!({"all": {"inputs": inputs, "program": first.statements, "outputs": returned}});
    }
    program
}

/// Returns each output with its bytes, as all ranks of the mesh read it.
fn results(reports: &[RunReport]) -> std::collections::BTreeSet<(&str, &[u8])> {
    let all = reports.iter().flat_map(|report| &report.outputs);
    all.map(|output| (output.name.as_str(), output.bytes.as_slice())).collect()
}

/// Random programs on a mesh run as executables, twice: with the bits of one rank. A program that
/// a mesh cannot run is refused in both forms.
#[test]
fn random_programs_are_executables_of_a_mesh() {
    let steps = prop::collection::vec((0..11u8, 0..20usize, 0..20usize, 0..25usize), 1..9);
    let meshes = [
        json!([0]),
        json!([0, 1]),
        json!([2, 0, 1]),
        json!([[0, 1], [2, 3]]),
        json!([[3, 1], [0, 2]]),
    ];
    let layouts = prop::array::uniform4(0..25usize);
    let mut runner = TestRunner::new(ProptestConfig { cases: 60, ..ProptestConfig::default() });
    let ran = std::cell::Cell::new(0);
    let tested = runner.run(&(steps, prop::sample::select(meshes.to_vec()), layouts), |all| {
        let (steps, mesh, layouts) = all;
        let of = |form| {
            let program = loaded(&program(&steps, &mesh, &layouts, form).to_string());
            program.unwrap_or_else(|e| panic!("{e}"))
        };
        let known = ["redistribute it to B first", "shares memory with a view on one rank"];
        let (eager, launched) = (of(Form::Mesh), of(Form::Executable));
        if let Some(error) = mistake(eager, 0, 4) {
            prop_assert!(known.iter().any(|text| error.contains(text)), "{error}");
            let error = mistake(launched, 0, 4).unwrap_or_default();
            prop_assert!(known.iter().any(|text| error.contains(text)), "{error}");
            return Ok(());
        }
        let alone = run("alone", vec![Arc::new(of(Form::OneRank))], RunOptions::default()).unwrap();
        let launched = run("launched", parts(&launched, 4), RunOptions::default()).unwrap();
        for report in alone.iter().chain(&launched) {
            prop_assert!(report.failures.is_empty(), "{:?}", report.failures);
        }
        prop_assert_eq!(results(&alone), results(&launched));
        ran.set(ran.get() + 1);
        Ok(())
    });
    tested.unwrap_or_else(|e| panic!("{e}"));
    assert!(ran.get() > 30, "{} programs ran", ran.get());
}
