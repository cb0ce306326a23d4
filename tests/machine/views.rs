//! Rule 7: a release ends a tensor, and a storage lives until its last tensor is released. Hazards
//! are tracked per storage.

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn two_views_of_one_storage_conflict() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let (s, t) = (cpu(m, 0), cpu(m, 1));
        let x = upload(&s, m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let (left, right) = (slice(m, &x, 0, 1, &s), slice(m, &x, 1, 2, &s));
        m.call("fill", &[&left]).attr("value", 5.0).on(&s).unwrap();
        m.call("fill", &[&right]).attr("value", 6.0).on(&t).unwrap();
        let list = m.finish_recording().unwrap();
        assert_eq!(read(&x), [5.0, 6.0]);
        list
    });
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    ViewTensor %1 of %0 f32[1]
    ViewTensor %2 of %0 f32[1] offset 1
    OpCall s0:2 fill (%1 readwrite) {value=5.0}
    SoftSyncStream s1 needs s0:2 for (%2) by-host
    StreamWaitEvent s1:1 until s0:2 by-host
    OpCall s1:2 fill (%2 readwrite) {value=6.0}
    "#);
}

#[test]
fn a_storage_ends_with_its_last_tensor() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0, -2.0, 3.0]);
        let (view, further) = (slice(&m, &x, 1, 3, &s), slice(&m, &x, 1, 2, &s));
        x.release().unwrap();
        assert!(x.read().is_err());
        assert_eq!(m.memory().unwrap()[0].in_use, 512);
        // A new allocation gets other memory.
        let y = upload(&s, &m, &[9.0; 3]);
        assert_eq!((read(&view), read(&further)), (vec![-2.0, 3.0], vec![-2.0]));
        drop(view);
        assert_eq!(read(&further), [-2.0]);
        drop((further, y));
        assert_eq!(m.memory().unwrap()[0].in_use, 0);
    }
}

#[test]
fn a_write_through_a_view_is_seen_through_the_base() {
    let m = threaded();
    let (s, t) = (cpu(&m, 0), cpu(&m, 1));
    let x = upload(&s, &m, &[1.0, 2.0, 3.0, 4.0]);
    let reshaped = m.call("reshape", &[&x]).attr("shape", vec![2i64, 2]).on(&s).unwrap().remove(0);
    let turned =
        m.call("transpose", &[&reshaped]).attr("dim0", 0).attr("dim1", 1).on(&s).unwrap().remove(0);
    for k in 0..50 {
        let on = if k % 2 == 0 { &s } else { &t };
        m.call("add_", &[&turned, &reshaped]).on(on).unwrap();
        let back = if k % 2 == 0 { &t } else { &s };
        m.call("sub", &[&x, &x]).out(&[&m.empty(back, f32_spec(&[4])).unwrap()]).on(back).unwrap();
    }
    // The diagonal doubles each time; both others become their sum.
    let got = read(&x);
    assert_eq!((got[0], got[3]), (2f32.powi(50), 4.0 * 2f32.powi(50)));
}

/// MXNet's trap: an op that names one variable twice must not wait for itself.
#[test]
fn one_storage_twice_in_a_call() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let (s, t) = (cpu(&m, 0), cpu(&m, 1));
        let x = upload(&s, &m, &[1.0, -2.0]);
        m.call("add_", &[&x, &x]).on(&s).unwrap();
        m.call("add_", &[&x, &x]).on(&t).unwrap();
        let tail = slice(&m, &x, 1, 2, &t);
        m.call("add_", &[&x, &tail]).on(&s).unwrap();
        assert_eq!(read(&x), [-4.0, -16.0]);
        let error = m.call("relu", &[&x]).out(&[&x]).on(&s).unwrap_err().to_string();
        assert!(error.contains("use an op in place"), "{error}");
    }
}
