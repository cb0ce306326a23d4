//! Tests of the simulated device alone: completion by hand, device loss, `SimControl`.
//!
//! Long because each property has a test of its own.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use millstream_ep::sim::{
    Command, CommandKind, Completion, SimBackend, SimConfig, SimControl, SimStreamId,
};
use millstream_ep::{Backend, Device, Notify, Progress, Stream, Work, WorkResult};
use millstream_types::{DeviceId, Error};

const TIMEOUT: Duration = Duration::from_secs(20);

fn by_hand() -> (SimControl, Arc<dyn Device>) {
    let config = SimConfig { completion: Completion::ByHand, ..SimConfig::default() };
    let backend = SimBackend::new(config);
    (backend.control(), backend.open(0).unwrap())
}

fn id(stream: u32) -> SimStreamId {
    SimStreamId { device: 0, stream }
}

fn quiet() -> Notify {
    Arc::new(|| {})
}

/// Work that increments `ran`. The references to `live` count the works that were not dropped.
struct CountingWork {
    ran: Arc<AtomicUsize>,
    live: Arc<()>,
}

impl CountingWork {
    fn new(ran: &Arc<AtomicUsize>) -> CountingWork {
        CountingWork { ran: ran.clone(), live: Arc::new(()) }
    }
}

impl Work for CountingWork {
    fn run(&mut self, _native: &dyn Any) -> WorkResult {
        self.ran.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(CountingWork { ran: self.ran.clone(), live: self.live.clone() })
    }
}

fn pending(progress: Progress) -> u64 {
    match progress {
        Progress::Pending(ticket) => ticket,
        Progress::Done(_) => panic!("a simulated device is asynchronous"),
    }
}

fn reported(stream: &mut dyn Stream) -> Vec<u64> {
    let mut tickets = Vec::new();
    stream
        .poll(&mut |ticket, result| {
            result.unwrap();
            tickets.push(ticket);
        })
        .unwrap();
    tickets
}

#[test]
fn nothing_runs_until_it_is_stepped() {
    let (control, device) = by_hand();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut stream = device.create_stream(quiet()).unwrap();
    for ticket in 1..=2 {
        assert_eq!(pending(stream.submit(&mut CountingWork::new(&ran)).unwrap()), ticket);
    }
    assert!(reported(&mut *stream).is_empty());
    assert!(control.step(id(0)).unwrap());
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(reported(&mut *stream), [1]);
    assert!(control.step(id(0)).unwrap());
    assert!(!control.step(id(0)).unwrap(), "nothing is left");
    assert_eq!(reported(&mut *stream), [2]);
}

#[test]
fn a_wait_blocks_its_stream_until_its_own_record_has_run() {
    let (control, device) = by_hand();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut a = device.create_stream(quiet()).unwrap();
    let mut b = device.create_stream(quiet()).unwrap();
    let event = device.create_event().unwrap();
    a.submit(&mut CountingWork::new(&ran)).unwrap();
    a.record(&event).unwrap();
    b.wait(&event).unwrap();
    a.record(&event).unwrap();

    let view = control.streams();
    let command = |ticket, kind, runnable| Command { ticket, kind, runnable };
    let expected = [
        command(1, CommandKind::Work, true),
        command(2, CommandKind::Record, false),
        command(3, CommandKind::Record, false),
    ];
    assert_eq!((view[0].id, &view[0].commands[..]), (id(0), &expected[..]));
    assert_eq!(view[1].commands, [command(1, CommandKind::Wait, false)]);

    assert!(!control.step(id(1)).unwrap(), "the record has not run");
    assert!(control.step(id(0)).unwrap());
    assert!(!control.step(id(1)).unwrap(), "the work ahead of the record is not the record");
    assert!(control.step(id(0)).unwrap());
    assert!(!event.query().unwrap(), "the newest record has not run");
    assert!(control.step(id(1)).unwrap(), "the wait is only for the first record");
    assert_eq!(control.run_all(), 1);
    assert!(event.query().unwrap());
}

#[test]
fn run_all_follows_waits_until_nothing_is_runnable() {
    let (control, device) = by_hand();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut streams: Vec<_> = (0..3).map(|_| device.create_stream(quiet()).unwrap()).collect();
    let events: Vec<_> = (0..2).map(|_| device.create_event().unwrap()).collect();
    streams[0].record(&events[0]).unwrap();
    streams[1].wait(&events[0]).unwrap();
    streams[1].record(&events[1]).unwrap();
    streams[2].wait(&events[1]).unwrap();
    streams[2].submit(&mut CountingWork::new(&ran)).unwrap();
    assert_eq!(control.run_all(), 5);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(control.run_all(), 0);
}

#[test]
fn after_a_switch_to_issue_order_polls_run_queued_commands() {
    let (control, device) = by_hand();
    let (ran, notified) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = notified.clone();
    let notify = Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let mut stream = device.create_stream(notify).unwrap();
    stream.submit(&mut CountingWork::new(&ran)).unwrap();
    assert!(reported(&mut *stream).is_empty());
    control.switch(Completion::IssueOrder);
    assert_eq!(notified.load(Ordering::SeqCst), 1, "the switch must notify the owner");
    assert_eq!(reported(&mut *stream), [1]);
    control.switch(Completion::ByHand);
    stream.submit(&mut CountingWork::new(&ran)).unwrap();
    assert!(reported(&mut *stream).is_empty());
}

#[test]
fn in_issue_order_a_query_runs_commands_and_submit_does_not() {
    let device = SimBackend::new(SimConfig::default()).open(0).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut stream = device.create_stream(quiet()).unwrap();
    let event = device.create_event().unwrap();
    stream.submit(&mut CountingWork::new(&ran)).unwrap();
    stream.record(&event).unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert!(event.query().unwrap());
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(reported(&mut *stream), [1, 2]);
}

/// A notify function may call the device, because no lock is held.
#[test]
fn notify_is_called_without_locks() {
    let (control, device) = by_hand();
    let seen = Arc::new(AtomicUsize::new(usize::MAX));
    let (view, left) = (control.clone(), seen.clone());
    let notify = Arc::new(move || {
        left.store(view.streams()[0].commands.len(), Ordering::SeqCst);
    });
    let mut stream = device.create_stream(notify).unwrap();
    let event = device.create_event().unwrap();
    stream.record(&event).unwrap();
    stream.record(&event).unwrap();
    assert!(control.step(id(0)).unwrap());
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

fn is_lost<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Device { device, .. }) if device == DeviceId::sim(0))
}

#[test]
fn a_lost_device_refuses_everything_and_runs_nothing() {
    let backend = SimBackend::new(SimConfig {
        devices: 2,
        completion: Completion::ByHand,
        ..SimConfig::default()
    });
    let (control, device) = (backend.control(), backend.open(0).unwrap());
    let (ran, notified) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = notified.clone();
    let notify = Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let mut stream = device.create_stream(notify).unwrap();
    let event = device.create_event().unwrap();
    let memory = device.allocate(64).unwrap();
    let mut work = CountingWork::new(&ran);
    stream.submit(&mut work).unwrap();
    stream.record(&event).unwrap();
    stream.wait(&event).unwrap();

    control.lose(0).unwrap();
    assert_eq!(notified.load(Ordering::SeqCst), 1, "the loss must notify the owner");
    assert_eq!(Arc::strong_count(&work.live), 1, "queued work is dropped");
    assert!(is_lost(stream.submit(&mut work)));
    assert!(is_lost(stream.record(&event)));
    assert!(is_lost(stream.wait(&event)));
    assert!(is_lost(stream.poll(&mut |_, _| panic!("a lost device reports nothing"))));
    assert!(is_lost(event.query()));
    assert!(is_lost(device.allocate(1)));
    assert!(is_lost(device.create_stream(quiet())));
    assert!(is_lost(device.create_event()));
    assert!(is_lost(control.step(id(0))));
    assert_eq!(control.run_all(), 0);
    control.switch(Completion::IssueOrder);
    assert_eq!(control.run_all(), 0);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    drop((memory, event));
    assert_eq!(control.stats(0).unwrap().bytes_in_use, 0);

    let other = backend.open(1).unwrap();
    let mut stream = other.create_stream(quiet()).unwrap();
    stream.submit(&mut CountingWork::new(&ran)).unwrap();
    assert_eq!(reported(&mut *stream), [1], "another device continues");
    assert!(matches!(control.lose(2), Err(Error::Device { .. })));
}

#[test]
fn events_of_another_device_or_backend_are_refused() {
    let config = SimConfig { devices: 2, ..SimConfig::default() };
    let (one, two) = (SimBackend::new(config.clone()), SimBackend::new(config));
    let mut stream = one.open(0).unwrap().create_stream(quiet()).unwrap();
    for device in [one.open(1).unwrap(), two.open(0).unwrap()] {
        let event = device.create_event().unwrap();
        assert!(matches!(stream.record(&event), Err(Error::Invalid { .. })));
        assert!(matches!(stream.wait(&event), Err(Error::Invalid { .. })));
    }
}

/// Creates two devices that can wait for one another. The first has a work and a record, the second
/// a wait for that record and a work.
fn two_devices(
    completion: Completion,
    notify: Notify,
) -> (SimControl, [Box<dyn Stream>; 2], Arc<AtomicUsize>) {
    let config = SimConfig { devices: 2, direct_waits: true, completion, ..SimConfig::default() };
    let backend = SimBackend::new(config);
    let [zero, one] = [0, 1].map(|k| backend.open(k).unwrap());
    let (mut a, mut b) = (zero.create_stream(quiet()).unwrap(), one.create_stream(notify).unwrap());
    let (ran, event) = (Arc::new(AtomicUsize::new(0)), zero.create_event().unwrap());
    assert!(matches!(b.wait(&event), Err(Error::Invalid { .. })), "it was never recorded");
    a.submit(&mut CountingWork::new(&ran)).unwrap();
    a.record(&event).unwrap();
    b.wait(&event).unwrap();
    b.submit(&mut CountingWork::new(&ran)).unwrap();
    (backend.control(), [a, b], ran)
}

#[test]
fn a_device_waits_for_anothers_record() {
    let (control, [mut a, mut b], ran) = two_devices(Completion::ByHand, quiet());
    let [first, second] = [0, 1].map(|device| SimStreamId { device, stream: 0 });
    assert!(!control.step(second).unwrap(), "nothing of the first device has run");
    assert!(control.step(first).unwrap() && !control.step(second).unwrap());
    assert!(control.step(first).unwrap() && control.step(second).unwrap());
    assert_eq!(control.run_all(), 1);
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    assert_eq!((reported(&mut *a), reported(&mut *b)), (vec![1, 2], vec![1, 2]));
    // `run_all` runs all of them, although it begins with the first device.
    let (control, _streams, ran) = two_devices(Completion::ByHand, quiet());
    assert_eq!((control.run_all(), ran.load(Ordering::SeqCst)), (4, 2));
}

/// An owner that parks after an empty poll is notified when another device's record completes.
#[test]
fn a_stream_is_notified_of_anothers_record() {
    let notified = Arc::new(AtomicUsize::new(0));
    let count = notified.clone();
    let notify = Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let (_control, [mut a, mut b], _) = two_devices(Completion::IssueOrder, notify);
    assert!(reported(&mut *b).is_empty());
    assert_eq!(notified.load(Ordering::SeqCst), 0);
    assert_eq!(reported(&mut *a), [1, 2]);
    assert!(notified.load(Ordering::SeqCst) > 0);
    assert_eq!(reported(&mut *b), [1, 2]);
}

/// A wait for a record of a lost device ends.
#[test]
fn a_stream_continues_when_the_awaited_device_is_lost() {
    let (control, [mut a, mut b], ran) = two_devices(Completion::ByHand, quiet());
    control.lose(0).unwrap();
    assert!(a.poll(&mut |_, _| {}).is_err());
    assert_eq!(control.run_all(), 2);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(reported(&mut *b), [1, 2]);
    // If the waiting device is lost, the device of the record continues.
    let (control, [mut a, _b], ran) = two_devices(Completion::ByHand, quiet());
    control.lose(1).unwrap();
    assert_eq!((control.run_all(), ran.load(Ordering::SeqCst)), (2, 1));
    assert_eq!(reported(&mut *a), [1, 2]);
}

#[test]
fn memory_keeps_to_the_limit() {
    let backend = SimBackend::new(SimConfig { memory_limit: 4096, ..SimConfig::default() });
    let (control, device) = (backend.control(), backend.open(0).unwrap());
    assert_eq!(device.default_memory_limit(), 4096);
    let half = device.allocate(2048).unwrap();
    let refused = device.allocate(2049).err();
    let expected = Error::OutOfMemory {
        device: DeviceId::sim(0),
        purpose: "device memory".to_owned(),
        wanted: 2049,
        in_use: 2048,
        limit: 4096,
        holders: Vec::new(),
    };
    assert_eq!(refused, Some(expected));
    drop(half);
    drop(device.allocate(4096).unwrap());
    let stats = control.stats(0).unwrap();
    assert_eq!((stats.bytes_in_use, stats.bytes_peak), (0, 4096));
}

#[test]
fn statistics_count_accepted_calls() {
    let (control, device) = by_hand();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut stream = device.create_stream(quiet()).unwrap();
    let event = device.create_event().unwrap();
    assert!(stream.wait(&event).is_err(), "refused, so not counted");
    stream.submit(&mut CountingWork::new(&ran)).unwrap();
    stream.submit(&mut CountingWork::new(&ran)).unwrap();
    stream.record(&event).unwrap();
    stream.wait(&event).unwrap();
    let stats = control.stats(0).unwrap();
    assert_eq!((stats.works, stats.records, stats.waits), (2, 1, 1));
    assert_eq!((stats.events_created, stats.streams_created), (1, 1));
    assert!(control.stats(1).is_err());
    assert!(control.step(id(1)).is_err());
    assert!(control.step(SimStreamId { device: 1, stream: 0 }).is_err());
}

#[test]
fn a_test_can_wait_until_commands_are_submitted() {
    let (control, device) = by_hand();
    let none = control.wait_for_commands(1, Duration::ZERO);
    assert!(matches!(none, Err(Error::Timeout { .. })));
    thread::scope(|scope| {
        scope.spawn(|| {
            let ran = Arc::new(AtomicUsize::new(0));
            let mut stream = device.create_stream(quiet()).unwrap();
            for _ in 0..3 {
                stream.submit(&mut CountingWork::new(&ran)).unwrap();
            }
        });
        // The stream need not exist when the wait begins.
        control.wait_for_commands_on(id(0), 3, TIMEOUT).unwrap();
        control.wait_for_commands(3, TIMEOUT).unwrap();
    });
    assert!(control.wait_for_commands_on(id(0), 4, Duration::ZERO).is_err());
    assert_eq!(control.run_all(), 3, "a dropped stream's commands stay on the device");
}

/// While one thread runs a stream's command, no other thread may run the stream's next one.
#[test]
fn a_stream_runs_one_command_at_a_time() {
    struct Block(Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>);
    impl Work for Block {
        fn run(&mut self, _native: &dyn Any) -> WorkResult {
            let (started, go_on) = self.0.take().expect("run once");
            started.send(())?;
            go_on.recv()?;
            Ok(())
        }
        fn detach(&mut self) -> Box<dyn Work> {
            Box::new(Block(self.0.take()))
        }
    }
    let (control, device) = by_hand();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut stream = device.create_stream(quiet()).unwrap();
    let (started, has_started) = mpsc::channel();
    let (release, go_on) = mpsc::channel();
    stream.submit(&mut Block(Some((started, go_on)))).unwrap();
    stream.submit(&mut CountingWork::new(&ran)).unwrap();
    thread::scope(|scope| {
        let stepper = scope.spawn(|| control.step(id(0)).unwrap());
        has_started.recv().unwrap();
        assert!(!control.step(id(0)).unwrap());
        assert_eq!(control.run_all(), 0);
        release.send(()).unwrap();
        assert!(stepper.join().unwrap());
    });
    assert!(control.step(id(0)).unwrap());
    assert_eq!(reported(&mut *stream), [1, 2]);
}

/// Two workers park after a poll that reported nothing. In issue order, no command may remain
/// while both are parked.
#[test]
fn workers_that_poll_before_they_park_never_miss_a_completion() {
    const COMMANDS: usize = 2000;
    let device = SimBackend::new(SimConfig::default()).open(0).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let signal = Arc::new((Mutex::new(false), Condvar::new()));
                let sender = signal.clone();
                let notify = Arc::new(move || {
                    *sender.0.lock().unwrap() = true;
                    sender.1.notify_one();
                });
                let mut stream = device.create_stream(notify).unwrap();
                for k in 1..=COMMANDS as u64 {
                    assert_eq!(pending(stream.submit(&mut CountingWork::new(&ran)).unwrap()), k);
                    while !reported(&mut *stream).contains(&k) {
                        let notified = signal.0.lock().unwrap();
                        let (mut notified, wait) =
                            signal.1.wait_timeout_while(notified, TIMEOUT, |set| !*set).unwrap();
                        assert!(!wait.timed_out(), "command {k} remained");
                        *notified = false;
                    }
                }
            });
        }
    });
    assert_eq!(ran.load(Ordering::SeqCst), 2 * COMMANDS);
}

/// The layers above free memory once a stream reports its loss.
#[test]
fn a_loss_is_reported_after_the_command_that_runs() {
    struct Slow(Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>);
    impl Work for Slow {
        fn run(&mut self, _native: &dyn Any) -> WorkResult {
            let (started, may_end) = self.0.take().expect("run once");
            started.send(())?;
            Ok(may_end.recv()?)
        }
        fn detach(&mut self) -> Box<dyn Work> {
            Box::new(Slow(self.0.take()))
        }
    }
    let (control, device) = by_hand();
    let (notify, notified) = mpsc::channel();
    let notify = Arc::new(move || notify.send(()).unwrap());
    let mut stream = device.create_stream(notify).unwrap();
    let ((started, has_started), (end, may_end)) = (mpsc::channel(), mpsc::channel());
    stream.submit(&mut Slow(Some((started, may_end)))).unwrap();
    let mut poll = || stream.poll(&mut |_, _| panic!("a lost device reports nothing"));
    thread::scope(|scope| {
        let stepper = scope.spawn(|| control.step(id(0)).unwrap());
        has_started.recv().unwrap();
        control.lose(0).unwrap();
        notified.recv().unwrap();
        let polled = poll();
        end.send(()).unwrap();
        assert!(stepper.join().unwrap());
        assert_eq!(polled, Ok(()), "a command of the stream was running");
    });
    notified.recv().unwrap();
    assert!(is_lost(poll()));
}
