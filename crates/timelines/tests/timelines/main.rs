//! Timelines of other programs, read as profiles.
//!
//! `MILLSTREAM_PUBLIC_TRACES` names a folder with public traces (`kineto/`, `chakra/`,
//! `pytorch-et/`), which are not part of the repository. Tests that need it are skipped with a
//! message where it is absent.

mod bad;
mod bugs;
mod chakra;
mod kineto;
mod linked;
mod nsys;
mod public;
mod random;
mod streams;
mod verdicts;

use std::path::{Path, PathBuf};

use millstream_profile::model::{NONE, Profile, Role};
use millstream_timelines::{Options, Timeline, read};

/// Returns a file of the public traces.
fn public(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("MILLSTREAM_PUBLIC_TRACES");
    let path = folder.map(|folder| Path::new(&folder).join(name)).filter(|path| path.is_file());
    if path.is_none() {
        eprintln!("skipped: MILLSTREAM_PUBLIC_TRACES names no folder with {name}");
    }
    path
}

/// Reads a timeline without options.
#[track_caller]
fn open(path: &Path) -> Timeline {
    read(path, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns the name and the stream of an instruction.
fn described(profile: &Profile, k: u32) -> String {
    let instruction = &profile.instructions[k as usize];
    format!("{} on {}", profile.name_of(instruction), profile.stream_name(instruction.stream))
}

/// Returns the waits of streams and threads, each as `what waits < what it waits for`.
fn waits(profile: &Profile) -> Vec<String> {
    let known = profile.waits.iter().filter(|wait| wait.until != NONE);
    let text = |k: u32| described(profile, k);
    known.map(|wait| format!("{} < {}", text(wait.waiter), text(wait.until))).collect()
}

/// Checks what holds for every profile: positions, order, times.
fn check(profile: &Profile) {
    let bytes = millstream_profile::columns::write(profile);
    assert_eq!(&millstream_profile::columns::read(&bytes).unwrap(), profile);
    let mut seqs = vec![0; profile.streams.len()];
    for (k, instruction) in profile.instructions.iter().enumerate() {
        let seq = &mut seqs[instruction.stream as usize];
        *seq += 1;
        assert_eq!(instruction.seq, *seq);
        assert!(instruction.submitter.is_none_or(|submitter| (submitter as usize) < k));
        if let Some(times) = instruction.times {
            assert!(times.ready <= times.start && times.start <= times.end, "{times:?}");
        }
    }
    for wait in &profile.waits {
        assert!(wait.until == NONE || wait.until < wait.waiter);
        let waiter = &profile.instructions[wait.waiter as usize];
        assert_eq!(waiter.role, Role::Wait, "{}", described(profile, wait.waiter));
    }
}
