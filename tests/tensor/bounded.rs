//! Results whose number of rows depends on data, used before that number is known.

use millstream::instructions::Body;
use millstream::types::Attrs;
use millstream::*;
use millstream_testing::machine::*;

use super::floats;

const X: [f32; 6] = [1.0, -2.0, 3.0, 0.0, -5.0, 6.0];

#[test]
fn rows_mask_and_count_are_those_of_the_plain_call() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        for device in [CPU, SIM] {
            let x = floats(&m, &[2, 3], &X).to(&device).unwrap();
            let mask = x.gt(0.0).unwrap();
            let found = x.masked_select_bounded(&mask).unwrap();
            assert_eq!(found.most(), 6);
            assert_eq!(
                found.filled(-1).unwrap().to_vec::<f32>().unwrap(),
                [1.0, 3.0, 6.0, -1.0, -1.0, -1.0]
            );
            assert_eq!(found.count().item::<i64>().unwrap(), 3);
            let there = found.mask().unwrap().to_vec::<bool>().unwrap();
            assert_eq!(there, [true, true, true, false, false, false]);
            let plain = x.masked_select(&mask).unwrap();
            let exact = found.exact().unwrap();
            assert_eq!(exact.to_vec::<f32>().unwrap(), plain.to_vec::<f32>().unwrap());
            assert_eq!(exact.device(), &device);
            let places = x.nonzero_bounded().unwrap();
            let rows = [0, 0, 0, 1, 0, 2, 1, 1, 1, 2, 7, 7];
            assert_eq!(places.filled(7).unwrap().to_vec::<i64>().unwrap(), rows, "{driver:?}");
            assert_eq!(places.exact().unwrap().shape(), [5, 2]);
        }
    }
}

#[test]
fn the_submitter_does_not_wait() {
    let m = threaded();
    let x = floats(&m, &[6], &X);
    let gate = Gate::on(&x);
    // With the gate closed, a call that waits for the count would never return.
    let found = x.masked_select_bounded(&x.lt(0.0).unwrap()).unwrap();
    let mean = (found.filled(0).unwrap().sum(..).unwrap() / found.count()).unwrap();
    let rows = x.nonzero_bounded().unwrap().filled(0).unwrap().squeeze([1]).unwrap();
    let again = x.index_select(&rows, 0).unwrap();
    assert!(!mean.completion().unwrap().query());
    gate.open();
    assert_eq!(mean.item::<f32>().unwrap(), -3.5);
    assert_eq!(again.to_vec::<f32>().unwrap(), [1.0, -2.0, 3.0, -5.0, 6.0, 1.0]);
}

#[test]
fn the_list_has_no_read_of_the_host() {
    let m = inline();
    let x = floats(&m, &[6], &X);
    m.start_recording(&[("x", &x)]).unwrap();
    let found = x.masked_select_bounded(&x.gt(0.0).unwrap()).unwrap();
    drop(found.filled(0).unwrap().sum(..).unwrap());
    drop(found);
    let list = m.finish_recording().unwrap();
    let waits = |body: &Body| matches!(body, Body::SyncRead { .. } | Body::HostObserved { .. });
    assert!(list.instructions.iter().all(|i| !waits(&i.body)), "{}", listing(&list));
    checked(&list);
}

#[test]
fn several_results_may_be_of_unknown_size() {
    let m = inline();
    let x = Tensor::from_slice(&[3i64, 1, 3, 3], 4, &m).unwrap();
    let attrs = Attrs::new().with("return_inverse", true).with("return_counts", true);
    let call = m.call("unique", &[&x]).attrs(attrs);
    let (sized, others) = call.bounded(&x.stream().unwrap()).unwrap();
    let filled = |k: usize| sized[k].filled(0).unwrap().to_vec::<i64>().unwrap();
    assert_eq!((sized.len(), filled(0), filled(1)), (2, vec![1, 3, 0, 0], vec![1, 3, 0, 0]));
    assert_eq!(others[0].to_vec::<i64>().unwrap(), [1, 0, 1, 1]);
    let none = floats(&m, &[0], &[]);
    let found = none.nonzero_bounded().unwrap();
    assert_eq!((found.most(), found.filled(1).unwrap().shape()), (0, &[0, 1][..]));
    assert_eq!(found.exact().unwrap().shape(), [0, 1]);
}

#[test]
fn a_failure_travels_with_the_result() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let x = floats(&m, &[6], &X);
        let broken = call(&m, "fail", &[&x], &cpu(&m, 0));
        let found = broken.nonzero_bounded().unwrap();
        let filled = found.filled(0).unwrap();
        failure(found.exact().unwrap_err().without_place().clone());
        failure(filled.to_vec::<i64>().unwrap_err().without_place().clone());
    }
}

#[test]
fn captures_and_tapes_leave_such_calls_out() {
    let m = inline();
    let x = floats(&m, &[6], &X);
    let traced = m.traced(|inputs, _| {
        Ok(vec![inputs[0].masked_select_bounded(&inputs[0].gt(0.0)?)?.filled(0)?.sum(..)?])
    });
    for k in 1..4 {
        let scaled = x.mul(k as f32).unwrap();
        let found = scaled.masked_select_bounded(&scaled.gt(0.0).unwrap()).unwrap();
        let sum = found.filled(0).unwrap().sum(..).unwrap();
        assert_eq!(sum.item::<f32>().unwrap(), 10.0 * k as f32);
        let sum = traced.call(&[&scaled]).run().unwrap();
        assert_eq!(sum[0].item::<f32>().unwrap(), 10.0 * k as f32);
    }
    assert_eq!(traced.report().replays, 0);
    let w = x.with_grad().unwrap();
    let tape = m.tape();
    let error = (&w * 2.0).unwrap().nonzero_bounded().unwrap_err().to_string();
    assert!(error.contains("a call without a wait for sizes is not noted"), "{error}");
    assert_eq!(no_grad(|| w.nonzero_bounded()).unwrap().count().item::<i64>().unwrap(), 5);
    drop(tape);
}

#[test]
fn calls_that_cannot_go_on_without_sizes_say_why() {
    let (m, other) = (inline(), inline());
    let x = floats(&m, &[6], &X);
    let s = x.stream().unwrap();
    let mask = x.gt(0.0).unwrap();
    let recorded = m.record(|r| {
        let y = r.function(&[], |_| Ok(vec![x.nonzero_bounded()?.filled(0)?]))?;
        r.output("y", &y[0])
    });
    let wrong = m.call("masked_select", &[&x, &x]).bounded(&s).map(drop);
    let errors: Vec<String> = [
        m.call("relu", &[&x]).bounded(&s).map(drop),
        m.call("masked_select", &[&x, &mask]).out(&[&x]).bounded(&s).map(drop),
        m.call("nonzero", &[&x]).bounded(&cpu(&other, 0)).map(drop),
        wrong,
        recorded.map(drop),
    ]
    .into_iter()
    .map(|result| result.unwrap_err().without_place().to_string())
    .collect();
    insta::assert_snapshot!(errors.join("\n"), @"
    relu: no size of a result depends on data; make the call by `on`
    masked_select: a result whose size is not known yet is always a new tensor
    the stream belongs to another machine
    masked_select: expected a bool mask, got f32[6]
    nonzero: its result's size is known only by running it, so it cannot stand in an executable
    ");
}
