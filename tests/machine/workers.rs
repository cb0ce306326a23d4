//! Policies see each worker start, before it opens a stream, and stop, after it has closed them.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{ThreadId, current};

use millstream::ep::{Device, EventPool, Notify, Registry};
use millstream::stream_policy::{StreamParts, StreamPolicy, WorkerGroup};
use millstream::*;
use millstream_testing::machine::*;

type Log = Arc<Mutex<Vec<(ThreadId, String)>>>;

/// A policy of the type `noted`, on workers of the host or of its own.
struct Noted {
    ty: StreamType,
    log: Log,
    is_dedicated: bool,
    panics: bool,
}

impl Noted {
    fn note(&self, what: String) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push((current().id(), format!("{}: {what}", self.ty)));
    }
}

impl StreamPolicy for Noted {
    fn stream_type(&self) -> StreamType {
        self.ty
    }

    fn worker_group(&self, _: &StreamKey) -> WorkerGroup {
        match self.is_dedicated {
            true => WorkerGroup::Dedicated(self.ty),
            false => WorkerGroup::Host,
        }
    }

    fn on_worker_start(&self, group: &WorkerGroup) {
        self.note(format!("{group} starts"));
        assert!(!self.panics, "no such library");
    }

    fn on_worker_stop(&self, group: &WorkerGroup) {
        self.note(format!("{group} stops"));
        assert!(*group == WorkerGroup::Host, "still in use");
    }

    fn create(
        &self,
        key: &StreamKey,
        priority: i32,
        devices: &Registry,
        _: &dyn Fn(&Arc<dyn Device>) -> Arc<EventPool>,
        notify: Notify,
    ) -> Result<StreamParts> {
        self.note("opens a stream".to_owned());
        let device = devices.device(&key.device)?;
        let stream = device.create_stream_with_priority(priority, notify)?;
        Ok(StreamParts { device, stream, events: None })
    }
}

const FIRST: StreamType = StreamType::new("first-noted");
const SECOND: StreamType = StreamType::new("second-noted");

/// Calls an op on a stream of each type. Returns what each thread did, in its order, and the
/// failures.
fn run(driver: DriverKind, is_dedicated: bool, panics: bool) -> (Vec<Vec<String>>, Vec<String>) {
    let log: Log = Arc::default();
    let policy = |ty, is_dedicated, panics| {
        let log = log.clone();
        Arc::new(Noted { ty, log, is_dedicated, panics }) as Arc<dyn StreamPolicy>
    };
    let policies = vec![policy(FIRST, false, panics), policy(SECOND, is_dedicated, false)];
    let config = MachineConfig::default().driver(driver).host_workers(1).policies(policies);
    let m = Machine::new(config).unwrap();
    assert!(log.lock().unwrap().is_empty(), "a machine without instructions has no workers");
    for ty in [FIRST, SECOND] {
        let stream = m.stream(&StreamKey::new(CPU, ty, 0)).unwrap();
        let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
        assert_eq!(read(&call(&m, "neg", &[&x], &stream)), [-1.0, 2.0]);
    }
    let failures = m.failures().0.iter().map(|failure| failure.to_string()).collect();
    m.clear_failures();
    assert_eq!(m.shutdown(LONG), ShutdownReport::default());
    let log = log.lock().unwrap();
    let mut threads: Vec<ThreadId> = Vec::new();
    log.iter().for_each(|(of, _)| {
        if !threads.contains(of) {
            threads.push(*of);
        }
    });
    let of = |thread: &ThreadId| {
        let own = log.iter().filter(|(of, _)| of == thread);
        own.map(|(_, what)| what.clone()).collect()
    };
    (threads.iter().map(of).collect(), failures)
}

#[test]
fn each_worker_starts_and_stops_once() {
    let host = [
        "first-noted: host starts",
        "second-noted: host starts",
        "first-noted: opens a stream",
        "second-noted: opens a stream",
        "second-noted: host stops",
        "first-noted: host stops",
    ];
    for driver in ALL_DRIVERS {
        let (threads, failures) = run(driver, false, false);
        assert_eq!(threads, [host], "{driver:?}");
        assert_eq!(failures, [""; 0]);
    }
    // A worker of a stream type is another worker, of which all policies hear.
    let (threads, _) = run(DriverKind::Threaded, true, false);
    let own = [
        "first-noted: second-noted starts",
        "second-noted: second-noted starts",
        "second-noted: opens a stream",
        "second-noted: second-noted stops",
        "first-noted: second-noted stops",
    ];
    let host = [host[0], host[1], host[2], host[4], host[5]];
    assert_eq!(threads, [&host[..], &own[..]]);
}

/// A panic is a failure of the machine, which goes on; the policy is not stopped there.
#[test]
fn panics_are_failures() {
    for driver in ALL_DRIVERS {
        let (threads, failures) = run(driver, false, true);
        let calls = [
            "first-noted: host starts",
            "second-noted: host starts",
            "first-noted: opens a stream",
            "second-noted: opens a stream",
            "second-noted: host stops",
        ];
        assert_eq!(threads, [calls], "{driver:?}");
        let [failure] = &failures[..] else { panic!("{failures:?}") };
        let expected = "`on_worker_start` of the policy of first-noted streams panicked: no such \
                        library";
        assert!(failure.contains(expected), "{failure}");
        assert!(failure.contains("a worker of host"), "{failure}");
    }
}

/// The workers of a pool each start and stop.
#[test]
fn workers_of_pools_start_and_stop() {
    let log: Log = Arc::default();
    let of = log.clone();
    let noted = Noted { ty: FIRST, log: of, is_dedicated: false, panics: false };
    let config = MachineConfig::default().host_workers(3).policies(vec![Arc::new(noted)]);
    let m = Machine::new(config).unwrap();
    let pool = StreamKey::compute(CPU, 1);
    let pool = m.stream_with_mode(&pool, StreamMode::Pool).unwrap();
    let x = Tensor::ones(2, DType::F32, &m).unwrap();
    for _ in 0..20 {
        call(&m, "neg", &[&x], &pool);
    }
    drop((x, pool));
    assert_eq!(m.shutdown(LONG), ShutdownReport::default());
    let log = log.lock().unwrap();
    let count = |what: &str| log.iter().filter(|(_, text)| text.ends_with(what)).count();
    // One worker of in-order streams made `x`, and three serve the pool.
    assert_eq!((count("host starts"), count("host stops")), (4, 4));
    for (thread, _) in log.iter() {
        let own: Vec<&str> =
            log.iter().filter(|(of, _)| of == thread).map(|(_, text)| text.as_str()).collect();
        assert_eq!(own, ["first-noted: host starts", "first-noted: host stops"]);
    }
}
