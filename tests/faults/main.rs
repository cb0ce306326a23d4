//! Every fault at every position of small programs: nothing hangs, no wrong value passes as right,
//! nothing leaks, and the machine then runs a healthy program.

mod fixture;
mod stuck;

use millstream::DriverKind;
use millstream::ep::faults::Fault;

use fixture::{Kind, Machines};
use millstream_testing::faults::case;
use millstream_testing::faults::check::{positions, try_one};

const DRIVERS: [(DriverKind, u64); 4] = [
    (DriverKind::Threaded, 0),
    (DriverKind::Inline, 0),
    (DriverKind::Simulated, 1),
    (DriverKind::Simulated, 2),
];

/// Tries every position of every case, under every driver, on either device. Returns the number of
/// positions.
fn try_all(kind: Kind) -> u64 {
    let mut tried = 0;
    for case in case::all(&fixture::DEVICE, true) {
        for driver in DRIVERS {
            // A cancellation has no device.
            let devices = if kind == Kind::Cancel { &["sim"][..] } else { &["sim", "cpu"] };
            for device in devices {
                for at in 1..=positions::<Machines>(&case, driver, kind, device) {
                    try_one::<Machines>(&case, driver, kind, device, at);
                    tried += 1;
                }
            }
        }
    }
    tried
}

macro_rules! exhaustive {
    ($($name:ident: $kind:expr;)*) => {$(
        #[test]
        fn $name() {
            let tried = try_all($kind);
            println!("{tried} positions");
            assert!(tried > 0);
        }
    )*};
}

exhaustive! {
    an_allocation_fails: Kind::Once(Fault::Allocation);
    allocations_fail_from_then_on: Kind::From(Fault::Allocation);
    an_event_creation_fails: Kind::Once(Fault::EventCreation);
    event_creations_fail_from_then_on: Kind::From(Fault::EventCreation);
    a_stream_creation_fails: Kind::Once(Fault::StreamCreation);
    a_launch_is_refused: Kind::Once(Fault::LaunchRefused);
    a_kernel_fails: Kind::Once(Fault::WorkError);
    a_kernel_panics: Kind::Once(Fault::WorkPanic);
    a_kernel_fails_after_its_run: Kind::Once(Fault::WorkErrorAfterRun);
    a_record_is_refused: Kind::Once(Fault::RecordRefused);
    a_wait_is_refused: Kind::Once(Fault::WaitRefused);
    a_record_fails_late: Kind::Once(Fault::RecordFailsLate);
    a_wait_fails_late: Kind::Once(Fault::WaitFailsLate);
    a_copy_fails_half_way: Kind::HalfCopy;
    submitted_work_is_cancelled: Kind::Cancel;
    a_device_is_lost: Kind::Once(Fault::DeviceLost);
}
