//! Fixtures that several test programs share.
//!
//! # Map
//! | module | contents |
//! |---|---|
//! | [`machine`] | machines with simulated devices, tensors of f32, lists as text |
//! | [`memory_cases`] | when released memory may be placed again: cases for any device |
//! | [`list_oracle`] | whether a list is sound, by brute force |
//! | [`faults`] | small programs, the fault matrix over them, its oracle |
//! | [`observed_rank`] | a rank's connection that notes what its machine asks of it |
//! | [`programs`] | programs of random steps |
//! | `kernels` | calls of kernels without a machine, and PyTorch's values |

#![deny(missing_docs)]

pub mod list_oracle;

/// Returns how many cases a test tries: `all` of them where the variable `MILLSTREAM_TESTS` is
/// `all`, as in CI, and elsewhere `usual`, so that the tests take minutes.
pub fn cases<T>(usual: T, all: T) -> T {
    if std::env::var_os("MILLSTREAM_TESTS").is_some_and(|tests| tests == "all") {
        all
    } else {
        usual
    }
}

#[cfg(feature = "kernels")]
pub mod kernels;

#[cfg(feature = "machine")]
pub mod faults;
#[cfg(feature = "machine")]
pub mod machine;
#[cfg(feature = "machine")]
pub mod memory_cases;
#[cfg(feature = "machine")]
pub mod observed_rank;
#[cfg(feature = "machine")]
pub mod programs;
