//! Prepared calls take nothing from the heap, on any thread, once a machine has run for a while.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use millstream::*;

/// The system's allocator, with a count of what is asked of it.
struct Counting;

/// Relaxed: read only while no thread but the test's own has anything to do.
static ASKED: AtomicU64 = AtomicU64::new(0);

// SAFETY: each call goes on to the system's allocator with the arguments that it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// So many calls on streams in turns, and a wait for all of them.
fn round(machine: &Machine, add: &Prepared, x: &[TensorHandle], streams: &[Stream], single: bool) {
    let mut batch = machine.batch();
    for k in 0..500 {
        let (a, b) = (x[k % x.len()], x[(k * 7 + 3) % x.len()]);
        batch.call_with(add, &[a, b], &streams[k % streams.len()]).unwrap();
    }
    drop(batch);
    for stream in streams.iter().filter(|_| single) {
        add.on(stream).unwrap();
    }
    machine.synchronize().unwrap();
}

/// One test alone: another's allocations would be counted.
#[test]
fn a_prepared_call_allocates_nothing() {
    let workers = 2;
    let config = MachineConfig::default().host_workers(workers);
    let machine = Machine::new(config).unwrap();
    let spec = TensorSpec::contiguous(DType::F32, &[4]).unwrap();
    for count in [1, 4] {
        let stream = |k| machine.compute(&DeviceId::cpu(0), k).unwrap();
        let streams: Vec<Stream> = (0..count).map(stream).collect();
        let zeros = || machine.upload(&streams[0], spec.clone(), vec![0; 16]).unwrap();
        let tensors: Vec<Tensor> = (0..10).map(|_| zeros()).collect();
        let add = machine.prepare("add_", &[&tensors[0], &tensors[1]], Attrs::new()).unwrap();
        let handles: Vec<TensorHandle> = tensors.iter().map(Tensor::handle).collect();
        (0..20).for_each(|_| round(&machine, &add, &handles, &streams, true));
        let before = ASKED.load(Ordering::Relaxed);
        (0..20).for_each(|_| round(&machine, &add, &handles, &streams, true));
        let asked = ASKED.load(Ordering::Relaxed) - before;
        // Each wait for all makes the list of what it waits for, and now and then its place there.
        let waits = 2 * 20;
        assert!(asked <= waits, "{asked} allocations in 10,000 calls on {count} stream(s)");
    }
}
