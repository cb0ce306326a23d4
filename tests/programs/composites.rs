//! Programs that call composite ops: every one gives a machine's bytes in each form.

use std::collections::BTreeSet;
use std::fmt::Write;

use millstream::DriverKind;
use millstream_runner::{RunOptions, lists, prepare, run};
use serde_json::{Value, json};

use super::files::parse;
use super::run_trace::{assert_ok, bytes};

const FILE: &str = include_str!("../tensor/composites.json");

/// Composites whose results have a length that depends on data, so that they cannot be replayed.
const OF_DATA: &[&str] = &["_pdist_forward", "nms", "tril_indices", "triu_indices"];

/// Returns the cases of `../tensor/composites.json` as statements of one program.
fn program(keep: impl Fn(&str) -> bool) -> String {
    let cases: Vec<Value> = serde_json::from_str(FILE).unwrap();
    let (mut tensors, mut outputs) = (serde_json::Map::new(), serde_json::Map::new());
    let mut statements = String::new();
    for (k, case) in cases.iter().enumerate() {
        let op = case["op"].as_str().unwrap();
        if !keep(op) {
            continue;
        }
        let mut given = Vec::new();
        for (i, input) in case["inputs"].as_array().unwrap().iter().enumerate() {
            given.push(format!("x{k}.{i}"));
            tensors.insert(format!("x{k}.{i}"), input.clone());
        }
        let attrs = case["attrs"].as_object().unwrap().iter().map(|(name, value)| {
            let value = match value.as_object() {
                // A word such as "inf" is one in programs too.
                Some(object) => match object.get("float") {
                    Some(Value::String(text)) => match text.parse::<f64>() {
                        Ok(number) if number.is_finite() => json!(number),
                        _ => json!(text),
                    },
                    _ => object["dtype"].clone(),
                },
                None => value.clone(),
            };
            (name.clone(), value)
        });
        let attrs: serde_json::Map<String, Value> = attrs.collect();
        let results: Vec<String> =
            (0..case["results"].as_array().unwrap().len()).map(|r| format!("y{k}.{r}")).collect();
        outputs.extend(results.iter().map(|name| (name.clone(), json!({}))));
        let statement = json!({ "op": op, "in": given, "out": results, "attrs": attrs });
        let comma = if statements.is_empty() { "" } else { ",\n" };
        write!(statements, "{comma}{statement}").unwrap();
    }
    let (tensors, outputs) = (Value::Object(tensors), Value::Object(outputs));
    format!(
        "{{\"millstream\": 1, \"tensors\": {tensors}, \"outputs\": {outputs}, \"program\": [\n\
         {statements}]}}"
    )
}

#[test]
fn composites_give_the_same_bytes_eagerly_and_replayed() {
    let fixed = parse(&program(|op| !OF_DATA.contains(&op)));
    let mut all: BTreeSet<Vec<u8>> = BTreeSet::new();
    for driver in [DriverKind::Inline, DriverKind::Threaded] {
        for (replay, compute_streams) in [(false, 1), (false, 3), (true, 1), (true, 3)] {
            let options = RunOptions::default().machine(|config| config.driver(driver));
            let options = options.replay(replay).in_turn(compute_streams);
            let report = run(fixed.clone(), &options).unwrap();
            assert_ok(&report);
            all.insert(bytes(&report).concat());
        }
    }
    assert_eq!(all.len(), 1);
}

/// The list without a run has the instructions of the run: the tensors between the calls are
/// released where a machine releases them.
#[test]
fn the_list_of_a_composite_is_that_of_its_run() {
    let text = r#"{"millstream": 1, "tensors": {
"x": {"dtype": "f32", "values": [1, 2, 3]}, "y": {"dtype": "f32", "values": [3, 2, 1]}},
"program": [{"op": "logaddexp", "in": ["x", "y"], "out": "z"},
{"op": "logaddexp", "in": ["z", "y"], "out": "z2"}],
"outputs": {"z2": {}}}"#;
    let options = RunOptions::default().machine(|config| config.driver(DriverKind::Inline));
    let made = lists(&parse(text), &options).unwrap();
    let report = run(parse(text), &options.emit(true)).unwrap();
    assert_ok(&report);
    let kinds = |list: &millstream::InstructionList| {
        let body = list.instructions.iter();
        body.map(|instruction| instruction.body.kind().name().to_owned()).collect::<Vec<_>>()
    };
    let list = report.list.as_ref().unwrap();
    assert_eq!(kinds(&made[0].list), kinds(list));
    // The results have the program's names; the tensors between the calls have none.
    let named: Vec<&str> = report.names.tensors.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(named, ["z", "z2"]);
    let z = report.names.tensors[0].0;
    let reads = |instruction: &&millstream::instructions::Instruction| {
        instruction.body.operands().iter().any(|operand| operand.tensor == z)
    };
    let uses = list.instructions.iter().filter(reads);
    assert!(uses.count() >= 2, "it is made, and read by the second call");
}

#[test]
fn mistakes_are_found_before_the_run_at_their_places() {
    let text = r#"{"millstream": 1, "tensors": {"x": {"dtype": "f32", "values": [1, 2, 3]}},
"program": [
{"op": "logaddexp", "in": ["x"], "out": "z"}],
"outputs": {"z": {}}}"#;
    let error = prepare(parse(text), &RunOptions::default()).err().unwrap();
    insta::assert_snapshot!(error, @"t.json:3:27: logaddexp: expected 2 operand(s) (x, y), got 1");
    let unknown = text.replace("logaddexp", "logadexp");
    let error = prepare(parse(&unknown), &RunOptions::default()).err().unwrap();
    insta::assert_snapshot!(error, @"t.json:3:8: unknown op 'logadexp'; did you mean 'logaddexp'?");
}

/// The shape of a result that depends on data is known to the run alone: a dry run goes on without
/// it, and a replay is refused at the call.
#[test]
fn results_of_unknown_size_run_and_are_not_replayed() {
    let text = program(|op| OF_DATA.contains(&op));
    let report = run(parse(&text), &RunOptions::default()).unwrap();
    assert_ok(&report);
    assert_eq!(report.outputs.len(), 5);
    // The list is that of a run.
    let made = lists(&parse(&text), &RunOptions::default()).unwrap();
    assert!(made.len() == 1 && !made[0].list.instructions.is_empty());
    let error = run(parse(&text), &RunOptions::default().replay(true)).err().unwrap();
    let why = "its result's size is known only by running it, so it cannot stand in an executable";
    let expected = format!("t.json:2:1: _pdist_forward: its call of 'masked_select': {why}");
    assert_eq!(error.to_string(), expected);
}

/// A composite writes to existing tensors, and works within a critical section on those it holds.
#[test]
fn composites_write_into_tensors_and_run_in_sections() {
    let text = r#"{"millstream": 1, "tensors": {
"x": {"dtype": "f32", "values": [0, 1]}, "y": {"dtype": "f32", "values": [0, 1]},
"z": {"dtype": "f32", "values": [7, 7]}, "w": {"dtype": "f32", "values": [3, -3]}},
"program": [
{"op": "logaddexp", "in": ["x", "y"], "into": ["z"]},
{"critical_section": ["x", "w"], "body": [
{"op": "hypot", "in": ["x", "w"], "out": "h"},
{"op": "copysign", "in": ["h", "w"], "into": ["w"]}]},
{"op": "add", "in": ["z", "w"], "out": "sum"}],
"outputs": {"z": {"values": [0.6931472, 1.6931472]}, "w": {"values": [3, -3.1622777]},
"sum": {"values": [3.6931472, -1.4691305]}}}"#;
    for replay in [false, true] {
        for compute_streams in [1, 4] {
            let options = RunOptions::default().replay(replay).in_turn(compute_streams);
            assert_ok(&run(parse(text), &options).unwrap());
        }
    }
    let wrong = text.replace(r#""into": ["z"]"#, r#""into": ["z", "w"]"#);
    let error = prepare(parse(&wrong), &RunOptions::default()).err().unwrap();
    insta::assert_snapshot!(error, @"t.json:5:27: logaddexp: expected 1 target(s), got 2");
}
