//! The groups and reductions of recorded collectives, in all spellings.

use millstream_trace::{Action, Body, Call, EtOptions, Program};
use millstream_types::AttrValue;

use crate::execution_traces::{Folder, NONE, file, node, one, standard, tensor};

const BROADCAST: &str = "c10d::broadcast_(Tensor[] tensors, Object process_group, int root_rank, \
                         int root_tensor, bool async_op=True, int timeout=-1) -> (Tensor[], Object)";
const ALLREDUCE: &str = "c10d::allreduce_(Tensor[] tensors, Object process_group, Object \
                         reduce_op, Tensor? sparse_indices, bool async_op=True, int timeout=-1) -> \
                         (Tensor[], Object)";
const FUNCTIONAL: &str =
    "_c10d_functional::all_reduce(Tensor input, Any reduce_op, Any group_name) -> Tensor";

/// The groups of rank 2: all ranks, two of the same ranks, another one.
const NAMED: &str = r#"[
    {"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 4, "group_count": 6},
    {"pg_name": "2", "pg_desc": "undefined", "ranks": [1, 2], "group_size": 2, "group_count": 6},
    {"pg_name": "5", "pg_desc": "undefined", "ranks": [1, 2], "group_size": 2, "group_count": 6},
    {"pg_name": "4", "pg_desc": "undefined", "ranks": [0, 2, 3], "group_size": 3, "group_count": 6}
]"#;

/// The same before groups had names, with the ranks as tables.
const BY_ADDRESS: &str = r#"[
    {"pg_id": 9000, "ranks": {}, "group_size": 4, "group_count": 6},
    {"pg_id": 9001, "ranks": {"1": 0, "2": 1}, "group_size": 2, "group_count": 6},
    {"pg_id": 9002, "ranks": {"1": 0, "2": 1}, "group_size": 2, "group_count": 6},
    {"pg_id": 9003, "ranks": {"0": 0, "2": 1, "3": 2}, "group_size": 3, "group_count": 6}
]"#;

fn below(caller: u32, node: &str) -> String {
    node.replace("\"ctrl_deps\":1", &format!("\"ctrl_deps\":{caller}"))
}

/// Returns the label that lists the groups.
fn listed(groups: &str) -> String {
    let text = serde_json::to_string(groups).unwrap();
    node(5, "## process_group:init ##", "", &one(&text, "[]", "String", "[]"), NONE)
}

/// Returns the node of a collective on x, with further arguments as (value, type).
fn collective(schema: &str, more: &[(&str, &str)]) -> String {
    let x = ("[[5,6,0,6,4,\"cpu\"]]", "GenericList[Tensor(float)]");
    let args: Vec<(&str, &str)> = [x].into_iter().chain(more.iter().copied()).collect();
    let of = |f: &dyn Fn(usize) -> String| (0..args.len()).map(f).collect::<Vec<_>>().join(",");
    let inputs = format!(
        r#"{{"values":[{}],"shapes":[{}],"types":[{}],"strides":[{}]}}"#,
        of(&|k| args[k].0.to_owned()),
        of(&|k| if k == 0 { "[[2,3]]".to_owned() } else { "[]".to_owned() }),
        of(&|k| format!("\"{}\"", args[k].1)),
        of(&|k| if k == 0 { "[[3,1]]".to_owned() } else { "[]".to_owned() }),
    );
    let results = one(x.0, "[[2,3]]", x.1, "[[3,1]]");
    node(7, schema.split('(').next().unwrap(), schema, &inputs, &results)
}

fn broadcast(root: &str) -> String {
    collective(BROADCAST, &[("\"<Object>\"", "Object"), (root, "Int"), ("0", "Int")])
}

fn allreduce() -> String {
    let object = ("\"<Object>\"", "Object");
    collective(ALLREDUCE, &[object, object, ("\"<None>\"", "None")])
}

fn loaded(nodes: Vec<String>, meta: &str, options: EtOptions) -> Result<Program, String> {
    let nodes: Vec<String> = standard().into_iter().chain(nodes).collect();
    let folder = Folder::new(&file("1.1.1", &nodes));
    folder.with("meta.json", meta.as_bytes());
    folder.load_as(options).map_err(|e| e.to_string())
}

/// Returns the only collective of a trace with these nodes.
fn call(nodes: Vec<String>, meta: &str) -> Result<Call, String> {
    let program = loaded(nodes, meta, EtOptions::default())?;
    let Body::Statements(block) = &program.body else { panic!("statements") };
    let calls = block.statements.iter().filter_map(|statement| match &statement.action {
        Action::Call(call) if call.stream.is_some() => Some((**call).clone()),
        _ => None,
    });
    let calls: Vec<Call> = calls.collect();
    assert_eq!(calls.len(), 1);
    Ok(calls[0].clone())
}

/// A node that names the group of the collective above it.
fn comms(values: &str, types: &str, attrs: &str) -> String {
    let node = node(8, "record_param_comms", "", &one(values, "[]", types, "[]"), NONE);
    let attrs = format!("\"attrs\":[{attrs}");
    below(7, &node.replacen("\"attrs\":[", &attrs, 1))
}

#[test]
fn every_spelling_of_a_group() {
    let int = |text: &str| comms(text, "Int", "");
    let spellings = [
        // Since 2.4: attributes.
        (NAMED, comms("3", "Int", r#"{"name":"pg_name","type":"string","value":"5"},"#)),
        // 2.3: a tuple of name and description.
        (NAMED, comms(r#"["5","undefined"]"#, "Tuple[String,String]", "")),
        // Before: the address of the group.
        (BY_ADDRESS, int("9002")),
    ];
    for (groups, comms) in spellings {
        let call = call(vec![listed(groups), broadcast("1"), comms.clone()], "{}");
        let attrs = call.unwrap_or_else(|e| panic!("{comms}: {e}")).attrs;
        assert_eq!(attrs.ints("group").unwrap(), Some(vec![1, 2]), "{comms}");
        assert_eq!(attrs.int("group_index").unwrap(), Some(1), "the second of these ranks");
        assert_eq!(attrs.int("root").unwrap(), Some(2), "position 1 of ranks 1 and 2");
    }
}

#[test]
fn a_recorder_names_group_and_reduction() {
    let meta = r#"{"collectives": {"7": {"group": "4", "op": "max"}}}"#;
    let attrs = call(vec![listed(NAMED), allreduce()], meta).unwrap().attrs;
    assert_eq!(attrs.ints("group").unwrap(), Some(vec![0, 2, 3]));
    assert_eq!(attrs.int("group_index").unwrap(), None);
    assert_eq!(attrs.get("op"), Some(&AttrValue::Str("max".to_owned())));
}

/// The op that calls the collective names both; its own node is not executed.
#[test]
fn a_functional_collective_names_group_and_reduction() {
    let args = r#"{"values":[[5,6,0,6,4,"cpu"],"avg","4"],"shapes":[[2,3],[],[]],
        "types":["Tensor(float)","String","String"],"strides":[[3,1],[],[]]}"#;
    let functional = node(6, "_c10d_functional::all_reduce", FUNCTIONAL, args, &tensor(5, 6));
    let wait = "_c10d_functional::wait_tensor(Tensor tensor) -> Tensor";
    let wait = node(9, "_c10d_functional::wait_tensor", wait, &tensor(5, 6), &tensor(5, 6));
    let nodes = vec![listed(NAMED), functional, below(6, &allreduce()), wait];
    let attrs = call(nodes, "{}").unwrap().attrs;
    assert_eq!(attrs.ints("group").unwrap(), Some(vec![0, 2, 3]));
    assert_eq!(attrs.get("op"), Some(&AttrValue::Str("mean".to_owned())));
}

#[test]
fn one_group_needs_no_name() {
    let one = r#"[{"pg_name": "0", "ranks": [], "group_size": 4}]"#;
    for nodes in [vec![broadcast("3")], vec![listed(one), broadcast("3")]] {
        let attrs = call(nodes, "{}").unwrap().attrs;
        assert_eq!((attrs.ints("group").unwrap(), attrs.int("root").unwrap()), (None, Some(3)));
    }
}

#[test]
fn a_group_that_is_not_recorded_is_refused() {
    let error = call(vec![listed(NAMED), broadcast("1")], "{}").unwrap_err();
    assert!(error.contains("4 process groups, and not which of them"), "{error}");
    let structural = EtOptions { structural: true, ..EtOptions::default() };
    assert!(loaded(vec![listed(NAMED), broadcast("1")], "{}", structural).is_ok());
    let meta = r#"{"collectives": {"7": {"group": "7"}}}"#;
    let error = call(vec![listed(NAMED), broadcast("1")], meta).unwrap_err();
    assert!(error.contains("process group '7' is not among those listed"), "{error}");
    let meta = r#"{"collectives": {"7": {"group": "2"}}}"#;
    let error = call(vec![listed(NAMED), broadcast("2")], meta).unwrap_err();
    assert!(error.contains("position 2 in a group of 2 ranks"), "{error}");
    let meta = r#"{"collectives": {"7": {"group": "2", "op": "band"}}}"#;
    let error = call(vec![listed(NAMED), allreduce()], meta).unwrap_err();
    assert!(error.contains("the reduction 'band'"), "{error}");
}
