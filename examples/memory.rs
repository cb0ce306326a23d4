//! The snippets of docs/memory.md, which quotes them and their output.

use std::sync::Arc;
use std::time::Duration;

use millstream::ep::pinned::PinnedBackend;
use millstream::ep::sim::SimBackend;
use millstream::ep::{Registry, cpu::CpuBackend};
use millstream::{
    DType, DeviceId, Error, Machine, MachineConfig, Result, Stream, StreamKey, StreamType, Tensor,
    TensorSpec,
};

/// Returns a tensor of 512 bytes, written on its stream.
fn block(machine: &Machine, stream: &Stream) -> Result<Tensor> {
    let x = machine.empty(stream, TensorSpec::contiguous(DType::F32, &[128])?)?;
    machine.call("fill", &[&x]).attr("value", 1.0).on(stream)?;
    Ok(x)
}

/// Returns the machine's memory use before and after a stream waits for another.
pub(crate) fn pending() -> Result<[String; 2]> {
    let config = MachineConfig::default().memory_limits([(DeviceId::cpu(0), 64 << 20)].into());
    let machine = Machine::new(config)?;
    let (a, b) = (machine.current_stream()?, machine.create_stream(&DeviceId::cpu(0))?);
    let x = block(&machine, &a)?;
    b.touch(&[&x])?; // a use on another stream
    drop(x); // pending: the frontier of a does not cover the use on b
    let _y = block(&machine, &a)?; // y gets other memory
    let before = machine.memory()?[0].to_string();
    a.wait_stream(&b)?; // now it does
    let _z = block(&machine, &a)?;
    let after = machine.memory()?[0].to_string();
    Ok([before, after])
}

/// Returns the error of a full memory.
pub(crate) fn full() -> Result<Error> {
    let config = MachineConfig::default().memory_limits([(DeviceId::cpu(0), 2048)].into());
    let machine = Machine::new(config)?;
    let s = machine.current_stream()?;
    let _held = [block(&machine, &s)?, block(&machine, &s)?];
    match machine.empty(&s, TensorSpec::contiguous(DType::F64, &[1000])?) {
        Ok(_) => Err(Error::Internal { message: "8000 bytes of 2048 were had".to_owned() }),
        Err(error) => Ok(error),
    }
}

/// Returns the unreleased tensors in the report of a shutdown.
pub(crate) fn checked() -> Result<Vec<String>> {
    let machine = Machine::new(MachineConfig::default().check_memory(true))?;
    let x = block(&machine, &machine.current_stream()?)?;
    let report = machine.shutdown(Duration::from_secs(10));
    drop(x);
    Ok(report.unreleased)
}

/// Copies from the host to a device, to another device and back. Returns the final bytes.
pub(crate) fn copies() -> Result<Vec<u8>> {
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    devices.register(Arc::new(SimBackend::new(millstream::ep::sim::SimConfig {
        devices: 2,
        ..Default::default()
    })));
    devices.register(Arc::new(PinnedBackend::new(1 << 20)));
    let machine = Machine::new(MachineConfig::default().devices(Arc::new(devices)))?;
    let spec = TensorSpec::contiguous(DType::U8, &[4])?;
    let host = machine.upload(&machine.current_stream()?, spec.clone(), vec![1, 2, 3, 4])?;
    let gpu = machine.compute(&DeviceId::sim(0), 0)?;
    let pinned = StreamKey::new(DeviceId::sim(0), StreamType::PINNED_COMPUTE, 0);
    let pinned = machine.stream(&pinned)?;
    let there = host.copy_to(&gpu)?; // on the device's host-to-device stream
    let other = there.copy_to(&machine.compute(&DeviceId::sim(1), 0)?)?; // through the host
    let back = other.copy_to(&pinned)?; // to pinned host memory
    back.copy_into(&host)?; // into an existing tensor, which may be a view with gaps
    host.read()
}

fn main() -> Result<()> {
    for text in pending()? {
        println!("{text}\n");
    }
    println!("{}\n", full()?);
    println!("{:?}\n", checked()?);
    println!("{:?}", copies()?);
    Ok(())
}
