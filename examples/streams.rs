//! The snippets of docs/streams.md, which quotes them.

use std::time::Duration;

use millstream::{
    DType, DeviceId, Machine, MachineConfig, Result, StreamOptions, Tensor, TensorSpec, with_stream,
};

fn upload(machine: &Machine) -> Result<Tensor> {
    let data = [1.0f32, -2.0].map(f32::to_ne_bytes).concat();
    machine.upload(&machine.current_stream()?, TensorSpec::contiguous(DType::F32, &[2])?, data)
}

fn current() -> Result<()> {
    let machine = Machine::new(MachineConfig::default())?;
    let x = upload(&machine)?;
    let side = machine.create_stream(&DeviceId::cpu(0))?;
    let y = machine.call("relu", &[&x]).run()?.remove(0); // on the default stream
    let z = with_stream(&side, || machine.call("add", &[&x, &y]).run())?.remove(0); // on `side`
    assert_eq!(z.read()?, [2.0f32, -2.0].map(f32::to_ne_bytes).concat());
    Ok(())
}

fn options() -> Result<()> {
    let (machine, cpu) = (Machine::new(MachineConfig::default())?, DeviceId::cpu(0));
    let urgent = machine.create_stream_with(&cpu, StreamOptions::default().priority(1))?;
    let first = machine.create_stream_with(&cpu, StreamOptions::default().worker(0))?;
    assert_ne!(urgent.key(), first.key());
    Ok(())
}

fn order() -> Result<()> {
    let machine = Machine::new(MachineConfig::default())?;
    let (a, b) = (machine.current_stream()?, machine.create_stream(&DeviceId::cpu(0))?);
    b.wait_stream(&a)?; // later work on b runs after all earlier work on a
    let event = a.record_event()?;
    b.wait_event(&event)?; // later work on b runs after the record

    let event = machine.event(); // not recorded: waits do nothing, `query` is true
    event.record()?; // on the current stream
    with_stream(&b, || event.wait())?; // the current stream waits
    event.record_on(&b)?; // a new generation; earlier waits are still for the first
    Ok(())
}

fn host() -> Result<()> {
    let machine = Machine::new(MachineConfig::default())?;
    let stream = machine.current_stream()?;
    let event = stream.record_event()?;
    event.synchronize()?;
    stream.synchronize_for(Duration::from_secs(10))?; // an error if it takes longer
    machine.synchronize()?;
    let all_done = machine.completion()?; // all work submitted so far; also a future
    all_done.wait()?;
    assert!(event.query() && stream.query()?);
    Ok(())
}

fn time() -> Result<f64> {
    let machine = Machine::new(MachineConfig::default())?;
    let x = upload(&machine)?;
    let (start, end) = (machine.timed_event(), machine.timed_event());
    start.record()?;
    machine.call("relu", &[&x]).run()?;
    end.record()?;
    end.synchronize()?;
    let milliseconds = start.elapsed_time(&end)?;
    Ok(milliseconds)
}

/// Runs all snippets.
///
/// # Errors
/// None is expected.
pub(crate) fn run() -> Result<f64> {
    current()?;
    options()?;
    order()?;
    host()?;
    time()
}

fn main() -> Result<()> {
    println!("{} ms", run()?);
    Ok(())
}
