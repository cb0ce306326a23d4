//! Steps with a gradient scaler: all ranks take them, or none.

use millstream::optimisers::{Adam, GradScaler, Scaling, Sgd, State, adamw, sgd};
use millstream::sbp::{B, P, S};
use millstream::*;

use super::on_ranks;

const SCALING: Scaling =
    Scaling { init_scale: 4.0, growth_factor: 2.0, backoff_factor: 0.5, growth_interval: 2 };

/// The factors of the columns in each step: those of the second step overflow in f16, in the last
/// column alone, which is that of the last rank.
const STEPS: [[f32; 4]; 4] =
    [[0.5, -1.0, 2.0, 1.5], [1.0, 0.5, -0.5, 60000.0], [0.25, 1.0, 1.0, -2.0], [1.0; 4]];

/// Returns the parameters after each step, whether an element was not finite, and the scale.
fn trained(machine: &Machine, of: Option<(&Mesh, Sbp)>, is_adam: bool) -> Result<Vec<Vec<f32>>> {
    let made = |elements: &[f32], shape: (usize, usize), sbp: Sbp| match of {
        None => Tensor::from_slice(elements, shape, machine),
        Some((mesh, _)) => Tensor::from_slice_global(elements, shape, machine, mesh, [sbp]),
    };
    let whole = |tensor: &Tensor| {
        let own = if of.is_some() { tensor.full_tensor()? } else { tensor.clone() };
        own.to_vec::<f32>()
    };
    let own = of.map_or(B, |(_, sbp)| sbp);
    let w = made(&[0.5, -0.25, 1.0, 0.75, -0.5, 0.25, 2.0, -1.0], (2, 4), own)?.with_grad()?;
    let x = made(&[1.0, 2.0, -1.0, 0.5, 0.25, 1.5], (3, 2), B)?;
    let scaler = GradScaler::new(&w, SCALING)?;
    let unless = Some(scaler.found_inf().clone());
    let momentum =
        Sgd { lr: 0.125.into(), momentum: 0.5, unless: unless.clone(), ..Sgd::default() };
    let moments = Adam { lr: 0.125.into(), unless, ..Adam::default() };
    let (mut state, mut all) = (State::default(), Vec::new());
    for factors in &STEPS {
        let factors = made(factors, (1, 4), if own == S(1) { own } else { B })?;
        let tape = machine.tape();
        let loss = autocast(DType::F16, || x.matmul(&w))?.mul(&factors)?.sum(..)?;
        tape.backward(&scaler.scale(&loss)?)?;
        scaler.unscale(&[&w])?;
        let found = scaler.found_inf().item::<f32>()?;
        match is_adam {
            true => adamw(&[&w], &mut state, &moments)?,
            false => sgd(&[&w], &mut state, &momentum)?,
        }
        scaler.update()?;
        w.zero_grad();
        all.push([whole(&w)?, vec![found, scaler.current().item::<f32>()?]].concat());
    }
    Ok(all)
}

/// A column of one rank overflows: the step is left out by all, with the results of one rank.
#[test]
fn all_ranks_leave_out_the_step_of_one() {
    let one = Machine::new(MachineConfig::default()).unwrap();
    for is_adam in [false, true] {
        let expected = trained(&one, None, is_adam).unwrap();
        let numbers: Vec<&[f32]> = expected.iter().map(|step| &step[8..]).collect();
        assert_eq!(numbers, [[0.0, 4.0], [1.0, 2.0], [0.0, 2.0], [0.0, 4.0]]);
        assert_eq!(expected[0][..8], expected[1][..8], "the second step is left out");
        assert_ne!(expected[1][..8], expected[2][..8]);
        // Of three ranks, the last has the last column, or no row.
        for (ranks, sbp) in [(2, S(1)), (3, S(1)), (3, S(0)), (2, B)] {
            let mesh = Mesh::new((0..ranks as u32).collect::<Vec<u32>>()).unwrap();
            let made = on_ranks(ranks, |rank| trained(&rank.machine, Some((&mesh, sbp)), is_adam));
            for (rank, made) in made.into_iter().enumerate() {
                assert_eq!(made, expected, "rank {rank} of {ranks}, {sbp:?}");
            }
        }
    }
}

/// One collective for what is found, however many gradients there are.
#[test]
fn a_step_reduces_one_number() {
    let mesh = Mesh::new([0, 1]).unwrap();
    on_ranks(2, |rank| {
        let machine = &rank.machine;
        let held = |sbp: Sbp| Sharding::new(&mesh, [sbp]).unwrap();
        let made = |sbp: Sbp| {
            let parameter = Tensor::full((2, 2), 1.0, (machine, &held(sbp)))?.with_grad()?;
            parameter.set_grad(&Tensor::full((2, 2), 8.0, (machine, &held(sbp)))?)?;
            Ok(parameter)
        };
        let parameters = [S(0), B, S(1)].map(made).into_iter().collect::<Result<Vec<_>>>()?;
        let parameters: Vec<&Tensor> = parameters.iter().collect();
        let scaler = GradScaler::new(parameters[0], SCALING)?;
        rank.calls();
        scaler.unscale(&parameters)?;
        assert_eq!(rank.calls(), ["AllReduce"]);
        let unless = Some(scaler.found_inf().clone());
        sgd(&parameters, &mut State::default(), &Sgd { unless, ..Sgd::default() })?;
        scaler.update()?;
        assert_eq!(rank.calls(), [""; 0]);
        for parameter in parameters {
            let gradient = parameter.grad().unwrap().full_tensor()?;
            assert_eq!(gradient.to_vec::<f32>()?, [2.0; 4]);
        }
        Ok(())
    });
}

/// A gradient that is a sum of parts may overflow in the sum alone, and one of this rank says
/// nothing of the others: both are refused.
#[test]
fn other_gradients_are_refused() {
    let mesh = Mesh::new([0, 1]).unwrap();
    on_ranks(2, |rank| {
        let machine = &rank.machine;
        let held = |sbp: Sbp| Sharding::new(&mesh, [sbp]).unwrap();
        let w = Tensor::full((2, 2), 1.0, (machine, &held(S(0))))?.with_grad()?;
        let scaler = GradScaler::new(&w, SCALING)?;
        let own = Tensor::full(2, 1.0, machine)?.with_grad()?;
        own.set_grad(&own)?;
        let error = scaler.unscale(&[&own]).unwrap_err().to_string();
        assert!(error.contains("is held by this rank, and the scaler by mesh"), "{error}");
        let partial = Tensor::full((2, 2), 1.0, (machine, &held(P)))?.with_grad()?;
        partial.set_grad(&partial)?;
        let error = scaler.unscale(&[&partial]).unwrap_err().to_string();
        assert!(error.contains("none of whose axes is partial"), "{error}");
        let unless = Some(scaler.found_inf().redistribute([P])?);
        let settings = Sgd { unless, ..Sgd::default() };
        let error = sgd(&[&w], &mut State::default(), &settings).unwrap_err().to_string();
        assert!(error.contains("redistribute it to B"), "{error}");
        Ok(())
    });
}
