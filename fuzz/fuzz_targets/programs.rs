//! Random programs: the inline driver, worker threads and the simulated driver give the same results
//! and the same list, and the checker accepts it. The programs are those of `tests/random_programs`.
//!
//! `cargo +nightly fuzz run programs`

#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream::{DriverKind, MachineConfig, Simulation, SyncPolicy};

#[path = "../../tests/random_programs/steps.rs"]
mod steps;

use steps::{Step, run};

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
