//! The number of critical sections that one emitted instruction takes.

use millstream::*;
use millstream_testing::machine::*;

/// Returns how often `work` enters the critical section.
fn entries(m: &Machine, work: impl FnOnce()) -> u64 {
    let before = m.emission_entries().unwrap();
    work();
    // The first query has entered it, too.
    m.emission_entries().unwrap() - before - 1
}

#[test]
fn a_call_enters_once() {
    let m = threaded();
    let s = cpu(&m, 0);
    let x = upload(&s, &m, &[1.0, 2.0]);
    let y = m.empty(&s, f32_spec(&[2])).unwrap();
    m.current_stream().unwrap();
    let call = || m.call("add", &[&x, &y]);
    let mut held = Vec::new();
    assert_eq!(entries(&m, || held.extend(call().on(&s).unwrap())), 1, "a new tensor");
    assert_eq!(entries(&m, || held.extend(call().run().unwrap())), 1, "on the current stream");
    assert_eq!(entries(&m, || held.extend(call().out(&[&y]).on(&s).unwrap())), 1, "into another");
    assert_eq!(entries(&m, || held.push(m.empty(&s, f32_spec(&[2])).unwrap())), 1, "no call");
    assert_eq!(entries(&m, || held.push(x.view(f32_spec(&[1, 2])).unwrap())), 1, "a view");
    assert_eq!(entries(&m, || drop(s.touch(&[&x]).unwrap())), 1, "a touch");
}

/// The first allocation queries the device's limit and then requests memory. Both happen without
/// the lock, so the emission continues in a new critical section after each.
#[test]
fn the_first_allocation_enters_three_times() {
    let m = threaded();
    let s = cpu(&m, 0);
    let mut held = Vec::new();
    let mut empty = || held.push(m.empty(&s, f32_spec(&[2])).unwrap());
    assert_eq!(entries(&m, &mut empty), 3);
    assert_eq!(entries(&m, &mut empty), 1);
}
