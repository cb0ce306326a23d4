//! A forked child has none of its parent's threads: the parent's machines are refused there, and a
//! machine of the child works.
#![cfg(unix)]

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};

use millstream::*;
use millstream_testing::machine::*;

use crate::executable::machine;

/// Set in the process that forks: no other test holds a lock there meanwhile.
const ALONE: &str = "MILLSTREAM_TEST_FORKS";

/// Runs `child` in a forked child, which is killed if it hangs. Returns whether it has succeeded.
fn forked(child: impl FnOnce()) -> bool {
    // SAFETY: the child ends by `_exit`, and no other thread of the process is within a call.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::alarm(60);
            libc::_exit(catch_unwind(AssertUnwindSafe(child)).is_err().into());
        }
        let mut status = -1;
        libc::waitpid(pid, &mut status, 0) == pid && status == 0
    }
}

#[test]
fn a_childs_use_of_its_parents_machine() {
    if std::env::var_os(ALONE).is_none() {
        let tests = std::env::current_exe().unwrap();
        let name = "forked::a_childs_use_of_its_parents_machine";
        let mut alone = Command::new(tests);
        alone.args(["--exact", name, "--test-threads=1"]).env(ALONE, "1");
        assert!(alone.status().unwrap().success());
        return;
    }
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0, -2.0]);
        let y = x.relu().unwrap();
        let completion = y.completion().unwrap();
        let event = s.record_event().unwrap();
        assert_eq!(read(&y), [1.0, 0.0]);
        assert!(forked(|| {
            let refused = |result: Result<()>| {
                let error = result.unwrap_err();
                assert!(matches!(error.without_place(), Error::Forked), "{driver:?}: {error}");
                assert!(error.to_string().contains("make a machine in the child"), "{error}");
            };
            refused(x.relu().map(drop));
            refused(y.read().map(drop));
            refused(m.synchronize());
            refused(s.synchronize());
            refused(event.synchronize());
            refused(completion.wait());
            refused(m.stream(s.key()).map(drop));
            let mut poll = pin!(m.completion().unwrap_or(completion));
            match poll.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => refused(result),
                Poll::Pending => panic!("{driver:?}: never ready"),
            }
            let own = machine(driver);
            let z = upload(&cpu(&own, 0), &own, &[-3.0, 4.0]);
            assert_eq!(read(&z.relu().unwrap()), [0.0, 4.0]);
            drop(own);
            drop((x, y, s, event, m));
        }));
    }
    // The parent's machines go on.
    let m = machine(DriverKind::Threaded);
    let x = upload(&cpu(&m, 0), &m, &[5.0]);
    assert!(forked(|| assert!(x.read().is_err())));
    assert_eq!(read(&x.neg().unwrap()), [-5.0]);
}
