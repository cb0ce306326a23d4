//! The rules of the project that the compiler does not check.
//!
//! Each rule is one test, which reads the sources as text and names every place that breaks it.
//!
//! Long because the rules share one reader of the sources, and each has its list of exceptions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files with unsafe code, each with the reason for the unsafe code. A folder stands for all
/// files below it.
const UNSAFE: &[(&str, &str)] = &[
    ("crates/conformance/src/device.rs", "the suite writes to memory of the backend"),
    ("crates/ep/src/event_pool.rs", "a returned event moves into a list that it keeps alive"),
    ("crates/ep/src/host_memory.rs", "requests blocks of host memory from the allocator"),
    ("crates/instructions/src/builder/protection.rs", "a program gives up waits by an unsafe call"),
    ("crates/instructions/src/list.rs", "calling a list checked without a check is an unsafe call"),
    ("crates/kernels/src/context.rs", "a kernel's operands are addresses, valid by contract"),
    ("crates/kernels/src/typed.rs", "reads and writes elements for kernels without unsafe code"),
    ("crates/kernels/src/prepared.rs", "a prepared kernel takes addresses, valid by contract"),
    ("crates/kernels/src/plan_cache.rs", "a test makes contexts of calls"),
    ("crates/kernels/src/cpu/", "kernels pass their operands to the strided loops"),
    ("crates/testing/src/kernels/", "calls kernels on memory of the tests"),
    ("crates/verify/src/lib.rs", "the only place that has proven a checked list's contract"),
    ("crates/comm/src/mpi/library/", "the calls of an MPI library that is loaded at run time"),
    ("crates/cuda-standin/", "functions with C's calling convention, and tests that call them"),
    ("crates/ep/src/cuda/blas/", "the calls of the library of matrix products"),
    ("crates/ep/src/cuda/nccl/", "the calls of NVIDIA's library of collectives"),
    ("python/src/lib.rs", "Python's capsules hold a tensor's address until it is taken"),
    ("crates/ep/src/cuda/compiler.rs", "the calls of the compiler of kernels"),
    ("crates/ep/src/cuda/driver/", "the calls of the CUDA driver"),
    ("crates/ep/src/cuda/library.rs", "loads the CUDA driver's library"),
    ("crates/ep/src/cuda/memory.rs", "memory at addresses from the driver"),
    ("crates/ep/src/cuda/toolkit.rs", "loads the toolkit's libraries"),
    ("crates/ep/src/cuda/native_stream.rs", "copies and launches on operands of kernels"),
    ("crates/ep/src/cuda/graph_words.rs", "words in pinned memory that kernels read"),
    ("crates/ep/src/cuda/plan.rs", "descriptions of launches, with addresses of operands"),
    ("crates/ep/src/cuda/host_work.rs", "copies operands of kernels to the host and back"),
    ("crates/ep/src/cuda/device_error.rs", "flags in pinned memory that kernels set"),
    ("crates/kernels/src/cuda/", "passes operands to the device by their addresses"),
    ("crates/runtime/src/scope/fork.rs", "registers for forks of the process"),
    ("tests/machine/forked.rs", "forks"),
    ("crates/runtime/src/sync/asymmetric_fence.rs", "calls the system's fence for all threads"),
    (
        "crates/runtime/src/engine/call_numbers.rs",
        "the emission writes calls' slots under its lock",
    ),
    ("crates/runtime/src/thread_ctx/stored.rs", "reads the call that the stream runs"),
    ("crates/runtime/src/thread_ctx/host_work.rs", "gives callbacks access to tensors' memory"),
    (
        "crates/runtime/src/thread_ctx/subject.rs",
        "poison reads the tensors of the running instruction",
    ),
    ("crates/runtime/src/thread_ctx/tape.rs", "calls prepared kernels on the operands of steps"),
    ("crates/runtime/src/thread_ctx/unit.rs", "gives kernels the operands of calls"),
    ("crates/runtime/src/tapes/run.rs", "a launch's addresses go to other threads"),
    ("crates/runtime/src/thread_ctx/work.rs", "gives kernels and reads access to tensors' memory"),
    ("crates/runtime/src/tables/mod.rs", "a failure reads the tensors of the running instruction"),
    ("crates/vm/src/tensor/dlpack/", "tensors of other libraries, by their addresses"),
    ("tests/tensor/dlpack.rs", "reads a tensor as another library does"),
    ("crates/runtime/src/host/mod.rs", "copies between a tensor's memory and host bytes"),
    ("crates/runtime/benches/pieces.rs", "uses the table of slots as a worker does"),
    ("crates/runtime/src/pool/mod.rs", "reads the calls and tensors of queued tasks"),
    ("crates/runtime/tests/loom/launches.rs", "a model states the fields written without a lock"),
    ("crates/runtime/tests/loom/main.rs", "a model states the fields written without a lock"),
    (
        "crates/runtime/src/sync/spsc_queue.rs",
        "the queue to a worker: slots written and read without a lock",
    ),
    (
        "crates/runtime/src/sync/ring.rs",
        "what a thread leaves: places written and read without a lock",
    ),
    (
        "crates/runtime/src/engine/router/mod.rs",
        "the emission writes tensors' slots under its lock",
    ),
    (
        "crates/runtime/src/tables/slots.rs",
        "tensors' slots, written and read without a lock of their own",
    ),
    ("crates/bench/src/replay.rs", "the floor calls prepared kernels on memory of its own"),
    ("examples/custom_policy.rs", "a user's kernel passes its operands on"),
    ("tests/allocations/main.rs", "an allocator that counts"),
    ("crates/timelines/tests/memory.rs", "an allocator that counts"),
    ("tests/machine/memory_checks.rs", "gives up waits, to test checked memory"),
    ("tests/faults/fixture.rs", "a kernel that copies half of its operand"),
    ("tests/machine/refusal_places.rs", "takes a tensor as another library lends it"),
    ("tests/machine/on_complete.rs", "a kernel that writes its result"),
    ("tests/machine/verbs/table.rs", "takes a tensor as another library lends it"),
    ("tests/machine/pool_order.rs", "kernels that read their operands"),
    ("tests/machine/unprotected.rs", "gives up waits, to show the wrong results"),
    ("crates/gpu-check/src/launches.rs", "launches an empty kernel"),
    ("crates/gpu-check/src/ops/rig.rs", "copies operands of kernels to the device and back"),
    ("tests/programs/needless_waits.rs", "runs lists without a needed wait, on one thread"),
    ("crates/cli/src/simulate/planted.rs", "gives up protection, to test the simulator"),
    ("tests/programs/simulation.rs", "leaves protection out, to see the simulator find it"),
    ("crates/bench/src/fixture.rs", "kernels that are checked read and write their variables"),
];

/// The product's files and folders that write files themselves, each with the reason. All others
/// write by `crates/files`.
const WRITERS: &[(&str, &str)] = &[
    ("crates/files/src/replace.rs", "the one place that writes files"),
    ("crates/kernels/src/cuda/cache.rs", "a cache, whose files are hashes; it may fail silently"),
    ("crates/cuda-standin/", "a library for tests alone"),
    ("xtask/src/traps.rs", "copies of the repository"),
];

/// The files and folders whose items the root crate exports by name. Each has an example, which
/// `cargo test --doc` runs.
const EXPORTED: &[&str] = &[
    "crates/instructions/src/builder/protection.rs",
    "crates/instructions/src/list.rs",
    "crates/types/src/access.rs",
    "crates/types/src/attr.rs",
    "crates/types/src/device.rs",
    "crates/types/src/dtype.rs",
    "crates/types/src/element.rs",
    "crates/types/src/error.rs",
    "crates/types/src/layout.rs",
    "crates/types/src/origin.rs",
    "crates/types/src/stream.rs",
    "crates/vm/src/",
];

/// A text file of the repository.
struct Source {
    /// The path from the root, with `/`.
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns the lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.split('\n').enumerate().map(|(at, line)| (at + 1, line))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all text files of the project, except generated ones.
fn sources() -> Vec<Source> {
    const KINDS: &[&str] = &["rs", "md", "toml", "json", "txt", "sh"];
    // The last three hold files as other programs write them, some of them damaged.
    const NOT_OURS: &[&str] = &["target", "corpus", "artifacts", "bugs", "cuda-recorded", "seeds"];
    let mut sources = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let hidden = name.starts_with('.') && ![".ci", ".cargo"].contains(&name.as_str());
            if hidden || NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // Recorded programs stay as PyTorch wrote them.
            if ["bindings.json", "consts.json", "meta.json"].contains(&name.as_str()) {
                continue;
            }
            let kind = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
            if KINDS.contains(&kind)
                || path.parent().unwrap().file_name().is_some_and(|f| f == ".ci")
            {
                let relative = path.strip_prefix(root()).unwrap();
                let parts: Vec<&str> = relative.iter().map(|p| p.to_str().unwrap()).collect();
                sources.push(Source {
                    path: parts.join("/"),
                    text: fs::read_to_string(&path).unwrap(),
                });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(sources.len() > 100, "only {} files found: the search is broken", sources.len());
    sources
}

#[track_caller]
fn none(broken: &[String], rule: &str) {
    assert!(broken.is_empty(), "{rule}:\n{}\n", broken.join("\n"));
}

/// Returns whether `text` has `word` with no letter, digit or underscore beside it.
fn has_word(text: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(in_word) && !text[at + word.len()..].starts_with(in_word)
    })
}

/// Returns a line of Rust without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Returns a line of Rust without the text in quotation marks.
fn unquoted(line: &str) -> String {
    line.split('"').step_by(2).collect::<Vec<_>>().join(" ")
}

#[test]
fn long_files_give_a_reason() {
    const MOST: usize = 400;
    let mut broken = Vec::new();
    for source in sources() {
        let is_code = source.is_rust() || source.path.ends_with(".md");
        let says_why = source.lines().take(60).any(|(_, line)| {
            let comment = line.trim_start_matches(['/', '!', ' ']);
            line.starts_with("//") && comment.starts_with("Long because ")
        });
        // A generated page and the list of all changes may be long.
        let is_free = ["docs/ops.md", "CHANGELOG.md"].contains(&source.path.as_str());
        let lines = source.text.lines().count();
        if is_code && !is_free && lines > MOST && !says_why {
            broken.push(format!("{}: {lines} lines", source.path));
        }
    }
    none(&broken, "a file of over 400 lines has a line `//! Long because …` near its top");
}

#[test]
fn lines_have_at_most_100_columns() {
    const MOST: usize = 100;
    let mut broken = Vec::new();
    for source in sources() {
        let is_page = source.path.ends_with(".md");
        if !source.is_rust() && !is_page {
            continue;
        }
        let (mut in_code, mut in_text) = (false, false);
        for (at, line) in source.lines() {
            let was_in_text = in_text;
            in_text ^= source.is_rust() && ends_within_text(line);
            let is_fence = is_page && line.trim_start().starts_with("```");
            in_code ^= is_fence;
            // Tables, output of programs and addresses cannot be broken into lines.
            let is_free = is_page && (in_code || is_fence || line.starts_with('|'));
            let is_address = line.contains("http://") || line.contains("https://");
            let is_text = source.is_rust() && (was_in_text || is_text(line));
            if line.chars().count() > MOST && !is_free && !is_address && !is_text {
                broken.push(format!("{}:{at}", source.path));
            }
        }
    }
    none(&broken, "a line of code, comment or prose has at most 100 columns");
}

/// Returns whether a line that begins outside of a text in quotation marks ends within one, and the
/// other way round.
fn ends_within_text(line: &str) -> bool {
    let code = if line.trim_start().starts_with("//") { "" } else { line };
    let marks = code.replace("\\\\", "").replace("\\\"", "").replace("'\"'", "");
    marks.matches('"').count() % 2 == 1
}

/// Returns whether a line of Rust is a text in quotation marks, or the start of one.
fn is_text(line: &str) -> bool {
    let code = line.trim_start();
    !code.starts_with("//") && (code.contains('"') || !code.contains([';', '{', '(']))
}

/// Words of a private dialect, each with the term of the field. GLOSSARY.md has the terms.
const DIALECT: &[(&str, &str)] = &[
    ("abroad", "remote"),
    ("bury", "release, reap"),
    ("buries", "releases, reaps"),
    ("crew", "worker group"),
    ("crews", "worker groups"),
    ("crowd", "backpressure frontier, interval index"),
    ("heed", "observe"),
    ("heeds", "observes"),
    ("hopeless", "unreachable"),
    ("hungry", "starving"),
    ("nudge", "wake"),
    ("nudged", "woken"),
    ("nudges", "wakes"),
    ("parcel", "message"),
    ("parcels", "messages"),
    ("rehearsal", "dry run"),
    ("rehearse", "check in a dry run"),
    ("roused", "woken"),
    ("sentry", "monitor"),
    ("let go of", "release"),
    ("lets go of", "releases"),
    ("is told of", "is notified of"),
    ("stands still", "has stopped"),
];

#[test]
fn words_are_those_of_the_field() {
    let mut broken = Vec::new();
    for source in sources() {
        // Excepts the list itself and the diaries of experiments.
        if source.path == "tests/tidy.rs" || source.path.starts_with("docs/notes/") {
            continue;
        }
        if !source.is_rust() && !source.path.ends_with(".md") {
            continue;
        }
        for (at, line) in source.lines() {
            let line = line.to_lowercase();
            for (word, term) in DIALECT.iter().filter(|(word, _)| has_word(&line, word)) {
                broken.push(format!("{}:{at}: '{word}': say {term}", source.path));
            }
        }
    }
    none(&broken, "code and prose use the terms of the field");
}

#[test]
fn terms_are_defined_once() {
    let glossary = fs::read_to_string(root().join("GLOSSARY.md")).unwrap();
    let mut seen = BTreeSet::new();
    let mut broken = Vec::new();
    let cells = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    for term in cells.flat_map(|cell| cell.split(", ")).filter(|term| *term != "term") {
        if !seen.insert(term) {
            broken.push(format!("GLOSSARY.md: {term}"));
        }
    }
    assert!(seen.len() > 50, "only {} terms found: the search is broken", seen.len());
    none(&broken, "each term stands in GLOSSARY.md once");
}

#[test]
fn no_comment_defers_work() {
    let words = ["TO", "FIX", "XX", "HA"].iter().zip(["DO", "ME", "X", "CK"]);
    let words: Vec<String> = words.map(|(a, b)| format!("{a}{b}")).collect();
    let mut broken = Vec::new();
    for source in sources() {
        for (at, line) in source.lines() {
            if words.iter().any(|word| has_word(line, word)) {
                broken.push(format!("{}:{at}: {}", source.path, line.trim()));
            }
        }
    }
    none(&broken, "open work is an issue, not a comment");
}

#[test]
fn tests_do_not_sleep() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|s| s.is_rust()) {
        let all_tests = source.path.split('/').any(|p| p == "tests" || p == "tests.rs");
        let mut in_tests = all_tests;
        for (at, line) in source.lines() {
            in_tests |= line.trim() == "#[cfg(test)]";
            if in_tests && code(line).contains(concat!("thread::", "sleep")) {
                broken.push(format!("{}:{at}: {}", source.path, line.trim()));
            }
        }
    }
    none(&broken, "a test waits for an event, never for a time");
}

/// Beside a busy program, each yield costs a time slice: `millstream_backoff` times its yields.
#[test]
fn threads_yield_and_sleep_by_the_backoff() {
    // The backoff itself; measurements that wait for other processes and devices.
    const EXCEPT: &[&str] = &["crates/backoff/", "crates/bench/", "crates/gpu-check/"];
    let is_library = |path: &str| {
        (path.starts_with("crates/") || path.starts_with("src/"))
            && !EXCEPT.iter().any(|folder| path.starts_with(folder))
            && !path.split('/').any(|part| ["tests", "benches"].contains(&part))
            && !path.ends_with("_tests.rs")
    };
    let mut broken = Vec::new();
    for source in sources().iter().filter(|s| s.is_rust() && is_library(&s.path)) {
        for (at, line) in source.lines() {
            if ["yield_now", "sleep"].iter().any(|word| has_word(code(line), word)) {
                broken.push(format!("{}:{at}: {}", source.path, line.trim()));
            }
        }
    }
    none(&broken, "a thread that waits for another passes the time by `millstream_backoff`");
}

#[test]
fn no_line_ends_with_a_space() {
    let mut broken = Vec::new();
    for source in sources() {
        for (at, line) in source.lines() {
            if line.ends_with([' ', '\t', '\r']) {
                broken.push(format!("{}:{at}", source.path));
            }
        }
        if !source.text.is_empty() && !source.text.ends_with('\n') {
            broken.push(format!("{}: no line end at the end", source.path));
        }
    }
    none(&broken, "no space at the end of a line");
}

#[test]
fn no_path_is_of_one_computer() {
    // Each is cut in two, so that this file does not contain it.
    let places = [("/ho", "me/"), ("/ro", "ot/"), ("/tm", "p/"), ("/Use", "rs/"), ("/wo", "rk/")];
    let places: Vec<String> = places.iter().map(|(a, b)| format!("{a}{b}")).collect();
    let mut broken = Vec::new();
    for source in sources() {
        for (at, line) in source.lines() {
            // A path begins here if it does not continue a longer one.
            let begins = |place: &String| {
                line.match_indices(place.as_str()).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    before.is_none_or(|c| !c.is_alphanumeric() && !"._-/~".contains(c))
                })
            };
            if places.iter().any(begins) {
                broken.push(format!("{}:{at}: {}", source.path, line.trim()));
            }
        }
    }
    none(&broken, "no path that exists on one computer only");
}

/// Returns the name in `mod name;`, with any visibility.
fn declared_module(line: &str) -> Option<&str> {
    let line = code(line).trim();
    let visible = line.strip_prefix("pub").map(|rest| match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or("", |(_, rest)| rest),
        None => rest,
    });
    visible.unwrap_or(line).trim_start().strip_prefix("mod ")?.strip_suffix(';')
}

/// Marks a file, and all files that it declares, as reached.
fn reach(file: &Path, is_root: bool, reached: &mut BTreeSet<PathBuf>) {
    let Ok(text) = fs::read_to_string(file) else { return };
    if !reached.insert(file.to_owned()) {
        return;
    }
    let folder = file.parent().unwrap();
    let owns_folder = is_root || file.ends_with("mod.rs");
    let below =
        if owns_folder { folder.to_owned() } else { folder.join(file.file_stem().unwrap()) };
    let mut path_attribute = None;
    for line in text.lines() {
        if let Some(name) = declared_module(line) {
            let candidates = match path_attribute.take() {
                Some(path) => vec![folder.join(path)],
                None => vec![below.join(format!("{name}.rs")), below.join(name).join("mod.rs")],
            };
            for candidate in candidates {
                if let Ok(path) = candidate.canonicalize() {
                    reach(&path, false, reached);
                }
            }
        }
        if let Some(path) = line.trim().strip_prefix("#[path = \"") {
            path_attribute = path.strip_suffix("\"]").map(str::to_owned);
        }
    }
}

/// Returns whether cargo takes a file as the root of a crate: a library, a program, a test, an
/// example.
fn is_crate_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let (name, folders) = parts.split_last().unwrap();
    let Some(folder) = folders.last() else { return *name == "build.rs" };
    let holds_roots =
        |f: &str| ["tests", "examples", "benches", "fuzz_targets", "bin"].contains(&f);
    let manifest = || {
        fs::read_to_string(root().join(folders[..folders.len() - 1].join("/")).join("Cargo.toml"))
    };
    let is_named = || manifest().is_ok_and(|text| text.contains(&format!("path = \"src/{name}\"")));
    (*folder == "src" && (["lib.rs", "main.rs"].contains(name) || is_named()))
        || holds_roots(folder)
        || (*name == "main.rs" && folders.len() > 1 && holds_roots(folders[folders.len() - 2]))
        || *name == "build.rs"
}

#[test]
fn every_file_is_compiled() {
    let rust: Vec<Source> = sources().into_iter().filter(Source::is_rust).collect();
    let mut reached = BTreeSet::new();
    for source in rust.iter().filter(|s| is_crate_root(&s.path)) {
        reach(&root().join(&source.path).canonicalize().unwrap(), true, &mut reached);
    }
    let dead =
        rust.iter().filter(|s| !reached.contains(&root().join(&s.path).canonicalize().unwrap()));
    let dead: Vec<String> = dead.map(|s| s.path.clone()).collect();
    none(&dead, "every file is declared by `mod` somewhere");
}

/// Returns the folders of the workspace's crates, from the root; "" is the root package.
fn crates() -> Vec<String> {
    let mut folders = vec![String::new(), "python/".to_owned(), "xtask/".to_owned()];
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        folders.push(format!("crates/{}/", entry.unwrap().file_name().to_str().unwrap()));
    }
    folders.sort();
    folders
}

#[test]
fn crates_document_all_and_share_the_lints() {
    let mut broken = Vec::new();
    for folder in crates() {
        let read = |file: &str| fs::read_to_string(root().join(&folder).join(file));
        let manifest = read("Cargo.toml").unwrap();
        let top = read("src/lib.rs").or_else(|_| read("src/main.rs")).unwrap();
        if !top.lines().any(|line| line == "#![deny(missing_docs)]") {
            broken.push(format!("{folder}src: no #![deny(missing_docs)]"));
        }
        if !manifest.contains("[lints]\nworkspace = true\n") {
            broken.push(format!("{folder}Cargo.toml: the workspace's lints are not asked for"));
        }
    }
    none(&broken, "every crate documents its public items and shares the lints");
}

#[test]
fn unsafe_code_is_where_it_is_expected() {
    let mut found = BTreeSet::new();
    for source in sources().iter().filter(|s| s.is_rust() && s.path != "tests/tidy.rs") {
        if source.lines().any(|(_, line)| has_word(&unquoted(code(line)), "unsafe")) {
            found.insert(source.path.clone());
        }
    }
    let covers = |listed: &str, path: &str| match listed.ends_with('/') {
        true => path.starts_with(listed),
        false => path == listed,
    };
    let listed: Vec<&str> = UNSAFE.iter().map(|(path, _)| *path).collect();
    let unlisted = |path: &&String| !listed.iter().any(|l| covers(l, path));
    let new: Vec<String> = found.iter().filter(unlisted).cloned().collect();
    none(&new, "unsafe code in a file that is not listed in tests/tidy.rs");
    let empty = |l: &&&str| !found.iter().any(|path| covers(l, path));
    let gone: Vec<String> = listed.iter().filter(empty).map(|l| (*l).to_owned()).collect();
    none(&gone, "listed in tests/tidy.rs, but without unsafe code");
}

#[test]
fn files_are_written_in_one_place() {
    const CALLS: &[&str] = &[
        "File::create",
        "File::options",
        "OpenOptions",
        "fs::write",
        "fs::copy",
        "fs::rename",
        "fs::hard_link",
        "create_dir",
        "generate_to",
        "persist",
    ];
    let mut found = BTreeSet::new();
    for source in sources().iter().filter(|s| s.is_rust() && is_product(&s.path)) {
        let own = source.lines().map(|(_, line)| line).take_while(|line| *line != "#[cfg(test)]");
        if own.map(|line| unquoted(code(line))).any(|l| CALLS.iter().any(|call| l.contains(call))) {
            found.insert(source.path.clone());
        }
    }
    let listed = |path: &str| WRITERS.iter().any(|(writer, _)| path.starts_with(writer));
    let new: Vec<String> = found.iter().filter(|path| !listed(path)).cloned().collect();
    none(&new, "files are written by `millstream_files` alone: its `Outputs`, or `write`");
    let empty = |writer: &&str| !found.iter().any(|path| path.starts_with(writer));
    let gone: Vec<String> =
        WRITERS.iter().map(|(w, _)| *w).filter(empty).map(str::to_owned).collect();
    none(&gone, "listed in tests/tidy.rs, but writes no file");
}

#[test]
fn panics_are_caught_in_one_place() {
    let elsewhere = |s: &&Source| is_product(&s.path) && s.path != "crates/types/src/panics.rs";
    let mut broken = Vec::new();
    for source in sources().iter().filter(|s| s.is_rust()).filter(elsewhere) {
        for (at, line) in source.lines().filter(|(_, line)| has_word(code(line), "catch_unwind")) {
            broken.push(format!("{}:{at}: {}", source.path, line.trim()));
        }
    }
    none(&broken, "code of the program runs behind `millstream_types::catch_panic`");
}

/// Returns whether a source is part of the product or of its chores, and not of the tests.
fn is_product(path: &str) -> bool {
    let in_crate = path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
    let (name, inner) = in_crate.unwrap_or(("", path.strip_prefix("xtask/").unwrap_or(path)));
    name != "testing" && inner.starts_with("src/")
}

#[test]
fn the_rules_detect_violations() {
    assert!(is_product("crates/cli/src/main.rs") && is_product("src/lib.rs"));
    assert!(is_product("xtask/src/docs/mod.rs") && !is_product("crates/cli/tests/cli/main.rs"));
    assert!(!is_product("crates/testing/src/lib.rs") && !is_product("examples/custom_op.rs"));
    assert!(has_word("// DO it: now", "DO") && !has_word("UNDO", "DO") && !has_word("DO_", "DO"));
    assert_eq!(code("let x = 1; // why"), "let x = 1; ");
    assert_eq!(unquoted("a(\"b\", \"c\") d"), "a( ,  ) d");
    assert_eq!(declared_module("pub(crate) mod ring;"), Some("ring"));
    assert_eq!(declared_module("    pub mod a; // why"), Some("a"));
    assert_eq!(declared_module("mod tests {"), None);
    assert_eq!(declared_module("// mod gone;"), None);
    assert!(ends_within_text("let x = \"a") && !ends_within_text("let x = \"a\\\"\";"));
    assert!(is_text("    \"a text\","));
    let part = "`src/lib.rs`, then `main.rs`; `src/KIND/`, `KIND.rs`, `a::b` [x](docs/call.md#y)";
    let paths = |names: &[&str]| -> Vec<String> { names.iter().map(|n| (*n).to_owned()).collect() };
    let from_root = paths(&["src/lib.rs", "src", "docs/call.md"]);
    assert_eq!(named_paths(part), (from_root, paths(&["main.rs"])));
    assert_eq!(parts_of_page("a\nb\n\n```\nc\n```\n| d |"), ["a b ", " ", "| d | "]);
    assert!(!is_text("// a comment") && !is_text("let x = f(y);"));
    let builder = "/// A.\npub struct A;\nimpl<'a> A<'a> {\n  /// B.\n  pub fn b(\n  mut self,\n  ) \
                   -> A<'a> {\n  /// C.\n  pub fn c(self) -> Result<A> {\n  /// D.\n  pub fn d(&self) \
                   -> A {";
    let builder = Source { path: String::new(), text: builder.to_owned() };
    assert_eq!(items_without_examples(&builder, None), 3);
    assert!(is_crate_root("crates/kernels/tests/ops/main.rs") && is_crate_root("src/lib.rs"));
    assert!(!is_crate_root("crates/kernels/tests/ops/sums.rs") && !is_crate_root("src/a/lib.rs"));
}

/// Returns the names that the machine's crate exports from the crate below it.
fn exported_names() -> Vec<String> {
    let root = fs::read_to_string(root().join("crates/vm/src/lib.rs")).unwrap();
    let exports = root.split("pub use millstream_runtime::").skip(1);
    let names = exports.filter_map(|export| export.split(';').next()).flat_map(|export| {
        let list = export.rsplit("::").next().unwrap_or_default();
        list.split([',', '{', '}']).map(|name| name.trim().to_owned())
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// Returns whether a line and those after it begin a method that takes and returns a value of its
/// type, as the setters of builders do.
fn is_setter(lines: &[&str], own: &str) -> bool {
    let mut signature = String::new();
    for line in lines {
        signature += line.trim();
        if line.trim_end().ends_with(['{', ';']) {
            break;
        }
    }
    let (arguments, result) = signature.rsplit_once("->").unwrap_or_default();
    let result = result.split(['<', '{']).next().unwrap_or_default().trim();
    let takes_self = ["(self,", "(self)", "(mut self,", "(mut self)"];
    takes_self.iter().any(|start| arguments.contains(start)) && (result == own || result == "Self")
}

/// Returns how many public items with a comment have no example in it: all, or those of the types
/// and functions of these names. The example of a builder shows its setters.
fn items_without_examples(source: &Source, names: Option<&[String]>) -> usize {
    const ITEMS: &[&str] = &["fn", "struct", "enum", "trait", "type", "const", "static", "mod"];
    let (mut missing, mut comment, mut has_example) = (0, false, false);
    // What the line belongs to: a type's block, or itself.
    let (mut counts, mut is_hidden, mut own) = (names.is_none(), false, "");
    let lines: Vec<&str> = source.text.lines().collect();
    for (at, &whole) in lines.iter().enumerate() {
        if whole.starts_with("pub ") || whole.starts_with("impl") {
            let head = whole.split(['(', '=', '{']).next().unwrap_or_default();
            let mut words = head.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(names) = names {
                counts = words.any(|word| names.iter().any(|name| name == word));
            }
            own = head.split_whitespace().last().unwrap_or_default();
            own = own.split('<').next().unwrap_or_default();
        }
        let line = whole.trim();
        if line == "#[cfg(test)]" {
            break;
        }
        is_hidden |= line == "#[doc(hidden)]";
        if let Some(text) = line.strip_prefix("///") {
            comment = true;
            has_example |= text.contains("```");
        } else if !line.starts_with("#[") {
            let mut words =
                line.split([' ', '<', '(']).skip_while(|w| ["const", "unsafe"].contains(w));
            let is_item = words.next() == Some("pub")
                && words
                    .find(|w| !["unsafe", "async"].contains(w))
                    .is_some_and(|w| ITEMS.contains(&w));
            let is_bare = comment && is_item && !has_example && counts && !is_hidden;
            missing += usize::from(is_bare && !is_setter(&lines[at..], own));
            (comment, has_example, is_hidden) = (false, false, false);
        }
    }
    missing
}

#[test]
fn public_items_have_examples() {
    let (mut broken, names) = (Vec::new(), exported_names());
    assert!(names.iter().any(|name| name == "Blob"), "{names:?}");
    for source in sources() {
        // `cargo xtask docs` fails for a method or an option without an example.
        let is_exported = EXPORTED.iter().any(|path| source.path.starts_with(path))
            && !source.path.starts_with("crates/vm/src/tensor/methods/");
        let is_below = source.path.starts_with("crates/runtime/src/");
        if !is_exported && !is_below || !source.is_rust() {
            continue;
        }
        let missing = items_without_examples(&source, is_below.then_some(&names));
        if missing > 0 {
            broken.push(format!("{}: {missing}", source.path));
        }
    }
    none(&broken, "public items that the root crate exports have an example");
}

/// Each step of `docs/call.md` names a function that exists, and the questions of the architecture
/// name files that do.
#[test]
fn the_architecture_names_what_exists() {
    let page = ["ARCHITECTURE.md", "docs/call.md"]
        .map(|page| fs::read_to_string(root().join(page)).unwrap())
        .concat();
    let quoted = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let mut mistakes = Vec::new();
    let (mut steps, mut questions) = (0, 0);
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if let [_, name, path] = cells[..]
            && let ([name], [path]) = (&quoted(name)[..], &quoted(path)[..])
            && path.ends_with(".rs")
        {
            steps += 1;
            let text = fs::read_to_string(root().join(path)).unwrap_or_default();
            let is_there = ["(", "<"].iter().any(|end| text.contains(&format!("fn {name}{end}")));
            if !is_there {
                mistakes.push(format!("{path} has no function {name}"));
            }
        } else if let [question, files] = cells[..]
            && question.ends_with('?')
        {
            questions += 1;
            let paths = quoted(files).into_iter().filter(|path| path.starts_with("crates/"));
            for path in paths.filter(|path| !path.contains("FAMILY")) {
                if !root().join(&path).exists() {
                    mistakes.push(format!("{path} does not exist: {question}"));
                }
            }
        }
    }
    assert!(steps >= 20 && questions >= 25, "{steps} steps and {questions} questions were found");
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// Returns the parts of a page that name paths together: rows of tables, paragraphs and items.
fn parts_of_page(page: &str) -> Vec<String> {
    let (mut parts, mut in_code) = (vec![String::new()], false);
    for line in page.lines() {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        if in_code || is_fence {
            continue;
        }
        if line.is_empty() || line.starts_with('|') {
            parts.push(String::new());
        }
        let part = parts.last_mut().unwrap();
        part.push_str(line);
        part.push(' ');
    }
    parts
}

/// Returns the paths that a part of a page names, up to a word that stands for any name. First
/// those from the root, then those that continue one of them.
fn named_paths(part: &str) -> (Vec<String>, Vec<String>) {
    const ENDS: &[&str] = &[".rs", ".toml", ".py", ".md", ".hpp", ".json", ".txt", ".safetensors"];
    const ANY_NAME: &[&str] = &["FAMILY", "FORMAT", "KIND", "NAME"];
    let is_path = |word: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let has_stem = ENDS.iter().any(|end| word.len() > end.len() && word.ends_with(end));
        word.chars().all(is_part) && (word.contains('/') || has_stem)
    };
    let quoted = part.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
    let linked = part.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let words = quoted.chain(linked).map(|word| word.trim_matches([',', ';', '(', ')']));
    let paths = words.filter(|word| is_path(word)).filter_map(|word| {
        let is_known = |part: &&str| !part.split(['.', '_']).any(|w| ANY_NAME.contains(&w));
        let known: Vec<&str> = word.split('/').take_while(is_known).collect();
        (!known.is_empty()).then(|| known.join("/"))
    });
    paths.partition(|path| root().join(path.split('/').next().unwrap()).exists())
}

#[test]
fn the_index_lists_every_page_once() {
    let index = fs::read_to_string(root().join("docs/README.md")).unwrap();
    let mut mistakes = Vec::new();
    for source in sources() {
        let Some(page) = source.path.strip_prefix("docs/") else { continue };
        let times = index.matches(&format!("]({page})")).count();
        if page.ends_with(".md") && page != "README.md" && times != 1 {
            mistakes.push(format!("{}: {times} times", source.path));
        }
    }
    none(&mistakes, "docs/README.md lists each page once, by the question that it answers");
}

/// The recipes of CONTRIBUTING.md name files and folders that exist. A path that does not begin at
/// the root continues one that the same row or paragraph names, or a folder above it.
#[test]
fn recipes_name_what_exists() {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let (mut count, mut mistakes) = (0, Vec::new());
    for part in parts_of_page(&page) {
        let (from_root, continued) = named_paths(&part);
        count += from_root.len() + continued.len();
        let dead = from_root.iter().filter(|path| !root().join(path).exists());
        mistakes.extend(dead.cloned());
        let is_below = |path: &str, first: &String| {
            Path::new(first).ancestors().any(|folder| root().join(folder).join(path).exists())
        };
        let dead = continued.iter().filter(|path| !from_root.iter().any(|f| is_below(path, f)));
        mistakes.extend(dead.map(|path| format!("{path}: {part}")));
    }
    assert!(count > 150, "only {count} paths found: the search is broken");
    none(&mistakes, "a path in CONTRIBUTING.md exists");
}

/// Folders with a file for each family of ops, and their files that are no families.
const FAMILIES: &[(&str, &[&str])] = &[
    ("crates/ops/src/composite", &["args", "infer", "mod"]),
    ("crates/ops/src/derivative", &["call", "higher", "mod", "rule"]),
    ("crates/vm/src/tensor/methods", &["mod"]),
    ("crates/kernels/tests/reference", &[]),
    ("tools/reference/families", &[]),
    ("tools/reference/examples", &["composite"]),
    ("xtask/src/docs/examples/recorded", &["composite"]),
];

/// Families whose ops are all composites.
const COMPOSITE_FAMILIES: &[&str] = &["distance", "optimizer", "recurrent"];

fn stems(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries.filter(|path| !path.ends_with("__pycache__")).map(stem).collect()
}

#[test]
fn families_of_ops_have_one_name() {
    let mut known = stems("crates/ops/src");
    known.extend(COMPOSITE_FAMILIES.iter().map(|name| (*name).to_owned()));
    let mut broken = Vec::new();
    for (folder, others) in FAMILIES {
        let stems = stems(folder);
        assert!(others.iter().all(|other| stems.contains(*other)), "{folder}: {others:?}");
        let unknown =
            stems.iter().filter(|stem| !known.contains(*stem) && !others.contains(&stem.as_str()));
        broken.extend(unknown.map(|stem| format!("{folder}/{stem}")));
    }
    none(&broken, "a file of a family of ops has the name of the family's file in crates/ops");
}
