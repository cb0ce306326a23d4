//! What the standard ops' schemas answer, and what they refuse and how they say so.

use millstream_ops::{CallSpec, OutputSpec, Signature, families, standard};
use millstream_types::{Access, AttrValue, Attrs, DType, Layout, Result, TensorSpec};

fn tensor(text: &str) -> TensorSpec {
    let (dtype, lengths) = text.trim_end_matches(']').split_once('[').unwrap();
    let shape: Vec<usize> =
        lengths.split(',').filter(|l| !l.is_empty()).map(|l| l.parse().unwrap()).collect();
    TensorSpec::contiguous(dtype.parse().unwrap(), &shape).unwrap()
}

fn ask(op: &str, inputs: &[TensorSpec], attrs: &Attrs) -> Result<Signature> {
    let ops = standard();
    ops.get(ops.id(op)?).unwrap().check(CallSpec { inputs, attrs })
}

/// The only output of a call, as text.
fn gives(op: &str, inputs: &[&str], attrs: Attrs) -> String {
    let inputs: Vec<TensorSpec> = inputs.iter().map(|t| tensor(t)).collect();
    let signature = ask(op, &inputs, &attrs).unwrap();
    match signature.outputs.as_slice() {
        [OutputSpec::Fresh(spec)] => spec.to_string(),
        [OutputSpec::Bounded(spec)] => format!("up to {spec}"),
        [OutputSpec::Same(of)] => format!("same {of}"),
        [OutputSpec::View { of, layout }] => {
            let dtype = inputs[*of].dtype;
            format!("view {}", TensorSpec::new(dtype, layout.clone()).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

fn refuses(op: &str, inputs: &[&str], attrs: Attrs, parts: &[&str]) {
    let inputs: Vec<TensorSpec> = inputs.iter().map(|t| tensor(t)).collect();
    let message = ask(op, &inputs, &attrs).unwrap_err().to_string();
    assert!(message.starts_with(&format!("{op}: ")), "{message}");
    for part in parts {
        assert!(message.contains(part), "no '{part}' in: {message}");
    }
}

fn no() -> Attrs {
    Attrs::new()
}

/// Each op is in one family, under one name.
#[test]
fn names_are_unique() {
    let names: Vec<&str> =
        families().iter().flat_map(|(_, ops)| ops.iter().map(|o| o.name())).collect();
    let registry = standard();
    assert_eq!(registry.iter().map(|o| o.name()).collect::<Vec<_>>(), names);
}

#[test]
fn outputs() {
    assert_eq!(gives("add", &["f32[2,1]", "i64[3]"], no()), "f32[2,3]");
    assert_eq!(gives("add", &["i8[2]", "u8[2]"], no()), "i16[2]");
    assert_eq!(gives("mul", &["i8[2]", "i64[]"], no()), "i8[2]");
    assert_eq!(gives("mul", &["i8[2]", "f16[]"], no()), "f16[2]");
    assert_eq!(gives("sub", &["bf16[0]", "f16[1]"], no()), "f32[0]");
    assert_eq!(gives("relu", &["u8[2]"], no()), "u8[2]");
    assert_eq!(gives("copy", &["bool[2,3]"], no()), "bool[2,3]");
    assert_eq!(gives("cast", &["bool[2,3]"], no().with("dtype", "bf16")), "bf16[2,3]");
    assert_eq!(gives("fill", &["u8[2]"], no().with("value", 255)), "same 0");
    assert_eq!(gives("add_", &["i32[2,3]", "i64[3]"], no()), "same 0");
    assert_eq!(gives("matmul", &["f32[2,1,3,4]", "f32[5,4,6]"], no()), "f32[2,5,3,6]");
    assert_eq!(gives("matmul", &["i8[4]", "i8[4]"], no()), "i8[]");
    assert_eq!(gives("sum", &["u8[2,3]"], no()), "i64[]");
    assert_eq!(gives("sum", &["f16[2,3]"], no().with("dim", -1)), "f16[2]");
    let keep = no().with("dim", vec![0, -1]).with("keepdim", true);
    assert_eq!(gives("sum", &["bool[2,3,4]"], keep), "i64[1,3,1]");
    assert_eq!(gives("sum", &["i8[2]"], no().with("dtype", DType::F64)), "f64[]");
    assert_eq!(gives("masked_select", &["f32[3,1]", "bool[4]"], no()), "up to f32[12]");
    let swap = no().with("dim0", 0).with("dim1", -1);
    assert_eq!(gives("transpose", &["f32[2,3]"], swap), "view f32[3,2] strides [1,3]");
    let part = no().with("dim", 1).with("start", 1).with("step", 2);
    assert_eq!(gives("slice", &["f32[2,6]"], part), "view f32[2,3] strides [6,2] offset 1");
    assert_eq!(gives("reshape", &["f32[2,6]"], no().with("shape", vec![-1, 4])), "view f32[3,4]");
}

#[test]
fn outputs_with_numbers_and_without_inputs() {
    assert_eq!(gives("mul", &["bool[2]"], no().with("other", 2)), "i64[2]");
    assert_eq!(gives("mul", &["u8[2]"], no().with("other", 2.5)), "f32[2]");
    assert_eq!(gives("div", &["i8[2]"], no().with("other", 2)), "f32[2]");
    let floor = no().with("other", 2).with("rounding_mode", "floor");
    assert_eq!(gives("div", &["i8[2]"], floor), "i8[2]");
    assert_eq!(gives("lt", &["f16[2]"], no().with("other", 1)), "bool[2]");
    assert_eq!(gives("where", &["bool[2,1]", "f16[3]"], no().with("other", 1)), "f16[2,3]");
    assert_eq!(gives("full", &[], no().with("shape", vec![2]).with("value", true)), "bool[2]");
    assert_eq!(
        gives("arange", &[], no().with("start", 10).with("end", 0).with("step", -3)),
        "i64[4]"
    );
    assert_eq!(gives("arange", &[], no().with("end", 1.0).with("step", 0.3)), "f32[4]");
    refuses("full", &[], no().with("value", 1), &["shape: expected, and not given"]);
    let gaps = no().with("shape", vec![2]).with("value", 1).with("strides", vec![2]);
    refuses("full", &[], gaps, &["leave gaps or overlap"]);
    let far = no().with("start", i64::MIN).with("end", i64::MAX);
    refuses("arange", &[], far, &["more"]);
    refuses("amax", &["f32[0,2]"], no().with("dim", 0), &["dimension 0 of f32[0,2] is empty"]);
    refuses("pow", &["i32[2]"], no().with("exponent", -1), &["exponent: expected 0 or more"]);
}

#[test]
fn accesses() {
    let accesses = |op: &str, inputs: &[&str], attrs: Attrs| {
        let inputs: Vec<TensorSpec> = inputs.iter().map(|t| tensor(t)).collect();
        ask(op, &inputs, &attrs).unwrap().accesses.to_vec()
    };
    assert_eq!(accesses("fill", &["f32[2]"], no().with("value", 1.0)), [Access::Write]);
    assert_eq!(accesses("add_", &["f32[2]", "f32[2]"], no()), [Access::ReadWrite, Access::Read]);
    assert_eq!(accesses("masked_select", &["f32[2]", "bool[2]"], no()), [Access::Read; 2]);
}

#[test]
fn workspaces() {
    let bytes = |op: &str, inputs: &[&str]| {
        let inputs: Vec<TensorSpec> = inputs.iter().map(|t| tensor(t)).collect();
        ask(op, &inputs, &no()).unwrap().workspace
    };
    // Both operands and the result in f32, and room to align each.
    assert_eq!(bytes("matmul", &["bf16[2,3]", "bf16[3,5]"]), 4 * (6 + 15 + 10) + 4 * 64);
    assert_eq!(bytes("matmul", &["f32[2,3]", "f32[3,5]"]), 0);
    assert_eq!(bytes("sum", &["f32[16384]"]), 0);
    assert_eq!(bytes("sum", &["f32[16385]"]), 8 * 3);
}

#[test]
fn a_reshape_that_no_strides_express_is_new() {
    let x = TensorSpec::new(DType::F32, Layout::strided(&[3, 2], &[1, 3], 0).unwrap()).unwrap();
    let attrs = no().with("shape", vec![6]);
    let signature = ask("reshape", &[x], &attrs).unwrap();
    assert_eq!(signature, Signature::reads(1, tensor("f32[6]")));
}

#[test]
fn refused_shapes_and_dtypes() {
    refuses("add", &["f32[2]"], no(), &["other: expected", "2 tensors, got 1 tensor(s)"]);
    refuses("maximum", &["f32[2]"], no(), &["expected 2 operand(s) (x, y), got 1"]);
    refuses("add", &["f32[2]", "f32[3]"], no(), &["[2] and [3] do not broadcast"]);
    refuses("sub", &["bool[2]", "i32[2]"], no(), &["bool cannot be subtracted", "i32[2]"]);
    refuses("relu", &["bool[2]"], no(), &["expected numbers, got bool[2]"]);
    refuses("add_", &["i32[2]", "f32[2]"], no(), &["the result is f32, which i32[2] cannot hold"]);
    refuses("add_", &["bool[2]", "u8[2]"], no(), &["the result is u8"]);
    refuses("add_", &["f32[1]", "f32[2]"], no(), &["f32[2] does not broadcast to f32[1]"]);
    refuses("add_", &["f32[3]", "f32[2]"], no(), &["do not broadcast"]);
    refuses("matmul", &["f32[2,3]", "f32[4,2]"], no(), &["inner lengths differ", "3 and 4"]);
    refuses("matmul", &["f32[]", "f32[2]"], no(), &["one or more dimensions"]);
    refuses("matmul", &["f32[2]", "f64[2]"], no(), &["one dtype, got f32[2] and f64[2]"]);
    refuses("matmul", &["bool[2]", "bool[2]"], no(), &["expected numbers"]);
    refuses("matmul", &["f32[2,1,1]", "f32[3,1,1]"], no(), &["do not broadcast"]);
    refuses("masked_select", &["f32[2]", "u8[2]"], no(), &["expected a bool mask, got u8[2]"]);
    refuses("slice", &["f32[]"], no(), &["one or more dimensions"]);
    // More elements than any memory holds.
    let row = TensorSpec::new(DType::I8, Layout::strided(&[1 << 40], &[0], 0).unwrap()).unwrap();
    let column =
        TensorSpec::new(DType::I8, Layout::strided(&[1 << 40, 1], &[0, 0], 0).unwrap()).unwrap();
    for op in ["add", "mul"] {
        let message = ask(op, &[row.clone(), column.clone()], &no()).unwrap_err().to_string();
        assert!(message.contains("more"), "{message}");
    }
}

#[test]
fn refused_views() {
    let x = &["f32[2,3]"][..];
    let ints = |name: &str, v: &[i64]| no().with(name, v.to_vec());
    refuses("view", x, ints("size", &[4]), &["f32[2,3] to [4]", "6 elements for 4"]);
    refuses("expand", x, ints("size", &[2, 4]), &["f32[2,3] does not expand to [2, 4]"]);
    refuses("permute", x, ints("dims", &[0]), &["dims: expected 2, got 1"]);
    refuses("permute", x, ints("dims", &[0, -2]), &["-2: named more than once"]);
    let at = no().with("dim", 1).with("index", 3);
    refuses("select", x, at, &["index 3 in a dimension of 3 element(s)"]);
    let range = no().with("dim", 1).with("start", 2).with("length", 2);
    refuses("narrow", x, range, &["start 2, length 2: expected a range of 3 elements"]);
    refuses("diagonal", x, no().with("dim1", 1), &["expected two dimensions, got 1 and 1"]);
    refuses("unbind", &["f32[0]"], no(), &["expected a dimension with elements"]);
    refuses("split_with_sizes", x, ints("split_sizes", &[1]), &["add up to 2"]);
    refuses("as_strided", x, ints("size", &[-1]), &["size: expected nothing below zero, got -1"]);
    let far = ints("size", &[i64::MAX, 2]).with("stride", vec![i64::MAX, 1]);
    refuses("as_strided", x, far, &["more than any memory holds"]);
}

#[test]
fn refused_indices() {
    let along = |dim: i64| no().with("dim", dim);
    refuses("gather", &["f32[2]", "i16[1]"], along(0), &["an index of i64 or i32, got i16[1]"]);
    refuses("gather", &["f32[2,3]", "i64[1,4]"], along(0), &["f32[2,3] but for dimension 0"]);
    refuses("scatter", &["f32[2]", "i64[1]"], along(0), &["expected either src or value"]);
    let value = along(0).with("value", 300);
    refuses("scatter_", &["u8[2]", "i64[1]"], value, &["u8 cannot hold 300"]);
    refuses("index", &["f32[2]", "i64[1]", "i64[1]"], no(), &["2 indices for 1 dimensions"]);
    let absent = no().with("absent", vec![0, 0]);
    refuses("index", &["f32[2,2]", "i64[1]"], absent, &["absent: 0: expected places below 2"]);
    refuses("index", &["f32[2,2]", "bool[3]"], no(), &["first dimensions of f32[2,2]"]);
    let mixed = &["f32[2,2]", "bool[2]", "i64[1]"];
    refuses("index", mixed, no(), &["a bool mask is taken only as the only index"]);
    let second = no().with("absent", vec![0]);
    refuses("index", &["f32[2,2]", "bool[2]"], second, &["only as the first index"]);
    let put = &["f32[2,2]", "f32[3]", "i64[1]"];
    refuses("index_put_", put, no(), &["[1, 2] and [3] do not broadcast"]);
    refuses("topk", &["f32[2]"], no().with("k", 3), &["k: expected 0 to 2, got 3"]);
    refuses("roll", &["f32[2]"], no().with("shifts", vec![1, 2]), &["a shift for each dimension"]);
    refuses("cat", &["f32[2,3]", "f32[2,4]"], no(), &["f32[2,4] beside f32[2,3]"]);
    refuses("copy", &["f32[2,3]"], no().with("strides", vec![4, 1]), &["dense f32[2,3]"]);
}

#[test]
fn a_tensor_that_repeats_elements_is_not_added_to() {
    let x = TensorSpec::new(DType::F32, Layout::strided(&[2, 3], &[0, 1], 0).unwrap()).unwrap();
    let message = ask("add_", &[x, tensor("f32[3]")], &no()).unwrap_err().to_string();
    assert!(message.contains("strides [0,1] names elements more than once"), "{message}");
}

#[test]
fn refused_arguments() {
    let x = &["i32[2,3]"][..];
    let pair = &["i32[2]", "i32[2]"][..];
    refuses("add", pair, no().with("alpha", 1.5), &["alpha: expected a whole number for i32"]);
    refuses("add_", pair, no().with("alpha", true), &["alpha: expected a number for i32"]);
    refuses("sub", pair, no().with("alpha", "x"), &["alpha: expected a number"]);
    refuses("add", pair, no().with("alhpa", 2), &["unknown argument 'alhpa'", "'alpha'"]);
    refuses("mul", pair, no().with("alpha", 2), &["unknown argument 'alpha'"]);
    refuses("fill", &["u8[2]"], no().with("value", 300), &["u8 cannot hold 300"]);
    refuses("fill", &["u8[2]"], no().with("value", -1), &["u8 cannot hold -1"]);
    refuses("fill", x, no().with("value", 1.5), &["i32 cannot hold 1.5"]);
    refuses("fill", x, no().with("value", f64::NAN), &["i32 cannot hold NaN"]);
    refuses("fill", &["f16[2]"], no().with("value", 1e6), &["f16 cannot hold 1000000.0"]);
    refuses("fill", x, no(), &["value: expected"]);
    refuses("fill", x, no().with("value", AttrValue::Ints(vec![1])), &["value: expected a number"]);
    refuses("cast", x, no(), &["dtype: expected"]);
    refuses("cast", x, no().with("dtype", "f33"), &["unknown dtype 'f33'", "f32"]);
    refuses("sum", x, no().with("dim", 2), &["2: expected -2 to 1"]);
    refuses("sum", x, no().with("dim", vec![1, -1]), &["-1: named more than once"]);
    refuses("sum", x, no().with("keepdim", 1), &["keepdim: expected true or false"]);
    refuses("transpose", x, no().with("dim0", 0), &["dim1: expected"]);
    refuses("transpose", x, no().with("dim0", -3).with("dim1", 0), &["-3: expected -2 to 1"]);
    refuses("slice", x, no().with("step", 0), &["step: expected 1 or more, got 0"]);
    refuses("slice", x, no().with("step", -1), &["got -1"]);
    refuses("slice", x, no().with("dim", 2), &["expected -2 to 1"]);
    let reshape = |shape: Vec<i64>, parts: &[&str]| {
        refuses("reshape", x, no().with("shape", shape), parts);
    };
    reshape(vec![7], &["i32[2,3] to [7]", "6 elements for 7"]);
    reshape(vec![-1, -1], &["more than one length of -1"]);
    reshape(vec![-2, 3], &["a length below zero"]);
    reshape(vec![4, -1], &["do not divide"]);
    reshape(vec![i64::MAX, i64::MAX], &["more"]);
    refuses("reshape", &["f32[0]"], no().with("shape", vec![0, -1]), &["could be any length"]);
    refuses("reshape", x, no(), &["shape: expected"]);
}
