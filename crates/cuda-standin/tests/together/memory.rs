//! The memory cases on the host and on the stand-in's device.

use millstream_testing::memory_cases::Fixture;

use crate::common::{SIM, config};

millstream_testing::memory_tests!(Fixture { device: SIM, config });
