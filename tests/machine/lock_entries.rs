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

/// Lets the arena of the stream's memory grow, and frees that memory again.
fn warm_up(m: &Machine, s: &Stream) {
    drop(m.empty(s, f32_spec(&[1 << 16])).unwrap());
    m.synchronize().unwrap();
}

#[test]
fn a_call_enters_once() {
    let m = threaded();
    let s = cpu(&m, 0);
    let x = upload(&s, &m, &[1.0, 2.0]);
    let y = m.empty(&s, f32_spec(&[2])).unwrap();
    warm_up(&m, &s);
    m.current_stream().unwrap();
    let (call, relu) = (|| m.call("add", &[&x, &y]), || m.call("relu", &[&x]));
    let mut held = Vec::new();
    assert_eq!(entries(&m, || held.extend(call().on(&s).unwrap())), 1, "a new tensor");
    assert_eq!(entries(&m, || held.extend(call().run().unwrap())), 1, "on the current stream");
    let neg = || m.call("neg", &[&x]);
    assert_eq!(entries(&m, || held.push(neg().one(&s).unwrap())), 1, "one result, anew");
    assert_eq!(entries(&m, || held.push(neg().one(&s).unwrap())), 1, "and again");
    assert_eq!(entries(&m, || held.push(x.exp().unwrap())), 1, "a method, for the first time");
    assert_eq!(entries(&m, || held.push(x.exp().unwrap())), 1, "and again");
    assert_eq!(entries(&m, || held.extend(relu().out(&[&y]).on(&s).unwrap())), 1, "into another");
    assert_eq!(entries(&m, || held.push(m.empty(&s, f32_spec(&[2])).unwrap())), 1, "no call");
    assert_eq!(entries(&m, || held.push(x.view_storage(f32_spec(&[1, 2])).unwrap())), 1, "a view");
    assert_eq!(entries(&m, || drop(s.touch(&[&x]).unwrap())), 1, "a touch");
}

/// The first allocation queries the device's limit and then requests memory. Both happen without
/// the lock, so the emission continues in a new critical section after each.
#[test]
fn an_allocation_enters_again_after_each_question_to_its_device() {
    let m = threaded();
    let s = cpu(&m, 0);
    let mut held = Vec::new();
    let mut empty = |len| held.push(m.empty(&s, f32_spec(&[len])).unwrap());
    assert_eq!(entries(&m, || empty(2)), 3, "its limit and memory");
    assert_eq!(entries(&m, || empty(1 << 16)), 2, "memory");
    warm_up(&m, &s);
    assert_eq!(entries(&m, || empty(2)), 1, "nothing");
}
