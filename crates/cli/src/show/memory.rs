//! Shows the memory of a run.

use std::io::{self, Write};

use crate::run::Ran;
use millstream_terminal::table::{bytes, new_table};

/// Prints the memory of each device and stream, and how requests for it were satisfied.
pub(crate) fn print(ran: &Ran, out: &mut dyn Write, terminal: bool) -> io::Result<()> {
    let header = ["memory", ">in use", ">peak", ">cached", ">pending"];
    for (rank, report) in ran.ranks.iter().enumerate() {
        for plan in &report.remat {
            writeln!(out, "{}", ran.name(rank, &plan.to_string()))?;
        }
        for device in &report.memory {
            let usage = &device.usage;
            let mut table = new_table(terminal, &header);
            let mut row = |name: String, of: [u64; 4]| {
                table.add_row([vec![name], of.map(bytes).to_vec()].concat());
            };
            let name = ran.name(rank, &usage.device.to_string());
            row(name.clone(), [usage.in_use, usage.peak, usage.cached, usage.pending]);
            for (used, key) in usage.streams.iter().zip(&device.streams) {
                let of = [used.in_use, used.peak, used.cached, used.pending];
                row(ran.name(rank, &key.to_string()), of);
            }
            writeln!(out, "{table}")?;
            let limit = usage.limit.map(|l| format!(" of {}", bytes(l))).unwrap_or_default();
            let (reserved, peak) = (bytes(usage.reserved), bytes(usage.reserved_peak));
            writeln!(out, "{name}: {reserved}{limit} reserved (peak {peak})")?;
            let steps = usage.steps.named().into_iter().filter(|(_, count)| *count > 0);
            let steps: Vec<String> =
                steps.map(|(step, count)| format!("{count} {}", step.replace('_', " "))).collect();
            writeln!(out, "steps: {}", steps.join(", "))?;
        }
    }
    Ok(())
}
