//! The import of execution traces: which elements are known, and the data that traces lose.

use millstream_trace::EtOptions;

use crate::execution_traces::{
    BINDINGS, Folder, NONE, RELU, calls, file, node, one, refuses, standard, tensor, tensors,
};

/// Returns the text of a node below another one.
fn below(parent: u32, node: String) -> String {
    node.replacen("\"ctrl_deps\":1", &format!("\"ctrl_deps\":{parent}"), 1)
}

/// Returns a trace whose output is the tensor that the last node returns, in the storage 8.
pub(crate) fn ending(nodes: Vec<String>) -> Folder {
    let id = nodes.len() as u32 + 1;
    let mut nodes = nodes;
    nodes.push(node(id, "bind:out/y", "", &tensor(7, 8), NONE));
    let folder = Folder::new(&file("1.1.1", &nodes));
    let bindings = BINDINGS.replace("\"node\":4", &format!("\"node\":{id}"));
    folder.with("bindings.json", bindings.as_bytes());
    folder
}

#[test]
fn an_address_that_an_inner_op_allocates_is_no_longer_its_tensor() {
    let empty = "aten::empty(int[] size) -> Tensor";
    let trace = |inner_storage| {
        let mut nodes = standard()[..3].to_vec();
        // The second relu allocates a tensor that no executed node returns.
        nodes.push(node(4, "aten::relu", RELU, &tensor(5, 6), &tensor(9, 10)));
        nodes.push(below(4, node(5, "aten::empty", empty, NONE, &tensor(11, inner_storage))));
        nodes.push(node(6, "aten::relu", RELU, &tensor(7, 8), &tensor(7, 8)));
        ending(nodes)
    };
    trace(12).load().unwrap();
    refuses(&trace(8), &["node 6 (aten::relu)", "operand 0, f32[2,3]", "no input names"]);
}

#[test]
fn autograd_copies_an_operand_before_an_op_in_place() {
    let clone = "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor";
    let sin_ = "aten::sin_(Tensor(a!) self) -> Tensor(a!)";
    let mut nodes = standard()[..3].to_vec();
    nodes.push(node(4, "aten::sin_", sin_, &tensor(7, 8), &tensor(7, 8)));
    nodes.push(below(4, node(5, "aten::clone", clone, &tensor(7, 8), &tensor(9, 10))));
    nodes.push(node(6, "aten::relu", RELU, &tensor(9, 10), &tensor(7, 8)));
    let program = ending(nodes).load().unwrap();
    assert_eq!(calls(&program), ["relu(1){}", "clone(1){}", "sin_(1){}", "relu(1){}"]);
}

#[test]
fn a_tensor_without_a_source_is_not_read() {
    let mut nodes = standard();
    nodes[2] = node(3, "aten::relu", RELU, &tensor(50, 60), &tensor(7, 8));
    let folder = Folder::new(&file("1.1.1", &nodes));
    refuses(&folder, &["node 3 (aten::relu)", "no input names and no op wrote"]);
    let structural = EtOptions { structural: true, ..EtOptions::default() };
    assert_eq!(folder.load_as(structural).unwrap().imported.unwrap().made_up, 1);
    // An op that overwrites all of it makes it known.
    let fill = "aten::zero_(Tensor(a!) self) -> Tensor(a!)";
    nodes[2] = node(3, "aten::zero_", fill, &tensor(7, 8), &tensor(7, 8));
    Folder::new(&file("1.1.1", &nodes)).load().unwrap();
}

#[test]
fn results_that_depend_on_elements_of_no_source_are_unknown() {
    let empty = "aten::empty_like(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor";
    let fill = "aten::zero_(Tensor(a!) self) -> Tensor(a!)";
    let add = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)";
    let both = r#"{"values":[[5,6,0,6,4,"cpu"],[9,10,0,6,4,"cpu"],1],"shapes":[[2,3],[2,3],[]],
        "types":["Tensor(float)","Tensor(float)","Int"],"strides":[[3,1],[3,1],[]]}"#;
    let trace = |between: Option<String>| {
        let mut nodes = standard()[..2].to_vec();
        nodes.push(node(3, "aten::empty_like", empty, &tensor(5, 6), &tensor(9, 10)));
        nodes.push(between.unwrap_or_else(|| node(4, "label", "", NONE, NONE)));
        nodes.push(node(5, "aten::add_", add, both, &tensor(5, 6)));
        nodes.push(node(6, "aten::relu", RELU, &tensor(5, 6), &tensor(7, 8)));
        ending(nodes)
    };
    refuses(&trace(None), &["node 6 (aten::relu)", "since node 3"]);
    trace(Some(node(4, "aten::zero_", fill, &tensor(9, 10), &tensor(9, 10)))).load().unwrap();
}

/// A tensor of a recorded node: its number, its storage, its offset, and each length and stride.
#[derive(Clone)]
struct Part(usize, u32, usize, Vec<[usize; 2]>);

/// Returns the operands of a node: tensors, then other values with their types.
fn operands(parts: &[&Part], others: &[(String, &str)]) -> String {
    let [mut values, mut shapes, mut strides, mut types] = [const { Vec::new() }; 4];
    for Part(id, storage, offset, dims) in parts {
        let of = |k: usize| format!("{:?}", dims.iter().map(|dim| dim[k]).collect::<Vec<_>>());
        let count: usize = dims.iter().map(|dim| dim[0]).product();
        values.push(format!("[{id},{storage},{offset},{count},4,\"cpu\"]"));
        shapes.push(of(0));
        strides.push(of(1));
        types.push("\"Tensor(float)\"".to_owned());
    }
    for (value, ty) in others {
        values.push(value.clone());
        shapes.push("[]".to_owned());
        strides.push("[]".to_owned());
        types.push(format!("{ty:?}"));
    }
    let [values, shapes, strides, types] =
        [values, shapes, strides, types].map(|list| list.join(","));
    format!(
        r#"{{"values":[{values}],"shapes":[{shapes}],"strides":[{strides}],"types":[{types}]}}"#
    )
}

/// Circular padding copies sides of its result to one another, with corners that no op has written
/// yet, and writes those later.
#[test]
fn circular_padding_of_volumes() {
    let empty = "aten::new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? \
                 layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    let strided = "aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? \
                   storage_offset=None) -> Tensor(a)";
    let copy = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)";
    let mut nodes = standard()[..2].to_vec();
    let push = |nodes: &mut Vec<String>, name: &str, schema: &str, given: &str, made: &Part| {
        let id = nodes.len() as u32 + 1;
        nodes.push(node(id, name, schema, given, &operands(&[made], &[])));
    };
    let view = |nodes: &mut Vec<String>, of: &Part, offset: usize, dims: &[[usize; 2]]| {
        let part = Part(30 + nodes.len(), of.1, offset, dims.to_vec());
        let list = |k: usize| format!("{:?}", dims.iter().map(|dim| dim[k]).collect::<Vec<_>>());
        let ty = format!("GenericList[{}]", vec!["Int"; dims.len()].join(","));
        let layout = [(list(0), &*ty), (list(1), &*ty), (offset.to_string(), "Int")];
        push(nodes, "aten::as_strided", strided, &operands(&[of], &layout), &part);
        part
    };
    let copied = |nodes: &mut Vec<String>, to: &Part, from: &Part| {
        let given = operands(&[to, from], &[("false".to_owned(), "Bool")]);
        push(nodes, "aten::copy_", copy, &given, to);
    };
    // A volume of [1, 2, 3], of which each side grows by one.
    let x = Part(5, 6, 0, vec![[2, 3], [3, 1]]);
    let x = view(&mut nodes, &x, 0, &[[1, 6], [2, 3], [3, 1]]);
    let dims = [[3, 20], [4, 5], [5, 1]];
    let out = Part(20, 21, 0, dims.to_vec());
    let none = || ("\"<None>\"".to_owned(), "None");
    let size = ("[3,4,5]".to_owned(), "GenericList[Int,Int,Int]");
    let given = operands(&[&x], &[size, none(), none(), none(), none()]);
    push(&mut nodes, "aten::new_empty", empty, &given, &out);
    let cause = format!("since node {}", nodes.len());
    let centre = view(&mut nodes, &out, 26, &[[1, 20], [2, 5], [3, 1]]);
    copied(&mut nodes, &centre, &x);
    for k in [2, 1, 0] {
        let [length, stride] = dims[k];
        for (to, from) in [(0, length - 2), (length - 1, 1)] {
            let mut side = dims;
            side[k][0] = 1;
            let to = view(&mut nodes, &out, to * stride, &side);
            let from = view(&mut nodes, &out, from * stride, &side);
            copied(&mut nodes, &to, &from);
        }
    }
    let result = |nodes: &[String]| {
        let mut nodes = nodes.to_vec();
        let corner = view(&mut nodes, &out, 52, &[[2, 5], [3, 1]]);
        let y = Part(7, 8, 0, vec![[2, 3], [3, 1]]);
        push(&mut nodes, "aten::relu", RELU, &operands(&[&corner], &[]), &y);
        ending(nodes).load()
    };
    let program = result(&nodes).unwrap();
    assert_eq!(calls(&program).iter().filter(|call| call.starts_with("copy_")).count(), 7);
    // Without the last copy, that corner has elements that no op has written.
    let error = result(&nodes[..nodes.len() - 1]).unwrap_err().to_string();
    assert!(error.contains(&cause), "{error}");
}

/// `vmap` passes memory that no op wrote in place of an operand that no requested gradient needs.
#[test]
fn a_masked_gradient_reads_no_operand_for_it() {
    let strided = "aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? \
                   storage_offset=None) -> Tensor(a)";
    let empty = "aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None) -> Tensor";
    let backward = "aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, \
                    SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, \
                    bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) \
                    -> (Tensor, Tensor, Tensor)";
    let list = |value: &str, ty: &str| (value.to_owned(), format!("GenericList[{ty}]"));
    let trace = |mask: &str| {
        let mut nodes = standard()[..2].to_vec();
        let mut push = |name: &str,
                        schema: &str,
                        given: &[&Part],
                        rest: &[(String, String)],
                        made| {
            let rest: Vec<_> = rest.iter().map(|(value, ty)| (value.clone(), &**ty)).collect();
            let made = operands(&[made], &[]);
            nodes.push(node(nodes.len() as u32 + 1, name, schema, &operands(given, &rest), &made));
        };
        let whole = Part(5, 6, 0, vec![[2, 3], [3, 1]]);
        let image = Part(30, 6, 0, vec![[1, 6], [3, 1], [1, 1]]);
        let grad = Part(31, 6, 0, vec![[1, 6], [2, 1], [1, 1]]);
        let weight = Part(32, 33, 0, vec![[2, 3], [3, 1], [1, 1]]);
        for (view, shape, strides) in
            [(&image, "[1,3,1]", "[6,1,1]"), (&grad, "[1,2,1]", "[6,1,1]")]
        {
            let sizes = [list(shape, "Int,Int,Int"), list(strides, "Int,Int,Int")];
            push("aten::as_strided", strided, &[&whole], &sizes, view);
        }
        let size = [list("[2,3,1]", "Int,Int,Int"), ("6".to_owned(), "Int".to_owned())];
        push("aten::empty", empty, &[], &size, &weight);
        let one = || list("[1]", "Int");
        let zero = || list("[0]", "Int");
        let rest = [
            ("\"<None>\"".to_owned(), "None".to_owned()),
            one(),
            zero(),
            one(),
            ("false".to_owned(), "Bool".to_owned()),
            zero(),
            ("1".to_owned(), "Int".to_owned()),
            list(mask, "Bool,Bool,Bool"),
        ];
        let result = Part(40, 8, 0, vec![[2, 3], [3, 1], [1, 1]]);
        push("aten::convolution_backward", backward, &[&grad, &image, &weight], &rest, &result);
        let sizes = [list("[2,3]", "Int,Int"), list("[3,1]", "Int,Int")];
        let y = Part(7, 8, 0, vec![[2, 3], [3, 1]]);
        push("aten::as_strided", strided, &[&result], &sizes, &y);
        // The recorded results are an undefined tensor, the gradient of the weight, and another.
        let undefined = "[0,0,0,0,0,\"\"]";
        let gradient = "[40,8,0,6,4,\"cpu\"]";
        let made = format!(
            r#"{{"values":[{undefined},{gradient},{undefined}],"shapes":[[],[2,3,1],[]],
                "types":["Tensor(nullptr (uninitialized))","Tensor(float)",
                         "Tensor(nullptr (uninitialized))"],"strides":[[],[3,1,1],[]]}}"#
        );
        nodes[5] = nodes[5].replace(&operands(&[&result], &[]), &made);
        ending(nodes)
    };
    trace("[false,true,false]").load().unwrap();
    refuses(&trace("[true,true,false]"), &["since node 5"]);
}

#[test]
fn elements_beside_a_named_view_are_not_read() {
    let view = "aten::as_strided(Tensor(a) self, int[] size, int[] stride, int? \
                storage_offset=None) -> Tensor(a)";
    let trace = |offset: u32| {
        let inputs = format!(
            r#"{{"values":[[5,6,0,6,4,"cpu"],[2],[1],{offset}],"shapes":[[2,3],[],[],[]],
                "types":["Tensor(float)","GenericList[Int]","GenericList[Int]","Int"],
                "strides":[[3,1],[],[],[]]}}"#
        );
        let part = |id, storage, offset| {
            let value = format!("[{id},{storage},{offset},2,4,\"cpu\"]");
            one(&value, "[2]", "Tensor(float)", "[1]")
        };
        let mut nodes = standard();
        nodes.insert(3, node(4, "aten::as_strided", view, &inputs, &part(9, 6, offset)));
        nodes[4] = node(5, "aten::relu", RELU, &part(9, 6, offset), &part(10, 11, 0));
        nodes.push(node(6, "bind:out/y", "", &tensor(7, 8), NONE));
        let folder = Folder::new(&file("1.1.1", &nodes));
        let bindings = BINDINGS.replace("\"node\":4", "\"node\":6");
        folder.with("bindings.json", bindings.as_bytes());
        folder
    };
    trace(4).load().unwrap();
    for beyond in [5, 6, 100] {
        refuses(&trace(beyond), &["node 5 (aten::relu)", "operand 0, f32[2]", "no input names"]);
    }
}

#[test]
fn an_expanded_input_of_known_elements_is_not_copied() {
    let expanded = one(r#"[9,6,0,6,4,"cpu"]"#, "[2,3]", "Tensor(float)", "[0,1]");
    let mut nodes = standard()[..2].to_vec();
    nodes.push(node(3, "bind:in/z", "", &expanded, NONE));
    nodes.push(node(4, "aten::relu", RELU, &expanded, &tensor(7, 8)));
    let folder = ending(nodes);
    let z = r#""in/z": {"et":[9,6,0,6,4,"cpu"],"shape":[2,3],"node":3}, "out/y""#;
    let bindings = BINDINGS.replace("\"node\":4", "\"node\":5").replace("\"out/y\"", z);
    folder.with("bindings.json", bindings.as_bytes());
    folder.with("tensors.safetensors", &tensors(&["in/x", "in/z", "out/y"]));
    let program = folder.load().unwrap();
    assert!(calls(&program).iter().all(|call| !call.starts_with("copy_")));
}

#[test]
fn an_op_that_changes_its_operand_is_none_that_returns_a_new_tensor() {
    let relu = "aten::relu_(Tensor self) -> Tensor";
    let mut nodes = standard();
    nodes[2] = node(3, "aten::relu_", relu, &tensor(5, 6), &tensor(5, 6));
    refuses(&Folder::new(&file("1.1.1", &nodes)), &["'relu_' changes its operand"]);
}

#[test]
fn lists_of_fractions_are_exact() {
    let mul = "aten::_foreach_mul.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]";
    let list = r#"[[[5,6,0,6,4,"cpu"]],[0.333333]]"#;
    let inputs = format!(
        r#"{{"values":{list},"shapes":[[[2,3]],[]],"types":["GenericList[Tensor(float)]",
            "GenericList[Double]"],"strides":[[[3,1]],[]]}}"#
    );
    let outputs = r#"{"values":[[[7,8,0,6,4,"cpu"]]],"shapes":[[[2,3]]],
        "types":["GenericList[Tensor(float)]"],"strides":[[[3,1]]]}"#;
    let mut nodes = standard();
    nodes[2] = node(3, "aten::_foreach_mul", mul, &inputs, outputs);
    let folder = Folder::new(&file("1.1.1", &nodes));
    assert_eq!(calls(&folder.load().unwrap()), ["mul(1){other=0.333333}"]);
    let exact = |list: &str| format!(r#"[{{"node":3,"arg":1,"list":{list}}}]"#);
    folder.with("consts.json", exact("[0.3333333333333333]").as_bytes());
    assert_eq!(calls(&folder.load().unwrap()), ["mul(1){other=0.3333333333333333}"]);
    folder.with("consts.json", exact("[0.5, 2]").as_bytes());
    refuses(&folder, &["node 3", "argument 1 has 1 numbers, and consts.json has 2"]);
    folder.with("consts.json", exact("[true, {}]").as_bytes());
    refuses(&folder, &["consts.json", "'list' is not of numbers"]);
}

#[test]
fn only_a_tensor_without_elements_is_resized() {
    let resize = "aten::resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? \
                  memory_format=None) -> Tensor(a!)";
    let given = |size: &str, types: &str| {
        format!(
            r#"{{"values":[[5,6,0,6,4,"cpu"],{size}],"shapes":[[2,3],[[]]],
                "types":["Tensor(float)","GenericList[{types}]"],"strides":[[3,1],[[]]]}}"#
        )
    };
    let mut nodes = standard()[..2].to_vec();
    nodes.push(node(3, "aten::resize_", resize, &given("[9]", "Int"), &tensor(5, 6)));
    nodes.push(node(4, "aten::relu", RELU, &tensor(5, 6), &tensor(7, 8)));
    refuses(&ending(nodes.clone()), &["node 3 (aten::resize_)", "a resize of f32[2,3] to [9]"]);
    nodes[2] = node(3, "aten::resize_", resize, &given("[2,3]", "Int,Int"), &tensor(5, 6));
    assert_eq!(calls(&ending(nodes.clone()).load().unwrap()), ["relu(1){}"]);
    // As many elements in another shape are a view of them.
    let flat = one("[5,6,0,6,4,\"cpu\"]", "[6]", "Tensor(float)", "[1]");
    nodes[2] = node(3, "aten::resize_", resize, &given("[6]", "Int"), &flat);
    let back = given("[2,3]", "Int,Int").replace("[[2,3],[[]]]", "[[6],[[]]]");
    let back = back.replace("[[3,1],[[]]]", "[[1],[[]]]");
    nodes[3] = node(4, "aten::resize_", resize, &back, &tensor(5, 6));
    nodes.push(node(5, "aten::relu", RELU, &tensor(5, 6), &tensor(7, 8)));
    let program = ending(nodes).load().unwrap();
    let views =
        ["as_strided(1){size=[6], stride=[1]}", "as_strided(1){size=[2, 3], stride=[3, 1]}"];
    assert_eq!(calls(&program), [views[0], views[1], "relu(1){}"]);
}
