//! Every fault at every position of the small programs of `tests/faults`, on `ep::cuda`: of the backend
//! by its wrapper, of the driver at its calls, and streams that stall.

mod rig;
mod stalls;

use millstream::DriverKind;
use millstream::ep::faults::Fault;
use millstream_cuda_standin::code;

use millstream_testing::faults::case;
use millstream_testing::faults::check::{positions, try_one};
use rig::{DEVICE, Kind, Machines};

const DRIVERS: [(DriverKind, u64); 2] = [(DriverKind::Threaded, 0), (DriverKind::Inline, 0)];

/// Questions and markers: how many there are depends on time. The first ones are always there.
const TIMED: [&str; 2] = ["cuEventQuery", "cuEventRecord"];

/// As many positions of those are tried.
const FIRST: u64 = 6;

/// Every position of every case, under both drivers. Returns how many there were.
fn try_all(kind: Kind) -> u64 {
    let mut tried = 0;
    for case in case::all(&DEVICE, false) {
        for driver in DRIVERS {
            let mut most = positions::<Machines>(&case, driver, kind, "cuda");
            if kind.call().is_some_and(|call| TIMED.contains(&call)) {
                most = most.min(FIRST);
            }
            for at in 1..=most {
                try_one::<Machines>(&case, driver, kind, "cuda", at);
                tried += 1;
            }
        }
    }
    tried
}

macro_rules! exhaustive {
    ($($name:ident: $($kind:expr),+;)*) => {$(
        #[test]
        fn $name() {
            for kind in [$($kind),+] {
                let tried = try_all(kind);
                println!("{kind:?}: {tried} positions");
                assert!(tried > 0, "{kind:?}");
            }
        }
    )*};
}

// A loss, or a stream that stops, beneath a wrapper that only pretends would leave the device at
// work on memory that was given back: those are the driver's own.
exhaustive! {
    the_backend_allocates_nothing: Kind::Once(Fault::Allocation), Kind::From(Fault::Allocation);
    the_backend_makes_nothing: Kind::Once(Fault::EventCreation), Kind::From(Fault::EventCreation),
        Kind::Once(Fault::StreamCreation);
    the_backend_refuses_a_launch: Kind::Once(Fault::LaunchRefused);
    a_launch_fails: Kind::Once(Fault::WorkError), Kind::Once(Fault::WorkPanic),
        Kind::Once(Fault::WorkErrorAfterRun);
    the_backend_refuses_an_order: Kind::Once(Fault::RecordRefused), Kind::Once(Fault::WaitRefused);
    an_order_fails_late: Kind::Once(Fault::RecordFailsLate), Kind::Once(Fault::WaitFailsLate);
    a_device_is_not_opened: Kind::Call("cuDevicePrimaryCtxRetain", code::OUT_OF_MEMORY),
        Kind::Call("cuMemGetInfo_v2", code::UNKNOWN);
    the_driver_has_no_memory: Kind::Call("cuMemAlloc_v2", code::OUT_OF_MEMORY),
        Kind::Call("cuMemHostAlloc", code::OUT_OF_MEMORY);
    the_driver_makes_nothing: Kind::Call("cuStreamCreateWithPriority", code::OUT_OF_MEMORY),
        Kind::Call("cuEventCreate", code::OUT_OF_MEMORY);
    the_driver_takes_no_kernel: Kind::Call("cuModuleLoadData", code::INVALID_IMAGE),
        Kind::Call("cuModuleGetFunction", code::NOT_FOUND),
        Kind::Call("cuLaunchKernel", code::LAUNCH_OUT_OF_RESOURCES);
    the_driver_copies_nothing: Kind::Call("cuMemcpyAsync", code::INVALID_VALUE),
        Kind::Call("cuMemcpyPeerAsync", code::INVALID_VALUE),
        Kind::Call("cuCtxEnablePeerAccess", code::INVALID_VALUE),
        Kind::Call("cuPointerGetAttributes", code::UNKNOWN);
    the_driver_calls_nobody: Kind::Call("cuLaunchHostFunc", code::OUT_OF_MEMORY);
    the_driver_records_nothing: Kind::Call("cuEventRecord", code::INVALID_VALUE);
    the_driver_waits_for_nothing: Kind::Call("cuStreamWaitEvent", code::INVALID_VALUE);
    the_device_is_lost_as_it_is_opened: Kind::Lost("cuDevicePrimaryCtxRetain"),
        Kind::Lost("cuMemAlloc_v2"), Kind::Lost("cuMemHostAlloc"),
        Kind::Lost("cuStreamCreateWithPriority"), Kind::Lost("cuEventCreate"),
        Kind::Lost("cuModuleLoadData"), Kind::Lost("cuModuleGetFunction");
    the_device_is_lost_at_work: Kind::Lost("cuMemcpyAsync"), Kind::Lost("cuLaunchKernel"),
        Kind::Lost("cuMemcpyPeerAsync"),
        Kind::Lost("cuLaunchHostFunc"), Kind::Lost("cuPointerGetAttributes");
    the_device_is_lost_in_between: Kind::Lost("cuEventRecord"), Kind::Lost("cuEventQuery"),
        Kind::Lost("cuStreamWaitEvent");
}
