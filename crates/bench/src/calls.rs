//! `bench calls`: one loop for each kind of call, whose instructions `cargo xtask count` counts.
//!
//! The difference of a long and a short run is the cost of the calls alone: both runs make the same
//! machine and the same operands. The kernels work on 16 floats, so the calls' own cost dominates.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use millstream::options::Conv2d;
use millstream::sbp::S;
use millstream::{
    Attrs, DType, DeviceId, DriverKind, Machine, MachineConfig, Mesh, Stream, Tensor,
};
use millstream_files::println;
use serde::Serialize;

use super::quantile;

/// The arguments of `millstream bench calls`.
#[derive(Args, Clone, Debug)]
pub struct CallsArgs {
    /// The call that is repeated
    #[arg(long, value_enum, default_value_t = Kind::Method)]
    kind: Kind,
    /// Number of calls in a round
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    calls: u32,
    /// Number of rounds, after one more that warms up; without rounds, the calls are made once
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Number of streams for `--kind streams`
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    streams: u16,
    /// Run the calls on a worker thread, not on the caller's
    #[arg(long)]
    worker: bool,
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// `x.add(&y)`, with a fresh output that replaces the last one
    Method,
    /// `machine.call("add", …)`, with a fresh output that replaces the last one
    Builder,
    /// `machine.call("add", …)` on the output of the call before
    Chain,
    /// The same, on one stream after the other: each call depends on another stream
    Streams,
    /// `machine.call("mul", …)` with one attribute
    Attribute,
    /// `machine.call("add_", …)`
    InPlace,
    /// `x.reshape((4, 4))`
    View,
    /// `x.sum(..)`, whose kernel needs scratch memory
    Sum,
    /// A convolution of 4 x 4 numbers, whose kernel needs scratch memory
    Convolution,
    /// The gradients of that convolution: six tensors
    ConvolutionBackward,
    /// Batch normalisation of 16 numbers in training: eight tensors
    BatchNorm,
    /// `machine.call("cat", …)` of eight tensors
    Cat,
    /// A prepared `add_`
    Prepared,
    /// A prepared `add_` in a batch
    Batch,
    /// `x.to_vec::<f32>()` of 16 floats
    Read,
    /// `x.mul(&y)` of a leaf on a tape of its own, without the backward pass
    Taped,
    /// `x.mul(&y)` of the same leaf without a tape
    Untaped,
    /// Four `add` in a traced function, which is given up after 128 of these calls
    Traced,
    /// The same `add` without a traced function
    Untraced,
    /// `x.add(&y)` of tensors on a mesh of this rank, whose plan is remembered
    Global,
}

/// The result. Times are in nanoseconds of a call.
#[derive(Serialize)]
struct Row {
    kind: String,
    calls: u32,
    worker: bool,
    least_ns: f64,
    median_ns: f64,
    worst_ns: f64,
}

/// Runs the command.
pub(crate) fn calls(args: &CallsArgs) -> Result<()> {
    let config = match args.worker {
        true => MachineConfig::default().host_workers(1),
        false => MachineConfig::default().driver(DriverKind::Inline),
    };
    let machine = Machine::new(config)?;
    let stream = machine.compute(&DeviceId::cpu(0), 0)?;
    let x = Tensor::from_slice(&[1.0_f32; 16], 16, &machine)?;
    let y = Tensor::from_slice(&[0.5_f32; 16], 16, &machine)?;
    if args.rounds == 0 {
        return repeat(args, &machine, &stream, &x, &y);
    }
    let mut times = Vec::new();
    for _ in 0..=args.rounds {
        let begun = Instant::now();
        repeat(args, &machine, &stream, &x, &y)?;
        times.push(begun.elapsed().as_nanos() as f64 / f64::from(args.calls));
    }
    let mut times = times.split_off(1);
    let kind = args.kind.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
    let row = Row {
        kind,
        calls: args.calls,
        worker: args.worker,
        least_ns: quantile(&mut times, 0.0),
        median_ns: quantile(&mut times, 0.5),
        worst_ns: quantile(&mut times, 1.0),
    };
    println!("{}", serde_json::to_string(&row)?);
    Ok(())
}

/// Makes the calls, and waits for them.
#[inline(never)]
fn repeat(
    args: &CallsArgs,
    machine: &Machine,
    stream: &Stream,
    x: &Tensor,
    y: &Tensor,
) -> Result<()> {
    let mut last = x.clone();
    let calls = 0..args.calls;
    match args.kind {
        Kind::Method => {
            for _ in calls {
                last = x.add(y)?;
            }
        }
        Kind::Builder => {
            for _ in calls {
                last = machine.call("add", &[x, y]).one(stream)?;
            }
        }
        Kind::Chain => {
            for _ in calls {
                last = machine.call("add", &[&last, y]).one(stream)?;
            }
        }
        Kind::Streams => {
            let create = |_| machine.create_stream(&DeviceId::cpu(0));
            let streams = (0..args.streams).map(create).collect::<Result<Vec<_>, _>>()?;
            for stream in streams.iter().cycle().take(args.calls as usize) {
                last = machine.call("add", &[&last, y]).one(stream)?;
            }
        }
        Kind::Attribute => {
            for _ in calls {
                last = machine.call("mul", &[x]).attr("other", 2.0).one(stream)?;
            }
        }
        Kind::InPlace => {
            for _ in calls {
                machine.call("add_", &[x, y]).one(stream)?;
            }
        }
        Kind::View => {
            for _ in calls {
                last = x.reshape((4, 4))?;
            }
        }
        Kind::Sum => {
            for _ in calls {
                last = x.sum(..)?;
            }
        }
        Kind::Convolution => {
            let (image, weight) = image_and_weight(x, y)?;
            for _ in calls {
                last = image.conv2d(&weight, Conv2d::default())?;
            }
        }
        Kind::ConvolutionBackward => {
            let (image, weight) = image_and_weight(x, y)?;
            let grad = image.conv2d(&weight, Conv2d::default())?;
            let operands = [&grad, &image, &weight];
            for _ in calls {
                let call = machine.call("convolution_backward", &operands);
                last = call.attr("bias_sizes", vec![1]).on(stream)?.swap_remove(0);
            }
        }
        Kind::BatchNorm => {
            let image = x.reshape((1, 1, 4, 4))?;
            let ones = Tensor::from_slice(&[1.0_f32], 1, machine)?;
            let [mean, variance] = [ones.copy()?, ones.copy()?];
            let operands = [&image, &ones, &ones, &mean, &variance];
            for _ in calls {
                let call = machine.call("native_batch_norm", &operands);
                last = call.attr("training", true).on(stream)?.swap_remove(0);
            }
        }
        Kind::Cat => {
            for _ in calls {
                last = machine.call("cat", &[x; 8]).one(stream)?;
            }
        }
        Kind::Prepared => {
            let add = machine.prepare("add_", &[x, y], Attrs::new())?;
            for _ in calls {
                add.on(stream)?;
            }
        }
        Kind::Batch => {
            let add = machine.prepare("add_", &[x, y], Attrs::new())?;
            let mut batch = machine.batch();
            for _ in calls {
                batch.call(&add, stream)?;
            }
        }
        Kind::Read => {
            for _ in calls {
                black_box(x.to_vec::<f32>()?);
            }
        }
        Kind::Taped => {
            let leaf = x.copy()?.with_grad()?;
            for _ in calls {
                let _tape = machine.tape();
                last = leaf.mul(y)?;
            }
        }
        Kind::Untaped => {
            let leaf = x.copy()?.with_grad()?;
            for _ in calls {
                last = leaf.mul(y)?;
            }
        }
        Kind::Traced => {
            let traced = machine.traced(|inputs, _| Ok(vec![add_four(&inputs[0], &inputs[1])?]));
            for _ in calls {
                last = traced.call(&[x, y]).run()?.swap_remove(0);
            }
        }
        Kind::Untraced => {
            for _ in calls {
                last = add_four(x, y)?;
            }
        }
        Kind::Global => {
            let mesh = Mesh::new([0])?;
            let [x, y] = [x.to_global(&mesh, [S(0)])?, y.to_global(&mesh, [S(0)])?];
            for _ in calls {
                last = x.add(&y)?;
            }
        }
    }
    debug_assert_eq!(last.dtype(), DType::F32);
    drop(last);
    machine.synchronize()?;
    Ok(())
}

/// Makes the calls of the traced function.
fn add_four(x: &Tensor, y: &Tensor) -> Result<Tensor, millstream::Error> {
    x.add(y)?.add(y)?.add(y)?.add(y)
}

/// Returns the operands of the convolution.
fn image_and_weight(x: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
    Ok((x.reshape((1, 1, 4, 4))?, y.narrow(0, 0, 9)?.reshape((1, 1, 3, 3))?))
}
