//! The order in which a pool runs calls: any ready call, on any of its workers, the highest
//! priority first. No test waits for a while to see that nothing happens: a call that must not run
//! would show in the log of the calls that run.

use std::sync::{Arc, Condvar, Mutex, mpsc};

use millstream::kernels::KernelCtx;
use millstream::ops::{ArgDoc, CallSpec, Op, OutputSpec, Signature};
use millstream::*;
use millstream_testing::machine::*;

/// Returns a machine whose pools have `workers` workers, and a pool.
fn pool_machine(workers: usize, add: impl FnOnce(&mut MachineConfig)) -> (Machine, Stream) {
    let mut config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    config.host_workers = workers;
    add(&mut config);
    let m = Machine::new(config).unwrap();
    let p = pool(&m);
    (m, p)
}

fn pool(m: &Machine) -> Stream {
    m.stream_with_mode(&StreamKey::compute(CPU, 0), StreamMode::Pool).unwrap()
}

/// The first elements of the operands of kernels, in the order of execution.
#[derive(Clone, Default)]
struct Log(Arc<(Mutex<Vec<f32>>, Condvar)>);

impl Log {
    /// Returns a kernel that notes the first element of its operand.
    fn noting(&self) -> impl Fn(&KernelCtx<'_>) -> anyhow::Result<()> + use<> {
        let log = self.clone();
        move |ctx| {
            log.note(first(ctx)?);
            Ok(())
        }
    }

    fn note(&self, what: f32) {
        self.0.0.lock().unwrap().push(what);
        self.0.1.notify_all();
    }

    /// Waits until `count` elements have been noted.
    #[track_caller]
    fn wait_for(&self, count: usize) {
        let noted = self.0.0.lock().unwrap();
        let (noted, late) =
            self.0.1.wait_timeout_while(noted, LONG, |noted| noted.len() < count).unwrap();
        assert!(!late.timed_out(), "noted: {noted:?}");
    }

    fn take(&self) -> Vec<f32> {
        std::mem::take(&mut *self.0.0.lock().unwrap())
    }
}

fn first(ctx: &KernelCtx<'_>) -> anyhow::Result<f32> {
    // SAFETY: operand 0 is in host memory, and nothing writes it while the kernel runs.
    Ok(unsafe { *ctx.operand(0)?.data.cast::<f32>() })
}

/// Returns a kernel that reports its start and returns once the test permits it.
fn blocking()
-> (mpsc::Receiver<()>, mpsc::Sender<()>, impl Fn(&KernelCtx<'_>) -> anyhow::Result<()>) {
    let (begin, begun) = mpsc::channel();
    let (open, opened) = mpsc::channel();
    let ends = Mutex::new((begin, opened));
    let kernel = move |_: &KernelCtx<'_>| {
        let ends = ends.lock().unwrap();
        ends.0.send(())?;
        Ok(ends.1.recv_timeout(LONG)?)
    };
    (begun, open, kernel)
}

/// Returns a kernel that returns once `count` of its calls run at the same time.
fn concurrent(count: usize) -> impl Fn(&KernelCtx<'_>) -> anyhow::Result<()> {
    let calls = (Mutex::new(0usize), Condvar::new());
    move |_| {
        let mut arrived = calls.0.lock().unwrap();
        *arrived += 1;
        let all = arrived.next_multiple_of(count);
        calls.1.notify_all();
        let waited = calls.1.wait_timeout_while(arrived, LONG, |arrived| *arrived < all).unwrap();
        anyhow::ensure!(!waited.1.timed_out(), "no other call runs");
        Ok(())
    }
}

#[test]
fn the_ready_call_of_highest_priority_runs_first() {
    let (log, (begun, open, block)) = (Log::default(), blocking());
    let (m, p) = pool_machine(1, |config| {
        add_op(config, "note", log.noting());
        add_op(config, "block", block);
    });
    let tensors: Vec<Tensor> = (0..6u8).map(|k| upload(&p, &m, &[f32::from(k)])).collect();
    // Host functions write the tensors: wait until they have run.
    m.synchronize().unwrap();
    call(&m, "block", &[&tensors[0]], &p);
    begun.recv_timeout(LONG).unwrap();
    for (tensor, priority) in tensors.iter().zip([0, 1, 5, 3, -1, 0]) {
        m.call("note", &[tensor]).priority(priority).on(&p).unwrap();
    }
    open.send(()).unwrap();
    m.synchronize().unwrap();
    assert_eq!(log.take(), [2.0, 3.0, 1.0, 0.0, 5.0, 4.0]);
}

#[test]
fn reads_of_one_tensor_and_calls_on_different_ones_overlap() {
    let (m, p) = pool_machine(2, |config| add_op(config, "concurrent", concurrent(2)));
    let (x, y) = (upload(&p, &m, &[1.0]), upload(&p, &m, &[2.0]));
    for operands in [[&x, &x], [&x, &y]] {
        operands.iter().for_each(|operand| drop(call(&m, "concurrent", &[operand], &p)));
        m.synchronize().unwrap();
    }
}

/// Two long calls run on two workers, also right after thousands of short calls, which one worker
/// has run alone while the other was parked.
#[test]
fn a_long_call_delays_no_other() {
    let (m, p) = pool_machine(2, |config| add_op(config, "concurrent", concurrent(2)));
    let tensors = [upload(&p, &m, &[1.0]), upload(&p, &m, &[2.0])];
    let add = m.prepare("add_", &[&tensors[0], &tensors[1]], Attrs::new()).unwrap();
    for _ in 0..20 {
        let mut batch = m.batch();
        (0..1000).for_each(|_| batch.call(&add, &p).unwrap());
        drop(batch);
        tensors.iter().for_each(|tensor| drop(call(&m, "concurrent", &[tensor], &p)));
        m.synchronize().unwrap();
    }
}

#[test]
fn a_write_waits_for_all_earlier_reads() {
    let (log, (begun, open, block)) = (Log::default(), blocking());
    let (m, p) = pool_machine(3, |config| {
        add_op(config, "note", log.noting());
        add_op(config, "block", block);
    });
    let (x, two, z) = (upload(&p, &m, &[1.0]), upload(&p, &m, &[2.0]), upload(&p, &m, &[7.0]));
    let old = call(&m, "block", &[&x], &p);
    call(&m, "note", &[&x], &p);
    m.call("add_", &[&x, &two]).on(&p).unwrap();
    call(&m, "note", &[&x], &p);
    call(&m, "note", &[&z], &p);
    begun.recv_timeout(LONG).unwrap();
    // The second read of `x` and the read of `z` have run. The read after the write has not.
    log.wait_for(2);
    let mut early = log.take();
    early.sort_by(f32::total_cmp);
    assert_eq!(early, [1.0, 7.0]);
    open.send(()).unwrap();
    m.synchronize().unwrap();
    assert_eq!((log.take(), read(&x)), (vec![3.0], vec![3.0]));
    drop(old);
}

/// An op that changes the last of its fifty operands.
struct Fifty;

impl Op for Fifty {
    fn name(&self) -> &str {
        "fifty"
    }
    fn summary(&self) -> &str {
        "a test's own"
    }
    fn inputs(&self) -> &[ArgDoc] {
        const { &[ArgDoc::new("x", "any tensor"); 50] }
    }
    fn signature(&self, _: CallSpec<'_>) -> Result<Signature> {
        let access = |k| if k == 49 { Access::ReadWrite } else { Access::Read };
        let accesses = (0..50).map(access).collect();
        Ok(Signature { accesses, outputs: vec![OutputSpec::Same(49)].into(), workspace: 0 })
    }
}

#[test]
fn a_call_of_fifty_operands_waits_for_the_last_and_runs_once() {
    let (log, (begun, open, block)) = (Log::default(), blocking());
    let (m, p) = pool_machine(2, |config| {
        add_op(config, "block", block);
        add_op(config, "note", log.noting());
        config.ops.register(Arc::new(Fifty));
        config.kernels.register("cpu", "fifty", Arc::new(log.noting()));
    });
    let tensors: Vec<Tensor> = (0..49u8).map(|k| upload(&p, &m, &[f32::from(k) + 3.0])).collect();
    let late = call(&m, "block", &[&tensors[0]], &p);
    let all: Vec<&Tensor> = tensors.iter().chain([&late]).collect();
    m.call("fifty", &all).on(&p).unwrap();
    begun.recv_timeout(LONG).unwrap();
    call(&m, "note", &[&tensors[5]], &p);
    log.wait_for(1);
    open.send(()).unwrap();
    m.synchronize().unwrap();
    assert_eq!(log.take(), [8.0, 3.0]);
}

#[test]
fn a_call_that_waits_for_another_stream_delays_no_other() {
    let log = Log::default();
    let (m, p) = pool_machine(1, |config| add_op(config, "note", log.noting()));
    let s = cpu(&m, 1);
    let (x, y, z) = (upload(&s, &m, &[1.0]), upload(&p, &m, &[2.0]), upload(&p, &m, &[3.0]));
    let gate = Gate::on(&x);
    gate.entered();
    let from_x = call(&m, "note", &[&x], &p);
    call(&m, "note", &[&y], &p);
    p.wait_stream(&s).unwrap();
    // The wait blocks the next instruction, and no other.
    call(&m, "note", &[&z], &p);
    call(&m, "note", &[&y], &p);
    log.wait_for(2);
    assert_eq!(log.take(), [2.0, 2.0]);
    gate.open();
    assert_eq!(read(&from_x).len(), 1);
    m.synchronize().unwrap();
    let mut late = log.take();
    late.sort_by(f32::total_cmp);
    assert_eq!(late, [1.0, 3.0]);
}

#[test]
fn a_host_function_occupies_no_worker() {
    let log = Log::default();
    let (m, p) = pool_machine(1, |config| add_op(config, "note", log.noting()));
    let (x, y) = (upload(&p, &m, &[1.0]), upload(&p, &m, &[2.0]));
    let gates = [Gate::on(&x), Gate::on(&y)];
    gates.iter().for_each(Gate::entered);
    let z = upload(&p, &m, &[3.0]);
    call(&m, "note", &[&z], &p);
    call(&m, "note", &[&x], &p);
    log.wait_for(1);
    assert_eq!(log.take(), [3.0]);
    gates.into_iter().for_each(Gate::open);
    m.synchronize().unwrap();
    assert_eq!(log.take(), [1.0]);
}

#[test]
fn a_barrier_separates_earlier_from_later_calls() {
    let (log, (begun, open, block)) = (Log::default(), blocking());
    let (m, p) = pool_machine(2, |config| {
        add_op(config, "note", log.noting());
        add_op(config, "block", block);
    });
    let (x, y) = (upload(&p, &m, &[1.0]), upload(&p, &m, &[2.0]));
    call(&m, "block", &[&x], &p);
    call(&m, "note", &[&x], &p);
    m.barrier().unwrap();
    m.call("note", &[&y]).priority(9).on(&p).unwrap();
    begun.recv_timeout(LONG).unwrap();
    log.wait_for(1);
    open.send(()).unwrap();
    m.synchronize().unwrap();
    assert_eq!(log.take(), [1.0, 2.0]);
}

/// Rule 9 holds on pools.
#[test]
fn failures_follow_the_data() {
    let (m, p) = pool_machine(2, add_failing_ops);
    let x = upload(&p, &m, &[1.0]);
    let bad = ["fail", "panic"].map(|op| call(&m, op, &[&x], &p));
    let after = bad.each_ref().map(|bad| call(&m, "relu", &[bad], &p));
    let good = call(&m, "add", &[&x, &x], &p);
    for (bad, after) in bad.iter().zip(&after) {
        let cause = failure(bad.read().unwrap_err());
        assert_eq!(cause, failure(after.read().unwrap_err()));
        m.call("fill", &[bad]).attr("value", 5.0).on(&p).unwrap();
        assert_eq!(read(bad), [5.0]);
    }
    assert_eq!(read(&good), [2.0]);
    m.synchronize().unwrap_err();
    m.clear_failures();
    m.synchronize().unwrap();
}

/// A dropped machine runs its pending calls to their end.
#[test]
fn dropping_a_machine_drains_its_pools() {
    let log = Log::default();
    let (m, p) = pool_machine(2, |config| add_op(config, "note", log.noting()));
    let x = upload(&p, &m, &[1.0]);
    (0..1000).for_each(|_| drop(call(&m, "note", &[&x], &p)));
    drop((x, p, m));
    assert_eq!(log.take(), [1.0; 1000]);
}

/// The streams of an executable may be pools. Each launch comes after the launch before.
#[test]
fn executables_on_pools() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 0);
        let (x, y) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[0.0]));
        let mut list = m.recorder();
        let p = list.stream_with_mode(&StreamKey::compute(CPU, 0), StreamMode::Pool).unwrap();
        let (a, b) = (list.bind(&x).unwrap(), list.bind(&y).unwrap());
        let doubled = list.call("add", &[a, a]).on(p).unwrap()[0];
        let squared = list.call("mul", &[a, a]).priority(3).on(p).unwrap()[0];
        list.call("sub", &[doubled, squared]).out(&[b]).priority(3).on(p).unwrap();
        list.call("add_", &[a, b]).priority(3).on(p).unwrap();
        let job = list.finish().unwrap().compile().unwrap();
        // x += 2x - x², three times.
        for _ in 0..3 {
            job.launch().run().unwrap();
        }
        assert_eq!((read(&x), read(&y)), (vec![2.0], vec![0.0]), "{driver:?}");
        m.synchronize().unwrap();
    }
}
