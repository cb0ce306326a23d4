//! Training in 16-bit floats, with a scale of losses that the program chooses as it runs.

use millstream::optimisers::{GradScaler, Scaling, Sgd, State, sgd};
use millstream::*;

fn main() -> Result<()> {
    let machine = Machine::new(MachineConfig::default())?;
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    let y = Tensor::from_slice(&[1.0f32, 2.0], (2, 1), &machine)?;
    let w = Tensor::from_slice(&[0.5f32, 0.25], (1, 2), &machine)?.with_grad()?;
    let scaler = GradScaler::new(&w, Scaling::default())?;
    let unless = Some(scaler.found_inf().clone());
    let settings = Sgd { lr: 0.01.into(), momentum: 0.9, unless, ..Sgd::default() };
    let mut state = State::default();
    for step in 0..100 {
        let tape = machine.tape();
        let loss = autocast(DType::F16, || x.linear(&w, None)?.mse_loss(&y))?;
        tape.backward(&scaler.scale(&loss)?)?;
        scaler.unscale(&[&w])?;
        sgd(&[&w], &mut state, &settings)?; // nothing, if a gradient is not finite
        scaler.update()?;
        w.zero_grad();
        if step % 25 == 0 {
            println!("step {step}: loss {}", loss.item::<f32>()?);
        }
    }
    Ok(())
}
