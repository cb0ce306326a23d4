//! Programs of `fused`: their text, their results, and refusals.

use millstream_ops::fused::{MAX_STEPS, PROGRAM, Program, Step, Value, step_result};
use millstream_ops::{CallSpec, OutputSpec, standard};
use millstream_types::{Attrs, DType, Error, Layout, TensorSpec};

fn tensor(dtype: DType, shape: &[usize]) -> TensorSpec {
    TensorSpec::contiguous(dtype, shape).unwrap()
}

fn infer(program: &str, inputs: &[TensorSpec]) -> Result<TensorSpec, Error> {
    let ops = standard();
    let attrs = Attrs::new().with(PROGRAM, program);
    let op = ops.get(ops.id("fused").unwrap()).unwrap();
    let signature = op.check(CallSpec { inputs, attrs: &attrs })?;
    assert!(signature.accesses.iter().all(|a| !a.writes()) && signature.workspace == 0);
    match signature.outputs.as_slice() {
        [OutputSpec::Fresh(spec)] => Ok(spec.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn programs_read_back() {
    for text in [
        "neg(%0)",
        "tanh(%0);mul(#0,%1);add(#1,%2|alpha=2)",
        "div(%0|other=-2.5,rounding_mode=\"floor\");gelu(#0|approximate=\"tanh\")",
        "cast(%0|dtype=f16);where(%1,#0|self=NaN)",
        "clamp(%0|max=inf,min=-1e-7)",
    ] {
        let program = Program::parse(text).unwrap();
        assert_eq!(program.to_string(), text);
        assert_eq!(Program::parse(&program.to_string()).unwrap(), program);
    }
    let spaced = Program::parse(" neg ( %0 ) ; add( #0 , %0 | alpha = 2 ) ").unwrap();
    assert_eq!(spaced.to_string(), "neg(%0);add(#0,%0|alpha=2)");
    assert_eq!(spaced.steps()[1].operands, [Value::Step(0), Value::Input(0)]);
    assert_eq!((spaced.inputs(), spaced.steps().len()), (1, 2));
}

/// The result of a program is that of its steps' own schemas: broadcasting, promotion, layout.
#[test]
fn results_are_those_of_the_steps() {
    let (f16, i64) = (tensor(DType::F16, &[4, 1]), tensor(DType::I64, &[3]));
    let scalar = tensor(DType::F64, &[]);
    let sum = infer("add(%0,%1);mul(#0,%2)", &[f16.clone(), i64.clone(), scalar]).unwrap();
    assert_eq!(sum.to_string(), "f16[4,3]");
    assert_eq!(infer("gt(%0|other=2)", std::slice::from_ref(&f16)).unwrap().dtype, DType::Bool);
    let halves = infer("div(%0|other=2);add(#0,%1)", &[i64, f16]).unwrap();
    assert_eq!(halves.to_string(), "f32[4,3]");
    let transposed = Layout::strided(&[2, 3], &[1, 2], 0).unwrap();
    let transposed = TensorSpec::new(DType::F32, transposed).unwrap();
    let result = infer("neg(%0);exp(#0)", std::slice::from_ref(&transposed)).unwrap();
    assert_eq!(result, transposed);
}

#[track_caller]
fn refused(program: &str, parts: &[&str]) {
    let inputs = [DType::F32, DType::I32].map(|dtype| tensor(dtype, &[4]));
    let count = if program.contains("%1") { 2 } else { 1 };
    let message = infer(program, &inputs[..count]).unwrap_err().to_string();
    assert!(message.starts_with("fused: "), "{message}");
    for part in parts {
        assert!(message.contains(part), "no '{part}' in: {message}");
    }
}

#[test]
fn malformed_programs_are_refused() {
    refused("", &["column 1", "an op's name"]);
    refused("neg", &["column 4", "'('"]);
    refused("neg(%0", &["','", "end of the line"]);
    refused("neg(%0);", &["column 9", "an op's name"]);
    refused("neg(%0) neg(#0)", &["column 9", "';'"]);
    refused("neg(0)", &["an input, as in %0"]);
    refused("neg(%x)", &["an input, as in %0"]);
    refused("neg(%99999999999999999999)", &["too large"]);
    refused("add(%0|other=2,other=3)", &["'other' is given twice"]);
    refused("add(%0|other=)", &["a number, true, false"]);
    refused("add(%0|other=2", &["','"]);
    refused("neg(%8)", &["inputs %0 to %7, got %8"]);
}

#[test]
fn values_exist_and_are_used() {
    refused("neg(#0)", &["step 0: expected an earlier result, got #0"]);
    refused("neg(%0);neg(#2)", &["step 1", "got #2"]);
    refused("neg(%0);neg(%0)", &["#0 is not used"]);
    refused("neg(%1)", &["%0 is not used"]);
    let inputs = [DType::F32, DType::I32].map(|dtype| tensor(dtype, &[4]));
    let message = infer("neg(%0)", &inputs).unwrap_err().to_string();
    assert!(message.contains("reads 1 input(s), got 2"), "{message}");
    assert!(Program::new(Vec::new()).is_err());
    let step = |k: usize| {
        let operand = if k == 0 { Value::Input(0) } else { Value::Step(k - 1) };
        Step { op: "neg".to_owned(), operands: vec![operand], attrs: Attrs::new() }
    };
    assert!(Program::new((0..MAX_STEPS).map(step).collect()).is_ok());
    let message = Program::new((0..=MAX_STEPS).map(step).collect()).unwrap_err().to_string();
    assert!(message.contains("expected 1 to 64 steps, got 65"), "{message}");
}

#[test]
fn only_elementwise_calls_that_cannot_fail_are_steps() {
    refused("matmul(%0,%0)", &["step 0", "matmul: expected an elementwise op"]);
    refused("reluu(%0)", &["step 0", "reluu: expected an elementwise op"]);
    refused("add_(%0,%1)", &["add_(%0,%1): expected an op that returns a new tensor"]);
    refused("fused(%0|program=\"neg(%0)\")", &["fused: expected an elementwise op"]);
    refused("neg(%0);remainder(%1|other=3);add(#0,#1)", &["step 1", "dividing i32 may fail"]);
    refused("div(%1,%1|rounding_mode=\"floor\");add(#0,%0)", &["step 0", "dividing i32"]);
    refused("neg(%0|alpha=2)", &["step 0: neg: ", "'alpha'"]);
    refused("neg(%0,%1)", &["step 0: neg: expected 1 operand(s)"]);
    refused("tanh(%0);__lshift__(#0,%1)", &["step 1: __lshift__: "]);
    let x = [tensor(DType::F32, &[2])];
    let attrs = Attrs::new();
    for (op, is_step) in [("tanh", true), ("tanh_", false), ("sum", false), ("clone", false)] {
        let result = step_result(op, CallSpec { inputs: &x, attrs: &attrs });
        assert_eq!(result.is_ok(), is_step, "{op}: {result:?}");
    }
}

#[test]
fn the_program_is_required() {
    let ops = standard();
    let op = ops.get(ops.id("fused").unwrap()).unwrap();
    let inputs = [tensor(DType::F32, &[2])];
    for (attrs, part) in [
        (Attrs::new(), "program: missing"),
        (Attrs::new().with(PROGRAM, 3), "expected a text, got 3"),
    ] {
        let message = op.check(CallSpec { inputs: &inputs, attrs: &attrs }).unwrap_err();
        assert!(message.to_string().contains(part), "{message}");
    }
}
