//! Ranks that wait for one another, if several threads submit to the machine of a rank.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use millstream::comm::LocalGroup;
use millstream::*;
use millstream_testing::machine::*;
use millstream_testing::observed_rank::ObservedRank;

/// Returns the machines of two ranks, to each of which so many threads submit.
fn machines(
    driver: DriverKind,
    submitters: [Option<usize>; 2],
) -> [(Machine, Arc<ObservedRank>); 2] {
    // The watchdog ends the test that needs it; in the others no load may make it end a wait.
    let limit = Duration::from_secs(if submitters.contains(&None) { 2 } else { 120 });
    let ranks = LocalGroup::communicators(2).into_iter().zip(submitters);
    let machines = ranks.map(|(rank, submitters)| {
        let rank = Arc::new(ObservedRank::new(rank));
        let config = config(driver, SyncPolicy::Frontier).communicator(rank.clone());
        let config = config.submitters(submitters).watchdog(Some(limit));
        (Machine::new(config).unwrap(), rank)
    });
    let machines: Vec<_> = machines.collect();
    machines.try_into().unwrap_or_else(|_| unreachable!("two ranks"))
}

/// Exchanges a number with the other rank, and waits for it. Each tag has streams of its own, so
/// that no thread's calls are behind those of another.
fn message(m: &Machine, op: &str, tag: i64, value: f32) -> Result<Vec<u8>> {
    let (peer, other) = (if op == "send" { "to" } else { "from" }, 1 - m.communicator().rank());
    let ring = m.stream(&StreamKey::new(DeviceId::cpu(0), StreamType::CCL, tag as u32))?;
    let x = upload(&cpu(m, tag as u32), m, &[value]);
    let attrs = Attrs::new().with(peer, other as i64).with("tag", tag);
    m.call(op, &[&x]).attrs(attrs).on(&ring)?;
    x.synchronize()?;
    x.read()
}

/// Each rank has a thread that receives. The message of rank 0 comes from another thread, long
/// after both ranks have nothing to run: they are not stuck.
#[test]
fn a_thread_that_may_submit_keeps_its_rank_from_being_stuck() {
    for driver in [DriverKind::Threaded, DriverKind::Inline] {
        let [(m, own), (other, of_other)] = machines(driver, [Some(2), Some(1)]);
        thread::scope(|scope| {
            let receives = scope.spawn(|| message(&m, "recv_", 0, 0.0));
            let answers = scope.spawn(|| {
                let received = message(&other, "recv_", 1, 0.0)?;
                message(&other, "send", 0, 5.0)?;
                Ok::<_, Error>(received)
            });
            // Long enough for both ranks to be called stuck.
            while own.looks() < 20 || of_other.looks() < 20 {
                thread::yield_now();
            }
            message(&m, "send", 1, 7.0).unwrap();
            assert_eq!(floats(&answers.join().unwrap().unwrap()), [7.0], "{driver:?}");
            assert_eq!(floats(&receives.join().unwrap().unwrap()), [5.0], "{driver:?}");
        });
    }
}

/// Once all threads of all ranks wait, the ranks are stuck.
#[test]
fn threads_that_all_wait_are_found() {
    for driver in [DriverKind::Threaded, DriverKind::Inline] {
        let [(m, _), (other, _)] = machines(driver, [Some(2), Some(1)]);
        thread::scope(|scope| {
            let waits = [(&m, 0), (&m, 1), (&other, 2)];
            let waits = waits.map(|(m, tag)| scope.spawn(move || message(m, "recv_", tag, 0.0)));
            for wait in waits {
                let error = wait.join().unwrap().unwrap_err().to_string();
                assert!(error.contains("the ranks wait for one another"), "{driver:?}: {error}");
            }
        });
    }
}

/// Without the number of threads the watchdog ends the waits.
#[test]
fn unknown_threads_are_never_all_waiting() {
    let [(m, _), (other, _)] = machines(DriverKind::Threaded, [None, Some(1)]);
    thread::scope(|scope| {
        let waits = [&m, &other].map(|m| scope.spawn(move || message(m, "recv_", 0, 0.0)));
        for wait in waits {
            let error = wait.join().unwrap().unwrap_err();
            assert!(matches!(error.without_place(), Error::Overdue(_)), "{error}");
        }
    });
    for m in [m, other] {
        m.shutdown(Duration::ZERO);
    }
}
