//! Tests of the planner on chains, where the optimum is known.

use super::program::{Buffer, Program, Work, Writer};
use super::search::cheapest;
use super::simulation::Misfit;

/// Returns a chain of calls and its backward pass: call k reads the result of call k - 1, and the
/// backward call of k reads it again.
fn chain(calls: usize, budget: u64) -> Program {
    let mut program = Program { budgets: vec![budget], ..Program::default() };
    let buffer = || Buffer { bytes: 1, ..Buffer::default() };
    for k in 0..calls {
        let inputs: Vec<usize> = k.checked_sub(1).into_iter().collect();
        let writer =
            Writer { step: k, inputs: inputs.clone(), first: Some(0), deadline: usize::MAX };
        program.buffers.push(Buffer { writers: vec![writer], ..buffer() });
        program.steps.push(Work { time: 1, reads: inputs, writes: vec![k], ..Work::default() });
    }
    for k in 0..calls {
        let gradient = calls + k;
        let writer = Writer { step: calls + k, ..Writer::default() };
        program.buffers.push(Buffer { writers: vec![writer], ..buffer() });
        let mut reads = vec![calls - 1 - k];
        reads.extend((k > 0).then(|| gradient - 1));
        program.steps.push(Work { time: 1, reads, writes: vec![gradient], ..Work::default() });
    }
    for step in 0..program.steps.len() {
        let operands: Vec<usize> = program.operands(step).collect();
        operands.into_iter().for_each(|b| program.buffers[b].uses.push(step));
    }
    program
}

/// Returns the calls that Revolve makes again at least: `calls` calls with `slots` results kept.
fn revolve(calls: u64, slots: u64) -> u64 {
    let binomial = |n: u64, k: u64| (1..=k).fold(1u64, |all, i| all * (n - k + i) / i);
    let times = (1..).find(|&t| binomial(slots + t, slots) >= calls).unwrap_or(1);
    times * calls - binomial(slots + times, times - 1) - calls
}

/// Two slots hold a gradient and the next one.
#[test]
fn chains_take_little_more_than_the_optimum() {
    for (calls, budget) in [(64, 16), (256, 34), (256, 128), (1024, 64)] {
        let found = cheapest(&chain(calls, budget)).unwrap().extra;
        let least = revolve(calls as u64, budget - 2);
        assert!(found >= least, "{calls} calls in {budget}: {found} beats the optimum {least}");
        assert!(found as f64 <= 1.05 * least as f64, "{calls} calls in {budget}: {found}, {least}");
    }
}

#[test]
fn a_program_that_fits_makes_no_call_again() {
    assert_eq!(cheapest(&chain(64, 65)).unwrap().again, []);
    assert_eq!(cheapest(&chain(64, 64)).unwrap().extra, 1);
}

#[test]
fn what_fits_in_no_run_is_refused_where_it_does_not() {
    assert!(matches!(cheapest(&chain(64, 2)), Err(Misfit::Full(..))));
}
