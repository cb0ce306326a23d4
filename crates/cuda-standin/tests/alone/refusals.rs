//! Tests of the stand-in's violations: wrong calls that no backend should make.

use libloading::{Library, Symbol};

use millstream_cuda_standin::code;

use crate::stand_in;

const SUCCESS: u32 = 0;

/// The driver's functions, by name.
struct Driver(Library);

impl Driver {
    /// Loads the functions and makes the context of device 0 current.
    fn open() -> Driver {
        // SAFETY: the stand-in is a library without constructors.
        let driver = Driver(unsafe { Library::new("libcuda.so.1") }.unwrap());
        let mut context = 0u64;
        assert_eq!(driver.call::<extern "C" fn(u32) -> u32>("cuInit")(0), SUCCESS);
        let retain = driver.call::<extern "C" fn(*mut u64, i32) -> u32>("cuDevicePrimaryCtxRetain");
        assert_eq!(retain(&raw mut context, 0), SUCCESS);
        assert_eq!(driver.call::<extern "C" fn(u64) -> u32>("cuCtxSetCurrent")(context), SUCCESS);
        driver
    }

    fn call<F>(&self, name: &str) -> Symbol<'_, F> {
        // SAFETY: the tests name the functions by their types.
        unsafe { self.0.get(name.as_bytes()) }.unwrap()
    }

    fn make(&self, name: &str, arguments: (u32, Option<i32>)) -> u64 {
        let mut made = 0u64;
        let code = match arguments {
            (flags, None) => {
                self.call::<extern "C" fn(*mut u64, u32) -> u32>(name)(&raw mut made, flags)
            }
            (flags, Some(more)) => self.call::<extern "C" fn(*mut u64, u32, i32) -> u32>(name)(
                &raw mut made,
                flags,
                more,
            ),
        };
        assert_eq!(code, SUCCESS, "{name}");
        made
    }

    fn stream(&self) -> u64 {
        self.make("cuStreamCreateWithPriority", (1, Some(0)))
    }

    fn event(&self) -> u64 {
        self.make("cuEventCreate", (2, None))
    }

    fn memory(&self, bytes: usize) -> u64 {
        let mut address = 0u64;
        let allocate = self.call::<extern "C" fn(*mut u64, usize) -> u32>("cuMemAlloc_v2");
        assert_eq!(allocate(&raw mut address, bytes), SUCCESS);
        address
    }

    fn one(&self, name: &str, handle: u64) -> u32 {
        self.call::<extern "C" fn(u64) -> u32>(name)(handle)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.call::<extern "C" fn(i32) -> u32>("cuDevicePrimaryCtxRelease_v2")(0);
    }
}

/// Checks that there is exactly one violation, with this text.
#[track_caller]
fn violated(text: &str) {
    let violations = stand_in().violations();
    assert!(violations.len() == 1 && violations[0].contains(text), "{violations:?}");
}

#[test]
fn a_wait_for_an_event_without_a_record() {
    let turn = stand_in().turn();
    let driver = Driver::open();
    let (stream, event) = (driver.stream(), driver.event());
    let wait = |driver: &Driver| {
        driver.call::<extern "C" fn(u64, u64, u32) -> u32>("cuStreamWaitEvent")(stream, event, 0)
    };
    assert_eq!(wait(&driver), 401);
    violated("never recorded");
    assert_eq!(
        driver.call::<extern "C" fn(u64, u64) -> u32>("cuEventRecord")(event, stream),
        SUCCESS
    );
    assert_eq!(wait(&driver), SUCCESS);
    assert_eq!(turn.violations().len(), 1);
    assert_eq!(driver.one("cuEventDestroy_v2", event), SUCCESS);
    assert_eq!(driver.one("cuStreamDestroy_v2", stream), SUCCESS);
}

/// Any stream of the process may wait for an event; only streams of its context may record it.
#[test]
fn an_event_of_another_context() {
    let turn = stand_in().turn();
    let driver = Driver::open();
    let (stream, event) = (driver.stream(), driver.event());
    let mut other = 0u64;
    let retain = driver.call::<extern "C" fn(*mut u64, i32) -> u32>("cuDevicePrimaryCtxRetain");
    assert_eq!(retain(&raw mut other, 1), SUCCESS);
    assert_eq!(driver.one("cuCtxSetCurrent", other), SUCCESS);
    let remote = driver.stream();
    type Pair = extern "C" fn(u64, u64) -> u32;
    assert_eq!(driver.call::<Pair>("cuEventRecord")(event, remote), code::INVALID_HANDLE);
    violated("an event of device 0 on a stream of device 1");
    // The stream of the other device does not continue before the record.
    let hold = turn.hold();
    assert_eq!(driver.call::<Pair>("cuEventRecord")(event, stream), SUCCESS);
    type Wait = extern "C" fn(u64, u64, u32) -> u32;
    assert_eq!(driver.call::<Wait>("cuStreamWaitEvent")(remote, event, 0), SUCCESS);
    assert!(turn.step());
    assert_eq!(driver.one("cuStreamQuery", stream), SUCCESS, "the older stream went first");
    assert_eq!(driver.one("cuStreamQuery", remote), code::NOT_READY);
    assert!(turn.step());
    assert_eq!(driver.one("cuStreamQuery", remote), SUCCESS);
    drop(hold);
    assert_eq!(driver.one("cuStreamDestroy_v2", remote), SUCCESS);
    assert_eq!(driver.one("cuEventDestroy_v2", event), SUCCESS);
    assert_eq!(driver.one("cuStreamDestroy_v2", stream), SUCCESS);
    let release = driver.call::<extern "C" fn(i32) -> u32>("cuDevicePrimaryCtxRelease_v2");
    assert_eq!(release(1), SUCCESS);
    assert_eq!(turn.violations().len(), 1);
}

#[test]
fn a_free_of_memory_that_a_stream_uses() {
    let turn = stand_in().turn();
    let driver = Driver::open();
    let (stream, memory) = (driver.stream(), driver.memory(64));
    let hold = turn.hold();
    let fill = driver.call::<extern "C" fn(u64, u8, usize, u64) -> u32>("cuMemsetD8Async");
    assert_eq!(fill(memory, 1, 64, stream), SUCCESS);
    assert_ne!(driver.one("cuMemFree_v2", memory), SUCCESS);
    violated("1 commands still use m0");
    assert!(turn.step() && !turn.step());
    drop(hold);
    assert_eq!(driver.one("cuMemFree_v2", memory), SUCCESS);
    assert_ne!(driver.one("cuMemFree_v2", memory), SUCCESS);
    assert_eq!(driver.one("cuStreamDestroy_v2", stream), SUCCESS);
}

#[test]
fn bytes_outside_an_allocation() {
    let _turn = stand_in().turn();
    let driver = Driver::open();
    let (stream, memory) = (driver.stream(), driver.memory(64));
    let fill = driver.call::<extern "C" fn(u64, u8, usize, u64) -> u32>("cuMemsetD8Async");
    assert_ne!(fill(memory + 1, 1, 64, stream), SUCCESS);
    violated("64 bytes from m0+1 on exceed its 64 bytes");
    assert_eq!(driver.one("cuMemFree_v2", memory), SUCCESS);
    assert_eq!(driver.one("cuStreamDestroy_v2", stream), SUCCESS);
}

#[test]
fn memory_that_is_not_pinned() {
    let _turn = stand_in().turn();
    let driver = Driver::open();
    let (stream, memory, host) = (driver.stream(), driver.memory(64), [1u8; 64]);
    let copy = driver.call::<extern "C" fn(u64, u64, usize, u64) -> u32>("cuMemcpyAsync");
    assert_ne!(copy(memory, host.as_ptr() as u64, 64, stream), SUCCESS);
    violated("not pinned");
    assert_eq!(driver.one("cuMemFree_v2", memory), SUCCESS);
    assert_eq!(driver.one("cuStreamDestroy_v2", stream), SUCCESS);
}

/// A copy between devices must name the contexts of its memory.
#[test]
fn memory_of_another_context() {
    let _turn = stand_in().turn();
    let driver = Driver::open();
    let (stream, memory) = (driver.stream(), driver.memory(128));
    let (mut own, mut other) = (0u64, 0u64);
    let retain = driver.call::<extern "C" fn(*mut u64, i32) -> u32>("cuDevicePrimaryCtxRetain");
    assert_eq!((retain(&raw mut own, 0), retain(&raw mut other, 1)), (SUCCESS, SUCCESS));
    type Copy = extern "C" fn(u64, u64, u64, u64, usize, u64) -> u32;
    let copy = driver.call::<Copy>("cuMemcpyPeerAsync");
    assert_eq!(copy(memory, own, memory + 64, own, 64, stream), SUCCESS);
    assert_ne!(copy(memory, own, memory + 64, other, 64, stream), SUCCESS);
    violated("m0+64 is not memory of device 1");
    let release = driver.call::<extern "C" fn(i32) -> u32>("cuDevicePrimaryCtxRelease_v2");
    assert_eq!((release(0), release(1)), (SUCCESS, SUCCESS));
    assert_ne!(copy(memory, own, memory + 64, other, 64, stream), SUCCESS);
    assert!(stand_in().violations()[1].contains("no such context"));
    while driver.one("cuStreamQuery", stream) != SUCCESS {}
    assert_eq!(driver.one("cuMemFree_v2", memory), SUCCESS);
    assert_eq!(driver.one("cuStreamDestroy_v2", stream), SUCCESS);
}

/// Memory of a memory pool is available when the stream has reached its allocation, and is freed
/// only to a memory pool.
#[test]
fn memory_of_a_pool_before_its_allocation() {
    let turn = stand_in().turn();
    let driver = Driver::open();
    let (own, other) = (driver.stream(), driver.stream());
    let (mut pool, mut memory) = (0u64, 0u64);
    // Allocation type pinned, no handle types, location type device, index 0; all else zero.
    let wanted = [1u32, 0, 1, 0].into_iter().chain([0; 20]).collect::<Vec<u32>>();
    let create = driver.call::<extern "C" fn(*mut u64, *const u32) -> u32>("cuMemPoolCreate");
    assert_eq!(create(&raw mut pool, wanted.as_ptr()), SUCCESS);
    let hold = turn.hold();
    type Allocate = extern "C" fn(*mut u64, usize, u64, u64) -> u32;
    let allocate = driver.call::<Allocate>("cuMemAllocFromPoolAsync");
    assert_eq!(allocate(&raw mut memory, 64, pool, own), SUCCESS);
    let fill = driver.call::<extern "C" fn(u64, u8, usize, u64) -> u32>("cuMemsetD8Async");
    assert_ne!(fill(memory, 1, 64, other), SUCCESS);
    violated("m0 is used before its stream has reached its allocation");
    drop(hold);
    assert_eq!(driver.one("cuStreamSynchronize", own), SUCCESS);
    assert_eq!(fill(memory, 1, 64, other), SUCCESS);
    assert_eq!(driver.one("cuStreamSynchronize", other), SUCCESS);
    assert_ne!(driver.one("cuMemFree_v2", memory), SUCCESS);
    assert!(turn.violations()[1].contains("m0 is memory of another kind"));
    let free = driver.call::<extern "C" fn(u64, u64) -> u32>("cuMemFreeAsync");
    assert_eq!(free(memory, own), SUCCESS);
    assert_eq!(driver.one("cuMemPoolDestroy", pool), SUCCESS);
    assert_ne!(driver.one("cuMemPoolDestroy", pool), SUCCESS);
    assert_eq!(driver.one("cuStreamDestroy_v2", own), SUCCESS);
    assert_eq!(driver.one("cuStreamDestroy_v2", other), SUCCESS);
}

#[test]
fn a_thread_without_a_context() {
    let _turn = stand_in().turn();
    let driver = Driver::open();
    let stream = driver.stream();
    let query = |driver: &Driver| driver.one("cuStreamQuery", stream);
    assert_eq!(query(&driver), SUCCESS);
    std::thread::scope(|scope| {
        assert_eq!(scope.spawn(|| query(&driver)).join().unwrap(), 201);
    });
    violated("no context");
    assert_eq!(driver.one("cuStreamDestroy_v2", stream), SUCCESS);
}

#[test]
fn invalid_handles_and_contexts_that_leak() {
    let turn = stand_in().turn();
    let driver = Driver::open();
    let memory = driver.memory(64);
    assert_eq!(driver.one("cuStreamQuery", 5), 400);
    assert_eq!(driver.one("cuEventQuery", 5), 400);
    assert_eq!(turn.violations().len(), 2);
    drop(driver);
    assert!(turn.violations()[2].contains("ends with 64 bytes"), "{:?}", turn.violations());
    let driver = Driver::open();
    assert_eq!(driver.one("cuMemFree_v2", memory), SUCCESS);
}

/// The device's name says that it is not a GPU.
#[test]
fn the_device_name_names_the_stand_in() {
    let _turn = stand_in().turn();
    let driver = Driver::open();
    let mut name = [0u8; 100];
    let get_name = driver.call::<extern "C" fn(*mut u8, i32, i32) -> u32>("cuDeviceGetName");
    assert_eq!(get_name(name.as_mut_ptr(), 100, 0), SUCCESS);
    let end = name.iter().position(|&b| b == 0).unwrap();
    assert_eq!(std::str::from_utf8(&name[..end]).unwrap(), millstream_cuda_standin::DEVICE_NAME);
    assert!(millstream_cuda_standin::DEVICE_NAME.contains("no GPU"));
}
