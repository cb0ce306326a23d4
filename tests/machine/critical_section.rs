//! Critical sections: all earlier uses come before a section, and until it ends only its own calls
//! use its tensors.

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn others_wait_for_its_end() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let (s, t) = (cpu(m, 0), cpu(m, 1));
        let x = upload(&s, m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let before = call(m, "relu", &[&x], &t);
        let section = m.critical_section(&[&x]).unwrap();
        m.call("add_", &[&x, &x]).within(&section).on(&t).unwrap();
        section.end().unwrap();
        let after = call(m, "copy", &[&x], &s);
        let list = m.finish_recording().unwrap();
        assert_eq!((read(&before), read(&after)), (vec![1.0, 0.0], vec![2.0, -4.0]));
        list
    });
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    stream s2 cpu:0 critical-section 0 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s1 %1 f32[2] as 8 bytes at a0+512 generation 2
    SoftSyncStream s1 needs s0:1 for (%0) elided-fenced
    OpCall s1:1 relu (%0 read, %1 write)
    SoftSyncStream s2 needs s0:1 for (%0) elided-fenced
    SoftSyncStream s2 needs s1:1 for (%0) by-host
    StreamWaitEvent s2:1 until s1:1 by-host
    CriticalSectionBegin s2:2 (%0 readwrite)
    SoftSyncStream s1 needs s2:2 for (%0) by-host
    StreamWaitEvent s1:2 until s2:2 by-host
    OpCall s1:3 add_ (%0 readwrite, %0 read)
    SoftSyncStream s2 needs s1:3 for (%0) by-host
    StreamWaitEvent s2:3 until s1:3 by-host
    CriticalSectionEnd s2:4 (%0 readwrite)
    AllocateTensor s0 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s0 needs s2:4 for (%0) by-host
    StreamWaitEvent s0:2 until s2:4 by-host
    OpCall s0:3 copy (%0 read, %2 write)
    "#);
}

fn is_held<T: std::fmt::Debug>(result: Result<T>) -> bool {
    match result.unwrap_err().without_place() {
        Error::Held { begun, .. } => begun.to_string().contains(file!()),
        _ => false,
    }
}

#[test]
fn calls_outside_cannot_use_its_tensors() {
    let m = threaded();
    let s = cpu(&m, 0);
    let x = upload(&s, &m, &[1.0, -2.0]);
    let view = slice(&m, &x, 0, 1, &s);
    let section = m.critical_section(&[&x]).unwrap();
    assert!(is_held(m.call("relu", &[&x]).on(&s)));
    assert!(is_held(m.call("relu", &[&view]).on(&s)), "a view of a held tensor");
    assert!(is_held(x.read()));
    assert!(is_held(x.release()));
    assert!(is_held(s.touch(&[&x])));
    assert!(is_held(x.access(Access::Read, |_| Ok(()))));
    assert!(is_held(m.critical_section(&[&x])), "a second section");
    assert_eq!(floats(&x.read_within(Some(&section)).unwrap()), [1.0, -2.0]);
    assert_eq!(m.pending_callbacks(), 0, "a refused callback is dropped");
    drop(section);
    assert_eq!(read(&x), [1.0, -2.0]);
}

#[test]
fn a_recording_cannot_finish_within_a_section() {
    let m = threaded();
    let s = cpu(&m, 0);
    let x = upload(&s, &m, &[1.0]);
    m.start_recording(&[("x", &x)]).unwrap();
    let section = m.critical_section(&[&x]).unwrap();
    let error = m.finish_recording().unwrap_err().to_string();
    assert!(error.contains("never ended") && error.contains(file!()), "{error}");
    section.end().unwrap();
}

#[test]
fn a_tensor_dropped_within_a_section_is_released_after_it() {
    let m = threaded();
    let s = cpu(&m, 0);
    let (x, y) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[1.0]));
    m.synchronize().unwrap();
    let used = m.memory().unwrap()[0].in_use;
    let section = m.critical_section(&[&x, &y]).unwrap();
    drop(x);
    assert_eq!(m.memory().unwrap()[0].in_use, used);
    section.end().unwrap();
    assert_eq!(m.memory().unwrap()[0].in_use, used / 2);
}

/// Two machines can have equal section numbers. Each machine refuses the sections of the other.
#[test]
fn another_machines_section_is_refused() {
    let (m, other) = (threaded(), threaded());
    let (x, y) = (upload(&cpu(&m, 0), &m, &[1.0]), upload(&cpu(&other, 0), &other, &[1.0]));
    let _held = m.critical_section(&[&x]).unwrap();
    let foreign = other.critical_section(&[&y]).unwrap();
    let error = m.call("relu", &[&x]).within(&foreign).on(&cpu(&m, 0)).unwrap_err();
    assert!(matches!(error.without_place(), Error::Foreign { .. }), "{error}");
}

/// Dropping a section waits for nothing, so a callback may do it.
#[test]
fn a_section_dropped_in_a_callback_ends() {
    for m in [threaded(), inline()] {
        let s = cpu(&m, 0);
        let (x, y) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[2.0]));
        let section = m.critical_section(&[&x]).unwrap();
        let dropped = y.access(Access::Read, move |_| {
            drop(section);
            Ok(())
        });
        dropped.unwrap().wait().unwrap();
        assert_eq!(read(&call(&m, "add", &[&x, &x], &s)), [2.0]);
    }
}

/// A recording that cannot finish yet continues, and finishes later with all its instructions.
#[test]
fn a_recording_continues_after_a_refused_finish() {
    let m = inline();
    let s = cpu(&m, 0);
    let x = upload(&s, &m, &[1.0]);
    m.start_recording(&[("x", &x)]).unwrap();
    let section = m.critical_section(&[&x]).unwrap();
    m.finish_recording().unwrap_err();
    section.end().unwrap();
    let list = listing(&m.finish_recording().unwrap());
    assert!(list.contains("CriticalSectionBegin") && list.contains("CriticalSectionEnd"), "{list}");
}
