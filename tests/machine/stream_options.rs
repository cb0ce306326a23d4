//! Streams with a priority, or a worker of the program's choice.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use millstream::*;
use millstream_testing::machine::*;

/// The threads that have run `note`.
type Noted = Arc<Mutex<Option<ThreadId>>>;

/// Returns a machine with an op `note`, which notes its thread.
fn noting(config: MachineConfig) -> (Machine, Noted) {
    let noted = Noted::default();
    let (mut config, to) = (config, noted.clone());
    add_op(&mut config, "note", move |_| {
        *to.lock().unwrap() = Some(thread::current().id());
        Ok(())
    });
    (Machine::new(config).unwrap(), noted)
}

/// Returns the thread that runs a stream's instructions.
fn thread_of((m, noted): &(Machine, Noted), stream: &Stream) -> ThreadId {
    let x = upload(stream, m, &[1.0]);
    call(m, "note", &[&x], stream);
    m.synchronize().unwrap();
    noted.lock().unwrap().take().unwrap()
}

#[test]
fn a_worker_may_be_chosen() {
    let config = MachineConfig::default().driver(DriverKind::Threaded).host_workers(3);
    let m = noting(config);
    let on = |worker| {
        let options = StreamOptions::default().worker(worker);
        thread_of(&m, &m.0.create_stream_with(&CPU, options).unwrap())
    };
    let threads = [2, 0, 1, 2, 0, 2].map(on);
    assert_eq!(threads[..3].iter().collect::<HashSet<_>>().len(), 3, "three workers");
    assert_eq!([threads[3], threads[4], threads[5]], [threads[0], threads[1], threads[0]]);
    // Others take turns among the same workers.
    let others = [(); 3].map(|()| m.0.create_stream(&CPU).unwrap());
    let others: HashSet<ThreadId> = others.iter().map(|stream| thread_of(&m, stream)).collect();
    assert_eq!(others, threads.into_iter().collect());
}

#[test]
fn a_worker_that_is_not_there_is_refused() {
    let m = Machine::new(MachineConfig::default().host_workers(2)).unwrap();
    let error = m.create_stream_with(&CPU, StreamOptions::default().worker(2)).unwrap_err();
    assert!(error.to_string().contains("below 2, got 2"), "{error}");
    let (m, _hand) = by_hand();
    let error = m.create_stream_with(&SIM, StreamOptions::default().worker(0)).unwrap_err();
    assert!(error.to_string().contains("sim:0 has one worker"), "{error}");
}

/// Streams of the host with a priority never wait behind the others.
#[test]
fn streams_with_a_priority_have_a_worker_of_their_own() {
    let config = MachineConfig::default().driver(DriverKind::Threaded).host_workers(1);
    let m = noting(config);
    let urgent = || m.0.create_stream_with(&CPU, StreamOptions::default().priority(1)).unwrap();
    let (first, second, usual) = (urgent(), urgent(), m.0.create_stream(&CPU).unwrap());
    assert_eq!(thread_of(&m, &first), thread_of(&m, &second));
    assert_ne!(thread_of(&m, &first), thread_of(&m, &usual));
    let least = m.0.create_stream_with(&CPU, StreamOptions::default().priority(-1)).unwrap();
    assert_eq!(thread_of(&m, &least), thread_of(&m, &usual));
}

/// Priorities and workers change neither results nor lists.
#[test]
fn results_and_lists_stay_the_same() {
    let of = |options: StreamOptions| {
        emitted(SyncPolicy::Frontier, |m| {
            let s = m.create_stream_with(&CPU, options).unwrap();
            let x = upload(&s, m, &[1.0, -2.0]);
            m.start_recording(&[("x", &x)]).unwrap();
            let y = call(m, "relu", &[&x], &s);
            assert_eq!(read(&y), [1.0, 0.0]);
            drop((x, y));
            m.finish_recording().unwrap()
        })
    };
    let usual = of(StreamOptions::default());
    assert_eq!(of(StreamOptions::default().priority(1)), usual);
    assert_eq!(of(StreamOptions::default().worker(0)), usual);
}
