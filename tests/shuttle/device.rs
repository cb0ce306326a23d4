//! A program on a device whose commands a thread of its own runs, one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_ep::Registry;
use millstream_ep::cpu::CpuBackend;
use millstream_ep::sim::{Completion, SimBackend, SimConfig};
use millstream_types::DeviceId;
use shuttle::thread;

use crate::rig::*;
use crate::{Machine, MachineConfig};

/// Copies to a device and back, two of its streams, native events from the pool.
#[test]
fn a_device() {
    explore(|| {
        let devices = Registry::new();
        let when = SimConfig { completion: Completion::ByHand, ..SimConfig::default() };
        let sim = SimBackend::new(when);
        let hand = sim.control();
        devices.register(Arc::new(CpuBackend::new()));
        devices.register(Arc::new(sim));
        let over = Arc::new(AtomicBool::new(false));
        let stop = over.clone();
        let device = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                for stream in hand.streams() {
                    hand.step(stream.id).unwrap();
                    thread::yield_now();
                }
                thread::yield_now();
            }
        });
        {
            let m = Machine::new(config().devices(Arc::new(devices))).unwrap();
            let on = |k| m.compute(&DeviceId::sim(0), k).unwrap();
            let x = upload(&m, &on(0), 2);
            let y = call(&m, "mul", &[&x, &x], &on(1));
            let z = call(&m, "add", &[&x, &y], &on(0));
            drop((x, y));
            assert_eq!(read(&z), 6);
        }
        over.store(true, Ordering::Relaxed);
        device.join().unwrap();
    });
}
