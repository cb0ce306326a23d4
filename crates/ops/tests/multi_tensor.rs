//! Calls of `multi_tensor`: accesses, results, and refusals.

use millstream_ops::{CallSpec, OutputSpec, Signature, standard};
use millstream_types::{Access, Attrs, DType, Error, TensorSpec};

fn tensor(dtype: DType, shape: &[usize]) -> TensorSpec {
    TensorSpec::contiguous(dtype, shape).unwrap()
}

fn infer(
    program: &str,
    numbers: &[(&'static str, i64)],
    inputs: &[TensorSpec],
) -> Result<Signature, Error> {
    let ops = standard();
    let mut attrs = Attrs::new().with("program", program);
    numbers.iter().for_each(|(name, value)| attrs.set(*name, *value));
    let op = ops.get(ops.id("multi_tensor").unwrap()).unwrap();
    op.check(CallSpec { inputs, attrs: &attrs })
}

#[test]
fn changed_columns_are_written_and_new_results_are_one_for_each_set() {
    let (a, b) = (tensor(DType::F32, &[4]), tensor(DType::F32, &[2, 3]));
    let rate = tensor(DType::F64, &[]);
    let sets = [("columns", 2), ("sets", 2)];
    let given = [a.clone(), a.clone(), b.clone(), b.clone(), rate];
    let made = infer("addcmul_(%1,%0,%2)", &sets, &given).unwrap();
    let (read, write) = (Access::Read, Access::ReadWrite);
    assert_eq!(made.accesses.as_slice(), [read, write, read, write, read]);
    assert_eq!(made.outputs.as_slice(), [OutputSpec::Same(1), OutputSpec::Same(3)]);
    let made = infer("gt(%0,%1)", &sets, &given[..4]).unwrap();
    let fresh = |shape: &[usize]| OutputSpec::Fresh(tensor(DType::Bool, shape));
    assert_eq!(made.outputs.as_slice(), [fresh(&[4]), fresh(&[2, 3])]);
    assert!(made.accesses.iter().all(|access| !access.writes()));
    let found = [tensor(DType::BF16, &[7]), tensor(DType::F32, &[])];
    let made = infer("mul_(%0|other=2.0)", &[("columns", 1), ("found", 1)], &found).unwrap();
    assert_eq!(made.accesses.as_slice(), [write, write]);
}

#[track_caller]
fn refused(program: &str, numbers: &[(&'static str, i64)], part: &str) {
    let inputs = [tensor(DType::F32, &[4]), tensor(DType::F32, &[4]), tensor(DType::F64, &[])];
    let error = infer(program, numbers, &inputs).unwrap_err().to_string();
    assert!(error.contains(part), "expected {part:?} in: {error}");
}

#[test]
fn wrong_calls_are_refused() {
    let two = [("columns", 1), ("sets", 2)];
    refused("neg_(%0)", &[], "at least one tensor");
    refused("neg_(%0)", &[("columns", -1)], "from 0 on, got -1");
    refused("neg_(%0)", &[("columns", 2), ("sets", 2)], "expected 2 sets of 2 tensors, got 3");
    refused("neg_(%0)", &[("columns", i64::MAX), ("sets", i64::MAX)], "sets of");
    refused("addcmul_(%0,%1,%2)", &two, "reads %2, and a set has 2");
    refused("add_(%1,%0)", &two, "%1 is shared by all sets, and is changed");
    refused("neg_(%0);neg(%0)", &two, "expected steps that change tensors");
    refused("neg(%0);neg_(#0)", &two, "expected steps that change tensors");
    refused("exp_(%0);relu_(#0)", &two, "#0 changes a value; name that value");
    refused("cumsum_(%0)", &two, "expected an elementwise op");
    refused("mul_(%0|other=2.0)", &[("columns", 1), ("sets", 2), ("found", 1)], "an f32, got f64");
    refused("mul_(%0|other=2.0)", &[("columns", 1), ("sets", 2), ("unless", 0)], "all sets share");
    refused("neg(%0)", &[("columns", 1), ("sets", 2), ("unless", 1)], "a program in place");
    let inputs = [tensor(DType::F32, &[4]), tensor(DType::F32, &[2])];
    let error = infer("mul_(%0|other=2.0);neg_(%1)", &[("columns", 2)], &inputs).unwrap_err();
    assert!(
        error.to_string().contains("set 0: ") && error.to_string().contains("shape"),
        "{error}"
    );
    let whole = [tensor(DType::I32, &[4])];
    let error = infer("fmod_(%0|other=2)", &[("columns", 1)], &whole).unwrap_err().to_string();
    assert!(error.contains("dividing integers"), "{error}");
}
