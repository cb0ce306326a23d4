//! Reads text as a list of instructions. What can be read is printed and read back unchanged, the
//! checker and the verifier give a verdict on it, and what the checker takes is proven.
//!
//! `cargo +nightly fuzz run list_text fuzz/corpus/list_text crates/verify/tests/cases`

#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream::instructions::text::{parse_list, print_list};
use millstream::verify::{check, verify};

fuzz_target!(|text: &str| {
    match parse_list(text) {
        Ok(list) => {
            let again = parse_list(&print_list(&list)).expect("what was printed can be read");
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
