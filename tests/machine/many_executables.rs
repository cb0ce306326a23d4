//! Executables that come and go leave nothing behind: memory, streams, events and ids serve the
//! next ones.

use std::sync::Arc;

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::sim::{SimBackend, SimConfig};
use millstream::*;
use millstream_testing::machine::*;

/// Compiles y = relu(x) + x on two streams of a device.
fn compiled(m: &Machine, device: &DeviceId) -> Executable {
    let recorded = m.record(|r| {
        let x = r.input_on("x", f32_spec(&[2]), device)?;
        let [a, b] = [0, 1].map(|k| r.stream(&StreamKey::compute(device.clone(), k)));
        let t = r.call("relu", &[x]).on(a?)?[0];
        let y = r.call("add", &[t, x]).on(b?)?[0];
        r.output("y", &y)
    });
    recorded.unwrap().compile().unwrap()
}

/// What a machine and its simulated device hold.
#[derive(Debug, PartialEq)]
struct Held {
    /// The bytes reserved, by device.
    reserved: Vec<u64>,
    streams: usize,
    native_streams: u64,
    /// The slots of tensors that have been used, the slots of events, and the native events. How
    /// many there are depends on how far the program runs ahead.
    slots: [u64; 3],
}

fn held(m: &Machine, sim: &ep::sim::SimControl, device: &DeviceId) -> Held {
    let stream = m.compute(device, 0).unwrap();
    let native = sim.stats(0).unwrap();
    let free = m.empty(&stream, f32_spec(&[2])).unwrap().tensor_ref().id.index();
    Held {
        reserved: m.memory().unwrap().iter().map(|arena| arena.reserved).collect(),
        streams: m.stream_keys().unwrap().len(),
        native_streams: native.streams_created,
        slots: [free as u64, m.stats().unwrap().events_created, native.events_created],
    }
}

/// How many executables may run at the same time.
const AHEAD: u64 = 25;

#[test]
fn nothing_is_left() {
    for (driver, device) in ALL_DRIVERS.into_iter().flat_map(|d| [(d, CPU), (d, SIM)]) {
        let backend = SimBackend::new(SimConfig::default());
        let control = backend.control();
        let devices = Registry::new();
        devices.register(Arc::new(CpuBackend::new()));
        devices.register(Arc::new(backend));
        let config = config(driver, SyncPolicy::Frontier).devices(Arc::new(devices));
        let m = Machine::new(config).unwrap();
        let s = m.compute(&device, 0).unwrap();
        let x = upload(&s, &m, &[1.0, -2.0]);
        let mut first = None;
        for k in 0..600u64 {
            let step = compiled(&m, &device);
            let launched = step.launch().input("x", &x).run().unwrap();
            if k % 200 == 0 {
                assert_eq!(read(launched.output("y").unwrap()), [2.0, -2.0]);
            }
            // It is dropped while it runs.
            drop((step, launched));
            if k % AHEAD == 0 {
                m.synchronize().unwrap();
                let now = held(&m, &control, &device);
                let what = format!("{driver:?} on {device}, executable {k}: {now:?}");
                // Each has three tensors, and two events on a device.
                assert!(now.slots.iter().all(|slots| *slots <= 5 * AHEAD), "{what}");
                // The first ones have made everything that the others use.
                let now = Held { slots: [0; 3], ..now };
                if k == 4 * AHEAD {
                    first = Some(now);
                } else if k > 4 * AHEAD {
                    assert_eq!(Some(now), first, "{what}");
                }
            }
        }
        assert!(m.worker_threads().unwrap() <= 8);
    }
}
