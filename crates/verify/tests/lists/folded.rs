//! The proof that two lists, of which one runs once, do what a list does.

use std::collections::BTreeSet;

use millstream_instructions::text::parse_list;
use millstream_verify::same_when_folded;

const HEADER: &str = "millstream-list 1
stream s0 cpu:0 compute 0 in-order
arena a0 cpu:0
external %0 \"x\" f32[4] in 16 bytes of a0
external %1 \"constant 0\" f32[4] in 16 bytes of a0
external %2 \"folded 0\" f32[4] in 16 bytes of a0
";
const WHOLE: &str = "OpCall s0:1 relu (%1 read, %2 write)
OpCall s0:2 add_ (%0 readwrite, %2 read)";
const ONCE: &str = "OpCall s0:1 relu (%1 read, %2 write)";
const REST: &str = "OpCall s0:1 add_ (%0 readwrite, %2 read)";

fn difference(whole: &str, once: &str, rest: &str) -> Option<String> {
    let list = |calls: &str| parse_list(&format!("{HEADER}{calls}")).unwrap();
    let results = BTreeSet::from(["folded 0".to_owned()]);
    let compared = same_when_folded(&list(whole), &list(once), &list(rest), &results);
    compared.err().map(|difference| difference.what)
}

#[test]
fn both_parts_do_what_the_list_does() {
    assert_eq!(difference(WHOLE, ONCE, REST), None);
    // The result may be made again.
    assert_eq!(difference(WHOLE, ONCE, WHOLE), None);
}

#[test]
fn wrong_parts_are_found() {
    let of = |once: &str, rest: &str| difference(WHOLE, once, rest).expect("they differ");
    let another = ONCE.replace("relu", "neg");
    assert_eq!(of(&another, REST), "external \"x\" ends with another content");
    assert_eq!(of("", REST), "external \"x\" ends with another content");
    assert_eq!(of(ONCE, ""), "external \"x\" ends with another content");
    let of_x = ONCE.replace("%1 read", "%0 read");
    assert_eq!(of(&of_x, REST), "external \"x\" ends with another content");
    let overwritten = format!("{REST}\nOpCall s0:2 neg_ (%2 readwrite)");
    assert_eq!(of(ONCE, &overwritten), "external \"folded 0\" ends with another content");
    let read = format!("{ONCE}\nSyncRead s0:2 %2 read into read0");
    assert_eq!(of(&read, REST), "SyncRead into read0, number 1 is made once");
}
