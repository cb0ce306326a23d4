//! Several pushes as one.

use anyhow::anyhow;

use crate::{Log, threaded};

#[test]
fn a_scope_merges_pushes() {
    let machine = threaded();
    let engine = machine.dependency_engine().unwrap();
    let (a, b, log) = (engine.var().unwrap(), engine.var().unwrap(), Log::new());
    let before = machine.stats().unwrap();
    {
        let mut bulk = engine.bulk(4);
        for k in 0..10 {
            let push = bulk.push(log.note(k));
            if k % 2 == 0 { push.writes(&[&a]) } else { push.reads(&[&a]).writes(&[&b]) }
                .spawn()
                .unwrap();
        }
        bulk.flush().unwrap();
    }
    engine.wait_for(&b).unwrap();
    assert_eq!(log.take(), (0..10).collect::<Vec<_>>());
    let calls = |stats: &millstream_instructions::builder::Stats| {
        stats.of(millstream_instructions::Kind::OpCall)
    };
    let made = calls(&machine.stats().unwrap()) - calls(&before);
    assert_eq!(made, 3 + 1, "three pushes, and the wait");
}

/// What a scope has not pushed is pushed at its end, and before a function with a priority.
#[test]
fn a_scope_keeps_the_order() {
    let engine = threaded().dependency_engine().unwrap();
    let (a, log) = (engine.var().unwrap(), Log::new());
    let mut bulk = engine.bulk(100);
    bulk.push(log.note(0)).writes(&[&a]).spawn().unwrap();
    bulk.push(log.note(1)).writes(&[&a]).priority(7).spawn().unwrap();
    let (again, operator_log) = (log.clone(), log.clone());
    let operator = engine.operator(move || operator_log.note(2)()).writes(&[&a]);
    bulk.operator(&operator).unwrap();
    drop(bulk);
    engine.push(again.note(3)).writes(&[&a]).spawn().unwrap();
    engine.wait_for(&a).unwrap();
    assert_eq!(log.take(), [0, 1, 2, 3]);
}

/// The first error ends the push, and poisons all that it writes.
#[test]
fn an_error_ends_the_merged_push() {
    let engine = threaded().dependency_engine().unwrap();
    let [a, b, c] = [(); 3].map(|()| engine.var().unwrap());
    let log = Log::new();
    let mut bulk = engine.bulk(3);
    bulk.push(log.note("a")).writes(&[&a]).spawn().unwrap();
    bulk.push(|| Err(anyhow!("bad"))).writes(&[&b]).spawn().unwrap();
    bulk.push(log.note("c")).writes(&[&c]).spawn().unwrap();
    for var in [&a, &b, &c] {
        assert!(engine.wait_for(var).is_err());
    }
    assert_eq!(log.take(), ["a"]);
}
