//! Damaged files: an error says what, where and what was expected.

use millstream_profile::columns;
use millstream_timelines::{Options, read, read_bytes};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::bugs::inputs;
use crate::chakra::{TWO_NODES, two_nodes};
use crate::kineto::TWO_STREAMS;

#[track_caller]
fn refused(bytes: &[u8], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    let error = read(&path, &Options::default()).unwrap_err().to_string();
    let message = error.strip_prefix(&format!("{}: ", path.display())).unwrap();
    assert_eq!(message, expected);
}

#[test]
fn errors_say_what_and_where() {
    let known = "it is no timeline that is known; expected a file of PyTorch's profiler, Chakra's, \
                 or `nsys export --type sqlite`";
    refused(b"", known);
    refused(b"hello", known);
    refused(b"{\"a\": 1}", known);
    refused(
        br#"{"schemaVersion": 1, "deviceProperties": []}"#,
        "it has no 'traceEvents': expected a file of PyTorch's profiler",
    );
    refused(
        br#"{"traceEvents": []}"#,
        "no event of it is an op, a call or a kernel; export the trace with the activities CPU and \
         CUDA",
    );
    refused(
        br#"{"traceEvents": [{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1}]}"#,
        "no event of it is an op, a call or a kernel; 1 event is left out, as its 'ts', the begin in \
         microseconds, is no number: event 1 ('a'); export the trace with the activities CPU and CUDA",
    );
    refused(
        br#"{"traceEvents": [{"ph":"X","cat":"kernel","name":"a","ts":1,"args":{}}]}"#,
        "no event of it is an op, a call or a kernel; 1 event is left out, as 'stream' and 'device' \
         are not in its 'args': event 1 ('a'); export the trace with the activities CPU and CUDA",
    );
    refused(
        br#"{"traceEvents": [{"ph":"X","cat":"cpu_op","name":"a","ts":1,"pid":1,"tid":1}, {"#,
        "after event 1: it ends within its JSON: expected the end of 'traceEvents'; it was cut off, \
         or the next event lacks a quote or a bracket",
    );
    refused(
        br#"{"schema": "1.1.1", "nodes": []}"#,
        "it is an execution trace, which has no times; run it, or give it with --trace beside the \
         profiler's file of the same run",
    );
    refused(
        &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1],
        "broken gzip data: incomplete deflate stream; the file was cut off or damaged: copy or record \
         it again",
    );
    refused(
        b"SQLite format 3\0 and no database",
        "it cannot be read as an SQLite database: file is not a database; export the report again",
    );
}

/// Replaces, repeats, removes or swaps parts of a file, as a fuzzer does.
fn damaged(seed: &[u8], steps: &[(u8, usize, usize)]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for &(how, a, b) in steps {
        if bytes.is_empty() {
            return bytes;
        }
        let (a, b) = (a % bytes.len(), b % bytes.len());
        let part = a.min(b)..a.max(b);
        match how % 5 {
            0 => bytes[a] = b as u8,
            1 => drop(bytes.drain(part)),
            2 => bytes.insert(a, b as u8),
            3 => {
                let copy = bytes[part].to_vec();
                bytes.splice(a..a, copy);
            }
            _ => bytes.truncate(a.max(1)),
        }
    }
    bytes
}

/// Checks what the fuzz target `timeline` does: bytes are read, or refused with a message.
fn read_or_refused(bytes: Vec<u8>) {
    match read_bytes("damaged", bytes) {
        Ok(timeline) => {
            let written = columns::write(&timeline.profile);
            assert_eq!(columns::read(&written).err(), None);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_files_are_read_or_refused(
        steps in vec((any::<u8>(), any::<usize>(), any::<usize>()), 0..6),
        noise in vec(any::<u8>(), 0..64),
    ) {
        let kineto = TWO_STREAMS.replace("SYNC\n", "").into_bytes();
        for seed in [&kineto, &two_nodes(), TWO_NODES.as_bytes(), &noise] {
            read_or_refused(damaged(seed, &steps));
        }
    }
}

/// Each seed of the fuzz target, damaged in the same ways at every run.
#[test]
fn damaged_seeds_are_read_or_refused() {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize
    };
    let mut count = 0;
    let mut folders = vec![inputs("bugs"), inputs("seeds")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let seed = std::fs::read(&path).unwrap();
            count += 1;
            for _ in 0..50 {
                let steps: Vec<(u8, usize, usize)> =
                    (0..next() % 6).map(|_| (next() as u8, next(), next())).collect();
                read_or_refused(damaged(&seed, &steps));
            }
        }
    }
    assert!(count > 50, "{count} seeds");
}

#[test]
fn no_prefix_and_no_damaged_byte_panics() {
    let text = TWO_STREAMS.replace("SYNC\n", "").into_bytes();
    for end in 0..text.len() {
        let _ = read_bytes("cut", text[..end].to_vec());
    }
    for at in 0..text.len() {
        for byte in [0, b'0', b'9', b'"', b'-', b'{', 0xff] {
            let mut damaged = text.clone();
            damaged[at] = byte;
            let _ = read_bytes("damaged", damaged);
        }
    }
}
