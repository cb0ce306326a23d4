//! The text form: printing and parsing are exact inverses, lines stand alone, errors have a place.

use proptest::prelude::*;

use millstream_instructions::reference::reference_page;
use millstream_instructions::text::{parse_instruction, parse_list, print_instruction, print_list};
use millstream_instructions::{Instruction, InstructionList, Kind};
use millstream_types::Origin;

use crate::common::{body, instruction, list, ops};

/// The list without its instruction number `at`.
fn without(list: &InstructionList, at: usize) -> InstructionList {
    let mut list = list.clone();
    list.instructions.remove(at);
    list
}

fn check_instruction(given: &Instruction) -> Result<(), TestCaseError> {
    let mut names = ops();
    let text = print_instruction(given, &names);
    prop_assert!(!text.contains('\n'), "{text}");
    let back = parse_instruction(&text, 1, &mut names);
    prop_assert_eq!(back.as_ref(), Ok(given), "{}", text);
    prop_assert_eq!(&names, &ops(), "no name was added");
    Ok(())
}

proptest! {
    #[test]
    fn an_instruction_reads_back(given in instruction()) {
        check_instruction(&given)?;
    }

    #[test]
    fn a_list_reads_back(given in list()) {
        let text = print_list(&given);
        let back = parse_list(&text);
        prop_assert_eq!(back.as_ref(), Ok(&given), "{}", text);
        prop_assert_eq!(print_list(&back.unwrap()), text);
    }

    #[test]
    fn a_line_can_be_deleted(given in list()) {
        let text = print_list(&given);
        let lines: Vec<&str> = text.lines().collect();
        let header = lines.len() - given.instructions.len();
        for at in 0..given.instructions.len() {
            let mut fewer = lines.clone();
            fewer.remove(header + at);
            prop_assert_eq!(parse_list(&fewer.join("\n")), Ok(without(&given, at)));
        }
    }

    #[test]
    fn garbage_is_refused_without_a_panic(text in any::<String>()) {
        let _ = parse_instruction(&text, 1, &mut ops());
        prop_assert!(parse_list(&text).is_err());
    }

    /// Text that is almost right gets further into the parser than noise.
    #[test]
    fn a_broken_line_does_not_panic(
        given in list(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<char>()), 1..4),
    ) {
        let mut text: Vec<char> = print_list(&given).chars().collect();
        for (at, c) in edits {
            let at = at.index(text.len());
            text[at] = c;
        }
        let text: String = text.into_iter().collect();
        if let Ok(read) = parse_list(&text) {
            prop_assert_eq!(parse_list(&print_list(&read)), Ok(read));
        }
    }
}

/// Each kind by itself, so that none is missed by chance.
#[test]
fn every_kind_reads_back() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for &kind in Kind::ALL {
        runner
            .run(&body(kind), |body| {
                prop_assert_eq!(body.kind(), kind);
                check_instruction(&Instruction { body, origin: Origin::Unknown })
            })
            .unwrap();
    }
}

#[test]
fn lists_are_compared_by_the_names_of_their_ops() {
    let text = "millstream-list 1\nOpCall s0:1 add ()\nOpCall s0:2 mul ()\n";
    let list = parse_list(text).unwrap();
    let fewer = parse_list("millstream-list 1\nOpCall s0:2 mul ()\n").unwrap();
    assert_ne!(list.instructions[1], fewer.instructions[0], "the ids differ");
    assert_eq!(without(&list, 0), fewer);
    let other = parse_list("millstream-list 1\nOpCall s0:2 sub ()\n").unwrap();
    assert_ne!(other, fewer);
}

#[test]
fn comments_and_blank_lines_are_passed_over() {
    let text =
        "\n# a list\n  millstream-list 1 # of one\r\n\n \t# nothing\n  Barrier s0:1  # here \n";
    let list = parse_list(text).unwrap();
    assert_eq!(print_list(&list), "millstream-list 1\nBarrier s0:1 # here\n");
}

/// One error a line: `LINE:COLUMN: message`.
fn errors(lines: &[&str]) -> String {
    let one = |line: &&str| parse_instruction(line, 7, &mut ops()).unwrap_err().to_string();
    lines.iter().map(one).collect::<Vec<_>>().join("\n")
}

#[test]
fn errors_of_instructions() {
    insta::assert_snapshot!(errors(&[
        "",
        "7",
        "  OpCal s0:1 add ()",
        "Barrier",
        "Barrier s0",
        "Barrier s70000:1",
        "Barrier s0:99999999999999999999",
        "Barrier s0:1 s1:1",
        "OpCall s0:1 \"add ()",
        "OpCall s0:1 \"\\x41\" ()",
        "OpCall s0:1 add %0 read",
        "OpCall s0:1 add (%0 reads)",
        "OpCall s0:1 add (%0 read %1 read)",
        "OpCall s0:1 add (%0 read",
        "OpCall s0:1 add () {a=1, a=2}",
        "OpCall s0:1 add () {a=}",
        "OpCall s0:1 add () {a=f33}",
        "OpCall s0:1 add () {a=99999999999999999999}",
        "OpCall s0:1 add () {a=[1, x]}",
        "OpCall s0:1 add () workspace 8 bytes",
        "RecordEvent s0:1 s1",
        "StreamWaitEvent s0:1 s1:2 by-host",
        "StreamWaitEvent s0:1 until s1:2 by-hand",
        "SoftSyncStream s0 needs s1:2 for () elided",
    ]), @r#"
    7:1: expected an instruction, found the end of the line
    7:1: expected an instruction, found "7"
    7:3: unknown instruction 'OpCal'; did you mean 'OpCall'?
    7:8: expected a stream, as in s0, found the end of the line
    7:11: expected ':', found the end of the line
    7:10: expected a stream, as in s0; 70000 is too large
    7:12: expected a sequence number; 99999999999999999999 is too large
    7:14: expected the end of the line or '#', found "s1:1"
    7:13: a text in double quotes does not end
    7:13: a text has an escape that means nothing
    7:17: expected '(', found "%0 read"
    7:21: expected read, write or readwrite, found "reads)"
    7:26: expected ',', found "%1 read)"
    7:25: expected ',', found the end of the line
    7:27: argument 'a' is given twice
    7:23: expected a number, true, false, a dtype, a scalar, a text or a list, found "}"
    7:23: expected a number, true, false, a dtype, a scalar, a text or a list, found "f33}"
    7:23: expected a number, true, false, a dtype, a scalar, a text or a list, found "99999999999999999999}"
    7:27: expected a number, found "x]}"
    7:37: expected 'at', found the end of the line
    7:18: expected an event, as in e0, found "s1"
    7:22: expected 'until', found "s1:2 by-host"
    7:33: expected by-host or by-device, found "by-hand"
    7:37: expected by-device, by-host, elided-known, elided-fenced or elided-implied, found "elided"
    "#);
}

#[test]
fn errors_of_specs() {
    let view = |spec: &str| format!("ViewTensor %1 of %0 {spec}");
    let lines = [
        view("f33[2]"),
        view("f32"),
        view("f32[-1]"),
        view("f32[2,NaN]"),
        view("f32[1152921504606846976]"),
        view("f32[4294967296,4294967296]"),
        view("f32[2] strides [-1]"),
        view("f32[2] strides [1,1]"),
        view("f32[2] strides [18446744073709551615]"),
        view("f32[2] offset 18446744073709551615"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    insta::assert_snapshot!(errors(&lines), @r#"
    7:21: unknown dtype 'f33'; did you mean 'f32'?
    7:24: expected '[', found the end of the line
    7:25: expected a length, found "-1]"
    7:27: expected a length, found "NaN]"
    7:21: invalid shape: [1152921504606846976]: strides [1], offset 0: reaches past 140737488355328 elements, more than any memory holds
    7:21: invalid shape: [4294967296, 4294967296]: more elements than any memory holds
    7:37: expected a length, found "-1]"
    7:21: invalid shape: [2]: 2 strides for 1 dimensions
    7:21: invalid shape: [2]: strides [18446744073709551615], offset 0: reaches past 140737488355328 elements, more than any memory holds
    7:21: invalid shape: [2]: strides [1], offset 18446744073709551615: reaches past 140737488355328 elements, more than any memory holds
    "#);
}

#[test]
fn errors_of_lists() {
    let texts = [
        "",
        "# nothing\n",
        "\nBarrier s0:1",
        "millstream-list 2",
        "millstream-list 1\nstream s1 cpu:0 compute 0 in-order",
        "millstream-list 1\nstream s0 cpu:x compute 0 in-order",
        "millstream-list 1\nstream s0 cpu:0 compote 0 in-order",
        "millstream-list 1\nstream s0 cpu:0 filter 0 pool",
        "millstream-list 1\nstream s0 cpu:0 filter 0 pool runs compute, copies",
        "millstream-list 1\nstream s0 cpu:0 Filter 0 pool runs compute",
        "millstream-list 1\nstream s0 cpu:0 compute 0 unordered",
        "millstream-list 1\nstream s0 cpu:0 compute 0 pool\nstream s1 cpu:0 compute 0 in-order",
        "millstream-list 1\narena a0 CPU:0",
        "millstream-list 1\narena a1 cpu:0",
        "millstream-list 1\nexternal %0 x f32[2] in 8 bytes of a0",
        "millstream-list 1\nexternal %0 \"x\" f32[2] in 8 bytes of a0\nexternal %1 \"x\" f32[2] in 8 bytes of a0",
        "millstream-list 1\nBarrier s0:1\nBarier s0:2",
        "{\"schema\": \"1\"}",
    ];
    let one = |text: &&str| parse_list(text).unwrap_err().to_string();
    insta::assert_snapshot!(texts.iter().map(one).collect::<Vec<_>>().join("\n"), @r#"
    1:1: expected 'millstream-list 1', found no line
    1:1: expected 'millstream-list 1', found no line
    2:1: expected 'millstream-list', found "Barrier s0:1"
    1:18: version 2 is not known; this reads 1
    2:11: ids count up from 0: expected 0, found 1
    2:11: invalid device: 'cpu:x': expected KIND:INDEX, as in cpu:0
    2:17: stream type 'compote' is not built in, so its line says what it runs, as in 'runs compute'; did you mean 'compute'?
    2:17: stream type 'filter' is not built in, so its line says what it runs, as in 'runs compute'
    2:45: unknown kind of work 'copies'
    2:17: invalid stream type: 'Filter': expected a lower-case letter, then lower-case letters, digits, '-' or '_', at most 64 in all, as in compute
    2:27: expected in-order or pool, found "unordered"
    3:35: stream cpu:0 compute 0 is declared twice
    2:10: invalid device: kind 'CPU': expected lower-case letters, digits, '_' or '-', as in cpu:0
    2:10: ids count up from 0: expected 0, found 1
    2:13: expected a text in double quotes, found "x f32[2] in 8 bytes of a"
    3:40: external %1 "x" is declared twice
    3:1: unknown instruction 'Barier'; did you mean 'Barrier'?
    1:1: expected 'millstream-list', found "{\"schema\": \"1\"}"
    "#);
}

/// Refusing a list with many lines or long lines takes linear time.
#[test]
fn large_input_is_read_in_linear_time() {
    let mut text = String::from("millstream-list 1\n");
    for k in 0..100_000 {
        text.push_str(&format!("external %{k} \"x{k}\" f32[1] in 4 bytes of a0\n"));
        text.push_str(&format!("OpCall s0:{k} op{k} ()\n"));
    }
    text.push_str(&format!("OpCall s0:1 add () {{a={}", "[".repeat(1_000_000)));
    let error = parse_list(&text).unwrap_err();
    assert_eq!((error.line, error.column), (200_002, 24));
}

/// docs/instructions.md is what the master table generates. `MILLSTREAM_BLESS=1` rewrites it.
#[test]
fn the_reference_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/instructions.md");
    let page = reference_page();
    if std::env::var_os("MILLSTREAM_BLESS").is_some_and(|v| v == "1") {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")).unwrap();
        std::fs::write(path, &page).unwrap();
    }
    let stands = std::fs::read_to_string(path).unwrap_or_default();
    assert!(stands == page, "docs/instructions.md is out of date; MILLSTREAM_BLESS=1 rewrites it");
}
