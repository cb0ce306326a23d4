//! Rule 5: a limit that is reached forces a wait, which the list then contains. An allocation fails
//! only if no memory can become free.

use std::collections::HashMap;
use std::sync::Arc;

use millstream::ep::cpu::CpuBackend;
use millstream::ep::sim::{SimBackend, SimConfig};
use millstream::*;
use millstream_testing::machine::*;

/// Returns a machine with memory for four blocks of 512 bytes, the planner's granularity.
fn small(driver: DriverKind) -> Machine {
    let config = config(driver, SyncPolicy::Frontier);
    Machine::new(config.memory_limits(HashMap::from([(CPU, 2048)]))).unwrap()
}

#[test]
fn memory_pending_on_another_stream_is_awaited() {
    let mut lists = Vec::new();
    for driver in ALL_DRIVERS {
        let m = small(driver);
        let (s, t) = (cpu(&m, 0), cpu(&m, 1));
        let x = upload(&s, &m, &[1.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let mut held: Vec<Tensor> = (0..3).map(|_| call(&m, "copy", &[&x], &s)).collect();
        held.remove(0);
        // One block is left, and the frontier of `t` does not cover its last use on `s`.
        let y = call(&m, "add", &[&x, &x], &t);
        let list = m.finish_recording().unwrap();
        checked(&list);
        assert_eq!((read(&y), read(&held[1])), (vec![2.0], vec![1.0]));
        lists.push(listing(&list));
    }
    assert_eq!(lists[0], lists[1]);
    insta::assert_snapshot!(lists[0], @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    arena a0 cpu:0
    external %0 "x" f32[1] in 4 bytes of a0
    AllocateTensor s0 %1 f32[1] as 4 bytes at a0+512 generation 2
    OpCall s0:2 copy (%0 read, %1 write)
    AllocateTensor s0 %2 f32[1] as 4 bytes at a0+1024 generation 3
    OpCall s0:3 copy (%0 read, %2 write)
    AllocateTensor s0 %3 f32[1] as 4 bytes at a0+1536 generation 4
    OpCall s0:4 copy (%0 read, %3 write)
    ReleaseTensor %1
    SoftSyncStream s1 needs s0:2 for () by-host
    StreamWaitEvent s1:1 until s0:2 by-host
    AllocateTensor s1 %4 f32[1] as 4 bytes at a0+512 generation 5
    SoftSyncStream s1 needs s0:1 for (%0) elided-fenced
    OpCall s1:2 add (%0 read, %0 read, %4 write)
    "#);
}

/// While one thread waits for memory, other threads use the machine and can release memory. On a
/// pool the host waits, because the pool's next instruction would not depend on a wait before it.
#[test]
fn the_wait_holds_no_lock() {
    for mode in [StreamMode::InOrder, StreamMode::Pool] {
        let m = small(DriverKind::Threaded);
        let s = cpu(&m, 0);
        let t = m.stream_with_mode(&StreamKey::compute(CPU, 1), mode).unwrap();
        let x = upload(&s, &m, &[1.0; 256]);
        let gate = Gate::on(&x);
        gate.entered();
        let y = upload(&t, &m, &[2.0; 128]);
        drop(x);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| upload(&t, &m, &[3.0; 256]));
            for _ in 0..10_000 {
                assert!(!s.query().unwrap());
                m.stats().unwrap();
            }
            gate.open();
            let z = waiting.join().unwrap();
            assert_eq!((read(&y), read(&z)), (vec![2.0; 128], vec![3.0; 256]));
        });
    }
}

#[test]
fn an_allocation_fails_if_no_memory_can_become_free() {
    for driver in ALL_DRIVERS {
        let m = small(driver);
        let s = cpu(&m, 0);
        let (held, line): (Vec<Tensor>, u32) =
            ((0..4).map(|k| upload(&s, &m, &[k as f32])).collect(), line!());
        let error = m.call("relu", &[&held[0]]).on(&s).unwrap_err();
        let text =
            error.without_place().to_string().replace(&format!("{}:{line}", file!()), "HERE");
        assert!(error.is_runtime());
        insta::allow_duplicates!(
            insta::assert_snapshot!(text, @"out of memory on cpu:0: 4 bytes wanted for f32[1], a result of relu, 2048 of 2048 in use; most of it is held by %0 f32[1], 4 bytes, made at HERE; %1 f32[1], 4 bytes, made at HERE; %2 f32[1], 4 bytes, made at HERE")
        );
        let huge = m.empty(&s, f32_spec(&[1 << 40])).unwrap_err();
        assert!(matches!(huge.without_place(), Error::OutOfMemory { .. }), "{huge}");
        // Nothing was emitted, and the machine still works.
        drop(held);
        let x = upload(&s, &m, &[1.0]);
        assert_eq!(read(&call(&m, "relu", &[&x], &s)), [1.0]);
    }
}

/// MXNet's trap: a loop that allocates and frees must not run ahead of the device.
#[test]
fn a_loop_of_temporaries_stays_within_the_limit() {
    let m = small(DriverKind::Threaded);
    let s: Vec<Stream> = (0..2).map(|k| cpu(&m, k)).collect();
    let mut x = upload(&s[0], &m, &[1.0]);
    for k in 0..2000 {
        x = call(&m, "relu", &[&x], &s[k % 2]);
    }
    assert_eq!(read(&x), [1.0]);
    assert!(m.memory().unwrap()[0].peak <= 2048);
}

/// Another machine has nearly all memory of the device. If the device cannot give a whole chunk,
/// the arena takes only the bytes of the request.
#[test]
fn a_small_request_succeeds_on_a_nearly_full_device() {
    for driver in [DriverKind::Inline, DriverKind::Threaded] {
        let devices = ep::Registry::new();
        let sim_config = SimConfig { memory_limit: 1 << 16, ..SimConfig::default() };
        devices.register(Arc::new(CpuBackend::new()));
        devices.register(Arc::new(SimBackend::new(sim_config)));
        let devices = Arc::new(devices);
        let machine = || {
            let config = MachineConfig::default().driver(driver).threads(1);
            Machine::new(config.devices(devices.clone())).unwrap()
        };
        let (m, other) = (machine(), machine());
        let (s, t) = (sim(&m, 0), sim(&other, 0));
        let elements = (1 << 16) / 8;
        let half = m.empty(&s, f32_spec(&[elements])).unwrap();
        let rest = other.empty(&t, f32_spec(&[elements - 128])).unwrap();
        let x = m.empty(&s, f32_spec(&[1])).unwrap();
        m.call("fill", &[&x]).attr("value", 3.0).on(&s).unwrap();
        assert_eq!(read(&x), [3.0]);
        let more = m.empty(&s, f32_spec(&[1])).unwrap_err();
        assert!(matches!(more.without_place(), Error::OutOfMemory { .. }), "{more}");
        drop((half, rest, x));
    }
}

/// The machine gives back what it keeps for later tensors, and nothing that a tensor holds.
#[test]
fn free_memory_is_returned() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 0);
        let kept = upload(&s, &m, &[1.0]);
        let large = call(&m, "cat", &[&upload(&s, &m, &[2.0; 1 << 20])], &s);
        let copied = call(&m, "copy", &[&large], &s);
        let reserved = || m.memory().unwrap().iter().map(|of| of.reserved).sum::<u64>();
        let before = reserved();
        drop((large, copied));
        let returned = m.empty_cache().unwrap();
        assert!(returned >= 1 << 22, "{driver:?}: {returned} of {before}");
        assert_eq!(before - returned, reserved(), "{driver:?}");
        assert_eq!(m.empty_cache().unwrap(), 0, "{driver:?}");
        assert_eq!(read(&kept), [1.0]);
        assert_eq!(read(&upload(&s, &m, &[3.0])), [3.0]);
    }
}
