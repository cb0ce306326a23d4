//! Chakra's traces, written here: as messages and as JSON.

use millstream_profile::model::Role;
use millstream_profile::order::{Order, critical_path};
use millstream_timelines::read_bytes;
use prost::Message;

use crate::{check, described, waits};

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int64, optional, tag = "9")]
    int64_val: Option<i64>,
    #[prost(bool, optional, tag = "27")]
    bool_val: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(uint64, repeated, tag = "5")]
    data_deps: Vec<u64>,
    #[prost(uint64, tag = "6")]
    start: u64,
    #[prost(uint64, tag = "7")]
    duration: u64,
    #[prost(message, repeated, tag = "10")]
    attr: Vec<Attribute>,
}

fn node(id: u64, name: &str, kind: i32, deps: &[u64], duration: u64) -> Node {
    let (name, data_deps) = (name.to_owned(), deps.to_vec());
    Node { id, name, kind, data_deps, start: 0, duration, attr: Vec::new() }
}

/// Returns the bytes of a trace: each message with its length before it.
fn file(nodes: &[Node]) -> Vec<u8> {
    let metadata = Metadata { version: "0.0.4".to_owned() };
    let mut bytes = metadata.encode_length_delimited_to_vec();
    nodes.iter().for_each(|node| bytes.extend(node.encode_length_delimited_to_vec()));
    bytes
}

#[test]
fn nodes_without_times_begin_as_soon_as_they_can() {
    let nodes = [
        node(0, "load", 2, &[], 2),
        node(1, "layer 0", 4, &[0], 10),
        node(2, "layer 1", 4, &[1], 10),
        node(3, "all-reduce 0", 7, &[1], 15),
        node(4, "optimizer", 4, &[2, 3], 5),
    ];
    let profile = read_bytes("generated.et", file(&nodes)).unwrap().profile;
    check(&profile);
    assert_eq!(profile.total, 32_000);
    let expected = [
        "wait on compute < load on memory",
        "wait on communication < layer 0 on compute",
        "wait on compute < all-reduce 0 on communication",
    ];
    assert_eq!(waits(&profile), expected);
    let optimizer = profile.instructions.last().unwrap();
    assert_eq!(optimizer.times.unwrap().start, 27_000);
    assert!(profile.remarks[0].contains("durations and no times"), "{:?}", profile.remarks);
    let path = critical_path(&profile, &Order::of(&profile));
    assert_eq!(path.iter().map(|part| part.end - part.start).sum::<u64>(), 32_000);
}

#[test]
fn recorded_nodes_keep_their_threads_streams_and_times() {
    let attr =
        |name: &str, int64_val| Attribute { name: name.to_owned(), int64_val, bool_val: None };
    let is_host =
        |host| Attribute { name: "is_cpu_op".to_owned(), int64_val: None, bool_val: Some(host) };
    let mut op = node(5, "aten::mm", 4, &[], 8);
    (op.start, op.attr) = (100, vec![is_host(true), attr("tid", Some(1))]);
    let mut kernel = node(6, "gemm", 4, &[5], 20);
    (kernel.start, kernel.attr) = (110, vec![is_host(false), attr("stream", Some(7))]);
    let profile = read_bytes("recorded.et", file(&[kernel, op])).unwrap().profile;
    check(&profile);
    let shown: Vec<(String, u64)> =
        profile.shown().map(|(k, _, t)| (described(&profile, k as u32), t.start)).collect();
    let expected =
        [("aten::mm on thread 1", 0), ("wait on stream 7", 0), ("gemm on stream 7", 10_000)];
    assert_eq!(shown, expected.map(|(text, at)| (text.to_owned(), at)));
}

/// Two nodes, as the JSON of Chakra's converter has them.
pub(crate) const TWO_NODES: &str = r#"{"version": "0.0.4"}
{"id": "0", "name": "load", "type": "MEM_LOAD_NODE", "durationMicros": "2"}
{"id": "1", "name": "layer", "type": "COMP_NODE", "dataDeps": ["0"], "durationMicros": "10",
 "attr": [{"name": "is_cpu_op", "boolVal": false}]}
"#;

/// Returns the same nodes as messages.
pub(crate) fn two_nodes() -> Vec<u8> {
    file(&[node(0, "load", 2, &[], 2), node(1, "layer", 4, &[0], 10)])
}

#[test]
fn the_json_of_its_converter_is_the_same() {
    let json = read_bytes("a", TWO_NODES.as_bytes().to_vec()).unwrap().profile;
    check(&json);
    assert_eq!(json, read_bytes("a", two_nodes()).unwrap().profile);
    let wrong = TWO_NODES.replace("COMP_NODE", "COMPUTE");
    let error = read_bytes("a", wrong.into_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("a: object 3: type 'COMPUTE' is not known: expected"), "{error}");
}

#[test]
fn damaged_messages_are_errors() {
    let nodes = [node(0, "load", 2, &[], 2), node(1, "layer", 4, &[0, 1, 9], 10)];
    let bytes = file(&nodes);
    let profile = read_bytes("a", bytes.clone()).unwrap().profile;
    assert!(profile.remarks.iter().any(|r| r.starts_with("1 dependences name nodes")));
    let error = read_bytes("a", bytes[..bytes.len() - 2].to_vec()).unwrap_err().to_string();
    assert!(error.contains("a: message 3: it has 16 of 18 bytes"), "{error}");
    let twice = file(&[node(4, "a", 4, &[], 1), node(4, "b", 4, &[], 1)]);
    let error = read_bytes("a", twice).unwrap_err().to_string();
    assert_eq!(error, "a: two nodes have the id 4");
    for at in 0..bytes.len() {
        for byte in [0, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            if let Ok(timeline) = read_bytes("a", damaged) {
                check(&timeline.profile);
            }
        }
    }
}

#[test]
fn a_cycle_is_said() {
    let nodes = [node(0, "a", 4, &[1], 1), node(1, "b", 7, &[0], 1)];
    let profile = read_bytes("a", file(&nodes)).unwrap().profile;
    assert!(profile.remarks.iter().any(|r| r.contains("in a cycle")), "{:?}", profile.remarks);
    assert_eq!(profile.instructions.iter().filter(|i| i.role == Role::Work).count(), 2);
}
