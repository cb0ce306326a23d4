//! Runs the random programs of `tests/random_programs`: the inline, the threaded and the simulated
//! driver produce the same results and the same list, and the checker accepts the list.
//!
//! `cargo +nightly fuzz run programs`

#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream::{DriverKind, MachineConfig, Simulation, SyncPolicy};

use millstream_testing::programs::{Step, run};

fuzz_target!(|input: (u8, u8, bool, u64, Vec<Step>)| {
    let (streams, pools, last_used, seed, steps) = input;
    let steps = &steps[..steps.len().min(60)];
    let config = |driver| {
        MachineConfig::default()
            .driver(driver)
            .sync(if last_used { SyncPolicy::LastUsedStream } else { SyncPolicy::Frontier })
            .simulation(Simulation { seed, ..Default::default() })
            .host_workers(3)
            .threads(1)
    };
    let inline = run(config(DriverKind::Inline), 1 + streams % 8, pools, steps);
    for driver in [DriverKind::Threaded, DriverKind::Simulated] {
        let other = run(config(driver), 1 + streams % 8, pools, steps);
        assert_eq!(inline.values, other.values);
        assert_eq!(inline.list, other.list);
    }
});
