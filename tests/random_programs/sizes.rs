//! Random functions of a size, traced with the size as symbolic: they give the bits of the same
//! calls made one by one, whatever order the sizes come in.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millstream::*;
use millstream_testing::machine::{ALL_DRIVERS, failing};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;

use crate::executables::config;

/// The kind of a step, and two operands.
type Step = (u8, u8, u8);

const WIDTH: usize = 3;

/// Tensors of `[size, WIDTH]`, and of `[WIDTH, WIDTH]`.
struct Live {
    rows: Vec<Tensor>,
    squares: Vec<Tensor>,
}

/// Makes the calls of a step on tensors of a size.
fn make(live: &mut Live, (kind, a, b): Step, random: &Generator) -> Result<()> {
    let of = |tensors: &[Tensor], k: u8| tensors[k as usize % tensors.len()].clone();
    let (x, y) = (of(&live.rows, a), of(&live.rows, b));
    let square = of(&live.squares, b);
    let size = x.shape()[0];
    let row = match kind {
        0 => x.tanh()?,
        1 => x.add(&y)?,
        2 => x.matmul(&square)?,
        3 => {
            live.squares.push(x.t()?.matmul(&y)?.tanh()?);
            return Ok(());
        }
        4 => Tensor::cat(&[&square, &x], 0)?.narrow(0, (a % 4) as usize, size)?,
        5 => x.softmax((b % 2) as usize)?,
        6 => x.matmul(&y.t()?)?.softmax(1)?.matmul(&y)?,
        7 => x.mul_(0.5)?.clone(),
        8 => x.cumsum(0)?.t()?.contiguous()?.t()?,
        9 => x.add(&Tensor::arange(0..size as i64, x.machine())?.unsqueeze(1)?)?,
        10 => x.dropout(0.5, random)?,
        11 => x.mul(2 * size as i64 + 1)?,
        12 => x.reshape(size * WIDTH)?.flip(0)?.reshape((size, WIDTH))?,
        // What has no template: a branch on the size, and one on data.
        13 if size > 2 + a as usize % 16 => x.neg()?,
        13 => x.relu()?,
        _ if x.sum(..)?.gt(1.0)?.read()? == [1] => x.neg()?,
        _ => x.relu()?,
    };
    live.rows.push(row);
    Ok(())
}

/// Makes all calls of a function.
fn body(inputs: &[Tensor], w: &Tensor, steps: &[Step], random: &Generator) -> Result<Vec<Tensor>> {
    let mut live = Live { rows: inputs.to_vec(), squares: vec![w.clone()] };
    steps.iter().try_for_each(|step| make(&mut live, *step, random))?;
    let made = live.rows.into_iter().skip(inputs.len()).chain(live.squares.into_iter().skip(1));
    Ok(made.collect())
}

/// Runs the function with each size. Returns the content of its inputs and results, and its report.
fn outcome(
    driver: DriverKind,
    (steps, sizes): &(Vec<Step>, Vec<usize>),
    is_traced: bool,
) -> (Vec<Vec<u8>>, TracedReport) {
    let m = failing(driver);
    let tensor = |rows: usize, seed: usize| {
        let value = |k: usize| ((k * 37 + seed * 101) % 64) as f32 / 32.0 - 1.0;
        let values: Vec<f32> = (0..rows * WIDTH).map(value).collect();
        Tensor::from_slice(&values, (rows, WIDTH), &m).unwrap()
    };
    let (w, random) = (tensor(WIDTH, 9), Generator::new(7));
    let (own, inner, drawn) = (steps.clone(), w.clone(), random.clone());
    let traced = m.traced(move |inputs, _| body(inputs, &inner, &own, &drawn));
    let mut all = Vec::new();
    for (k, &size) in sizes.iter().enumerate() {
        let inputs = [tensor(size, k), tensor(size, k + 1)];
        let made = match is_traced {
            true => traced.call(&[&inputs[0], &inputs[1]]).dim(0, 0).dim(1, 0).run(),
            false => body(&inputs, &w, steps, &random),
        };
        all.extend(inputs.into_iter().chain(made.unwrap()));
    }
    (all.iter().map(|tensor| tensor.read().unwrap()).collect(), traced.report())
}

#[test]
fn symbolic_sizes_give_the_results_of_calls() {
    let kind = prop_oneof![30 => 0..13u8, 1 => 13..15u8];
    let steps = proptest::collection::vec((kind, any::<u8>(), any::<u8>()), 1..12);
    let sizes = proptest::collection::vec(1usize..20, 4..12);
    let derived = AtomicU64::new(0);
    let mut config = config();
    config.cases /= 4;
    let cases = u64::from(config.cases);
    let programs = ((steps, sizes), select(ALL_DRIVERS.to_vec()));
    let result = TestRunner::new(config).run(&programs, |(program, driver)| {
        let (got, report) = outcome(driver, &program, true);
        derived.fetch_add(report.derived, Relaxed);
        let (expected, _) = outcome(DriverKind::Inline, &program, false);
        prop_assert_eq!(got, expected, "{}", report);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let derived = derived.into_inner();
    assert!(derived >= cases, "only {derived} captures were derived in {cases} cases");
}
