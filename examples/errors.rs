//! Errors: misuse is refused at the call, a failure at run time travels with the data.

use millstream::{Error, Machine, MachineConfig, Result, Tensor};

/// Returns the messages of the errors that the program runs into.
///
/// # Errors
/// None is expected.
pub(crate) fn messages() -> Result<Vec<String>> {
    let machine = Machine::new(MachineConfig::default())?;
    let mut messages = Vec::new();
    let (x, y) = (Tensor::rand((2, 3), 1u64, &machine)?, Tensor::rand((2, 4), 2u64, &machine)?);

    // Refused at once, with the place of the call.
    if let Err(error) = &x + &y {
        messages.push(error.to_string());
    }
    // The index is data, so this fails while it runs: what depends on it is skipped.
    let wrong = Tensor::from_slice(&[5i64], 1, &machine)?;
    let row = x.index_select(&wrong, 0)?;
    let sum = row.sum(..)?;
    row.synchronize().unwrap_err();
    messages.push(format!("{row:?}"));
    match sum.item::<f32>() {
        Err(error @ Error::Failed(_)) => messages.push(error.to_string()),
        other => messages.push(format!("unexpected: {other:?}")),
    }
    // Other data is not affected.
    messages.push(format!("{} elements of x are readable", x.to_vec::<f32>()?.len()));
    Ok(messages)
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    for message in messages()? {
        println!("{message}");
    }
    Ok(())
}
