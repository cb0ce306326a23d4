//! Kernels of the loss of alignments (CTC), in f64; one thread for each sequence.

use anyhow::{Context, Result, ensure};

use super::strided::{Sequence, load_all};
use super::{Kernel, Written};
use crate::context::KernelCtx;

/// The kernels, with the operands that they write.
pub(crate) const KERNELS: &[(Kernel, Written)] = &[
    (("_ctc_loss", loss), Written::Last(2)),
    (("_ctc_loss_backward", backward), Written::Last(1)),
];

const NEVER: f64 = f64::NEG_INFINITY;

/// Returns the logarithm of a sum of exponentials.
fn log_sum(terms: [f64; 3]) -> f64 {
    let most = terms.into_iter().fold(NEVER, f64::max);
    if most == NEVER {
        return NEVER;
    }
    most + terms.into_iter().map(|v| (v - most).exp()).sum::<f64>().ln()
}

/// The sequences of a call.
struct Sequences {
    /// The logarithms of probabilities, by time, sequence and class.
    probabilities: Vec<f64>,
    count: usize,
    classes: usize,
    time: usize,
    blank: usize,
    inputs: Vec<i64>,
    /// The labels of each sequence.
    labels: Vec<Vec<usize>>,
}

impl Sequences {
    fn of(ctx: &KernelCtx<'_>, at: usize) -> Result<Sequences> {
        let (x, targets) = (ctx.operand(at)?, ctx.operand(at + 1)?);
        let &[time, count, classes] = x.shape else {
            anyhow::bail!("{x:?}: schema and kernel disagree");
        };
        let (inputs, lengths): (Vec<i64>, Vec<i64>) =
            (load_all(ctx.operand(at + 2)?), load_all(ctx.operand(at + 3)?));
        let most = ctx.attrs().int("max_target_length")?.unwrap_or(0);
        for (&input, &label) in inputs.iter().zip(&lengths) {
            ensure!((0..=time as i64).contains(&input), "input_lengths: {input} of {time}");
            ensure!((0..=most).contains(&label), "target_lengths: {label}, at most {most}");
        }
        let given: Vec<i64> = load_all(targets);
        let (mut labels, mut next) = (Vec::new(), 0);
        for (k, &length) in lengths.iter().enumerate() {
            let start = if targets.shape.len() == 2 { k * targets.shape[1] } else { next };
            let own = given.get(start..start + length as usize);
            let own = own.with_context(|| format!("targets: no {length} labels from {start}"))?;
            next += length as usize;
            for &label in own {
                let known = (0..classes as i64).contains(&label);
                ensure!(known, "targets: expected 0 to {}, got {label}", classes - 1);
            }
            labels.push(own.iter().map(|&label| label as usize).collect());
        }
        let blank = ctx.attrs().int("blank")?.unwrap_or(0) as usize;
        let probabilities = load_all(x);
        Ok(Sequences { probabilities, count, classes, time, blank, inputs, labels })
    }

    fn probability(&self, time: usize, sequence: usize, class: usize) -> f64 {
        self.probabilities[(time * self.count + sequence) * self.classes + class]
    }

    /// Returns the class of a state: blanks alternate with labels.
    fn class(&self, sequence: usize, state: usize) -> usize {
        match state % 2 {
            0 => self.blank,
            _ => self.labels[sequence][state / 2],
        }
    }

    /// Returns whether a state may follow that two before it.
    fn skips(&self, sequence: usize, state: usize) -> bool {
        state >= 2
            && state % 2 == 1
            && self.class(sequence, state) != self.class(sequence, state - 2)
    }

    /// Returns the forward variables of a sequence, by time and state, and its loss.
    fn forward(&self, sequence: usize) -> (Vec<f64>, f64) {
        let states = 2 * self.labels[sequence].len() + 1;
        let time = self.inputs[sequence] as usize;
        let mut alpha = vec![NEVER; self.time * states];
        if time == 0 {
            return (alpha, if states == 1 { 0.0 } else { f64::INFINITY });
        }
        for (state, first) in alpha.iter_mut().enumerate().take(states.min(2)) {
            *first = self.probability(0, sequence, self.class(sequence, state));
        }
        for t in 1..time {
            let (before, now) = alpha.split_at_mut(t * states);
            let before = &before[(t - 1) * states..];
            for state in 0..states {
                let one = if state > 0 { before[state - 1] } else { NEVER };
                let two = if self.skips(sequence, state) { before[state - 2] } else { NEVER };
                let sum = log_sum([before[state], one, two]);
                now[state] = sum + self.probability(t, sequence, self.class(sequence, state));
            }
        }
        let last = &alpha[(time - 1) * states..time * states];
        let before = if states > 1 { last[states - 2] } else { NEVER };
        let loss = -log_sum([last[states - 1], before, NEVER]);
        (alpha, loss)
    }

    /// Returns the gradient of a sequence's loss by its logarithms of probabilities.
    fn gradient(&self, sequence: usize) -> Vec<f64> {
        let (alpha, loss) = self.forward(sequence);
        let states = 2 * self.labels[sequence].len() + 1;
        let time = self.inputs[sequence] as usize;
        let mut slopes = vec![0f64; self.time * self.classes];
        let mut beta = vec![NEVER; states];
        for t in (0..time).rev() {
            let after = beta.clone();
            for state in (0..states).rev() {
                let own = match t + 1 == time {
                    true if state + 2 >= states => 0.0,
                    true => NEVER,
                    false => {
                        let one = if state + 1 < states { after[state + 1] } else { NEVER };
                        let skips = state + 2 < states && self.skips(sequence, state + 2);
                        let two = if skips { after[state + 2] } else { NEVER };
                        log_sum([after[state], one, two])
                    }
                };
                beta[state] = own + self.probability(t, sequence, self.class(sequence, state));
            }
            let mut sums = vec![NEVER; self.classes];
            for state in 0..states {
                let class = self.class(sequence, state);
                sums[class] =
                    log_sum([sums[class], alpha[t * states + state] + beta[state], NEVER]);
            }
            for (class, sum) in sums.into_iter().enumerate() {
                let own = self.probability(t, sequence, class);
                slopes[t * self.classes + class] = own.exp() - (sum + loss - own).exp();
            }
        }
        slopes
    }
}

/// `_ctc_loss(log_probs, targets, input_lengths, target_lengths; …)`.
fn loss(ctx: &KernelCtx<'_>) -> Result<()> {
    let sequences = Sequences::of(ctx, 0)?;
    let (losses, variables) = (ctx.operand(4)?, ctx.operand(5)?);
    let width = variables.shape[2];
    // SAFETY: outputs of the call; each sequence's results are stored by one thread.
    let (losses, variables) = unsafe { (Sequence::new(losses), Sequence::new(variables)) };
    ctx.for_each(sequences.count, |sequence| {
        let (alpha, loss) = sequences.forward(sequence);
        let states = 2 * sequences.labels[sequence].len() + 1;
        let mut all = vec![NEVER; sequences.time * width];
        for t in 0..sequences.time {
            all[t * width..t * width + states]
                .copy_from_slice(&alpha[t * states..(t + 1) * states]);
        }
        losses.store(sequence, &[loss]);
        variables.store(sequence * all.len(), &all);
    });
    Ok(())
}

/// `_ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, losses; …)`.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let sequences = Sequences::of(ctx, 1)?;
    let (grads, losses): (Vec<f64>, Vec<f64>) =
        (load_all(ctx.operand(0)?), load_all(ctx.operand(5)?));
    let skips = ctx.attrs().bool("zero_infinity")?.unwrap_or(false);
    // SAFETY: an output of the call; each sequence's results are stored by one thread.
    let out = unsafe { Sequence::new(ctx.operand(6)?) };
    ctx.for_each(sequences.count, |sequence| {
        let is_infinite = losses[sequence] == f64::INFINITY;
        let slopes = match skips && is_infinite {
            true => vec![0.0; sequences.time * sequences.classes],
            false => sequences.gradient(sequence),
        };
        let grad = if skips && is_infinite { 0.0 } else { grads[sequence] };
        let time = sequences.inputs[sequence] as usize;
        for (t, row) in slopes.chunks(sequences.classes).enumerate() {
            let row: Vec<f64> = match t < time {
                true => row.iter().map(|slope| slope * grad).collect(),
                false => vec![0.0; row.len()],
            };
            out.store((t * sequences.count + sequence) * sequences.classes, &row);
        }
    });
    Ok(())
}
