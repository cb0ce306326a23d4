//! The program of docs/tutorial.md, which quotes it.

use millstream::instructions::text::print_list;
use millstream::{DType, DeviceId, InstructionList, Machine, MachineConfig, Result, TensorSpec};

/// Returns the f32 elements of a tensor's bytes.
fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_ne_bytes([c[0], c[1], c[2], c[3]])).collect()
}

/// Runs the program. Returns its result and the list of its instructions.
///
/// # Errors
/// None is expected.
pub(crate) fn run() -> Result<(Vec<f32>, InstructionList)> {
    let machine = Machine::new(MachineConfig::default())?;
    let cpu = DeviceId::cpu(0);
    let (a, b) = (machine.compute(&cpu, 0)?, machine.compute(&cpu, 1)?);

    let spec = TensorSpec::contiguous(DType::F32, &[4])?;
    let data = [1.0f32, -2.0, 3.0, -4.0].map(f32::to_ne_bytes).concat();
    let x = machine.upload(&a, spec, data)?;
    machine.start_recording(&[("x", &x)])?;

    let y = machine.call("relu", &[&x]).on(&a)?.remove(0);
    let z = machine.call("mul", &[&x, &x]).on(&b)?.remove(0);
    let s = machine.call("add", &[&y, &z]).attr("alpha", 2).on(&a)?.remove(0);
    let sum = floats(&s.read()?);

    let list = machine.finish_recording()?;
    Ok((sum, list))
}

/// Makes a call that its op refuses. The error names the line in this file.
///
/// # Errors
/// Always returns the error of the refused call.
pub(crate) fn refused() -> Result<()> {
    let machine = Machine::new(MachineConfig::default())?;
    let stream = machine.compute(&DeviceId::cpu(0), 0)?;
    let vector = |length| {
        let spec = TensorSpec::contiguous(DType::F32, &[length])?;
        machine.upload(&stream, spec, vec![0; 4 * length])
    };
    let (x, y) = (vector(4)?, vector(3)?);
    machine.call("add", &[&x, &y]).on(&stream)?;
    Ok(())
}

fn main() -> Result<()> {
    let (sum, list) = run()?;
    println!("{sum:?}");
    print!("{}", print_list(&list));
    if let Err(error) = refused() {
        println!("{error}");
    }
    Ok(())
}
