//! What a pool runs when: any instruction that can run, on any of its workers, the most urgent first.
//! No test here waits for a while to see that nothing happens: what must not happen would show in what
//! does.

use std::sync::{Arc, Condvar, Mutex, mpsc};

use millstream::kernels::KernelCtx;
use millstream::ops::{ArgDoc, CallSpec, Op, OutputSpec, Signature};
use millstream::*;
use millstream_testing::machine::*;

/// A machine whose pools have so many workers, and a pool.
fn crew(workers: usize, add: impl FnOnce(&mut MachineConfig)) -> (Machine, Stream) {
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

/// What kernels have done, in order.
#[derive(Clone, Default)]
struct Log(Arc<(Mutex<Vec<f32>>, Condvar)>);

impl Log {
    /// A kernel that notes the first element of its operand.
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

    /// Waits until so many have been noted.
    #[track_caller]
    fn holds(&self, count: usize) {
        let noted = self.0.0.lock().unwrap();
        let (noted, late) =
            self.0.1.wait_timeout_while(noted, LONG, |noted| noted.len() < count).unwrap();
        assert!(!late.timed_out(), "noted: {noted:?}");
    }

    fn taken(&self) -> Vec<f32> {
        std::mem::take(&mut *self.0.0.lock().unwrap())
    }
}

fn first(ctx: &KernelCtx<'_>) -> anyhow::Result<f32> {
    // SAFETY: the first element of a tensor of the host's, which nobody writes meanwhile.
    Ok(unsafe { *ctx.operand(0)?.data.cast::<f32>() })
}

/// A kernel that says that it has begun and returns once it may.
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

/// A kernel that returns once so many calls of it run at the same time.
fn meeting(count: usize) -> impl Fn(&KernelCtx<'_>) -> anyhow::Result<()> {
    let here = (Mutex::new(0usize), Condvar::new());
    move |_| {
        let mut arrived = here.0.lock().unwrap();
        *arrived += 1;
        let all = arrived.next_multiple_of(count);
        here.1.notify_all();
        let met = here.1.wait_timeout_while(arrived, LONG, |arrived| *arrived < all).unwrap();
        anyhow::ensure!(!met.1.timed_out(), "alone");
        Ok(())
    }
}

#[test]
fn of_those_that_can_run_the_most_urgent_goes_first() {
    let (log, (begun, open, block)) = (Log::default(), blocking());
    let (m, p) = crew(1, |config| {
        add_op(config, "note", log.noting());
        add_op(config, "block", block);
    });
    let tensors: Vec<Tensor> = (0..6u8).map(|k| upload(&p, &m, &[f32::from(k)])).collect();
    // What the host writes is there when its functions have run.
    m.synchronize().unwrap();
    call(&m, "block", &[&tensors[0]], &p);
    begun.recv_timeout(LONG).unwrap();
    for (tensor, priority) in tensors.iter().zip([0, 1, 5, 3, -1, 0]) {
        m.call("note", &[tensor]).priority(priority).on(&p).unwrap();
    }
    open.send(()).unwrap();
    m.synchronize().unwrap();
    assert_eq!(log.taken(), [2.0, 3.0, 1.0, 0.0, 5.0, 4.0]);
}

#[test]
fn reads_of_one_tensor_overlap_and_so_do_calls_on_others() {
    let (m, p) = crew(2, |config| add_op(config, "meet", meeting(2)));
    let (x, y) = (upload(&p, &m, &[1.0]), upload(&p, &m, &[2.0]));
    for operands in [[&x, &x], [&x, &y]] {
        operands.iter().for_each(|operand| drop(call(&m, "meet", &[operand], &p)));
        m.synchronize().unwrap();
    }
}

/// Two workers are there for two calls that last, also right after thousands that did not, when one
/// worker has run them all and the other has long been asleep.
#[test]
fn a_call_that_lasts_holds_up_no_other() {
    let (m, p) = crew(2, |config| add_op(config, "meet", meeting(2)));
    let tensors = [upload(&p, &m, &[1.0]), upload(&p, &m, &[2.0])];
    let add = m.prepare("add_", &[&tensors[0], &tensors[1]], Attrs::new()).unwrap();
    for _ in 0..20 {
        let mut batch = m.batch();
        (0..1000).for_each(|_| batch.call(&add, &p).unwrap());
        drop(batch);
        tensors.iter().for_each(|tensor| drop(call(&m, "meet", &[tensor], &p)));
        m.synchronize().unwrap();
    }
}

#[test]
fn a_write_comes_after_all_reads_before_it() {
    let (log, (begun, open, block)) = (Log::default(), blocking());
    let (m, p) = crew(3, |config| {
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
    // Who reads `x` beside the read that is blocked has run, and who reads something else. Who reads
    // what is to be written has not.
    log.holds(2);
    let mut early = log.taken();
    early.sort_by(f32::total_cmp);
    assert_eq!(early, [1.0, 7.0]);
    open.send(()).unwrap();
    m.synchronize().unwrap();
    assert_eq!((log.taken(), read(&x)), (vec![3.0], vec![3.0]));
    drop(old);
}

/// Changes the last of fifty operands.
struct Fifty;

impl Op for Fifty {
    fn name(&self) -> &str {
        "fifty"
    }
    fn summary(&self) -> &str {
        "a test's own"
    }
    fn inputs(&self) -> &[ArgDoc] {
        &[ArgDoc { name: "x", doc: "any tensor" }; 50]
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
    let (m, p) = crew(2, |config| {
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
    log.holds(1);
    open.send(()).unwrap();
    m.synchronize().unwrap();
    assert_eq!(log.taken(), [8.0, 3.0]);
}

#[test]
fn what_waits_for_another_stream_holds_up_no_other() {
    let log = Log::default();
    let (m, p) = crew(1, |config| add_op(config, "note", log.noting()));
    let s = cpu(&m, 1);
    let (x, y, z) = (upload(&s, &m, &[1.0]), upload(&p, &m, &[2.0]), upload(&p, &m, &[3.0]));
    let gate = Gate::on(&x);
    gate.entered();
    let from_x = call(&m, "note", &[&x], &p);
    call(&m, "note", &[&y], &p);
    p.wait_stream(&s).unwrap();
    // The wait holds the next instruction, and that alone.
    call(&m, "note", &[&z], &p);
    call(&m, "note", &[&y], &p);
    log.holds(2);
    assert_eq!(log.taken(), [2.0, 2.0]);
    gate.open();
    assert_eq!(read(&from_x).len(), 1);
    m.synchronize().unwrap();
    let mut late = log.taken();
    late.sort_by(f32::total_cmp);
    assert_eq!(late, [1.0, 3.0]);
}

#[test]
fn a_function_of_the_hosts_holds_no_worker() {
    let log = Log::default();
    let (m, p) = crew(1, |config| add_op(config, "note", log.noting()));
    let (x, y) = (upload(&p, &m, &[1.0]), upload(&p, &m, &[2.0]));
    let gates = [Gate::on(&x), Gate::on(&y)];
    gates.iter().for_each(Gate::entered);
    let z = upload(&p, &m, &[3.0]);
    call(&m, "note", &[&z], &p);
    call(&m, "note", &[&x], &p);
    log.holds(1);
    assert_eq!(log.taken(), [3.0]);
    gates.into_iter().for_each(Gate::open);
    m.synchronize().unwrap();
    assert_eq!(log.taken(), [1.0]);
}

#[test]
fn a_barrier_stands_between_all_that_comes_before_and_after() {
    let (log, (begun, open, block)) = (Log::default(), blocking());
    let (m, p) = crew(2, |config| {
        add_op(config, "note", log.noting());
        add_op(config, "block", block);
    });
    let (x, y) = (upload(&p, &m, &[1.0]), upload(&p, &m, &[2.0]));
    call(&m, "block", &[&x], &p);
    call(&m, "note", &[&x], &p);
    m.barrier().unwrap();
    m.call("note", &[&y]).priority(9).on(&p).unwrap();
    begun.recv_timeout(LONG).unwrap();
    log.holds(1);
    open.send(()).unwrap();
    m.synchronize().unwrap();
    assert_eq!(log.taken(), [1.0, 2.0]);
}

/// Rule 9 holds on pools.
#[test]
fn failures_follow_the_data() {
    let (m, p) = crew(2, add_failing_ops);
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

/// What is pending when a machine goes is run to its end.
#[test]
fn a_machine_that_goes_drains_its_pools() {
    let log = Log::default();
    let (m, p) = crew(2, |config| add_op(config, "note", log.noting()));
    let x = upload(&p, &m, &[1.0]);
    (0..1000).for_each(|_| drop(call(&m, "note", &[&x], &p)));
    drop((x, p, m));
    assert_eq!(log.taken(), [1.0; 1000]);
}

/// The streams of a stored list may be pools, too: each run of it comes after the one before.
#[test]
fn stored_lists_on_pools() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 0);
        let (x, y) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[0.0]));
        let mut list = m.job_recorder();
        let p = list.stream_with_mode(&StreamKey::compute(CPU, 0), StreamMode::Pool).unwrap();
        let (a, b) = (list.import(&x).unwrap(), list.import(&y).unwrap());
        let doubled = list.call("add", &[a, a], Attrs::new(), p).unwrap()[0];
        list.prioritize(3);
        let squared = list.call("mul", &[a, a], Attrs::new(), p).unwrap()[0];
        list.call_out("sub", &[doubled, squared], &[b], Attrs::new(), p).unwrap();
        list.call("add_", &[a, b], Attrs::new(), p).unwrap();
        let job = m.store(list).unwrap();
        // x += 2x - x², three times.
        for _ in 0..3 {
            job.launch().unwrap();
        }
        assert_eq!((read(&x), read(&y)), (vec![2.0], vec![0.0]), "{driver:?}");
        m.synchronize().unwrap();
    }
}
