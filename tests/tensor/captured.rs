//! The typed front under captures: traced functions, recorded lists.

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
fn a_recorded_function_is_an_executable_of_methods() {
    let m = inline();
    let (x, w) = inputs(&m);
    let recorded = m.record(|r| {
        let input = r.input("x", x.spec().clone())?;
        let y = r.function(&[input], |inputs| Ok(vec![step(&inputs[0], &w)?]))?;
        r.output("y", &y[0])
    });
    let before = w.to_vec::<f32>().unwrap();
    let executable = recorded.unwrap().compile().unwrap();
    assert_eq!(w.to_vec::<f32>().unwrap(), before, "nothing has run");
    let launched: Vec<Vec<f32>> = (0..5)
        .map(|_| {
            let launched = executable.launch().input("x", &x).run().unwrap();
            launched.output("y").unwrap().to_vec::<f32>().unwrap()
        })
        .collect();
    assert_eq!(launched, eager(5));
}

#[test]
fn a_recorded_function_may_make_tensors_and_take_gradients() {
    let m = inline();
    let w = floats(&m, &[2], &[1.0, -2.0]).with_grad().unwrap();
    let train = |x: &Tensor| -> Result<Tensor> {
        let tape = x.machine().tape();
        w.zero_grad();
        let target = Tensor::from_slice(&[0.5f32, 0.5], 2, x.machine())?;
        let noise = Tensor::zeros(2, DType::F32, x)?;
        let loss = ((&w * x)? - &(&target + &noise)?)?.pow(2)?.sum(..)?;
        tape.backward(&loss)?;
        let settings = optimisers::Sgd { lr: 0.1.into(), ..Default::default() };
        optimisers::sgd(&[&w], &mut Default::default(), &settings)?;
        Ok(loss)
    };
    let x = floats(&m, &[2], &[1.0, 0.5]);
    let recorded = m.record(|r| {
        let input = r.input("x", x.spec().clone())?;
        let loss = r.function(&[input], |inputs| Ok(vec![train(&inputs[0])?]))?;
        r.output("loss", &loss[0])
    });
    w.zero_grad();
    let executable = recorded.unwrap().compile().unwrap();
    let losses: Vec<f32> = (0..3)
        .map(|_| {
            let launched = executable.launch().input("x", &x).run().unwrap();
            launched.output("loss").unwrap().item().unwrap()
        })
        .collect();
    no_grad(|| w.copy_(&floats(&m, &[2], &[1.0, -2.0])).map(drop)).unwrap();
    let eager: Vec<f32> = (0..3).map(|_| train(&x).unwrap().item().unwrap()).collect();
    assert_eq!(losses, eager);
    assert!(losses[2] < losses[0], "{losses:?}");
}

#[test]
fn a_recorded_function_has_no_elements() {
    let m = inline();
    let (x, _) = inputs(&m);
    let mut kept = None;
    let recorded = m.record(|r| {
        let input = r.input("x", x.spec().clone())?;
        let y = r.function(&[input], |inputs| {
            let error = inputs[0].to_vec::<f32>().unwrap_err().to_string();
            assert!(error.contains("captured.rs") && error.contains("being recorded"), "{error}");
            let view = inputs[0].view_storage(TensorSpec::contiguous(DType::F32, &[6])?)?;
            kept = Some(inputs[0].clone());
            Ok(vec![view.sum(..)?])
        })?;
        let error = r.function(&[], |_| Ok(vec![kept.clone().unwrap()])).unwrap_err().to_string();
        assert!(error.contains("another function"), "{error}");
        r.output("y", &y[0])
    });
    let launched = recorded.unwrap().compile().unwrap().launch().input("x", &x).run().unwrap();
    let sum = x.sum(..).unwrap().item::<f32>().unwrap();
    assert_eq!(launched.output("y").unwrap().item::<f32>().unwrap(), sum);
    assert!(kept.unwrap().neg().unwrap_err().to_string().contains("being recorded"));
    // A failed function leaves the thread as it was.
    let failed = m.record(|r| r.function(&[], |_| x.matmul(&x).map(|y| vec![y])).map(drop));
    assert!(failed.unwrap_err().to_string().contains("captured.rs"));
    assert_eq!(x.neg().unwrap().shape(), x.shape());
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
