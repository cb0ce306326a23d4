//! The network of `mlp.rs`, trained by an executable.

use millstream::optimisers::{Sgd, State, sgd};
use millstream::{Generator, Machine, MachineConfig, Result};

#[path = "mlp.rs"]
#[allow(dead_code, reason = "an example is a program of its own")]
pub(crate) mod mlp;

use mlp::{Network, data};

/// Trains: the step with its gradients and its update is recorded once, without
/// running it, and launched for each batch. Returns the first and the last loss.
///
/// # Errors
/// None is expected.
pub(crate) fn replayed(steps: usize) -> Result<(f32, f32)> {
    let machine = Machine::new(MachineConfig::default())?;
    let network = Network::new(&machine, 32)?;
    let random = Generator::new(2);
    let (points, inside) = data(&machine, &random)?;
    let recorded = machine.record(|r| {
        let points = r.input("points", points.spec().clone())?;
        let inside = r.input("inside", inside.spec().clone())?;
        let loss = r.function(&[points, inside], |inputs| {
            let loss = network.loss(&inputs[0], &inputs[1])?;
            let settings = Sgd { lr: 1.0.into(), ..Sgd::default() };
            sgd(&network.parameters(), &mut State::default(), &settings)?;
            Ok(vec![loss])
        })?;
        r.output("loss", &loss[0])
    })?;
    let step = recorded.compile()?;
    let mut launched = Vec::new();
    for _ in 0..steps {
        let (points, inside) = data(&machine, &random)?;
        launched.push(step.launch().input("points", &points).input("inside", &inside).run()?);
    }
    let loss = |k: usize| launched[k].output("loss")?.item();
    Ok((loss(0)?, loss(steps - 1)?))
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    let (first, last) = replayed(300)?;
    println!("loss: {first:.3} after the first step, {last:.3} after the last");
    Ok(())
}
