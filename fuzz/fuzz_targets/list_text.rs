//! Parses text as a list of instructions. Every list that parses prints to text that parses to the
//! same list. The checker and the verifier judge the list without a panic, and the verifier proves
//! every list that the checker accepts.
//!
//! `cargo +nightly fuzz run list_text fuzz/corpus/list_text crates/verify/tests/cases`

#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream::instructions::text::{parse_list, print_list};
use millstream_verify::{check, verify};

fuzz_target!(|text: &str| {
    match parse_list(text) {
        Ok(list) => {
            let again = parse_list(&print_list(&list)).expect("a printed list parses");
            assert_eq!(list, again);
            let verdict = verify(&list);
            match check(list) {
                Ok(_) => assert!(verdict.proven(), "{}", verdict.violations[0]),
                Err(violations) => {
                    assert!(violations.iter().all(|v| !v.to_string().is_empty()));
                }
            }
        }
        Err(error) => assert!(error.line > 0 && !error.message.is_empty()),
    }
});
