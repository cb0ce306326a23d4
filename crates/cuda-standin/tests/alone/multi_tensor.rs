//! Steps over lists of tensors: how many kernels they launch, and their bits.

use millstream::ep::cuda::CudaConfig;
use millstream::optimisers::{Adam, Sgd, State, adamw, sgd};
use millstream::{DType, DeviceId, DriverKind, Machine, Tensor};

use crate::{machine, no_violations, nothing_is_open, stand_in};

const CUDA: DeviceId = DeviceId::cuda(0);

/// The numbers of elements of 28 parameters: more than a block of threads, few, none, one.
fn lengths() -> impl Iterator<Item = usize> {
    (0..28).map(|k| [3000, 33, 0, 1][k % 4] + k)
}

fn values(length: usize, seed: usize) -> Vec<f32> {
    (0..length).map(|k| ((k * 37 + seed * 11) % 101) as f32 / 17.0 - 3.0).collect()
}

/// Returns parameters on the device, each with a gradient. Every third one is a matrix that is
/// transposed, and every fourth has a gap behind each element.
fn parameters(m: &Machine) -> Vec<Tensor> {
    let make = |(k, length): (usize, usize), seed: usize| {
        let gap = if k % 4 == 3 { 2 } else { 1 };
        let whole = Tensor::from_slice(&values(length * gap, k + seed), length * gap, m).unwrap();
        let x = whole.to(&CUDA).unwrap();
        let x = if gap == 2 { x.reshape((length, 2)).unwrap().select(1, 0).unwrap() } else { x };
        match k % 3 == 2 && length % 2 == 0 {
            true => x.reshape((2, length / 2)).unwrap().transpose(0, 1).unwrap(),
            false => x,
        }
    };
    let of = |(k, length)| {
        let parameter = make((k, length), 0).with_grad().unwrap();
        parameter.set_grad(&make((k, length), 5)).unwrap();
        parameter
    };
    lengths().enumerate().map(of).collect()
}

fn bits(tensors: &[Tensor]) -> Vec<Vec<u32>> {
    let of = |x: &Tensor| -> Vec<u32> {
        x.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect()
    };
    tensors.iter().map(of).collect()
}

type Step = Box<dyn Fn(&[&Tensor], &mut State)>;

/// Returns steps of AdamW and SGD, which keep their rates.
fn steps() -> [Step; 2] {
    let of_adam = Adam { lr: 0.1.into(), weight_decay: Some(0.1), ..Adam::default() };
    let of_sgd = Sgd { lr: 0.1.into(), momentum: 0.9, dampening: 0.2, ..Sgd::default() };
    let of_sgd = Sgd { weight_decay: 0.01, nesterov: true, ..of_sgd };
    [
        Box::new(move |p, s| adamw(p, s, &of_adam).unwrap()),
        Box::new(move |p, s| sgd(p, s, &of_sgd).unwrap()),
    ]
}

/// All parameters in one step have the bits of a step for each of them.
#[test]
fn a_step_of_all_parameters_has_the_bits_of_single_steps() {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return;
    }
    let _turn = stand_in().turn();
    for step in steps() {
        let m = machine(DriverKind::Inline, CudaConfig::default());
        let (together, apart) = (parameters(&m), parameters(&m));
        let mut of_all = State::default();
        let mut of_each: Vec<State> = apart.iter().map(|_| State::default()).collect();
        for _ in 0..2 {
            step(&together.iter().collect::<Vec<_>>(), &mut of_all);
            apart.iter().zip(&mut of_each).for_each(|(x, state)| step(&[x], state));
        }
        assert_eq!(bits(&together), bits(&apart));
    }
    no_violations();
    nothing_is_open();
}

/// A step of 28 parameters whose elements follow one another is at most two launches.
#[test]
fn a_step_of_28_parameters_is_two_launches() {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return;
    }
    let _turn = stand_in().turn();
    for step in steps() {
        let m = machine(DriverKind::Inline, CudaConfig::default());
        let make = |length: usize, seed| {
            let x = Tensor::from_slice(&values(length, seed), length, &m).unwrap();
            x.to(&CUDA).unwrap()
        };
        let of = |(k, length): (usize, usize)| {
            let parameter = make(length, k).with_grad().unwrap();
            parameter.set_grad(&make(length, k + 5)).unwrap();
            parameter
        };
        let all: Vec<Tensor> = lengths().enumerate().map(of).collect();
        let all: Vec<&Tensor> = all.iter().collect();
        let mut state = State::default();
        step(&all, &mut state); // it makes the state
        m.synchronize().unwrap();
        let before = stand_in().count("cuLaunchKernel");
        step(&all, &mut state);
        m.synchronize().unwrap();
        // AdamW counts its steps; SGD's second launch sets the factors of later gradients.
        assert_eq!(stand_in().count("cuLaunchKernel") - before, 2);
    }
    no_violations();
    nothing_is_open();
}

/// A list that is longer than a table of 4,096 bytes takes one launch where kernels have longer
/// parameters, and else as few as hold it.
#[test]
fn a_long_list_takes_few_launches() {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return;
    }
    let _turn = stand_in().turn();
    let m = machine(DriverKind::Inline, CudaConfig::default());
    let make = |k: usize| {
        let x = Tensor::from_slice(&[k as f32], 1, &m).unwrap().to(&CUDA).unwrap();
        m.synchronize().unwrap();
        x
    };
    let tensors: Vec<Tensor> = (0..600).map(make).collect();
    let all: Vec<&Tensor> = tensors.iter().collect();
    let before = stand_in().count("cuLaunchKernel");
    let call = m.call("multi_tensor", &all).attr("program", "mul_(%0|other=2.0)");
    call.attr("columns", 1).attr("sets", 600).run().unwrap();
    m.synchronize().unwrap();
    let launches = stand_in().count("cuLaunchKernel") - before;
    assert!([2, 10].contains(&launches), "{launches} launches");
    for (k, x) in tensors.iter().enumerate() {
        assert_eq!(x.to_vec::<f32>().unwrap(), [2.0 * k as f32]);
    }
    assert_eq!(tensors[0].dtype(), DType::F32);
    drop(all);
    drop(tensors);
    drop(m);
    no_violations();
    nothing_is_open();
}

/// Bounds are steps, and tensors without elements take no launch.
#[test]
fn bounds_are_steps() {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return;
    }
    let _turn = stand_in().turn();
    let m = machine(DriverKind::Inline, CudaConfig::default());
    let make =
        |values: &[f32]| Tensor::from_slice(values, values.len(), &m).unwrap().to(&CUDA).unwrap();
    let (x, none, y) = (make(&[-2.0, 0.5, 7.0]), make(&[]), make(&[9.0]));
    let program = "clamp_min_(%0|min=-1);clamp_max_(%0|max=2.5)";
    for _ in 0..3 {
        let call = m.call("multi_tensor", &[&x, &none, &y]).attr("program", program);
        call.attr("columns", 1).attr("sets", 3).run().unwrap();
    }
    assert_eq!(x.to_vec::<f32>().unwrap(), [-1.0, 0.5, 2.5]);
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.5]);
    drop((x, none, y, m));
    no_violations();
    nothing_is_open();
}
