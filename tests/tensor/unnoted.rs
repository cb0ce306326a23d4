//! Calls that no tape notes, and regions and writes with ops of linear algebra and complex numbers.

use millstream::*;
use millstream_testing::machine::*;

use super::floats;

fn leaf(m: &Machine, elements: &[f32]) -> Tensor {
    floats(m, &[elements.len()], elements).with_grad().unwrap()
}

fn add(m: &Machine, to: &Tensor, by: &Tensor) -> Prepared {
    m.prepare("add_", &[to, by], Attrs::new()).unwrap()
}

#[test]
fn prepared_calls_that_would_lose_a_gradient_are_refused() {
    let m = inline();
    let stream = m.current_stream().unwrap();
    let (x, y) = (leaf(&m, &[1.0, 2.0]), floats(&m, &[2], &[3.0, 4.0]));
    let tape = m.tape();
    let z = (&x * 2.0).unwrap();
    for call in [add(&m, &y, &x), add(&m, &y, &z), add(&m, &z, &y)] {
        let refused = [call.on(&stream), m.batch().call(&call, &stream)];
        for error in refused.map(|made| made.unwrap_err().to_string()) {
            assert!(error.contains("unnoted.rs") && error.contains("no_grad"), "{error}");
        }
    }
    let call = add(&m, &y, &y);
    let handles = [y.handle(), y.handle()];
    let error = m.batch().call_with(&call, &handles, &stream).unwrap_err().to_string();
    assert!(error.contains("handle") && error.contains("no_grad"), "{error}");
    // Constants, and calls whose results are meant to be ones.
    call.on(&stream).unwrap();
    m.batch().call(&call, &stream).unwrap();
    no_grad(|| m.batch().call_with(&call, &handles, &stream)).unwrap();
    no_grad(|| add(&m, &y, &x).on(&stream)).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [25.0, 34.0]);
    drop(tape);
    add(&m, &y, &x).on(&stream).unwrap();
}

/// Statistics that a call only reads, and a mask, have no gradient: none is no error.
#[test]
fn inputs_without_a_derivative_have_no_gradient() {
    let m = inline();
    let (mean, var) = (leaf(&m, &[0.5, 1.0]), leaf(&m, &[1.0, 4.0]));
    let x = floats(&m, &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let statistics = options::BatchNorm::default().running_mean(&mean).running_var(&var);
    let tape = m.tape();
    let (y, ..) = x.native_batch_norm(false, statistics).unwrap();
    tape.backward(&y.sum(..).unwrap()).unwrap();
    assert!(mean.grad().is_none() && var.grad().is_none());
    let (q, mask) = (x.reshape((1, 1, 3, 2)).unwrap(), floats(&m, &[3, 3], &[0.0; 9]));
    let mask = mask.with_grad().unwrap();
    let masked = options::ScaledDotProductAttention::default().attn_mask(&mask);
    let tape = m.tape();
    let y = q.scaled_dot_product_attention(&q, &q, masked).unwrap();
    tape.backward(&y.sum(..).unwrap()).unwrap();
    assert!(mask.grad().is_none());
}

/// Of a number, a mask without dimensions selects the number or nothing.
#[test]
fn a_number_that_is_selected_has_a_gradient() {
    let m = inline();
    for (least, gradient) in [(1.0, 2.0), (5.0, 0.0)] {
        let x = floats(&m, &[], &[3.0]).with_grad().unwrap();
        let tape = m.tape();
        let chosen = x.masked_select(&x.gt(least).unwrap()).unwrap();
        tape.backward(&(chosen * 2.0).unwrap().sum(..).unwrap()).unwrap();
        assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [gradient]);
    }
}

#[test]
fn writes_of_prepared_calls_are_noted() {
    let m = inline();
    let stream = m.current_stream().unwrap();
    let one = floats(&m, &[2], &[1.0, 1.0]);
    type Write = fn(&Machine, &Prepared, &[TensorHandle], &Stream) -> Result<()>;
    let ways: [Write; 3] = [
        |_, call, _, stream| call.on(stream),
        |m, call, _, stream| m.batch().call(call, stream),
        |m, call, handles, stream| {
            let mut batch = m.batch();
            batch.call_with(call, handles, stream)?;
            batch.call_with(call, handles, stream)
        },
    ];
    for write in ways {
        let (x, y) = (leaf(&m, &[1.0, 2.0]), floats(&m, &[2], &[3.0, 4.0]));
        let call = add(&m, &y.i(0..2).unwrap(), &one);
        let view = y.i(0..2).unwrap();
        let tape = m.tape();
        let loss = (&x * &y).unwrap().sum(..).unwrap();
        no_grad(|| write(&m, &call, &[view.handle(), one.handle()], &stream)).unwrap();
        let error = tape.backward(&loss).unwrap_err().to_string();
        let names = error.contains("prepared call") || error.contains("call of a batch");
        assert!(names && error.contains("has changed since"), "{error}");
    }
}

#[test]
fn launches_that_would_lose_a_gradient_are_refused() {
    let m = inline();
    let recorded = m.record(|r| {
        let a = r.input("a", f32_spec(&[2]))?;
        let b = r.call("relu", &[a]).run()?[0];
        r.output("b", &b)
    });
    let executable = recorded.unwrap().compile().unwrap();
    let (x, y) = (leaf(&m, &[1.0, -2.0]), floats(&m, &[2], &[3.0, -4.0]));
    let tape = m.tape();
    let z = (&x * 2.0).unwrap();
    for input in [&x, &z] {
        let error = executable.launch().input("a", input).run().unwrap_err().to_string();
        assert!(error.contains("unnoted.rs") && error.contains("no_grad"), "{error}");
        no_grad(|| executable.launch().input("a", input).run()).unwrap();
    }
    let launched = executable.launch().input("a", &y).run().unwrap();
    assert_eq!(launched.output("b").unwrap().to_vec::<f32>().unwrap(), [3.0, 0.0]);
    drop(tape);
    executable.launch().input("a", &x).run().unwrap();
}

fn matrix(m: &Machine) -> Tensor {
    Tensor::from_slice(&[2.0, 0.5, -0.25, 3.0], (2, 2), m).unwrap().with_grad().unwrap()
}

#[test]
fn regions_of_linear_algebra_are_computed_again() {
    let m = inline();
    let region = |inputs: &[Tensor]| {
        let (q, r) = inputs[0].linalg_qr()?;
        let spectrum = q.matmul(&r.linalg_inv_ex()?.0)?._fft_r2c(1, true)?;
        Ok(vec![spectrum.abs()?])
    };
    let run = |is_checkpoint: bool| {
        let x: Tensor = matrix(&m);
        let tape = m.tape();
        let y = match is_checkpoint {
            true => tape.checkpoint(&[&x], region).unwrap().remove(0),
            false => region(std::slice::from_ref(&x)).unwrap().remove(0),
        };
        tape.backward(&y.sum(..).unwrap()).unwrap();
        x.grad().unwrap().to_vec::<f64>().unwrap()
    };
    let got = run(true);
    assert_eq!(got, run(false));
    assert!(got.iter().all(|g| g.abs() > 1e-3), "{got:?}");
}

#[test]
fn a_factor_that_was_changed_is_an_error() {
    let m = inline();
    let x = matrix(&m);
    let tape = m.tape();
    let (inverse, _) = x.linalg_inv_ex().unwrap();
    let loss = inverse.sum(..).unwrap();
    inverse.mul_(2.0).unwrap();
    let error = tape.backward(&loss).unwrap_err().to_string();
    assert!(error.contains("linalg_inv_ex") && error.contains("mul_ at"), "{error}");
}

#[test]
fn losses_of_complex_numbers_are_real() {
    let m = inline();
    let (re, im) = (leaf(&m, &[3.0, 1.0]), leaf(&m, &[4.0, 0.0]));
    let tape = m.tape();
    let z = re.complex(&im).unwrap();
    let error = tape.backward(&z.sum(..).unwrap()).unwrap_err().to_string();
    assert!(error.contains("expected a real loss, got c64[]"), "{error}");
    tape.backward(&z.abs().unwrap().sum(..).unwrap()).unwrap();
    let got = [re, im].map(|x| x.grad().unwrap().to_vec::<f32>().unwrap());
    assert_eq!(got, [[0.6, 1.0], [0.8, 0.0]]);
}

/// The parts of complex numbers are not a part of their memory that a tape can join.
#[test]
fn a_write_to_a_view_of_the_parts_is_refused_not_lost() {
    let m = inline();
    let (x, by) = (leaf(&m, &[1.0, 2.0]), leaf(&m, &[2.0, 3.0]));
    let tape = m.tape();
    let z = x.complex(&x).unwrap();
    z.view_as_real().unwrap().select(-1, 0).unwrap().mul_(&by).unwrap();
    let error = tape.backward(&z.abs().unwrap().sum(..).unwrap()).unwrap_err().to_string();
    assert!(error.contains("has no derivative"), "{error}");
}

/// What a formula needs of a tensor that its call changes is a copy, which depends on the same.
#[test]
fn calls_in_place_have_second_gradients() {
    let m = inline();
    let x = Tensor::from_slice(&[0.5f64, 2.0], 2, &m).unwrap().with_grad().unwrap();
    let tape = m.tape();
    let y = x.copy().unwrap();
    y.mul_(&x).unwrap();
    let loss = y.mul(&x).unwrap().sum(..).unwrap();
    let first = tape.gradients(&loss, &[&x]).unwrap().remove(0).unwrap();
    let second = tape.gradients(&first.sum(..).unwrap(), &[&x]).unwrap().remove(0).unwrap();
    assert_eq!(second.to_vec::<f64>().unwrap(), [3.0, 12.0]);
}

#[test]
fn solutions_by_factors_have_the_gradients_of_an_inverse() {
    let m = inline();
    let b = Tensor::from_slice(&[1.0, -2.0, 0.5, 3.0], (2, 2), &m).unwrap();
    type Solve = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let ways: [Solve; 2] = [
        |x, b| {
            let (factors, pivots, _) = x.linalg_lu_factor_ex()?;
            factors.linalg_lu_solve(&pivots, b)
        },
        |x, b| x.linalg_inv_ex()?.0.matmul(b),
    ];
    let gradients = ways.map(|solve| {
        // The second row is the pivot's.
        let x = matrix(&m).detach().unwrap().flip(0).unwrap().with_grad().unwrap();
        let tape = m.tape();
        let y = solve(&x, &b).unwrap();
        tape.backward(&y.mul(&y).unwrap().sum(..).unwrap()).unwrap();
        x.grad().unwrap().to_vec::<f64>().unwrap()
    });
    let pairs = gradients[0].iter().zip(&gradients[1]);
    assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-12), "{gradients:?}");
}
