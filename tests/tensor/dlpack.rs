//! Tensors lent to other libraries, and taken from them.
//!
//! Long because a library of the tests' own lends tensors of every kind.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use millstream::ep::sim::Completion::IssueOrder;
use millstream::*;
use millstream_testing::machine::*;

use super::floats;

/// Passes a tensor on as another library would.
fn pass(x: &Tensor, place: impl Place) -> Result<Tensor> {
    let raw = x.to_dlpack().unwrap().into_raw();
    // SAFETY: the structure has just been made, and is used nowhere else.
    unsafe { Tensor::from_dlpack(raw, place) }
}

#[test]
fn elements_and_layouts_are_passed_on() {
    let (m, n) = (inline(), threaded());
    let x = floats(&m, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for dtype in DType::ALL {
        let part = x.cast(dtype).unwrap().t().unwrap().i((1.., ..)).unwrap();
        let passed = pass(&part, &n).unwrap();
        assert_eq!((passed.dtype(), passed.shape()), (dtype, &[2, 2][..]));
        assert_eq!(passed.read().unwrap(), part.read().unwrap(), "{dtype}");
    }
    let none = pass(&Tensor::zeros((0, 2), DType::F32, &m).unwrap(), &n).unwrap();
    assert_eq!(none.shape(), [0, 2]);
    assert_eq!(pass(&Tensor::scalar(3i64, &m).unwrap(), &n).unwrap().item::<i64>().unwrap(), 3);
}

/// The address and the lengths that another library sees.
#[repr(C)]
struct Seen {
    data: *const f32,
    device: [i32; 2],
    rank: i32,
    dtype: [u8; 4],
    shape: *const i64,
}

#[test]
fn memory_is_lent_without_a_copy_and_kept() {
    let m = inline();
    let x = floats(&m, &[2], &[1.0, 2.0]);
    let lent = x.to_dlpack().unwrap().into_raw();
    x.add_(10.0).unwrap();
    m.synchronize().unwrap();
    drop(x);
    let other = floats(&m, &[2], &[0.0, 0.0]);
    m.synchronize().unwrap();
    // SAFETY: the structure begins with these fields, and the memory is lent until the deleter is
    // called.
    let (seen, length) = unsafe {
        let seen = &*lent.cast::<Seen>();
        assert_eq!((seen.device, seen.rank, seen.dtype), ([1, 0], 1, [2, 32, 1, 0]));
        (std::slice::from_raw_parts(seen.data, 2).to_vec(), *seen.shape)
    };
    assert_eq!((seen, length), (vec![11.0, 12.0], 2), "the tensor's own memory, not reused");
    // SAFETY: the structure is given up.
    let back = unsafe { Tensor::from_dlpack(lent, &other) }.unwrap();
    assert_eq!(back.to_vec::<f32>().unwrap(), [11.0, 12.0]);
}

#[test]
fn what_cannot_be_lent_is_an_error() {
    let m = inline();
    let table = floats(&m, &[2, 1], &[1.0, 2.0]);
    let wrong = Tensor::from_slice(&[7i64], 1, &m).unwrap();
    let row = table.embedding(&wrong).unwrap();
    assert!(matches!(row.to_dlpack().unwrap_err(), Error::Failed(_)));
    let (m, hand) = by_hand();
    hand.switch(IssueOrder);
    drop(floats(&m, &[1], &[1.0]).to(&SIM).unwrap());
}

/// The structures as another library declares them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Described {
    data: *mut c_void,
    device: [i32; 2],
    rank: i32,
    dtype: [u8; 4],
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Described,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Described,
}

/// What the other library keeps for a tensor that it has lent.
struct Kept {
    _shape: Vec<i64>,
    _strides: Vec<i64>,
    deleted: Arc<AtomicUsize>,
    tell: mpsc::Sender<()>,
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: `Lender` made both by `Box::into_raw`, and a deleter is called once.
    let kept = unsafe {
        let managed = Box::from_raw(managed);
        Box::from_raw(managed.context.cast::<Kept>())
    };
    kept.deleted.fetch_add(1, Ordering::SeqCst);
    // The test may have ended.
    let _ = kept.tell.send(());
}

unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: as in `delete`.
    let kept = unsafe {
        let managed = Box::from_raw(managed);
        Box::from_raw(managed.context.cast::<Kept>())
    };
    kept.deleted.fetch_add(1, Ordering::SeqCst);
    // The test may have ended.
    let _ = kept.tell.send(());
}

/// Another library, which lends eight floats, 0 to 7.
struct Lender {
    memory: Box<[f32; 8]>,
    deleted: Arc<AtomicUsize>,
    told: mpsc::Receiver<()>,
    tell: mpsc::Sender<()>,
}

/// A tensor as the other library describes it; the offset is in bytes.
struct Lent {
    shape: Vec<i64>,
    strides: Option<Vec<i64>>,
    offset: u64,
    dtype: [u8; 4],
    device: [i32; 2],
}

const F32: [u8; 4] = [2, 32, 1, 0];

fn row(length: i64) -> Lent {
    Lent { shape: vec![length], strides: None, offset: 0, dtype: F32, device: [1, 0] }
}

impl Lender {
    fn new() -> Lender {
        let (tell, told) = mpsc::channel();
        let memory = Box::new([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        Lender { memory, deleted: Arc::default(), told, tell }
    }

    fn describe(&mut self, lent: Lent) -> (Described, *mut c_void) {
        let Lent { shape, strides, offset, dtype, device } = lent;
        let (rank, given) = (shape.len() as i32, strides.is_some());
        let (deleted, tell) = (self.deleted.clone(), self.tell.clone());
        let kept = Kept { _shape: shape, _strides: strides.unwrap_or_default(), deleted, tell };
        let described = Described {
            data: self.memory.as_mut_ptr().cast(),
            device,
            rank,
            dtype,
            shape: kept._shape.as_ptr(),
            strides: if given { kept._strides.as_ptr() } else { std::ptr::null() },
            byte_offset: offset,
        };
        (described, Box::into_raw(Box::new(kept)).cast())
    }

    fn raw(&mut self, lent: Lent) -> *mut c_void {
        let (tensor, context) = self.describe(lent);
        Box::into_raw(Box::new(Managed { tensor, context, deleter: Some(delete) })).cast()
    }

    fn lend(&mut self, lent: Lent, place: impl Place) -> Result<Tensor> {
        let raw = self.raw(lent);
        // SAFETY: the lender outlives the machine in each test, and leaves the memory alone.
        unsafe { Tensor::from_dlpack(raw, place) }
    }

    fn lend_versioned(&mut self, major: u32, flags: u64, place: impl Place) -> Result<Tensor> {
        let (tensor, context) = self.describe(row(8));
        let (version, deleter) = ([major, 1], Some(delete_versioned as _));
        let raw = Box::into_raw(Box::new(Versioned { version, context, deleter, flags, tensor }));
        // SAFETY: as above.
        unsafe { Tensor::from_dlpack_versioned(raw.cast(), place) }
    }

    /// How often deleters were called.
    fn deleted(&self) -> usize {
        self.deleted.load(Ordering::SeqCst)
    }

    /// Waits for the call of a deleter.
    #[track_caller]
    fn wait(&self) {
        self.told.recv_timeout(LONG).unwrap();
    }

    /// What the memory holds, read as the library reads it.
    fn elements(&self) -> [f32; 8] {
        // SAFETY: the memory is live, and the tests read it when no write is pending.
        unsafe { std::ptr::read_volatile(&raw const *self.memory) }
    }
}

#[test]
fn memory_is_taken_without_a_copy_and_given_back_once() {
    for driver in ALL_DRIVERS {
        let mut lender = Lender::new();
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let x = lender.lend(row(8), &m).unwrap();
        x.mul_(10.0).unwrap();
        let sum = x.sum(..).unwrap();
        assert_eq!(sum.item::<f32>().unwrap(), 280.0, "{driver:?}");
        assert_eq!(lender.elements()[7], 70.0, "{driver:?}: written where the library reads");
        assert_eq!(lender.deleted(), 0);
        drop(x);
        lender.wait();
        assert_eq!(sum.item::<f32>().unwrap(), 280.0, "{driver:?}");
        drop((sum, m));
        assert_eq!(lender.deleted(), 1, "{driver:?}");
    }
}

#[test]
fn views_keep_the_memory() {
    let mut lender = Lender::new();
    let m = inline();
    let lent = Lent { shape: vec![2, 2], strides: Some(vec![1, 4]), offset: 4, ..row(0) };
    let x = lender.lend(lent, &m).unwrap();
    assert_eq!(x.spec().layout.strides(), [1, 4]);
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 5.0, 2.0, 6.0]);
    let (copy, view) = (x.clone(), x.i(1).unwrap());
    drop((x, copy));
    assert_eq!(lender.deleted(), 0, "a view is left");
    view.fill_(0).unwrap();
    m.synchronize().unwrap();
    assert_eq!(lender.elements(), [0.0, 1.0, 0.0, 3.0, 4.0, 5.0, 0.0, 7.0]);
    drop(view);
    assert_eq!(lender.deleted(), 1);
}

#[test]
fn pending_uses_on_all_streams_keep_the_memory() {
    let mut lender = Lender::new();
    let m = threaded();
    let (a, b) = (cpu(&m, 0), cpu(&m, 1));
    let x = lender.lend(row(8), &a).unwrap();
    let (first, second) = (floats(&m, &[1], &[0.0]), Tensor::zeros(1, DType::F32, &b).unwrap());
    let gates = [Gate::on(&first), Gate::on(&second)];
    let read = |on: &Stream| call(&m, "relu", &[&x], on);
    let (y, z) = (read(&a), read(&b));
    drop(x);
    m.call("relu", &[&first]).on(&cpu(&m, 2)).unwrap();
    let [one, other] = gates;
    one.open();
    y.read().unwrap();
    assert_eq!(lender.deleted(), 0, "the other stream has not used it");
    other.open();
    lender.wait();
    assert_eq!(z.to_vec::<f32>().unwrap()[7], 7.0);
    drop((m, y, z));
    assert_eq!(lender.deleted(), 1);
}

#[test]
fn deleters_may_use_other_tensors_of_the_machine() {
    // The library's tensor is this machine's own: its deleter drops a tensor.
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let x = floats(&m, &[2], &[1.0, 2.0]);
        let y = pass(&x, &m).unwrap();
        drop(x);
        y.add_(1.0).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, 3.0]);
        drop(y);
        let report = m.shutdown(Duration::from_secs(60));
        assert_eq!(report, ShutdownReport::default(), "{driver:?}");
    }
}

#[test]
fn a_failed_write_poisons_the_tensor_and_gives_the_memory_back() {
    let mut lender = Lender::new();
    let m = inline();
    let x = lender.lend(row(8), &m).unwrap();
    let wrong = Tensor::from_slice(&[9i64], 1, &m).unwrap();
    x.index_add_(&wrong, &floats(&m, &[1], &[1.0]), 0).unwrap();
    assert!(matches!(x.to_vec::<f32>().unwrap_err(), Error::Failed(_)));
    let y = x.mul(2.0).unwrap();
    drop(x);
    assert!(matches!(y.to_vec::<f32>().unwrap_err(), Error::Failed(_)));
    assert_eq!(lender.deleted(), 1);
    // The memory is healthy for another tensor in it.
    assert_eq!(lender.lend(row(2), &m).unwrap().to_vec::<f32>().unwrap(), [0.0, 1.0]);
    assert_eq!(lender.deleted(), 2);
}

#[test]
fn a_machine_that_ends_first_gives_the_memory_back() {
    for driver in ALL_DRIVERS {
        let mut lender = Lender::new();
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let x = lender.lend(row(8), &m).unwrap();
        let y = x.mul(2.0).unwrap();
        m.shutdown(Duration::from_secs(60));
        assert_eq!(lender.deleted(), 0, "{driver:?}: the tensor is still there");
        drop(x);
        drop(y);
        assert_eq!(lender.deleted(), 1, "{driver:?}: with the machine's last handle");
    }
}

#[test]
fn what_cannot_be_used_in_place_is_copied() {
    let m = inline();
    let mut lender = Lender::new();
    let bytes = |x: &Tensor| x.read().unwrap();
    let own: Vec<u8> = lender.elements().iter().flat_map(|v| v.to_ne_bytes()).collect();
    // A float at an odd address.
    let odd = lender.lend(Lent { offset: 1, ..row(2) }, &m).unwrap();
    assert_eq!(bytes(&odd), own[1..9]);
    // Backwards.
    let lent = Lent { strides: Some(vec![-2]), offset: 28, ..row(4) };
    let back = lender.lend(lent, &m).unwrap();
    assert_eq!(back.to_vec::<f32>().unwrap(), [7.0, 5.0, 3.0, 1.0]);
    // Nothing, and memory that must not be written.
    assert_eq!(lender.lend(row(0), &m).unwrap().shape(), [0]);
    let fixed = lender.lend_versioned(1, 1, &m).unwrap();
    assert_eq!(lender.deleted(), 4);
    fixed.fill_(0).unwrap();
    m.synchronize().unwrap();
    assert_eq!(lender.elements()[7], 7.0);
    // Flags that say nothing of writes.
    let free = lender.lend_versioned(1, 2, &m).unwrap();
    free.fill_(0).unwrap();
    m.synchronize().unwrap();
    assert_eq!(lender.elements(), [0.0; 8]);
    assert_eq!(lender.deleted(), 4);
    drop(free);
    assert_eq!(lender.deleted(), 5);
}

#[test]
fn a_place_on_a_device_gets_a_copy() {
    let mut lender = Lender::new();
    let (m, hand) = by_hand();
    let x = lender.lend(Lent { device: [3, 0], ..row(8) }, (&m, &SIM)).unwrap();
    assert_eq!(x.device(), &SIM);
    assert_eq!(lender.deleted(), 0, "the copy is pending");
    hand.switch(IssueOrder);
    lender.wait();
    assert_eq!(x.to_vec::<f32>().unwrap()[7], 7.0);
    drop((x, m));
    assert_eq!(lender.deleted(), 1);
}

#[test]
fn tensors_that_cannot_be_taken_are_given_back() {
    let m = inline();
    let mut lender = Lender::new();
    let refused = [
        (Lent { device: [2, 0], ..row(8) }, "it lies in memory of kind 2, not in host memory"),
        (Lent { dtype: [1, 128, 1, 0], ..row(4) }, "no dtype has code 1, 128 bits and 1 lanes"),
        (Lent { dtype: [2, 32, 4, 0], ..row(2) }, "no dtype has code 2, 32 bits and 4 lanes"),
        (row(-1), "a negative length"),
        (Lent { shape: vec![i64::MAX; 3], ..row(0) }, "more elements than any memory holds"),
    ];
    for (k, (lent, expected)) in refused.into_iter().enumerate() {
        let error = lender.lend(lent, &m).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("dlpack.rs"), "{error}");
        assert_eq!(lender.deleted(), k + 1);
    }
    let error = lender.lend_versioned(2, 0, &m).unwrap_err().to_string();
    assert!(error.contains("it has version 2.1 of DLPack; expected 1"), "{error}");
    assert_eq!(lender.deleted(), 6);
    let n = m.clone();
    m.shutdown(Duration::from_secs(60));
    assert!(matches!(lender.lend(row(8), &n).unwrap_err(), Error::At { .. } | Error::Closed));
    assert_eq!(lender.deleted(), 7);
}

#[test]
fn a_recorded_list_gets_the_memory_from_outside() {
    let mut lender = Lender::new();
    let m = inline();
    let own = floats(&m, &[8], &[1.0; 8]);
    m.start_recording(&[("imported1", &own)]).unwrap();
    let x = lender.lend(row(8), &m).unwrap();
    drop((&x + &own).unwrap());
    drop(x);
    let list = m.finish_recording().unwrap();
    let names: Vec<&str> = list.externals.iter().map(|e| &*e.name).collect();
    assert_eq!(names, ["imported1", "imported2"]);
    checked(&list);
}

#[test]
fn captures_take_memory_from_elsewhere() {
    let mut lender = Lender::new();
    let m = inline();
    let one = floats(&m, &[8], &[1.0; 8]);
    let x = lender.lend(row(8), &m).unwrap();
    let recorded = m
        .record(|r| {
            let y = r.function(&[], |_| Ok(vec![(&x + &one)?]))?;
            r.output("y", &y[0])
        })
        .unwrap();
    let executable = recorded.compile().unwrap();
    let launched = executable.launch().run().unwrap();
    assert_eq!(launched.output("y").unwrap().to_vec::<f32>().unwrap()[7], 8.0);
    // Memory that is taken within a function differs from call to call.
    let raw = [lender.raw(row(8)), lender.raw(row(8))].map(|raw| raw as usize);
    let (inner, left) = (m.clone(), Mutex::new(raw.to_vec()));
    let take = m.traced(move |inputs, _| {
        let raw = left.lock().unwrap().pop().unwrap() as *mut c_void;
        // SAFETY: each structure is taken once.
        let taken = unsafe { Tensor::from_dlpack(raw, &inner)? };
        Ok(vec![(&inputs[0] + &taken)?])
    });
    for _ in 0..2 {
        let sums = take.call(&[&one]).run().unwrap();
        assert_eq!(sums[0].to_vec::<f32>().unwrap()[7], 8.0);
    }
    let reasons = take.report().reasons.into_keys().collect::<String>();
    assert!(reasons.contains("it takes memory of another library"), "{reasons}");
    assert_eq!(lender.deleted(), 2);
    drop((launched, executable, x));
    drop((take, one));
    drop(m);
    assert_eq!(lender.deleted(), 3);
}
