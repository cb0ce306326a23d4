//! Optimisers, against PyTorch's parameters after three steps.

use millstream::optimisers::{Adam, Sgd, State, adam, adamw, sgd};
use millstream::*;
use millstream_testing::machine::inline;

/// Makes three steps on parameters 1, -2, 3, whose gradients are their squares plus the step's
/// number, and returns the parameters.
fn three_steps(step: impl Fn(&[&Tensor], &mut State) -> Result<()>) -> Vec<f64> {
    let m = inline();
    let w = Tensor::from_slice(&[1.0f64, -2.0, 3.0], 3, &m).unwrap().with_grad().unwrap();
    let mut state = State::default();
    for number in 0..3 {
        let gradient = no_grad(|| &w * &w).and_then(|square| square + number).unwrap();
        w.set_grad(&gradient).unwrap();
        step(&[&w], &mut state).unwrap();
    }
    w.to_vec().unwrap()
}

#[track_caller]
fn near(got: Vec<f64>, expected: [f64; 3]) {
    let near = got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(near, "expected {expected:?}, got {got:?}");
}

#[test]
fn sgd_without_momentum() {
    let got = three_steps(|p, s| {
        sgd(p, s, &Sgd { lr: 0.1.into(), weight_decay: 0.01, ..Sgd::default() })
    });
    near(got, [0.465114430149519, -4.210456232467776, 1.111754022172359]);
}

#[test]
fn sgd_with_momentum() {
    let got = three_steps(|p, s| {
        sgd(p, s, &Sgd { lr: 0.1.into(), momentum: 0.9, dampening: 0.2, ..Sgd::default() })
    });
    near(got, [0.2584807167999999, -5.1431424512, -0.48010334720000025]);
}

#[test]
fn sgd_that_looks_ahead() {
    let got = three_steps(|p, s| {
        sgd(p, s, &Sgd { lr: 0.1.into(), momentum: 0.9, nesterov: true, ..Sgd::default() })
    });
    near(got, [-0.20532200821339006, -10.326276541603841, -1.1976421149877903]);
}

#[test]
fn adam_with_decayed_gradients() {
    let got = three_steps(|p, s| {
        adam(p, s, &Adam { lr: 0.1.into(), weight_decay: 0.1, ..Adam::default() })
    });
    near(got, [0.7047768821612291, -2.2990929134424025, 2.699678694112754]);
}

#[test]
fn adamw_with_decayed_parameters() {
    let got = three_steps(|p, s| {
        adamw(p, s, &Adam { lr: 0.1.into(), weight_decay: 0.1, ..Adam::default() })
    });
    near(got, [0.6787954468168939, -2.237032613207549, 2.613660830162564]);
}
