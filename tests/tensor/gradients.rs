//! Tapes: accumulation, views and writes in place, versions, hooks, checkpoints, higher order.

use std::sync::{Arc, Mutex};

use millstream::*;
use millstream_testing::machine::*;

use super::floats;

#[track_caller]
fn leaf(m: &Machine, elements: &[f32]) -> Tensor {
    floats(m, &[elements.len()], elements).with_grad().unwrap()
}

#[track_caller]
fn grad(x: &Tensor) -> Vec<f32> {
    x.grad().expect("a gradient").to_vec().unwrap()
}

#[test]
fn gradients_accumulate_until_they_are_dropped() {
    let m = inline();
    let (x, y) = (leaf(&m, &[1.0, 2.0]), floats(&m, &[2], &[3.0, 4.0]));
    for round in 1..3 {
        let tape = m.tape();
        let loss = (&x * &y).unwrap().sum(..).unwrap();
        tape.backward(&loss).unwrap();
        assert_eq!(grad(&x), [3.0 * round as f32, 4.0 * round as f32]);
    }
    assert!(y.grad().is_none());
    x.zero_grad();
    assert!(x.grad().is_none());
    x.set_grad(&y).unwrap();
    assert_eq!(grad(&x), [3.0, 4.0]);
    let error = x.set_grad(&y.sum(..).unwrap()).unwrap_err().to_string();
    assert!(error.contains("gradients.rs") && error.contains("f32[2]"), "{error}");
}

#[test]
fn a_tensor_used_twice_gets_both_gradients() {
    let m = inline();
    let x = leaf(&m, &[1.0, 2.0]);
    let tape = m.tape();
    let y = (&x * &x).unwrap();
    let loss = (&y + &x).unwrap().sum(..).unwrap();
    tape.backward(&loss).unwrap();
    assert_eq!(grad(&x), [3.0, 5.0]);
    // What the formulas need is dropped.
    let error = tape.backward(&loss).unwrap_err().to_string();
    assert!(error.contains("was computed before"), "{error}");
}

#[test]
fn detached_and_paused_calls_are_constants() {
    let m = inline();
    let x = leaf(&m, &[1.0, 2.0]);
    let tape = m.tape();
    let constant = no_grad(|| &x * 2.0).unwrap();
    let detached = (&x * 3.0).unwrap().detach().unwrap();
    let loss = (&(&x * &constant).unwrap() + &detached).unwrap().sum(..).unwrap();
    tape.backward(&loss).unwrap();
    assert_eq!(grad(&x), [2.0, 4.0]);
    let error = tape.backward(&detached.sum(..).unwrap()).unwrap_err().to_string();
    assert!(error.contains("with_grad") && error.contains("gradients.rs"), "{error}");
    let error = tape.backward(&x).unwrap_err().to_string();
    assert!(error.contains("expected a loss of one element, got f32[2]"), "{error}");
}

#[test]
fn only_floats_have_gradients() {
    let m = inline();
    let error = Tensor::arange(0..3, &m).unwrap().with_grad().unwrap_err().to_string();
    assert!(error.contains("expected floats or complex numbers, got i64[3]"), "{error}");
}

#[test]
fn calls_in_place_replace_values() {
    let m = inline();
    let x = leaf(&m, &[1.0, 2.0]);
    let tape = m.tape();
    let y = (&x * 3.0).unwrap();
    y.mul_(2.0).unwrap().add_(&x).unwrap();
    y.exp_().unwrap();
    let loss = y.log().unwrap().sum(..).unwrap();
    tape.backward(&loss).unwrap();
    let got = grad(&x);
    assert!(got.iter().all(|g| (g - 7.0).abs() < 1e-4), "{got:?}");
}

#[test]
fn a_leaf_is_not_changed_in_place_but_without_gradients() {
    let m = inline();
    let x = leaf(&m, &[1.0, 2.0]);
    let tape = m.tape();
    for refused in [x.add_(1.0).err(), x.i(0).unwrap().add_(1.0).err()] {
        let error = refused.unwrap().to_string();
        assert!(error.contains("gradients.rs") && error.contains("no_grad"), "{error}");
    }
    no_grad(|| x.add_(1.0).map(drop)).unwrap();
    let loss = (&x * &x).unwrap().sum(..).unwrap();
    tape.backward(&loss).unwrap();
    assert_eq!(grad(&x), [4.0, 6.0]);
}

#[test]
fn a_changed_tensor_is_an_error_with_both_places() {
    let m = inline();
    let x = leaf(&m, &[1.0, 2.0]);
    let tape = m.tape();
    let y = x.exp().unwrap(); // line of the use
    y.i(0).unwrap().fill_(0.0).unwrap(); // line of the write
    let error = tape.backward(&y.sum(..).unwrap()).unwrap_err().to_string();
    let lines: Vec<usize> = error
        .match_indices("gradients.rs:")
        .map(|(at, found)| {
            let digits = error[at + found.len()..].split(|c: char| !c.is_ascii_digit());
            digits.into_iter().next().unwrap().parse().unwrap()
        })
        .collect();
    let used = include_str!("gradients.rs").lines().position(|l| l.contains("// line of the use"));
    let used = used.unwrap() + 1;
    assert!(lines.contains(&used) && lines.contains(&(used + 1)), "{error}");
    assert!(error.contains("exp at") && error.contains("fill at"), "{error}");
}

#[test]
fn writes_to_views_reach_the_base_and_other_views() {
    let m = inline();
    let (x, w) = (leaf(&m, &[1.0, 2.0, 3.0]), leaf(&m, &[10.0]));
    let tape = m.tape();
    let y = (&x * 2.0).unwrap();
    let early = y.i(1..).unwrap();
    y.i(1).unwrap().copy_(&w.i(0).unwrap()).unwrap();
    // y is now 2 x0, w, 2 x2; the view sees it, too.
    let loss = ((&y * &y).unwrap().sum(..).unwrap() + (&early * 5.0).unwrap().sum(..)).unwrap();
    assert_eq!(loss.item::<f32>().unwrap(), 4.0 + 100.0 + 36.0 + 50.0 + 30.0);
    tape.backward(&loss).unwrap();
    assert_eq!(grad(&x), [8.0, 0.0, 34.0]);
    assert_eq!(grad(&w), [25.0]);
}

#[test]
fn constants_get_values_by_writes() {
    let m = inline();
    let x = leaf(&m, &[1.0, 2.0]);
    let tape = m.tape();
    let buffer = Tensor::zeros((2, 2), DType::F32, &m).unwrap();
    buffer.i(0).unwrap().copy_(&x).unwrap();
    buffer.i((1, ..)).unwrap().add_(&(&x * 3.0).unwrap()).unwrap();
    let loss = (&buffer * &buffer).unwrap().sum(..).unwrap();
    tape.backward(&loss).unwrap();
    assert_eq!(grad(&x), [2.0 + 18.0, 4.0 + 36.0]);
}

#[test]
fn broadcast_operands_get_sums() {
    let m = inline();
    let (x, b) = (leaf(&m, &[1.0, 2.0, 3.0]), leaf(&m, &[10.0]));
    let tape = m.tape();
    let column = floats(&m, &[2, 1], &[1.0, 2.0]);
    let y = (&(&x * &column).unwrap() + &b).unwrap();
    tape.backward(&y.sum(..).unwrap()).unwrap();
    assert_eq!(grad(&x), [3.0, 3.0, 3.0]);
    assert_eq!(grad(&b), [6.0]);
}

#[test]
fn hooks_see_and_replace_gradients() {
    let m = inline();
    let x = leaf(&m, &[1.0, 2.0]);
    let tape = m.tape();
    let y = (&x * 2.0).unwrap();
    let seen: Arc<Mutex<Vec<f32>>> = Arc::default();
    let into = seen.clone();
    tape.hook(&y, move |gradient| {
        into.lock().unwrap().extend(gradient.to_vec::<f32>()?);
        (gradient * 10.0).map(Some)
    })
    .unwrap();
    let loss = ((&y * &y).unwrap() + &y).unwrap().sum(..).unwrap();
    tape.backward(&loss).unwrap();
    assert_eq!(*seen.lock().unwrap(), [5.0, 9.0], "once, with the whole gradient");
    assert_eq!(grad(&x), [100.0, 180.0]);
    let error = tape.hook(&floats(&m, &[1], &[0.0]), |_| Ok(None)).unwrap_err().to_string();
    assert!(error.contains("gradients.rs"), "{error}");
}

#[test]
fn a_checkpoint_gives_the_gradients_of_its_calls() {
    let m = inline();
    let run = |is_checkpoint: bool| {
        let (x, w) = (leaf(&m, &[0.5, -1.0]), leaf(&m, &[2.0, 3.0]));
        let tape = m.tape();
        let own = w.clone();
        let region =
            move |inputs: &[Tensor]| Ok(vec![(&inputs[0] * &own)?.tanh()?.exp()?.mul(&inputs[0])?]);
        let y = (&x * 2.0).unwrap();
        let z = match is_checkpoint {
            true => tape.checkpoint(&[&y], region).unwrap().remove(0),
            false => region(&[y]).unwrap().remove(0),
        };
        tape.backward(&z.sum(..).unwrap()).unwrap();
        (grad(&x), grad(&w))
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn gradients_have_gradients() {
    let m = inline();
    let x = Tensor::from_slice(&[0.3f64, -0.7], 2, &m).unwrap().with_grad().unwrap();
    let tape = m.tape();
    let y = x.tanh().unwrap().mul(&x.sin().unwrap()).unwrap().sum(..).unwrap();
    let first = tape.gradients(&y, &[&x]).unwrap().remove(0).unwrap();
    let second = tape.gradients(&first.sum(..).unwrap(), &[&x]).unwrap().remove(0).unwrap();
    let second = second.to_vec::<f64>().unwrap();
    for (x, got) in [0.3f64, -0.7].into_iter().zip(second) {
        let (t, slope) = (x.tanh(), 1.0 - x.tanh().powi(2));
        let expected = -2.0 * t * slope * x.sin() + 2.0 * slope * x.cos() - t * x.sin();
        assert!((got - expected).abs() < 1e-12, "{got} {expected}");
    }
    assert!(x.grad().is_none(), "gradients are returned, not kept");
    let other = Tensor::from_slice(&[1.0f64], 1, &m).unwrap().with_grad().unwrap();
    assert!(tape.gradients(&y, &[&other]).unwrap()[0].is_none());
}

#[test]
fn an_op_without_a_derivative_is_named_with_its_place() {
    let m = inline();
    let x = leaf(&m, &[1.0, 2.0]);
    let tape = m.tape();
    let y = x.special_airy_ai().unwrap();
    let error = tape.backward(&y.sum(..).unwrap()).unwrap_err().to_string();
    assert!(error.contains("gradients.rs") && error.contains("airy_ai has no"), "{error}");
}

#[test]
fn copies_between_devices_have_gradients_on_both() {
    let m = inline();
    let x = leaf(&m, &[1.0, 2.0]);
    let tape = m.tape();
    let far = x.to(&SIM).unwrap();
    let near = (&far * &far).unwrap().to(&CPU).unwrap();
    tape.backward(&near.sum(..).unwrap()).unwrap();
    assert_eq!(x.grad().unwrap().device(), &CPU);
    assert_eq!(grad(&x), [2.0, 4.0]);
}

#[test]
fn a_training_step_is_traced_with_its_gradients() {
    let step = |w: &Tensor, x: &Tensor| -> Result<Tensor> {
        let tape = w.machine().tape();
        w.zero_grad();
        let loss = x.matmul(w)?.tanh()?.pow(2)?.mean(..)?;
        tape.backward(&loss)?;
        optimisers::sgd(
            &[w],
            &mut Default::default(),
            &optimisers::Sgd { lr: 0.5.into(), ..Default::default() },
        )?;
        Ok(loss)
    };
    let parameters = |m: &Machine| {
        let w = floats(m, &[2, 1], &[0.5, -1.0]).with_grad().unwrap();
        (w, floats(m, &[3, 2], &[1.0, 2.0, 0.5, -1.0, 2.0, 0.0]))
    };
    let m = inline();
    let (w, x) = parameters(&m);
    let eager: Vec<f32> = (0..5).map(|_| step(&w, &x).unwrap().item().unwrap()).collect();
    assert!(eager[4] < eager[0], "{eager:?}");
    let m = threaded();
    let (w, x) = parameters(&m);
    let bound = w.clone();
    let traced = m.traced(move |inputs, _| Ok(vec![step(&bound, &inputs[0])?])).strict();
    let replayed: Vec<f32> =
        (0..5).map(|_| traced.call(&[&x]).run().unwrap()[0].item().unwrap()).collect();
    assert_eq!(replayed, eager);
    assert_eq!(traced.report().replays, 4, "{}", traced.report());
}

/// Seeds, formulas and sums of a backward pass come from lines of the program.
#[test]
fn calls_of_a_backward_pass_come_from_the_program() {
    let m = inline();
    let w = leaf(&m, &[2.0, 3.0]);
    let recorded = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        let passes = |inputs: &[Tensor]| {
            let tape = m.tape();
            let y = ((&w * &w)? * (&inputs[0] + &w)?)?;
            tape.gradients(&y.sum(..)?, &[&w])?;
            tape.hook(&y, |gradient| gradient.neg().map(Some))?;
            tape.backward_from(&[(&y, &y), (&y, &inputs[0])], true)?;
            tape.backward(&y.sum(..)?).map(|()| Vec::new())
        };
        r.function(&[x], passes).map(drop)
    });
    let recorded = recorded.unwrap();
    let calls = recorded.list().instructions.iter().map(|i| &i.origin);
    let places: Vec<String> = calls.filter(|o| !o.is_unknown()).map(|o| o.to_string()).collect();
    assert!(places.len() > 20, "{places:#?}");
    assert!(places.iter().all(|place| place.contains("tensor/gradients.rs:")), "{places:#?}");
}
