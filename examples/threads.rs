//! A machine used by several threads: each works on a stream of its own, and all on one tensor.

use std::thread;

use millstream::{DeviceId, Machine, MachineConfig, Result, Tensor, with_stream};

const THREADS: u64 = 4;

/// Returns the sum of what the threads have added to a common tensor.
///
/// # Errors
/// None is expected.
pub(crate) fn total() -> Result<i64> {
    let machine = Machine::new(MachineConfig::default())?;
    let sum = Tensor::full(1, 0, &machine)?;
    let work = |number: u64| -> Result<()> {
        let stream = machine.create_stream(&DeviceId::cpu(0))?;
        with_stream(&stream, || {
            let own = Tensor::randint(0..10, 1000, number, &machine)?;
            // The machine orders the threads' writes to the sum.
            sum.add_(&own.ge(0)?.sum(..)?)?;
            Ok(())
        })
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|k| {
                let work = &work;
                scope.spawn(move || work(k))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    sum.item()
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    println!("{}", total()?);
    Ok(())
}
