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
        adam(p, s, &Adam { lr: 0.1.into(), weight_decay: Some(0.1), ..Adam::default() })
    });
    near(got, [0.7047768821612291, -2.2990929134424025, 2.699678694112754]);
}

#[test]
fn adamw_with_decayed_parameters() {
    let got = three_steps(|p, s| {
        adamw(p, s, &Adam { lr: 0.1.into(), weight_decay: Some(0.1), ..Adam::default() })
    });
    near(got, [0.6787954468168939, -2.237032613207549, 2.613660830162564]);
}

#[test]
fn the_default_decay_is_that_of_pytorch() {
    let of = |decay| Adam { lr: 0.1.into(), weight_decay: decay, ..Adam::default() };
    type Step = fn(&[&Tensor], &mut State, &Adam) -> Result<()>;
    for (step, decay) in [(adam as Step, 0.0), (adamw as Step, 0.01)] {
        let [default, set] = [None, Some(decay)].map(|w| three_steps(|p, s| step(p, s, &of(w))));
        assert_eq!(default, set);
    }
}

/// Steps AdamW on all parameters at once, and call by call as the formula says.
#[test]
fn a_step_of_all_parameters_has_the_bits_of_single_calls() {
    let m = inline();
    let of = |k: usize| {
        let value = |at: usize| ((at * 37 + k * 11) % 101) as f32 / 17.0 - 3.0;
        let values: Vec<f32> = (0..[0, 1, 33, 40_000][k % 4]).map(value).collect();
        let w = Tensor::from_slice(&values, values.len(), &m).unwrap().with_grad().unwrap();
        w.set_grad(&no_grad(|| w.mul(0.5)).unwrap()).unwrap();
        w
    };
    let (together, apart): (Vec<Tensor>, Vec<Tensor>) = (0..28).map(|k| (of(k), of(k))).unzip();
    let settings = Adam { lr: 0.1.into(), weight_decay: Some(0.1), ..Adam::default() };
    let mut state = State::default();
    let number = |value: f64| Tensor::from_slice(&[value], (), &m).unwrap();
    let moments: Vec<[Tensor; 2]> =
        apart.iter().map(|w| [w.zeros_like().unwrap(), w.zeros_like().unwrap()]).collect();
    for step in 1..=3 {
        adamw(&together.iter().collect::<Vec<_>>(), &mut state, &settings).unwrap();
        let (steps, lr) = (number(f64::from(step)), number(0.1));
        let less_one = |beta: f64| steps.mul(beta.ln())?.expm1();
        no_grad(|| {
            let size = lr.div(&less_one(0.9)?)?;
            let root = less_one(0.999)?.neg()?.sqrt()?;
            for (w, [mean, square]) in apart.iter().zip(&moments) {
                let gradient = w.grad().unwrap();
                w.mul_(&lr.mul(-0.1)?.add(1)?)?;
                mean.lerp_(&gradient, 1.0 - 0.9)?;
                let squares = options::Addcmul::default().value(1.0 - 0.999);
                square.mul_(0.999)?.addcmul_with_(&gradient, &gradient, squares)?;
                let denominator = square.sqrt()?;
                denominator.div_(&root)?.add_(1e-8)?;
                w.addcdiv_(&mean.mul(&size)?, &denominator)?;
            }
            Ok::<(), Error>(())
        })
        .unwrap();
    }
    for (a, b) in together.iter().zip(&apart) {
        assert_eq!(a.read().unwrap(), b.read().unwrap());
    }
}

/// Parameters may be parts of one tensor, or be given twice: then one step follows the other.
#[test]
fn parameters_may_share_a_storage() {
    let m = inline();
    let steps = |parts: &dyn Fn(&Tensor) -> Vec<Tensor>| {
        let flat = Tensor::from_slice(&[1.0f32, -2.0, 3.0, 4.0], 4, &m).unwrap();
        let parts: Vec<Tensor> =
            parts(&flat).into_iter().map(|part| part.with_grad().unwrap()).collect();
        parts.iter().for_each(|part| part.set_grad(&part.ones_like().unwrap()).unwrap());
        let settings = Sgd { lr: 0.5.into(), ..Sgd::default() };
        sgd(&parts.iter().collect::<Vec<_>>(), &mut State::default(), &settings).unwrap();
        flat.to_vec::<f32>().unwrap()
    };
    let part = |x: &Tensor, from: usize| x.narrow(0, from, 2).unwrap();
    assert_eq!(steps(&|x| vec![part(x, 0), part(x, 2)]), [0.5, -2.5, 2.5, 3.5]);
    assert_eq!(steps(&|x| vec![part(x, 0), part(x, 1)]), [0.5, -3.0, 2.5, 4.0]);
    // A gradient that is the parameter itself is read before it changes.
    let w = Tensor::from_slice(&[2.0f32, 4.0], 2, &m).unwrap().with_grad().unwrap();
    w.set_grad(&w.detach().unwrap()).unwrap();
    let settings = Sgd { lr: 0.5.into(), ..Sgd::default() };
    sgd(&[&w], &mut State::default(), &settings).unwrap();
    assert_eq!(w.to_vec::<f32>().unwrap(), [1.0, 2.0]);
}
