//! The memory cases on the host and on a simulated device.

use millstream_testing::machine::{SIM, config};
use millstream_testing::memory_cases::Fixture;

millstream_testing::memory_tests!(Fixture { device: SIM, config });
