//! Stalls of each stream in turn: independent work continues, waits with a timeout end, and no
//! result is lost when the stream continues.

use std::thread::ScopedJoinHandle;
use std::time::Duration;

use millstream::{DriverKind, Error, Machine};
use millstream_backoff::wait_until;
use millstream_cuda_standin::control::Turn;

use super::fixture::{DEVICE, Kind, Machines};
use crate::no_violations;
use millstream_testing::faults::Fixture;
use millstream_testing::faults::case::{self, Case};
use millstream_testing::faults::check::{healthy, positions, reference};

const DRIVER: (DriverKind, u64) = (DriverKind::Threaded, 0);

const OPENED: &str = "cuStreamCreateWithPriority";

/// Calls `check` for each stream of each case.
fn each(check: impl Fn(&Case, u64, &str)) {
    for case in case::all(&DEVICE, false) {
        let streams = positions::<Machines>(&case, DRIVER, Kind::Call(OPENED, 0), "cuda");
        assert!(streams > 1);
        for stream in 0..streams {
            check(&case, stream, &format!("{}, s{stream} stalls", case.name));
        }
    }
}

/// Waits until the stalled stream has been opened, by its first command. A program may end without
/// it, because the numbers of streams depend on the order of their first commands.
fn is_opened<T>(turn: &Turn<'_>, stream: u64, running: &ScopedJoinHandle<'_, T>) -> bool {
    wait_until(|| turn.count(OPENED) > stream || running.is_finished());
    turn.count(OPENED) > stream
}

#[test]
fn a_stream_stalls_and_continues() {
    each(|case, stream, what| {
        let fixture = Machines::new(case, DRIVER, Kind::None, "cuda", 1);
        let hold = fixture.turn.hold_stream(&format!("s{stream}"));
        let expected = reference(case, &vec![true; case.steps.len()]);
        let held = std::thread::scope(|scope| {
            let (machine, outputs) = (fixture.machine(), &case.outputs);
            let running = scope.spawn(move || {
                let mut held = case::Held::default();
                case.submit(machine, &mut held, |_| true, |_| ());
                let read: Vec<_> = outputs.iter().map(|&o| case.read(&held, o)).collect();
                (held, read)
            });
            if is_opened(&fixture.turn, stream, &running) {
                let waited =
                    fixture.machine().synchronize_for(Duration::from_millis(1)).unwrap_err();
                assert!(
                    matches!(waited.without_place(), Error::Timeout { .. }),
                    "{what}: {waited}"
                );
            }
            drop(hold);
            let (held, read) = running.join().unwrap();
            for (read, expected) in read.into_iter().zip(&expected) {
                assert_eq!(read.map(Result::unwrap), *expected, "{what}");
            }
            held
        });
        drop(held);
        healthy(fixture.machine(), Some(&DEVICE), what);
        fixture.end(what);
    });
}

#[test]
fn a_stream_stalls_and_is_leaked() {
    each(|case, stream, what| {
        let fixture = Machines::new(case, DRIVER, Kind::None, "cuda", 1);
        let hold = fixture.turn.hold_stream(&format!("s{stream}"));
        std::thread::scope(|scope| {
            let machine: Machine = fixture.machine().clone();
            let running = scope.spawn(move || {
                let mut held = case::Held::default();
                case.submit(&machine, &mut held, |_| true, |_| ());
                machine.synchronize()
            });
            if !is_opened(&fixture.turn, stream, &running) {
                return;
            }
            let report = fixture.machine().clone().shutdown(Duration::from_millis(1));
            assert!(report.leaked && !report.hanging.is_empty(), "{what}: {report:?}");
            let closed = running.join().unwrap().unwrap_err();
            assert!(matches!(closed.without_place(), Error::Closed), "{what}: {closed}");
        });
        drop(hold);
        fixture.left_behind();
        no_violations();
    });
}
