//! Lists in two parts: the calls of constants, and the rest.

use std::collections::BTreeMap;

use millstream_instructions::passes::{CoreCosts, Effort, Folded, Outputs, PassOptions, fold};
use millstream_instructions::text::{parse_list, print_list};
use millstream_types::Result;

const LIST: &str = "millstream-list 1
stream s0 cpu:0 compute 0 in-order
arena a0 cpu:0
external %0 \"x\" f32[4] in 16 bytes of a0
external %1 \"constant 0\" f32[4] in 16 bytes of a0
AllocateTensor s0 %2 f32[4] as 16 bytes at a0+0 generation 1
OpCall s0:1 relu (%1 read, %2 write)
AllocateTensor s0 %3 f32[4] as 16 bytes at a0+512 generation 2
OpCall s0:2 full (%3 write) {shape=[4], value=2}
AllocateTensor s0 %4 f32[4] as 16 bytes at a0+1024 generation 3
OpCall s0:3 mul (%2 read, %3 read, %4 write)
ReleaseTensor %2
ViewTensor %5 of %4 f32[2]
OpCall s0:4 add_ (%0 readwrite, %4 read)
OpCall s0:5 add_ (%0 readwrite, %3 read)
AllocateTensor s0 %6 f32[2] as 8 bytes at a0+0 generation 4
OpCall s0:6 neg (%5 read, %6 write)
OpCall s0:7 neg_ (%6 readwrite)
ReleaseTensor %3
ReleaseTensor %4
";

fn folded(text: &str, most: u64) -> Result<Option<Folded>> {
    let list = parse_list(text).unwrap();
    let ops = millstream_ops::standard();
    let options = PassOptions {
        ops: &ops,
        standard_kernels: &|_| true,
        costs: &CoreCosts::default(),
        streams: 1,
        threads: 1,
        outputs: &Outputs::All,
        effort: Effort::default(),
        budgets: &BTreeMap::new(),
    };
    let is_constant = |k: usize| list.externals[k].name.starts_with("constant");
    fold(&list, &is_constant, most, &options)
}

#[test]
fn calls_of_constants_are_made_once() {
    let Folded { once, rest, results, calls, bytes, .. } = folded(LIST, 64).unwrap().unwrap();
    assert_eq!((calls, bytes, results.len()), (2, 16, 1));
    insta::assert_snapshot!(print_list(&once), @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    arena a0 cpu:0
    external %1 "constant 0" f32[4] in 16 bytes of a0
    external %4 "folded 0" f32[4] in 16 bytes of a0
    AllocateTensor s0 %2 f32[4] as 16 bytes at a0+0 generation 1
    OpCall s0:1 relu (%1 read, %2 write)
    AllocateTensor s0 %3 f32[4] as 16 bytes at a0+512 generation 2
    OpCall s0:2 full (%3 write) {shape=[4], value=2}
    OpCall s0:3 mul (%2 read, %3 read, %4 write)
    ReleaseTensor %2
    ReleaseTensor %3
    "#);
    insta::assert_snapshot!(print_list(&rest), @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    arena a0 cpu:0
    external %0 "x" f32[4] in 16 bytes of a0
    external %1 "constant 0" f32[4] in 16 bytes of a0
    external %4 "folded 0" f32[4] in 16 bytes of a0
    AllocateTensor s0 %3 f32[4] as 16 bytes at a0+512 generation 2
    OpCall s0:1 full (%3 write) {shape=[4], value=2}
    ViewTensor %5 of %4 f32[2]
    OpCall s0:2 add_ (%0 readwrite, %4 read)
    OpCall s0:3 add_ (%0 readwrite, %3 read)
    AllocateTensor s0 %6 f32[2] as 8 bytes at a0+0 generation 4
    OpCall s0:4 neg (%5 read, %6 write)
    OpCall s0:5 neg_ (%6 readwrite)
    ReleaseTensor %3
    "#);
}

/// The results take no more than they may; the last calls are made in each launch then.
#[test]
fn results_are_bounded() {
    assert!(folded(LIST, 16).unwrap().is_some());
    // That of `relu` is no smaller.
    assert!(folded(LIST, 15).unwrap().is_none());
    let without = LIST.replace("constant 0", "y");
    assert!(folded(&without, 64).unwrap().is_none());
}

/// A storage that is written twice, one that is partly written, and one whose call takes a
/// number of the launch are none of a constant alone.
#[test]
fn what_changes_is_not_folded() {
    let header = "millstream-list 1
stream s0 cpu:0 compute 0 in-order
arena a0 cpu:0
external %0 \"x\" f32[4] in 16 bytes of a0
external %1 \"constant 0\" f32[4] in 16 bytes of a0
scalar $0 \"factor\" 0.5
AllocateTensor s0 %2 f32[4] as 32 bytes at a0+0 generation 1
";
    for calls in [
        "OpCall s0:1 mul (%1 read, %2 write) {other=$0}",
        "OpCall s0:1 mul (%1 read, %2 readwrite) {other=3}",
        "OpCall s0:1 mul (%1 read, %0 read, %2 write)",
        "OpCall s0:1 mul (%1 read, %0 write) {other=3}\nOpCall s0:2 neg (%1 read, %2 write)",
    ] {
        let text = format!("{header}{calls}\nOpCall s0:3 add_ (%0 readwrite, %2 read)");
        assert!(folded(&text, 64).unwrap().is_none(), "{calls}");
    }
    let error = folded(&format!("{header}OpCall s0:1 neg_ (%1 readwrite)"), 64).unwrap_err();
    assert!(error.to_string().contains("\"constant 0\" is a constant, and the list writes it"));
}
