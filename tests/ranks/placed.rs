//! Programs that name ranks: what each rank runs, what is refused, and that a random placement
//! changes no result.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_runner::{RunOptions, RunReport, prepare};
use millstream_trace::{LoadOptions, Program, TraceError, load_bytes, project, write};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::run;

/// Returns what each of so many ranks runs.
pub(crate) fn parts(program: &Program, count: u32) -> Vec<Arc<Program>> {
    let ops = RunOptions::default().machine.ops;
    let part = |rank| project(program.clone(), rank, count, &ops).map(Arc::new);
    (0..count).map(|rank| part(rank).unwrap_or_else(|e| panic!("{e}"))).collect()
}

/// Returns the first mistake of what one of so many ranks runs, as a run finds it before it begins.
pub(crate) fn mistake(program: Program, rank: u32, count: u32) -> Option<String> {
    let options = RunOptions::default().checked_on_rank(rank as usize, count as usize);
    match project(program, rank, count, &options.machine.ops) {
        Err(error) => Some(error.to_string()),
        Ok(part) => prepare(Arc::new(part), &options).err().map(|error| error.to_string()),
    }
}

fn loaded(text: &str) -> Result<Program, TraceError> {
    load_bytes("program.json", text.as_bytes(), None, &LoadOptions::default())
}

#[test]
fn a_part_has_the_copies_that_its_rank_sends_and_receives() {
    let text = r#"{"millstream": 1,
  "tensors": {"x": {"dtype": "f32", "values": [1, 2], "ranks": [0]}},
  "program": [
    {"op": "add", "in": ["x"], "attrs": {"other": 1}, "out": ["y"], "ranks": [0]},
    {"op": "mul", "in": ["y", "y"], "out": ["z"], "ranks": [1]},
    {"op": "mul", "in": ["z", "y"], "out": ["w"], "ranks": [1]},
    {"release": ["y"]}
  ],
  "outputs": {"w": {"values": [8, 27]}}}"#;
    let parts = parts(&loaded(text).unwrap(), 2);
    let texts: Vec<String> = parts.iter().map(|part| write(part).unwrap()).collect();
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn what_cannot_be_placed_is_refused() {
    let cases = [
        (
            "a rank that does not exist",
            r#"{"op": "relu", "in": ["x"], "out": ["y"], "ranks": [2]}"#,
        ),
        ("no rank", r#"{"op": "relu", "in": ["x"], "out": ["y"], "ranks": []}"#),
        ("ranks in no order", r#"{"op": "relu", "in": ["x"], "out": ["y"], "ranks": [1, 0]}"#),
        ("a change elsewhere", r#"{"op": "relu_", "in": ["x"], "ranks": [1]}"#),
        (
            "a view elsewhere",
            r#"{"op": "transpose", "in": ["x"], "attrs": {"dim0": 0, "dim1": 1},
            "out": ["y"], "ranks": [1]}"#,
        ),
        (
            "elements of each rank",
            r#"{"op": "add", "in": ["all"], "attrs": {"other": "parallel_id"},
            "out": ["y"], "ranks": [0, 1]}, {"op": "relu", "in": ["y"], "out": ["z"], "ranks": [2]}"#,
        ),
        (
            "elements that are not dense",
            r#"{"op": "transpose", "in": ["x"],
            "attrs": {"dim0": 0, "dim1": 1}, "out": ["y"], "ranks": [0]},
            {"op": "relu", "in": ["y"], "out": ["z"], "ranks": [1]}"#,
        ),
        (
            "a shape that depends on data",
            r#"{"op": "nonzero", "in": ["x"], "out": ["y"],
            "ranks": [0]}"#,
        ),
        (
            "a section",
            r#"{"critical_section": ["x"], "body": [
            {"op": "relu_", "in": ["x"], "ranks": [0]}]}, {"op": "relu", "in": ["x"], "out": ["y"],
            "ranks": [0]}"#,
        ),
    ];
    let ops = RunOptions::default().machine.ops;
    let mut texts = Vec::new();
    for (what, program) in cases {
        let text = format!(
            r#"{{"millstream": 1, "tensors": {{
  "x": {{"dtype": "f32", "shape": [2, 2], "fill": 1, "ranks": [0]}},
  "all": {{"dtype": "f32", "shape": [2, 2], "fill": 1}} }},
  "program": [{program}], "outputs": {{}} }}"#
        );
        let count = if what == "elements of each rank" { 3 } else { 2 };
        let found = loaded(&text).and_then(|program| project(program, 0, count, &ops));
        let Err(error) = found else { panic!("{what} is not refused") };
        texts.push(format!("{what}\n{error}"));
    }
    insta::assert_snapshot!(texts.join("\n\n"));
}

/// Ranks that read different texts do not run.
#[test]
fn ranks_read_one_program() {
    let text = |n: u32| {
        let text = r#"{"millstream": 1, "tensors": {"x": {"dtype": "f32", "values": [N]}},
  "program": [{"op": "relu", "in": ["x"], "out": ["y"], "ranks": [0]}], "outputs": {"y": {}}}"#;
        text.replace('N', &n.to_string())
    };
    let programs =
        (0..2).map(|rank| Arc::clone(&parts(&loaded(&text(rank)).unwrap(), 2)[rank as usize]));
    let error = run("different programs", programs.collect(), RunOptions::default()).unwrap_err();
    assert!(error.to_string().contains("ranks 0 and 1 read different programs"), "{error}");
}

/// A call of a random program: the op, its operands among the tensors so far, and the ranks as
/// bits.
type Step = (bool, bool, usize, usize, u8);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<bool>(), any::<bool>(), 0..9usize, 0..9usize, 1..8u8);
    prop::collection::vec(step, 1..12)
}

/// Returns a program of calls on four tensors and their results, each on the ranks of its bits.
fn program(steps: &[Step], is_placed: bool) -> Value {
    let ranks = |bits: u8| -> Vec<u32> { (0..3).filter(|rank| bits >> rank & 1 == 1).collect() };
    let mut tensors = serde_json::Map::new();
    let mut known: Vec<(String, u8)> = Vec::new();
    for k in 0..4u8 {
        let mut tensor = json!({"dtype": "i64", "values": [k + 1, 3 * k + 2]});
        let bits = if k == 3 { 7 } else { 1 << k };
        if is_placed && k < 3 {
            tensor["ranks"] = json!(ranks(bits));
        }
        tensors.insert(format!("t{k}"), tensor);
        known.push((format!("t{k}"), bits));
    }
    let mut calls = Vec::new();
    for &(is_sum, in_place, a, b, bits) in steps {
        let ((x, home), (y, _)) = (known[a % known.len()].clone(), known[b % known.len()].clone());
        let op = if is_sum { "add" } else { "mul" };
        let mut call = match in_place {
            true => json!({"op": format!("{op}_"), "in": [x, y]}),
            false => json!({"op": op, "in": [x, y], "out": [format!("t{}", known.len())]}),
        };
        // A tensor changes where it lives.
        let bits = if in_place { home } else { bits };
        if is_placed {
            call["ranks"] = json!(ranks(bits));
        }
        if !in_place {
            known.push((format!("t{}", known.len()), bits));
        }
        calls.push(call);
    }
    let outputs: BTreeMap<&str, Value> =
        known.iter().map(|(name, _)| (&**name, json!({}))).collect();
    json!({"millstream": 1, "tensors": tensors, "program": calls, "outputs": outputs})
}

fn results(reports: &[RunReport]) -> BTreeMap<(&str, &[u8]), usize> {
    let mut found = BTreeMap::new();
    for output in reports.iter().flat_map(|report| &report.outputs) {
        *found.entry((output.name.as_str(), output.bytes.as_slice())).or_default() += 1;
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Every rank that holds a tensor has the elements that one rank alone computes.
    #[test]
    fn a_random_placement_changes_no_result(steps in steps()) {
        let placed = loaded(&program(&steps, true).to_string()).unwrap();
        let alone = loaded(&program(&steps, false).to_string()).unwrap();
        let alone = run("alone", vec![Arc::new(alone)], RunOptions::default()).unwrap();
        let placed = run("placed", parts(&placed, 3), RunOptions::default().repeat(2)).unwrap();
        for report in alone.iter().chain(&placed) {
            prop_assert!(report.failures.is_empty(), "{:?}", report.failures);
        }
        let (expected, found) = (results(&alone), results(&placed));
        prop_assert!(found.keys().eq(expected.keys()), "{found:?}\n{expected:?}");
    }
}

/// Mistakes with meshes, each with a text of its error.
#[test]
fn what_no_mesh_holds_is_refused() {
    let tensors = r#""x": {"dtype": "f32", "shape": [4, 4], "fill": 1, "mesh": "pair", "sbp": "S0"},
        "y": {"dtype": "f32", "shape": [4, 4], "fill": 1, "mesh": "turned", "sbp": "B"},
        "part": {"dtype": "f32", "shape": [4, 4], "fill": 1, "mesh": "pair", "sbp": "P"},
        "local": {"dtype": "f32", "shape": [4, 4], "fill": 1}"#;
    let meshes = r#""pair": {"ranks": [0, 1]}, "turned": {"ranks": [1, 0]}"#;
    let whole = |version: u32, meshes: &str, tensors: &str, statements: &str| {
        format!(
            r#"{{"millstream": {version}, "meshes": {{{meshes}}}, "tensors": {{{tensors}}},
            "program": [{statements}], "outputs": {{}}}}"#
        )
    };
    let of = |statements: &str| whole(2, meshes, tensors, statements);
    let tensor = |fields: &str| {
        let tensor = format!(r#""x": {{"dtype": "f32", "shape": [4, 4], "fill": 1, {fields}}}"#);
        whole(2, meshes, &tensor, "")
    };
    let mesh = |ranks: &str| whole(2, &format!(r#""pair": {{"ranks": {ranks}}}"#), "", "");
    let redistribute =
        |fields: &str| of(&format!(r#"{{"redistribute": "x", "out": "z", {fields}}}"#));
    let cases = [
        (whole(1, meshes, "", ""), "meshes need version 2 of the format"),
        (mesh("[[0, 1], [2]]"), "expected lists of one length and depth"),
        (mesh("[0, [1]]"), "expected lists of one length and depth"),
        (mesh("[0, 0]"), "rank 0 occurs twice"),
        (mesh("[[[[0]]]]"), "expected at most 3 axes"),
        (mesh("[]"), "0 ranks; expected one to 1024"),
        (tensor(r#""mesh": "pare", "sbp": "B""#), "there is no mesh 'pare'"),
        (
            tensor(r#""mesh": "pair", "sbp": "S""#),
            "expected S0, S1, …, B, P, Pmax or Pmin, got 'S'",
        ),
        (tensor(r#""mesh": "pair""#), "'mesh' needs 'sbp'"),
        (tensor(r#""sbp": "B""#), "a tensor with an 'sbp' needs a 'mesh'"),
        (tensor(r#""mesh": "pair", "sbp": ["B", "B"]"#), "the mesh has the axis 0; sbp names 2"),
        (tensor(r#""mesh": "pair", "sbp": "S2""#), "S2 splits dimension 2 of a tensor with 2"),
        (
            tensor(r#""mesh": "pair", "sbp": "B", "ranks": [0]"#),
            "'ranks', each with all of it, or a",
        ),
        (tensor(r#""mesh": "pair", "sbp": "B", "strides": [1, 4]"#), "are dense and row-major"),
        (
            of(r#"{"op": "matmul", "in": ["x", "y"], "out": "z"}"#),
            "matmul: 'x' on mesh [0,1], 'y' on mesh [1,0]",
        ),
        (
            of(r#"{"op": "add", "in": ["x", "local"], "out": "z"}"#),
            "add: 'local' is not held by a mesh, and others are",
        ),
        (
            of(r#"{"op": "full", "out": "z", "attrs": {"shape": [4], "value": 1}, "sbp": "B"}"#),
            "a call without operands needs a 'mesh'",
        ),
        (
            of(r#"{"op": "relu", "in": "x", "into": "y"}"#),
            "relu: 'x' on mesh [0,1], 'y' on mesh [1,0]",
        ),
        (of(r#"{"op": "relu_", "in": "part"}"#), "redistribute it to B first"),
        (
            of(r#"{"op": "nonzero", "in": "x", "out": "z"}"#),
            "the size of its result depends on data",
        ),
        (of(r#"{"op": "allreduce_", "in": "x"}"#), "a collective takes each rank's own tensors"),
        (
            of(r#"{"op": "relu", "in": "x", "out": "z", "ranks": [0]}"#),
            "is made by the ranks of the mesh",
        ),
        (redistribute(r#""sbp": ["B", "B"]"#), "the mesh has the axis 0; sbp names 2"),
        (
            of(r#"{"op": "reshape", "in": "x", "out": "z", "attrs": {"shape": [8, 2]}},
                {"op": "t", "in": "x", "out": "view"},
                {"op": "reshape", "in": "x", "out": "flat", "attrs": {"shape": [16]}},
                {"op": "as_strided", "in": "x", "out": "far",
                 "attrs": {"size": [2, 2], "stride": [4, 1], "storage_offset": 5}},
                {"op": "relu_", "in": "view"}"#),
            "shares memory with a view on one rank, and not on a mesh",
        ),
    ];
    for (text, expected) in cases {
        let error = match loaded(&text) {
            Err(error) => error.to_string(),
            Ok(program) => mistake(program, 0, 2).expect(expected),
        };
        assert!(error.contains(expected), "expected {expected}, got {error}");
    }
}
