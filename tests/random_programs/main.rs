//! Random programs, which create and drop streams: worker threads and the simulation give the
//! results of the inline driver, the checker accepts every list, and lists do not depend on the
//! driver. The fuzz target `programs` makes the same programs from its input.

mod body;
mod captured;
mod executables;
mod memory;
mod sizes;
mod surface;

use millstream::{DriverKind, MachineConfig, SyncPolicy};
use millstream_testing::programs::{Step, run};
use proptest::prelude::*;

fn config(driver: DriverKind, sync: SyncPolicy) -> MachineConfig {
    MachineConfig::default().driver(driver).sync(sync).host_workers(3).threads(1)
}

/// Returns the number of programs: `MILLSTREAM_CASES`, or few enough for every run of the tests.
fn cases() -> u32 {
    let wanted = std::env::var("MILLSTREAM_CASES").ok();
    wanted.and_then(|count| count.parse().ok()).unwrap_or(millstream_testing::cases(400, 3000))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn threads_give_the_inline_results(
        streams in 1u8..=8,
        pools in prop_oneof![Just(0u8), any::<u8>()],
        last_used: bool,
        steps in proptest::collection::vec(any::<Step>(), 1..40),
    ) {
        let sync = if last_used { SyncPolicy::LastUsedStream } else { SyncPolicy::Frontier };
        let inline = run(config(DriverKind::Inline, sync), streams, pools, &steps);
        for driver in [DriverKind::Threaded, DriverKind::Simulated] {
            let other = run(config(driver, sync), streams, pools, &steps);
            prop_assert_eq!(&inline.values, &other.values);
            prop_assert_eq!(&inline.list, &other.list);
        }
    }
}
