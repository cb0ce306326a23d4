//! The calls of recorded programs that can be divided among ranks otherwise than by computing
//! everything everywhere.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use millstream::TensorSpec;
use millstream::ops::sharding::Whole;
use millstream::ops::{CallSpec, OutputSpec, collective, standard};
use millstream_trace::{Action, Body, Entry, Program, Results, expand};

use super::files;

/// The programs of which 95 of 100 calls have a rule.
const COVERED: &[&str] = &[
    "gpt2_12layer_train",
    "gpt_block_infer",
    "lstm_gru_infer",
    "resnet50_train",
    "resnet_block_train",
    "transformer_encoder_infer",
];

/// The calls of a program, and those without a rule by op.
#[derive(Default)]
struct Counts {
    calls: usize,
    /// Calls whose tensors all are numbers, which nothing divides.
    of_numbers: usize,
    without: BTreeMap<String, usize>,
}

/// Counts the calls. Collectives are those of the ranks' own programs.
fn count(program: &Program) -> Counts {
    let ops = standard();
    let mut counts = Counts::default();
    let mut specs: Vec<Option<TensorSpec>> = vec![None; program.values.len()];
    for (spec, tensor) in specs.iter_mut().zip(&program.tensors) {
        *spec = Some(tensor.spec.clone());
    }
    let Body::Statements(block) = &program.body else { panic!("statements") };
    for statement in &block.statements {
        let Action::Call(call) = &statement.action else { continue };
        let op = ops.get(ops.id(&call.op).unwrap()).unwrap();
        let known = |at: &millstream_trace::ValueRef| specs[at.index()].clone();
        let inputs: Option<Vec<TensorSpec>> = call.inputs.iter().map(known).collect();
        let inputs = inputs.unwrap_or_else(|| panic!("{}: an unknown operand", call.op));
        let spec = CallSpec { inputs: &inputs, attrs: &call.attrs };
        let signature = op.check(spec).unwrap();
        let is_number = |output: &OutputSpec| match output {
            OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => spec.shape().is_empty(),
            OutputSpec::View { layout, .. } => layout.rank() == 0,
            OutputSpec::Same(of) => inputs[*of].shape().is_empty(),
        };
        let numbers = inputs.iter().all(|x| x.shape().is_empty());
        if numbers && signature.outputs.iter().all(is_number) {
            counts.of_numbers += 1;
        } else if !collective::is(&call.op) {
            counts.calls += 1;
            if op.sharding(Whole { call: spec, signature: &signature }).is_empty() {
                *counts.without.entry(call.op.clone()).or_default() += 1;
            }
        }
        let Results::New(results) = &call.results else { continue };
        for (result, output) in results.iter().zip(signature.outputs) {
            let made = match output {
                OutputSpec::Fresh(spec) => spec,
                OutputSpec::Same(of) => inputs[of].clone(),
                OutputSpec::View { of, layout, dtype } => {
                    TensorSpec::new(dtype.unwrap_or(inputs[of].dtype), layout).unwrap()
                }
                OutputSpec::Bounded(spec) => {
                    program.value(*result).recorded.clone().unwrap_or(spec)
                }
            };
            specs[result.index()] = Some(made);
        }
    }
    counts
}

#[test]
fn nearly_all_calls_of_recorded_models_have_a_rule() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/pytorch");
    let (mut table, mut covered) = (String::new(), 0);
    for entry in expand([folder]).unwrap() {
        let path = match &entry {
            Entry::Trace(path) => path,
            // The ranks of a program make the same calls but for their data.
            Entry::Ranks { ranks, .. } => &ranks[0],
            Entry::Skipped { path, reason } => panic!("{}: {reason}", path.display()),
        };
        let program = files::read(path);
        let within = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
        let name = within.components().nth(3).unwrap().as_os_str().to_str().unwrap();
        let Counts { calls, of_numbers, without } = count(&program);
        let missing: usize = without.values().sum();
        if COVERED.contains(&name) {
            covered += 1;
            assert!(missing * 20 <= calls, "{name}: {missing} of {calls} without: {without:?}");
        }
        let ops: Vec<String> = without.iter().map(|(op, count)| format!("{op} {count}")).collect();
        let with = calls - missing;
        let missing = if ops.is_empty() { "none".to_owned() } else { ops.join(", ") };
        writeln!(table, "{name}: {with} of {calls}, {of_numbers} of numbers; without: {missing}")
            .unwrap();
    }
    assert_eq!(covered, COVERED.len());
    insta::assert_snapshot!(table);
}
