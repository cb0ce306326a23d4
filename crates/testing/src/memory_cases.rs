//! Rules 3, 5 and 6 for memory: when a released block is free, for which streams, and the cost of a
//! full memory. Each case runs under both drivers, on the host and on a device; some also run with
//! a pool in the place of a stream. [`memory_tests!`](crate::memory_tests) turns them into tests,
//! and `millstream gpu-check` runs them on a real device.

use std::collections::HashMap;

use crate::machine::{
    CPU, DRIVERS, Gate, MOST_EVENTS, add_failing_ops, bytes, call, checked, cpu, f32_spec,
};
use crate::machine::{read, slice, upload};
use millstream::instructions::Body;
use millstream::instructions::planner::ArenaUse;
use millstream::*;

use StreamMode::{InOrder, Pool};

/// The size of a block: the planner's granularity.
const BLOCK: u64 = 512;

/// The device on which the cases run besides the host, and a configuration that has it.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The device.
    pub device: DeviceId,
    /// Returns the configuration of a machine with two workers for the host, and the device.
    pub config: fn(DriverKind, SyncPolicy) -> MachineConfig,
}

impl Fixture {
    /// Returns a machine with ops that fail, on the host and on the device.
    pub fn failing(&self, driver: DriverKind) -> Machine {
        let mut config = (self.config)(driver, SyncPolicy::Frontier);
        add_failing_ops(&mut config);
        for op in ["fail", "panic"] {
            let kernel = config.kernels.get("cpu", op).cloned().expect("add_failing_ops adds it");
            config.kernels.register(self.device.kind(), op, kernel);
        }
        Machine::new(config).expect("making a machine opens no device")
    }
}

struct Case {
    m: Machine,
    device: DeviceId,
    a: Stream,
    b: Stream,
    c: Stream,
}

/// Runs `check` for each driver and device. `limit` is in blocks; without it the device's own
/// holds.
#[track_caller]
fn for_each_machine(
    on: &Fixture,
    modes: [StreamMode; 2],
    limit: Option<u64>,
    check: impl Fn(&Case),
) {
    for driver in DRIVERS {
        for device in [CPU, on.device.clone()] {
            let limits = limit.map(|blocks| (device.clone(), blocks * BLOCK));
            let config = (on.config)(driver, SyncPolicy::Frontier);
            let config = config.memory_limits(HashMap::from_iter(limits));
            let m = Machine::new(config).unwrap();
            let stream = |k: u32, mode| {
                m.stream_with_mode(&StreamKey::compute(device.clone(), k), mode).unwrap()
            };
            let [a, b, c] = [stream(0, modes[0]), stream(1, modes[1]), stream(2, InOrder)];
            m.start_recording(&[]).unwrap();
            let case = Case { m, device, a, b, c };
            check(&case);
            if let Ok(list) = case.m.finish_recording() {
                checked(&list);
            }
            case.m.synchronize().unwrap();
        }
    }
}

impl Case {
    /// Makes a tensor of one block, and writes it on the stream that made it.
    fn new_on(&self, stream: &Stream) -> Tensor {
        let x = self.m.empty(stream, f32_spec(&[128])).unwrap();
        self.m.call("fill", &[&x]).attr("value", 1.0).on(stream).unwrap();
        x
    }

    fn memory(&self) -> ArenaUse {
        let all = self.m.memory().unwrap();
        all.into_iter().find(|u| u.device == self.device).unwrap()
    }

    fn pending(&self) -> u64 {
        self.memory().pending
    }

    /// Returns the offset of each tensor in program order. Ends the recording.
    fn offsets(&self) -> Vec<u64> {
        let list = self.m.finish_recording().unwrap();
        checked(&list);
        let begun = list.instructions.iter().filter_map(|i| match &i.body {
            Body::AllocateTensor { placement, .. } => Some(placement.offset),
            _ => None,
        });
        begun.collect()
    }

    /// Returns the number of waits in the list so far.
    fn waits(&self) -> u64 {
        self.m.stats().unwrap().waits.emitted()
    }
}

/// The modes of A and B: both in order, then each of them a pool.
const KINDS: [[StreamMode; 2]; 3] = [[InOrder, InOrder], [InOrder, Pool], [Pool, InOrder]];

/// T1. A block that another stream used last is not free for the stream that made it.
pub fn used_elsewhere_it_is_pending(on: &Fixture) {
    for kinds in KINDS {
        for_each_machine(on, kinds, None, |t| {
            let x = t.new_on(&t.a);
            t.b.touch(&[&x]).unwrap();
            drop(x);
            assert_eq!(t.pending(), BLOCK);
            let _y = t.new_on(&t.a);
            assert_eq!(t.pending(), BLOCK);
            let offsets = t.offsets();
            assert_ne!(offsets[0], offsets[1]);
        });
    }
}

/// T2. Once the stream has waited for that use, the block is free. A pool learns nothing by a wait,
/// and everything by a fence.
pub fn waited_for_it_is_free(on: &Fixture) {
    for kinds in KINDS {
        for_each_machine(on, kinds, None, |t| {
            let x = t.new_on(&t.a);
            t.b.touch(&[&x]).unwrap();
            drop(x);
            let done = t.b.record_event().unwrap();
            t.a.wait_event(&done).unwrap();
            if kinds[0] == Pool {
                assert_eq!(t.pending(), BLOCK);
                t.m.barrier().unwrap();
            }
            assert_eq!(t.pending(), 0);
            let _y = t.new_on(&t.a);
            let offsets = t.offsets();
            assert_eq!(offsets[0], offsets[1]);
            assert_eq!(t.memory().steps.covered, 1);
        });
    }
}

/// T3. A record before the last use does not cover the use.
pub fn an_earlier_record_does_not_free_it(on: &Fixture) {
    for kinds in KINDS {
        for_each_machine(on, kinds, None, |t| {
            let x = t.new_on(&t.a);
            t.b.touch(&[&x]).unwrap();
            let early = t.b.record_event().unwrap();
            t.b.touch(&[&x]).unwrap();
            drop(x);
            t.a.wait_event(&early).unwrap();
            assert_eq!(t.pending(), BLOCK);
            let _y = t.new_on(&t.a);
            let offsets = t.offsets();
            assert_ne!(offsets[0], offsets[1]);
        });
    }
}

/// T4. With a memory of two blocks, both pending, the third allocation waits once. A stream waits
/// by itself; for a pool the host waits.
pub fn a_full_memory_costs_one_wait(on: &Fixture) {
    for kinds in KINDS {
        for_each_machine(on, kinds, Some(2), |t| {
            let [x, y] = [(); 2].map(|()| t.new_on(&t.a));
            t.b.touch(&[&x]).unwrap();
            t.b.touch(&[&y]).unwrap();
            drop((x, y));
            assert_eq!(t.pending(), 2 * BLOCK);
            let before = (t.waits(), t.m.stats().unwrap().of(instructions::Kind::HostObserved));
            let _z = t.m.empty(&t.a, f32_spec(&[128])).unwrap();
            let after = (t.waits(), t.m.stats().unwrap().of(instructions::Kind::HostObserved));
            let steps = t.memory().steps;
            let waits = (after.0 - before.0, after.1 - before.1);
            if kinds[0] == Pool {
                assert_eq!((waits, steps.stream_waits, steps.host_waits), ((0, 1), 0, 1));
            } else {
                assert_eq!((waits, steps.stream_waits, steps.host_waits), ((1, 0), 1, 0));
                // The older of the two.
                let offsets = t.offsets();
                assert_eq!(offsets[0], offsets[2]);
            }
        });
    }
}

/// T5. The uses of every stream must be covered.
pub fn one_of_two_users_is_not_enough(on: &Fixture) {
    for kinds in KINDS {
        for_each_machine(on, kinds, None, |t| {
            let x = t.new_on(&t.a);
            t.b.touch(&[&x]).unwrap();
            t.c.touch(&[&x]).unwrap();
            drop(x);
            t.a.wait_stream(&t.b).unwrap();
            assert_eq!(t.pending(), BLOCK);
            let _y = t.new_on(&t.a);
            let offsets = t.offsets();
            assert_ne!(offsets[0], offsets[1]);
        });
    }
}

/// T6. A stream may learn of another's progress through a third.
pub fn knowledge_comes_through_others(on: &Fixture) {
    for kinds in KINDS {
        for_each_machine(on, kinds, None, |t| {
            let x = t.new_on(&t.a);
            t.b.touch(&[&x]).unwrap();
            drop(x);
            t.c.wait_stream(&t.b).unwrap();
            t.a.wait_stream(&t.c).unwrap();
            if kinds[0] == Pool {
                assert_eq!(t.pending(), BLOCK);
                // The host has observed C, and through it B and A's own use.
                t.c.synchronize().unwrap();
            }
            assert_eq!(t.pending(), 0);
            let _y = t.new_on(&t.a);
            let offsets = t.offsets();
            assert_eq!(offsets[0], offsets[1]);
        });
    }
}

/// T7. Uses across streams need no event of their own.
pub fn ten_thousand_uses_elsewhere_make_a_few_events(on: &Fixture) {
    for_each_machine(on, [InOrder, InOrder], None, |t| {
        t.m.finish_recording().unwrap();
        for k in 0..10_000 {
            let x = t.new_on(&t.a);
            t.b.touch(&[&x]).unwrap();
            if k % 10 == 9 {
                t.a.wait_stream(&t.b).unwrap();
            }
        }
        // At most this many events in flight, the last eight of each stream, and one being
        // requested.
        let (created, most) = (t.m.stats().unwrap().events_created, MOST_EVENTS + 2 * 8 + 1);
        assert!(created <= most, "{created} events");
        assert!(t.memory().reserved <= 1 << 20, "{}", t.memory());
    });
}

/// T8. A stream without free blocks takes those of other streams whose last use it covers.
pub fn blocks_of_other_streams_are_taken(on: &Fixture) {
    for_each_machine(on, [InOrder, InOrder], Some(1), |t| {
        drop(t.new_on(&t.a));
        t.b.wait_stream(&t.a).unwrap();
        let _y = t.new_on(&t.b);
        let offsets = t.offsets();
        assert_eq!((offsets[0], t.memory().steps.elsewhere), (offsets[1], 1));
    });
}

/// T9. Free memory in pieces returns to the device to make room for one large piece.
pub fn pieces_are_given_back_for_a_large_one(on: &Fixture) {
    let large = |n: usize| f32_spec(&[n << 18]);
    for_each_machine(on, [InOrder, InOrder], Some(3 << 11), |t| {
        for stream in [&t.a, &t.b] {
            let x = t.m.empty(stream, large(1)).unwrap();
            t.m.call("fill", &[&x]).attr("value", 1.0).on(stream).unwrap();
            let y = t.m.empty(stream, large(1)).unwrap();
            drop((x, y));
        }
        let x = t.m.empty(&t.a, large(3)).unwrap();
        t.m.call("fill", &[&x]).attr("value", 2.0).on(&t.a).unwrap();
        let steps = t.memory().steps;
        assert!(steps.given_back >= 2, "{steps:?}");
        assert_eq!((t.memory().reserved, t.memory().in_use), (3 << 20, 3 << 20));
        assert_eq!(read(&slice(&t.m, &x, (3 << 18) - 1, 3 << 18, &t.a)), [2.0]);
    });
}

/// T10. Failing and panicking kernels, and waits that were abandoned, keep no memory.
pub fn failures_and_waits_given_up_keep_nothing(on: &Fixture) {
    for driver in DRIVERS {
        let m = on.failing(driver);
        for (round, op) in ["fail", "panic", "fail", "relu"].into_iter().enumerate() {
            for device in [CPU, on.device.clone()] {
                let (s, t) = (m.compute(&device, 0).unwrap(), m.compute(&device, 1).unwrap());
                let x = m.upload(&s, f32_spec(&[200]), bytes(&[round as f32; 200])).unwrap();
                let y = call(&m, op, &[&x], &s);
                let z = call(&m, "add", &[&y, &x], &t);
                drop(t.completion().unwrap());
                let _ = t.synchronize_for(std::time::Duration::ZERO);
                assert_eq!(z.read().is_ok(), op == "relu");
            }
            let _ = m.synchronize();
            m.clear_failures();
            for usage in m.memory().unwrap() {
                assert_eq!((usage.in_use, usage.pending), (0, 0), "{usage}");
            }
        }
    }
}

/// T11. The memory that a host function holds comes back when it has run. A request that does not
/// fit waits for it before it is refused.
pub fn what_a_host_function_holds_comes_back(on: &Fixture) {
    let config = (on.config)(DriverKind::Threaded, SyncPolicy::Frontier);
    let config = config.memory_limits(HashMap::from([(CPU, 2 * BLOCK)]));
    let m = Machine::new(config).unwrap();
    let s = cpu(&m, 0);
    let (x, held) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[2.0]));
    let gate = Gate::on(&x);
    gate.entered();
    x.access(Access::Read, move |_: &mut Blob<'_>| {
        drop(held);
        Ok(())
    })
    .unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| upload(&s, &m, &[3.0]));
        gate.open();
        assert_eq!(read(&waiting.join().unwrap()), [3.0]);
    });
    assert_eq!(m.memory().unwrap()[0].steps.refused, 0);
    let error = m.empty(&s, f32_spec(&[1000])).unwrap_err();
    assert!(matches!(error.without_place(), Error::OutOfMemory { .. }));
    assert_eq!(m.memory().unwrap()[0].steps.refused, 1);
}

/// A case: its name, and the function that panics where the case does not hold.
pub type NamedCase = (&'static str, fn(&Fixture));

/// The cases.
pub const CASES: &[NamedCase] = &[
    ("T1: used on another stream, a block is pending", used_elsewhere_it_is_pending),
    ("T2: after a wait, it is free", waited_for_it_is_free),
    ("T3: an earlier record does not free it", an_earlier_record_does_not_free_it),
    ("T4: a full memory costs one wait", a_full_memory_costs_one_wait),
    ("T5: one of two users is not enough", one_of_two_users_is_not_enough),
    ("T6: knowledge passes through other streams", knowledge_comes_through_others),
    ("T7: many uses make few events", ten_thousand_uses_elsewhere_make_a_few_events),
    ("T8: blocks of other streams are taken", blocks_of_other_streams_are_taken),
    ("T9: pieces are returned for a large block", pieces_are_given_back_for_a_large_one),
    ("T10: failures keep nothing", failures_and_waits_given_up_keep_nothing),
    (
        "T11: the memory that a host function holds comes back",
        what_a_host_function_holds_comes_back,
    ),
];

/// Makes a test of each memory case on a [`Fixture`](crate::memory_cases::Fixture).
#[macro_export]
macro_rules! memory_tests {
    ($fixture:expr) => {
        $crate::memory_tests! { $fixture;
            used_elsewhere_it_is_pending
            waited_for_it_is_free
            an_earlier_record_does_not_free_it
            a_full_memory_costs_one_wait
            one_of_two_users_is_not_enough
            knowledge_comes_through_others
            ten_thousand_uses_elsewhere_make_a_few_events
            blocks_of_other_streams_are_taken
            pieces_are_given_back_for_a_large_one
            failures_and_waits_given_up_keep_nothing
            what_a_host_function_holds_comes_back
        }
    };
    ($fixture:expr; $($name:ident)*) => {$(
        #[test]
        fn $name() {
            $crate::memory_cases::$name(&$fixture);
        }
    )*};
}
