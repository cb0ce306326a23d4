//! Readers take memory in proportion to the file, by the count of an allocator: the most bytes in
//! use while a file is read, which are the same in every run.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_timelines::read_bytes;

/// The system's allocator, with the bytes in use and the most of them so far.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: each call passes its arguments on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns how many times the size of a file the reader takes at most.
fn share(text: String) -> usize {
    let size = text.len();
    let before = USED.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let timeline = read_bytes("file", text.into_bytes()).unwrap();
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(!timeline.profile.instructions.is_empty());
    most.div_ceil(size)
}

/// Ops of a thread, each within the one before.
fn nested_ops(count: usize) -> String {
    let mut text = "{\"traceEvents\": [".to_owned();
    for k in 0..count {
        let (start, length) = (k, 2 * count - 2 * k);
        let op = r#""ph":"X","cat":"cpu_op","pid":1,"tid":1"#;
        write!(text, "{{{op},\"name\":\"aten::op{k}\",\"ts\":{start},\"dur\":{length}}},").unwrap();
    }
    text + "]}"
}

/// Nodes in rounds over all streams. Each comes after the node before it, and after an earlier one.
fn streams(count: usize, rounds: usize) -> String {
    let mut text = "{\"version\": \"0.0.4\"}\n".to_owned();
    for k in 1..=count * rounds {
        let (stream, early) = (k % count, k / 2);
        writeln!(
            text,
            "{{\"id\":\"{k}\",\"name\":\"gemm\",\"type\":\"COMP_NODE\",\"durationMicros\":\"1\",\
             \"dataDeps\":[\"{}\",\"{early}\"],\"attr\":[{{\"name\":\"stream\",\"int64Val\":\
             \"{stream}\"}}]}}",
            k - 1
        )
        .unwrap();
    }
    text
}

#[test]
fn memory_is_in_proportion_to_the_file() {
    for (what, text) in [
        ("300 nested ops", nested_ops(300)),
        ("3,000 nested ops", nested_ops(3_000)),
        ("64 streams", streams(64, 20)),
        ("512 streams", streams(512, 20)),
    ] {
        let share = share(text);
        println!("{what}: {share} times the file");
        assert!(share <= 30, "{what}: {share} times the file");
    }
}
