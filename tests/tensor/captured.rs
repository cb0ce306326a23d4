//! The typed front under captures: traced functions, automatic capture, recorded lists.

use millstream::*;
use millstream_testing::machine::*;

use super::floats;

/// A step with views, results of several calls, and an in-place update.
fn step(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let hidden = x.matmul(w)?.gelu()?;
    let normal = hidden.softmax(1)?;
    let part = normal.i((.., 0..2))?;
    w.mul_(0.5)?;
    part.sum(0)? + hidden.i(0)?.i(0..2)?
}

fn inputs(m: &Machine) -> (Tensor, Tensor) {
    let x: Vec<f32> = (0..6).map(|k| k as f32 * 0.3 - 1.0).collect();
    let w: Vec<f32> = (0..9).map(|k| 0.7 - k as f32 * 0.2).collect();
    (floats(m, &[2, 3], &x), floats(m, &[3, 3], &w))
}

fn eager(steps: usize) -> Vec<Vec<f32>> {
    let m = inline();
    let (x, w) = inputs(&m);
    (0..steps).map(|_| step(&x, &w).unwrap().to_vec::<f32>().unwrap()).collect()
}

#[test]
fn a_traced_function_replays_methods() {
    let m = threaded();
    let (x, w) = inputs(&m);
    let traced = m.traced(|inputs, _| Ok(vec![step(&inputs[0], &inputs[1])?]));
    let replayed: Vec<Vec<f32>> =
        (0..5).map(|_| traced.call(&[&x, &w]).run().unwrap()[0].to_vec::<f32>().unwrap()).collect();
    assert_eq!(replayed, eager(5));
    let report = traced.report();
    assert_eq!((report.captures, report.replays), (1, 4), "{report}");
}

#[test]
fn automatic_capture_holds_methods() {
    let config = MachineConfig::default().auto_capture(true);
    let m = Machine::new(config).unwrap();
    let (x, w) = inputs(&m);
    // At least 16 calls make a sequence.
    let rounds: Vec<Tensor> = (0..40)
        .map(|_| {
            let mut last = step(&x, &w).unwrap();
            for _ in 0..12 {
                last = (&last * 1.5).unwrap().tanh().unwrap();
            }
            last
        })
        .collect();
    let report = m.auto_capture_report().unwrap();
    let got = rounds[39].to_vec::<f32>().unwrap();
    let n = inline();
    let (x, w) = inputs(&n);
    let mut expected = Vec::new();
    for _ in 0..40 {
        let mut last = step(&x, &w).unwrap();
        for _ in 0..12 {
            last = (&last * 1.5).unwrap().tanh().unwrap();
        }
        expected = last.to_vec::<f32>().unwrap();
    }
    assert_eq!(got, expected);
    assert!(report.replays > 0, "{report}");
}

#[test]
fn a_recorded_list_binds_tensors_of_the_front() {
    let m = inline();
    let (x, w) = inputs(&m);
    let recorded = m.record(|r| {
        let bound = r.bind(&w)?;
        let input = r.input("x", x.spec().clone())?;
        let y = r.call("matmul", &[input, bound]).run()?;
        r.output("y", &y[0])
    });
    let launched = recorded.unwrap().compile().unwrap().launch().input("x", &x).run().unwrap();
    let expected = x.matmul(&w).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(launched.output("y").unwrap().to_vec::<f32>().unwrap(), expected);
}
