//! Launches write a gradient again into the memory of an earlier one, where nobody can see that.

use std::sync::Arc;

use millstream::instructions::Kind;
use millstream::*;
use millstream_testing::machine::*;

/// What a step does with gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// The function drops the gradient first.
    DropsInside,
    /// The program drops the gradient before each call.
    DropsOutside,
    /// As `DropsInside`, with a read behind the backward pass.
    Reads,
    /// Gradients add up.
    AddsUp,
}

const STEPS: [Step; 4] = [Step::DropsInside, Step::DropsOutside, Step::Reads, Step::AddsUp];

fn parameter(m: &Machine) -> Tensor {
    Tensor::from_slice(&[1.0f32, -2.0, 0.5], 3, m).unwrap().with_grad().unwrap()
}

fn input(m: &Machine, k: usize) -> Tensor {
    Tensor::from_slice(&[0.5f32, -1.0, k as f32], 3, m).unwrap()
}

/// The function of a step.
fn inside(step: Step, w: &Tensor, x: &Tensor) -> Result<Vec<Tensor>> {
    if matches!(step, Step::DropsInside | Step::Reads) {
        w.zero_grad();
    }
    let tape = x.machine().tape();
    let loss = (w * x)?.tanh()?.sum(..)?;
    tape.backward(&loss)?;
    if step == Step::Reads && (x * 0)?.sum(..)?.item::<f32>()? > 0.0 {
        w.zero_grad();
    }
    Ok(vec![loss])
}

fn gradient(w: &Tensor) -> Vec<u32> {
    let gradient = w.grad().expect("a gradient").to_vec::<f32>().unwrap();
    gradient.into_iter().map(f32::to_bits).collect()
}

/// The gradients of eager steps.
fn eager(step: Step, count: usize) -> Vec<Vec<u32>> {
    let m = inline();
    let w = parameter(&m);
    let run = |k| {
        if step == Step::DropsOutside {
            w.zero_grad();
        }
        inside(step, &w, &input(&m, k)).unwrap();
        gradient(&w)
    };
    (0..count).map(run).collect()
}

/// Returns how many tensors `count` steps leave as gradients, the first `warm` aside, after
/// comparing the gradients with those of eager steps.
fn tensors(
    step: Step,
    w: &Tensor,
    (warm, count): (usize, usize),
    run: impl Fn(usize, &Tensor),
) -> usize {
    let mut seen: Vec<TensorHandle> = Vec::new();
    for (k, expected) in eager(step, count).iter().enumerate() {
        if step == Step::DropsOutside {
            w.zero_grad();
        }
        run(k, &input(w.machine(), k));
        assert_eq!(&gradient(w), expected, "{step:?}, step {k}");
        let tensor = w.grad().unwrap().handle();
        if k >= warm && !seen.contains(&tensor) {
            seen.push(tensor);
        }
    }
    seen.len()
}

/// The tensors of a step's gradients: one, or two by turns where a step reads the former gradient.
const fn expected(step: Step) -> usize {
    if matches!(step, Step::AddsUp) { 2 } else { 1 }
}

#[test]
fn traced_steps_write_gradients_again() {
    for step in STEPS {
        let m = threaded();
        let w = parameter(&m);
        let taken = w.clone();
        let f = m.traced(move |inputs, _| inside(step, &taken, &inputs[0])).strict();
        // The first calls are captured, and the first replay makes what later ones write again.
        let count = tensors(step, &w, (3, 12), |_, x| drop(f.call(&[x]).run().unwrap()));
        assert_eq!(count, expected(step), "{step:?}");
    }
}

fn record(step: Step, w: &Tensor) -> Executable {
    let recorded = w.machine().record(|r| {
        let x = r.input("x", f32_spec(&[3]))?;
        let loss = r.function(&[x], |inputs| inside(step, w, &inputs[0]))?;
        r.output("loss", &loss[0])
    });
    recorded.unwrap().compile().unwrap()
}

#[test]
fn recorded_steps_write_gradients_again() {
    for step in [Step::DropsInside, Step::DropsOutside, Step::AddsUp] {
        let m = threaded();
        let w = parameter(&m);
        let first = record(step, &w);
        first.launch().input("x", &input(&m, 0)).run().unwrap();
        // A list that finds a gradient is another one than a list that finds none.
        let later = if step == Step::AddsUp { record(step, &w) } else { first.clone() };
        w.zero_grad();
        let count = tensors(step, &w, (3, 12), |k, x| {
            let list = if k == 0 { &first } else { &later };
            list.launch().input("x", x).run().unwrap();
        });
        assert_eq!(count, expected(step), "{step:?}");
    }
}

/// The list of a machine shows that launches allocate nothing for gradients.
#[test]
fn launches_allocate_no_gradients() {
    let m = inline();
    let w = parameter(&m);
    let (step, x) = (record(Step::DropsOutside, &w), input(&m, 1));
    let loss = Tensor::zeros((), DType::F32, &m).unwrap();
    let launch = || {
        w.zero_grad();
        step.launch().input("x", &x).output("loss", &loss).run().unwrap();
    };
    launch();
    let made = w.grad().unwrap().handle();
    m.start_recording(&[]).unwrap();
    (0..5).for_each(|_| launch());
    let list = m.finish_recording().unwrap();
    let count = |kind| list.instructions.iter().filter(|one| one.body.kind() == kind).count();
    assert_eq!((count(Kind::LazyJobLauncher), count(Kind::AllocateTensor)), (5, 0));
    assert_eq!(w.grad().unwrap().handle(), made);
    assert!(millstream_verify::verify(&list).proven());
}

/// A gradient that the program has, or looks at, stays as it is.
#[test]
fn gradients_that_are_held_stay() {
    type Hold = fn(Tensor) -> Tensor;
    let holds: [(&str, Hold); 4] = [
        ("the tensor", |gradient| gradient),
        ("a view", |gradient| gradient.narrow(0, 1, 2).unwrap()),
        ("a detached one", |gradient| gradient.detach().unwrap()),
        ("a leaf", |gradient| gradient.with_grad().unwrap()),
    ];
    for (what, hold) in holds {
        for step in [Step::DropsInside, Step::DropsOutside] {
            let m = threaded();
            let w = parameter(&m);
            let list = record(step, &w);
            let taken = w.clone();
            let f = m.traced(move |inputs, _| inside(step, &taken, &inputs[0])).strict();
            for is_traced in [false, true] {
                let mut held: Vec<(Tensor, Vec<f32>)> = Vec::new();
                for (k, expected) in eager(step, 8).iter().enumerate() {
                    if step == Step::DropsOutside {
                        w.zero_grad();
                    }
                    let x = input(&m, k);
                    match is_traced {
                        true => drop(f.call(&[&x]).run().unwrap()),
                        false => drop(list.launch().input("x", &x).run().unwrap()),
                    }
                    assert_eq!(&gradient(&w), expected);
                    // Two in turn are held, so that launches find none that is free.
                    if k % 3 < 2 {
                        let tensor = hold(w.grad().unwrap());
                        let elements = tensor.to_vec::<f32>().unwrap();
                        held.push((tensor, elements));
                    }
                    for (tensor, elements) in &held {
                        let now = tensor.to_vec::<f32>().unwrap();
                        assert_eq!(&now, elements, "{what}, {step:?}, step {k}");
                    }
                }
            }
        }
    }
}

/// The outputs of a launch that the program has stay as they are, and a launch that is refused
/// leaves the gradient in its place.
#[test]
fn launches_that_are_held_or_refused() {
    let m = threaded();
    let w = parameter(&m);
    let list = record(Step::DropsInside, &w);
    let mut launched: Vec<(Launched, Vec<u32>)> = Vec::new();
    for k in 0..4 {
        let launch = list.launch().input("x", &input(&m, k)).run().unwrap();
        launched.push((launch, gradient(&w)));
    }
    for (launch, expected) in &launched {
        let output = launch.output("gradient 0").unwrap().to_vec::<f32>().unwrap();
        let output: Vec<u32> = output.into_iter().map(f32::to_bits).collect();
        assert_eq!(&output, expected);
    }
    drop(launched);
    list.launch().input("x", &input(&m, 1)).run().unwrap();
    let (before, tensor) = (gradient(&w), w.grad().unwrap().handle());
    assert!(list.launch().run().is_err(), "no input");
    assert_eq!((gradient(&w), w.grad().unwrap().handle()), (before, tensor));
}

/// Two leaves may have one gradient.
#[test]
fn leaves_share_a_gradient() {
    let m = threaded();
    let (v, w) = (parameter(&m), parameter(&m));
    let (one, other) = (v.clone(), w.clone());
    let f = m.traced(move |inputs, _| {
        one.zero_grad();
        other.zero_grad();
        let tape = inputs[0].machine().tape();
        let loss = ((&one + &other)? * &inputs[0])?.sum(..)?;
        tape.backward(&loss)?;
        Ok(vec![loss])
    });
    let f = Arc::new(f.strict());
    let mut seen: Vec<TensorHandle> = Vec::new();
    for k in 0..10 {
        let x = input(&m, k);
        f.call(&[&x]).run().unwrap();
        for leaf in [&v, &w] {
            let expected = x.to_vec::<f32>().unwrap();
            assert_eq!(leaf.grad().unwrap().to_vec::<f32>().unwrap(), expected);
            let tensor = leaf.grad().unwrap().handle();
            if k >= 3 && !seen.contains(&tensor) {
                seen.push(tensor);
            }
        }
    }
    assert!(seen.len() <= 2, "{} tensors", seen.len());
}
