//! Every fault at every position of the small programs of `tests/faults`, on `ep::cuda`: injected
//! into the backend by its wrapper, or into the driver at its calls, and stalled streams.

mod fixture;
mod stalls;

use millstream::DriverKind;
use millstream::ep::faults::Fault;
use millstream_cuda_standin::code;

use fixture::{DEVICE, Kind, Machines};
use millstream_testing::cases;
use millstream_testing::faults::case;
use millstream_testing::faults::check::{positions, try_one};

const DRIVERS: [(DriverKind, u64); 2] = [(DriverKind::Threaded, 0), (DriverKind::Inline, 0)];

/// Queries and markers, whose number depends on time.
const TIME_DEPENDENT: [&str; 2] = ["cuEventQuery", "cuEventRecord"];

/// The number of positions of those that are tried: they always occur.
const TIME_DEPENDENT_POSITIONS: u64 = 6;

/// Tries positions of every case: each sixth one under one of the drivers, in turn, or all under
/// both. Returns their number.
fn try_all(kind: Kind) -> u64 {
    let mut tried = 0;
    for (k, case) in case::all(&DEVICE, false).into_iter().enumerate() {
        for &driver in cases(&DRIVERS[k % 2..][..1], &DRIVERS[..]) {
            let mut most = positions::<Machines>(&case, driver, kind, "cuda");
            if kind.call().is_some_and(|call| TIME_DEPENDENT.contains(&call)) {
                most = most.min(TIME_DEPENDENT_POSITIONS);
            }
            for at in (1..=most).step_by(cases(6, 1)) {
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

// Device losses and stalled streams are injected into the driver. A wrapper would only simulate
// them, while the device below continued to use freed memory.
exhaustive! {
    the_backend_refuses_an_allocation: Kind::Once(Fault::Allocation), Kind::From(Fault::Allocation);
    the_backend_refuses_an_event_or_a_stream: Kind::Once(Fault::EventCreation),
        Kind::From(Fault::EventCreation), Kind::Once(Fault::StreamCreation);
    the_backend_refuses_a_launch: Kind::Once(Fault::LaunchRefused);
    a_launch_fails: Kind::Once(Fault::WorkError), Kind::Once(Fault::WorkPanic),
        Kind::Once(Fault::WorkErrorAfterRun);
    the_backend_refuses_an_order: Kind::Once(Fault::RecordRefused), Kind::Once(Fault::WaitRefused);
    an_order_fails_late: Kind::Once(Fault::RecordFailsLate), Kind::Once(Fault::WaitFailsLate);
    a_device_is_not_opened: Kind::Call("cuDevicePrimaryCtxRetain", code::OUT_OF_MEMORY),
        Kind::Call("cuMemGetInfo_v2", code::UNKNOWN);
    the_driver_has_no_memory: Kind::Call("cuMemAlloc_v2", code::OUT_OF_MEMORY),
        Kind::Call("cuMemHostAlloc", code::OUT_OF_MEMORY);
    the_driver_refuses_a_stream_or_an_event:
        Kind::Call("cuStreamCreateWithPriority", code::OUT_OF_MEMORY),
        Kind::Call("cuEventCreate", code::OUT_OF_MEMORY);
    the_driver_refuses_a_kernel: Kind::Call("cuModuleLoadData", code::INVALID_IMAGE),
        Kind::Call("cuModuleGetFunction", code::NOT_FOUND),
        Kind::Call("cuLaunchKernel", code::LAUNCH_OUT_OF_RESOURCES);
    the_driver_refuses_a_copy: Kind::Call("cuMemcpyAsync", code::INVALID_VALUE),
        Kind::Call("cuMemcpyPeerAsync", code::INVALID_VALUE),
        Kind::Call("cuCtxEnablePeerAccess", code::INVALID_VALUE),
        Kind::Call("cuPointerGetAttributes", code::UNKNOWN);
    the_driver_refuses_a_host_function: Kind::Call("cuLaunchHostFunc", code::OUT_OF_MEMORY);
    the_driver_refuses_a_record: Kind::Call("cuEventRecord", code::INVALID_VALUE);
    the_driver_refuses_a_wait: Kind::Call("cuStreamWaitEvent", code::INVALID_VALUE);
    the_driver_refuses_a_graph:
        Kind::Call("cuStreamBeginCapture_v2", code::ILLEGAL_STATE),
        Kind::Call("cuStreamEndCapture", code::STREAM_CAPTURE_INVALIDATED),
        Kind::Call("cuGraphGetNodes", code::INVALID_VALUE),
        Kind::Call("cuGraphInstantiateWithFlags", code::OUT_OF_MEMORY),
        Kind::Call("cuGraphExecUpdate_v2", code::GRAPH_EXEC_UPDATE_FAILURE),
        Kind::Call("cuGraphExecUpdate_v2", code::OUT_OF_MEMORY),
        Kind::Call("cuGraphLaunch", code::OUT_OF_MEMORY);
    the_device_is_lost_at_a_graph: Kind::Lost("cuStreamBeginCapture_v2"),
        Kind::Lost("cuStreamEndCapture"), Kind::Lost("cuGraphInstantiateWithFlags"),
        Kind::Lost("cuGraphExecUpdate_v2"), Kind::Lost("cuGraphLaunch");
    the_device_is_lost_at_a_creation: Kind::Lost("cuDevicePrimaryCtxRetain"),
        Kind::Lost("cuMemAlloc_v2"), Kind::Lost("cuMemHostAlloc"),
        Kind::Lost("cuStreamCreateWithPriority"), Kind::Lost("cuEventCreate"),
        Kind::Lost("cuModuleLoadData"), Kind::Lost("cuModuleGetFunction");
    the_device_is_lost_at_a_command: Kind::Lost("cuMemcpyAsync"), Kind::Lost("cuLaunchKernel"),
        Kind::Lost("cuMemcpyPeerAsync"),
        Kind::Lost("cuLaunchHostFunc"), Kind::Lost("cuPointerGetAttributes");
    the_device_is_lost_at_a_record_wait_or_query: Kind::Lost("cuEventRecord"),
        Kind::Lost("cuEventQuery"), Kind::Lost("cuStreamWaitEvent");
}
