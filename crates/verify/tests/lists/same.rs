//! Which instruction the proof of the same operations names.

use millstream_instructions::passes::Outputs;
use millstream_instructions::text::parse_list;
use millstream_verify::same_operations;

const HEADER: &str = "millstream-list 1
stream s0 cpu:0 compute 0 in-order
stream s1 cpu:0 compute 1 in-order
arena a0 cpu:0
external %0 \"x\" f32[4] in 16 bytes of a0
external %1 \"y\" f32[4] in 16 bytes of a0
";

/// Returns what is said of two lists of these instructions.
fn said(before: &str, after: &str) -> String {
    let list = |text: &str| parse_list(&format!("{HEADER}{text}")).unwrap();
    match same_operations(&list(before), &list(after), &Outputs::All) {
        Ok(()) => "the same".to_owned(),
        Err(difference) => difference.to_string(),
    }
}

const CHAIN: &str = "\
AllocateTensor s0 %2 f32[4] as 16 bytes at a0+0 generation 1 # a.py:1
OpCall s0:1 relu (%0 read, %2 write) # a.py:1
AllocateTensor s0 %3 f32[4] as 16 bytes at a0+512 generation 2 # a.py:2
OpCall s0:2 mul (%2 read, %0 read, %3 write) # a.py:2
OpCall s0:3 copy_ (%1 write, %3 read) # a.py:3
";

#[test]
fn names_memory_and_streams_do_not_matter() {
    let other = "\
        AllocateTensor s1 %7 f32[4] as 16 bytes at a0+512 generation 1
        OpCall s1:1 relu (%0 read, %7 write)
        AllocateTensor s1 %9 f32[4] as 16 bytes at a0+0 generation 2
        ViewTensor %8 of %9 f32[4]
        OpCall s1:2 mul (%7 read, %0 read, %8 write)
        OpCall s1:3 copy_ (%1 write, %9 read)";
    assert_eq!(said(CHAIN, other), "the same");
    assert_eq!(said(other, CHAIN), "the same");
}

#[test]
fn a_fused_call_is_its_steps() {
    let fused = |program: &str| {
        format!(
            "AllocateTensor s0 %3 f32[4] as 16 bytes at a0+512 generation 2
            OpCall s0:1 fused (%0 read, %3 write) {{program=\"{program}\"}} # a.py:2
            OpCall s0:2 copy_ (%1 write, %3 read) # a.py:3"
        )
    };
    assert_eq!(said(CHAIN, &fused("relu(%0);mul(#0,%0)")), "the same");
    assert_eq!(
        said(CHAIN, &fused("relu(%0);mul(%0,#0)")),
        "external \"y\" ends with another content
  before: [1] OpCall s0:1 relu (%0 read, %2 write) # a.py:1
  after: [1] OpCall s0:1 fused (%0 read, %3 write) {program=\"relu(%0);mul(%0,#0)\"} # a.py:2"
    );
    assert_eq!(
        said(CHAIN, &fused("relu(%0);mul(#0,%7)")),
        "invalid program: %1 is not used; remove it
  before: nothing
  after: [1] OpCall s0:1 fused (%0 read, %3 write) {program=\"relu(%0);mul(#0,%7)\"} # a.py:2"
    );
}

#[test]
fn the_first_call_that_differs_is_named() {
    let other = CHAIN.replace("relu (%0 read", "relu (%1 read");
    assert_eq!(
        said(CHAIN, &other),
        "external \"y\" ends with another content
  before: [1] OpCall s0:1 relu (%0 read, %2 write) # a.py:1
  after: [1] OpCall s0:1 relu (%1 read, %2 write) # a.py:1"
    );
    let without: String =
        CHAIN.lines().filter(|l| !l.contains("relu")).collect::<Vec<_>>().join("\n");
    assert_eq!(
        said(CHAIN, &without),
        "external \"y\" ends with another content
  before: [1] OpCall s0:1 relu (%0 read, %2 write) # a.py:1
  after: [2] OpCall s0:2 mul (%2 read, %0 read, %3 write) # a.py:2"
    );
    let argument = CHAIN.replace("%3 write) #", "%3 write) {alpha=2} #");
    assert_eq!(
        said(CHAIN, &argument),
        "external \"y\" ends with another content
  before: [3] OpCall s0:2 mul (%2 read, %0 read, %3 write) # a.py:2
  after: [3] OpCall s0:2 mul (%2 read, %0 read, %3 write) {alpha=2} # a.py:2"
    );
}

#[test]
fn side_effects_and_their_order_are_compared() {
    let two =
        "SyncRead s0:1 %0 read into read0 # a.py:1\nSyncRead s0:2 %1 read into read1 # a.py:2";
    let apart =
        "SyncRead s0:1 %0 read into read0 # a.py:1\nSyncRead s1:1 %1 read into read1 # a.py:2";
    let ordered = "SyncRead s0:1 %0 read into read0
        StreamWaitEvent s1:1 until s0:1 by-host
        SyncRead s1:2 %1 read into read1";
    assert_eq!(said(two, ordered), "the same");
    assert_eq!(said(apart, two), "the same", "more order is no difference");
    assert_eq!(
        said(two, apart),
        "SyncRead into read1, number 1 came after SyncRead into read0, number 1, and no longer does
  before: [1] SyncRead s0:2 %1 read into read1 # a.py:2
  after: [1] SyncRead s1:1 %1 read into read1 # a.py:2"
    );
    assert_eq!(
        said(two, "SyncRead s0:1 %0 read into read0"),
        "SyncRead into read1, number 1 is gone
  before: [1] SyncRead s0:2 %1 read into read1 # a.py:2
  after: nothing"
    );
    assert_eq!(
        said("SyncRead s0:1 %0 read into read0", two),
        "SyncRead into read1, number 1 is new
  before: nothing
  after: [1] SyncRead s0:2 %1 read into read1 # a.py:2"
    );
    let changed = format!(
        "OpCall s0:1 neg_ (%1 readwrite) # a.py:0\n{}",
        two.replace("s0:2", "s0:4").replace("s0:1", "s0:3")
    );
    assert_eq!(
        said(two, &changed),
        "SyncRead into read1, number 1 is of other values
  before: [1] SyncRead s0:2 %1 read into read1 # a.py:2
  after: [0] OpCall s0:1 neg_ (%1 readwrite) # a.py:0"
    );
}
