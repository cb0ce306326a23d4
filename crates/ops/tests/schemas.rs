//! The signatures that the schemas of the standard ops return, and the errors of refused calls.

use millstream_ops::{CallSpec, OutputSpec, Signature, families, standard};
use millstream_types::{Access, AttrValue, Attrs, DType, Layout, Result, TensorSpec};

fn tensor(text: &str) -> TensorSpec {
    let (dtype, lengths) = text.trim_end_matches(']').split_once('[').unwrap();
    let shape: Vec<usize> =
        lengths.split(',').filter(|l| !l.is_empty()).map(|l| l.parse().unwrap()).collect();
    TensorSpec::contiguous(dtype.parse().unwrap(), &shape).unwrap()
}

fn check(op: &str, inputs: &[TensorSpec], attrs: &Attrs) -> Result<Signature> {
    let ops = standard();
    ops.get(ops.id(op)?).unwrap().check(CallSpec { inputs, attrs })
}

/// Formats the only output of a call.
fn output(op: &str, inputs: &[&str], attrs: Attrs) -> String {
    let inputs: Vec<TensorSpec> = inputs.iter().map(|t| tensor(t)).collect();
    let signature = check(op, &inputs, &attrs).unwrap();
    match signature.outputs.as_slice() {
        [OutputSpec::Fresh(spec)] => spec.to_string(),
        [OutputSpec::Bounded(spec)] => format!("up to {spec}"),
        [OutputSpec::Same(of)] => format!("same {of}"),
        [OutputSpec::View { of, layout, .. }] => {
            let dtype = inputs[*of].dtype;
            format!("view {}", TensorSpec::new(dtype, layout.clone()).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

fn refuses(op: &str, inputs: &[&str], attrs: Attrs, parts: &[&str]) {
    let inputs: Vec<TensorSpec> = inputs.iter().map(|t| tensor(t)).collect();
    let message = check(op, &inputs, &attrs).unwrap_err().to_string();
    assert!(message.starts_with(&format!("{op}: ")), "{message}");
    for part in parts {
        assert!(message.contains(part), "no '{part}' in: {message}");
    }
}

fn no_attrs() -> Attrs {
    Attrs::new()
}

/// Each op belongs to one family and has a unique name.
#[test]
fn names_are_unique() {
    let names: Vec<&str> =
        families().iter().flat_map(|(_, ops)| ops.iter().map(|o| o.name())).collect();
    let registry = standard();
    assert_eq!(registry.iter().map(|o| o.name()).collect::<Vec<_>>(), names);
}

#[test]
fn outputs() {
    assert_eq!(output("add", &["f32[2,1]", "i64[3]"], no_attrs()), "f32[2,3]");
    assert_eq!(output("add", &["i8[2]", "u8[2]"], no_attrs()), "i16[2]");
    assert_eq!(output("mul", &["i8[2]", "i64[]"], no_attrs()), "i8[2]");
    assert_eq!(output("mul", &["i8[2]", "f16[]"], no_attrs()), "f16[2]");
    assert_eq!(output("sub", &["bf16[0]", "f16[1]"], no_attrs()), "f32[0]");
    assert_eq!(output("relu", &["u8[2]"], no_attrs()), "u8[2]");
    assert_eq!(output("copy", &["bool[2,3]"], no_attrs()), "bool[2,3]");
    assert_eq!(output("cast", &["bool[2,3]"], no_attrs().with("dtype", "bf16")), "bf16[2,3]");
    assert_eq!(output("fill", &["u8[2]"], no_attrs().with("value", 255)), "same 0");
    assert_eq!(output("add_", &["i32[2,3]", "i64[3]"], no_attrs()), "same 0");
    assert_eq!(output("matmul", &["f32[2,1,3,4]", "f32[5,4,6]"], no_attrs()), "f32[2,5,3,6]");
    assert_eq!(output("matmul", &["i8[4]", "i8[4]"], no_attrs()), "i8[]");
    assert_eq!(output("sum", &["u8[2,3]"], no_attrs()), "i64[]");
    assert_eq!(output("sum", &["f16[2,3]"], no_attrs().with("dim", -1)), "f16[2]");
    let keep = no_attrs().with("dim", vec![0, -1]).with("keepdim", true);
    assert_eq!(output("sum", &["bool[2,3,4]"], keep), "i64[1,3,1]");
    assert_eq!(output("sum", &["i8[2]"], no_attrs().with("dtype", DType::F64)), "f64[]");
    assert_eq!(output("masked_select", &["f32[3,1]", "bool[4]"], no_attrs()), "up to f32[12]");
    let swap = no_attrs().with("dim0", 0).with("dim1", -1);
    assert_eq!(output("transpose", &["f32[2,3]"], swap), "view f32[3,2] strides [1,3]");
    let part = no_attrs().with("dim", 1).with("start", 1).with("step", 2);
    assert_eq!(output("slice", &["f32[2,6]"], part), "view f32[2,3] strides [6,2] offset 1");
    assert_eq!(
        output("reshape", &["f32[2,6]"], no_attrs().with("shape", vec![-1, 4])),
        "view f32[3,4]"
    );
}

#[test]
fn outputs_with_numbers_and_without_inputs() {
    assert_eq!(output("mul", &["bool[2]"], no_attrs().with("other", 2)), "i64[2]");
    assert_eq!(output("mul", &["u8[2]"], no_attrs().with("other", 2.5)), "f32[2]");
    assert_eq!(output("div", &["i8[2]"], no_attrs().with("other", 2)), "f32[2]");
    let floor = no_attrs().with("other", 2).with("rounding_mode", "floor");
    assert_eq!(output("div", &["i8[2]"], floor), "i8[2]");
    assert_eq!(output("lt", &["f16[2]"], no_attrs().with("other", 1)), "bool[2]");
    assert_eq!(output("where", &["bool[2,1]", "f16[3]"], no_attrs().with("other", 1)), "f16[2,3]");
    assert_eq!(
        output("full", &[], no_attrs().with("shape", vec![2]).with("value", true)),
        "bool[2]"
    );
    assert_eq!(
        output("arange", &[], no_attrs().with("start", 10).with("end", 0).with("step", -3)),
        "i64[4]"
    );
    assert_eq!(output("arange", &[], no_attrs().with("end", 1.0).with("step", 0.3)), "f32[4]");
    refuses("full", &[], no_attrs().with("value", 1), &["shape: missing"]);
    let gaps = no_attrs().with("shape", vec![2]).with("value", 1).with("strides", vec![2]);
    refuses("full", &[], gaps, &["expected dense strides"]);
    let far = no_attrs().with("start", i64::MIN).with("end", i64::MAX);
    refuses("arange", &[], far, &["more"]);
    refuses("amax", &["f32[0,2]"], no_attrs().with("dim", 0), &["along dimension 0, got f32[0,2]"]);
    refuses("pow", &["i32[2]"], no_attrs().with("exponent", -1), &["exponent: expected 0 or more"]);
}

#[test]
fn accesses() {
    let accesses = |op: &str, inputs: &[&str], attrs: Attrs| {
        let inputs: Vec<TensorSpec> = inputs.iter().map(|t| tensor(t)).collect();
        check(op, &inputs, &attrs).unwrap().accesses.to_vec()
    };
    assert_eq!(accesses("fill", &["f32[2]"], no_attrs().with("value", 1.0)), [Access::Write]);
    assert_eq!(
        accesses("add_", &["f32[2]", "f32[2]"], no_attrs()),
        [Access::ReadWrite, Access::Read]
    );
    assert_eq!(accesses("masked_select", &["f32[2]", "bool[2]"], no_attrs()), [Access::Read; 2]);
}

#[test]
fn workspaces() {
    let bytes = |op: &str, inputs: &[&str]| {
        let inputs: Vec<TensorSpec> = inputs.iter().map(|t| tensor(t)).collect();
        check(op, &inputs, &no_attrs()).unwrap().workspace
    };
    // Blocks of f16 and bf16 are converted in buffers that the thread keeps.
    assert_eq!(bytes("matmul", &["bf16[2,3]", "bf16[3,5]"]), 0);
    // The weight in f32, and its alignment.
    assert_eq!(bytes("convolution", &["bf16[1,2,4]", "bf16[3,2,1]"]), 4 * 6 + 64);
    assert_eq!(bytes("sum", &["f32[16384]"]), 0);
    assert_eq!(bytes("sum", &["f32[16385]"]), 8 * 3);
}

#[test]
fn reshape_returns_a_new_tensor_where_strides_allow_no_view() {
    let x = TensorSpec::new(DType::F32, Layout::strided(&[3, 2], &[1, 3], 0).unwrap()).unwrap();
    let attrs = no_attrs().with("shape", vec![6]);
    let signature = check("reshape", &[x], &attrs).unwrap();
    assert_eq!(signature, Signature::reads(1, tensor("f32[6]")));
}

#[test]
fn refuses_shapes_and_dtypes() {
    refuses("add", &["f32[2]"], no_attrs(), &["other: expected", "2 tensors, got 1 tensor(s)"]);
    refuses("maximum", &["f32[2]"], no_attrs(), &["expected 2 operand(s) (x, y), got 1"]);
    refuses("add", &["f32[2]", "f32[3]"], no_attrs(), &["[2] and [3] do not broadcast"]);
    refuses("sub", &["bool[2]", "i32[2]"], no_attrs(), &["bool cannot be subtracted", "i32[2]"]);
    refuses("relu", &["bool[2]"], no_attrs(), &["expected numbers, got bool[2]"]);
    refuses(
        "add_",
        &["i32[2]", "f32[2]"],
        no_attrs(),
        &["the result is f32, which i32[2] cannot hold"],
    );
    refuses("add_", &["bool[2]", "u8[2]"], no_attrs(), &["the result is u8"]);
    refuses("add_", &["f32[1]", "f32[2]"], no_attrs(), &["f32[2] does not broadcast to f32[1]"]);
    refuses("add_", &["f32[3]", "f32[2]"], no_attrs(), &["do not broadcast"]);
    refuses(
        "matmul",
        &["f32[2,3]", "f32[4,2]"],
        no_attrs(),
        &["equal inner dimensions, got 3 and 4"],
    );
    refuses("matmul", &["f32[]", "f32[2]"], no_attrs(), &["one or more dimensions"]);
    refuses("matmul", &["f32[2]", "f64[2]"], no_attrs(), &["one dtype, got f32[2] and f64[2]"]);
    refuses("matmul", &["bool[2]", "bool[2]"], no_attrs(), &["expected numbers"]);
    refuses("matmul", &["f32[2,1,1]", "f32[3,1,1]"], no_attrs(), &["do not broadcast"]);
    refuses(
        "masked_select",
        &["f32[2]", "u8[2]"],
        no_attrs(),
        &["expected a bool mask, got u8[2]"],
    );
    refuses("slice", &["f32[]"], no_attrs(), &["one or more dimensions"]);
    // The result has more elements than any memory holds.
    let row = TensorSpec::new(DType::I8, Layout::strided(&[1 << 40], &[0], 0).unwrap()).unwrap();
    let column =
        TensorSpec::new(DType::I8, Layout::strided(&[1 << 40, 1], &[0, 0], 0).unwrap()).unwrap();
    for op in ["add", "mul"] {
        let message =
            check(op, &[row.clone(), column.clone()], &no_attrs()).unwrap_err().to_string();
        assert!(message.contains("more"), "{message}");
    }
}

#[test]
fn refuses_views() {
    let x = &["f32[2,3]"][..];
    let ints = |name: &'static str, v: &[i64]| no_attrs().with(name, v.to_vec());
    refuses("view", x, ints("size", &[4]), &["f32[2,3] to [4]", "6 elements for 4"]);
    refuses("expand", x, ints("size", &[2, 4]), &["lengths that f32[2,3] expands to, got [2, 4]"]);
    refuses("permute", x, ints("dims", &[0]), &["dims: expected 2 dimensions, got 1"]);
    refuses("permute", x, ints("dims", &[0, -2]), &["-2: given more than once"]);
    let at = no_attrs().with("dim", 1).with("index", 3);
    refuses("select", x, at, &["an index into 3 element(s), got 3"]);
    let range = no_attrs().with("dim", 1).with("start", 2).with("length", 2);
    refuses("narrow", x, range, &["a range within 3 elements, got start 2, length 2"]);
    refuses(
        "diagonal",
        x,
        no_attrs().with("dim1", 1),
        &["expected two different dimensions, got 1 and 1"],
    );
    refuses("unbind", &["f32[0]"], no_attrs(), &["expected a dimension with elements"]);
    refuses("split_with_sizes", x, ints("split_sizes", &[1]), &["add up to 2"]);
    refuses("as_strided", x, ints("size", &[-1]), &["size: expected 0 or more, got -1"]);
    let far = ints("size", &[i64::MAX, 2]).with("stride", vec![i64::MAX, 1]);
    refuses("as_strided", x, far, &["more than any memory holds"]);
}

#[test]
fn refuses_indices() {
    let along = |dim: i64| no_attrs().with("dim", dim);
    refuses("gather", &["f32[2]", "i16[1]"], along(0), &["an index of i64 or i32, got i16[1]"]);
    refuses("gather", &["f32[2,3]", "i64[1,4]"], along(0), &["f32[2,3] except along dimension 0"]);
    refuses("scatter", &["f32[2]", "i64[1]"], along(0), &["expected either src or value"]);
    let value = along(0).with("value", 300);
    refuses("scatter_", &["u8[2]", "i64[1]"], value, &["u8 cannot hold 300"]);
    refuses("index", &["f32[2]", "i64[1]", "i64[1]"], no_attrs(), &["at most 1 indices, got 2"]);
    let absent = no_attrs().with("absent", vec![0, 0]);
    refuses("index", &["f32[2,2]", "i64[1]"], absent, &["absent: 0: expected dimensions below 2"]);
    refuses("index", &["f32[2,2]", "bool[3]"], no_attrs(), &["first dimensions of f32[2,2]"]);
    let mixed = &["f32[2,2]", "bool[2]", "i64[1]"];
    refuses("index", mixed, no_attrs(), &["expected a bool mask to be the only index"]);
    let second = no_attrs().with("absent", vec![0]);
    refuses("index", &["f32[2,2]", "bool[2]"], second, &["to be the first index"]);
    let put = &["f32[2,2]", "f32[3]", "i64[1]"];
    refuses("index_put_", put, no_attrs(), &["[1, 2] and [3] do not broadcast"]);
    refuses("topk", &["f32[2]"], no_attrs().with("k", 3), &["k: expected 0 to 2, got 3"]);
    refuses(
        "roll",
        &["f32[2]"],
        no_attrs().with("shifts", vec![1, 2]),
        &["a shift for each dimension"],
    );
    refuses("cat", &["f32[2,3]", "f32[2,4]"], no_attrs(), &["f32[2,4] beside f32[2,3]"]);
    refuses("copy", &["f32[2,3]"], no_attrs().with("strides", vec![4, 1]), &["dense f32[2,3]"]);
}

#[test]
fn in_place_ops_refuse_overlapping_elements() {
    let x = TensorSpec::new(DType::F32, Layout::strided(&[2, 3], &[0, 1], 0).unwrap()).unwrap();
    let message = check("add_", &[x, tensor("f32[3]")], &no_attrs()).unwrap_err().to_string();
    assert!(message.contains("strides [0,1] has overlapping elements"), "{message}");
}

#[test]
fn refuses_arguments() {
    let x = &["i32[2,3]"][..];
    let pair = &["i32[2]", "i32[2]"][..];
    refuses(
        "add",
        pair,
        no_attrs().with("alpha", 1.5),
        &["alpha: expected a whole number for i32"],
    );
    refuses("add_", pair, no_attrs().with("alpha", true), &["alpha: expected a number for i32"]);
    refuses("sub", pair, no_attrs().with("alpha", "x"), &["alpha: expected a number"]);
    refuses("add", pair, no_attrs().with("alhpa", 2), &["unknown argument 'alhpa'", "'alpha'"]);
    refuses("mul", pair, no_attrs().with("alpha", 2), &["unknown argument 'alpha'"]);
    refuses("fill", &["u8[2]"], no_attrs().with("value", 300), &["u8 cannot hold 300"]);
    refuses("fill", &["u8[2]"], no_attrs().with("value", -1), &["u8 cannot hold -1"]);
    refuses("fill", x, no_attrs().with("value", 1.5), &["i32 cannot hold 1.5"]);
    refuses("fill", x, no_attrs().with("value", f64::NAN), &["i32 cannot hold NaN"]);
    refuses("fill", &["f16[2]"], no_attrs().with("value", 1e6), &["f16 cannot hold 1000000.0"]);
    refuses("fill", x, no_attrs(), &["value: missing"]);
    refuses(
        "fill",
        x,
        no_attrs().with("value", AttrValue::Ints(vec![1])),
        &["value: expected a number"],
    );
    refuses("cast", x, no_attrs(), &["dtype: missing"]);
    refuses("cast", x, no_attrs().with("dtype", "f33"), &["unknown dtype 'f33'", "f32"]);
    refuses("sum", x, no_attrs().with("dim", 2), &["2: expected -2 to 1"]);
    refuses("sum", x, no_attrs().with("dim", vec![1, -1]), &["-1: given more than once"]);
    refuses("sum", x, no_attrs().with("keepdim", 1), &["keepdim: expected true or false"]);
    refuses("transpose", x, no_attrs().with("dim0", 0), &["dim1: missing"]);
    refuses("transpose", x, no_attrs().with("dim0", -3).with("dim1", 0), &["-3: expected -2 to 1"]);
    refuses("slice", x, no_attrs().with("step", 0), &["step: expected 1 or more, got 0"]);
    refuses("slice", x, no_attrs().with("step", -1), &["got -1"]);
    refuses("slice", x, no_attrs().with("dim", 2), &["expected -2 to 1"]);
    let reshape = |shape: Vec<i64>, parts: &[&str]| {
        refuses("reshape", x, no_attrs().with("shape", shape), parts);
    };
    reshape(vec![7], &["i32[2,3] to [7]", "6 elements for 7"]);
    reshape(vec![-1, -1], &["at most one length of -1"]);
    reshape(vec![-2, 3], &["lengths of 0 or more, or -1"]);
    reshape(vec![4, -1], &["do not divide"]);
    reshape(vec![i64::MAX, i64::MAX], &["more"]);
    refuses(
        "reshape",
        &["f32[0]"],
        no_attrs().with("shape", vec![0, -1]),
        &["could be any length"],
    );
    refuses("reshape", x, no_attrs(), &["shape: missing"]);
}
