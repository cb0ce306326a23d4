//! Damaged examples: loading never panics, and every refusal has a span.

use std::path::PathBuf;

use millstream_trace::{Entry, LoadOptions, expand, load_bytes};
use proptest::prelude::*;
use proptest::sample::Index;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces")
}

fn examples() -> Vec<Vec<u8>> {
    let entries = expand([folder()]).unwrap();
    let read = |entry| match entry {
        Entry::Trace(path) => std::fs::read(path).unwrap(),
        other => panic!("{other:?}"),
    };
    entries.into_iter().map(read).collect()
}

/// One piece of damage.
#[derive(Clone, Debug)]
enum Damage {
    Cut(Index),
    Drop(Index, u8),
    Set(Index, u8),
    Insert(Index, &'static str),
    Repeat(Index, u8),
}

/// Pieces of text that are likely to be valid where they are inserted.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "-",
    "1e999",
    "null",
    "true",
    "\"nan\"",
    "\\u0000",
    "\\ud800",
    "18446744073709551616",
    "[[[[",
    "\"x\":",
    "\u{feff}",
    "é",
    "\0",
    "{\"op\":\"add\"}",
    "9999999999999",
];

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        1 => any::<Index>().prop_map(Damage::Cut),
        3 => (any::<Index>(), 1..20u8).prop_map(|(at, n)| Damage::Drop(at, n)),
        3 => (any::<Index>(), any::<u8>()).prop_map(|(at, b)| Damage::Set(at, b)),
        4 => (any::<Index>(), prop::sample::select(PIECES))
            .prop_map(|(at, p)| Damage::Insert(at, p)),
        2 => (any::<Index>(), 1..60u8).prop_map(|(at, n)| Damage::Repeat(at, n)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    let length = bytes.len() + 1;
    match damage {
        Damage::Cut(at) => bytes.truncate(at.index(length)),
        Damage::Drop(at, n) => {
            let start = at.index(length);
            let end = (start + usize::from(*n)).min(bytes.len());
            bytes.drain(start..end);
        }
        Damage::Set(at, value) => {
            if let Some(byte) = bytes.get_mut(at.index(length)) {
                *byte = *value;
            }
        }
        Damage::Insert(at, piece) => {
            let at = at.index(length);
            bytes.splice(at..at, piece.bytes());
        }
        Damage::Repeat(at, n) => {
            let start = at.index(length);
            let end = (start + usize::from(*n)).min(bytes.len());
            let part = bytes[start..end].to_vec();
            bytes.splice(end..end, part);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn damaged_examples_are_refused_with_a_span(
        example in any::<Index>(),
        damages in prop::collection::vec(damage(), 1..6),
    ) {
        let examples = examples();
        let mut bytes = examples[example.index(examples.len())].clone();
        for damage in &damages {
            apply(&mut bytes, damage);
        }
        match load_bytes("t.json", &bytes, Some(&folder()), &LoadOptions::default()) {
            Ok(program) => {
                for tensor in program.tensors.iter().filter(|t| t.storage_bytes < 1 << 16) {
                    prop_assert_eq!(tensor.materialize().unwrap().len(), tensor.storage_bytes);
                }
            }
            Err(error) => {
                let gzip = bytes.starts_with(&[0x1f, 0x8b]);
                prop_assert!(error.span().is_some() || gzip, "{}", error);
                prop_assert!(!error.message().is_empty());
                if let Some(excerpt) = error.excerpt() {
                    prop_assert!(excerpt.text.get(excerpt.span.clone()).is_some(), "{:?}", excerpt);
                }
            }
        }
    }
}

#[test]
fn every_prefix_of_every_example_is_refused() {
    for bytes in examples() {
        let whole = bytes.trim_ascii_end().len();
        for length in 0..whole {
            let loaded = load_bytes("t.json", &bytes[..length], None, &LoadOptions::default());
            assert!(loaded.expect_err("a prefix").span().is_some(), "{length}");
        }
    }
}
