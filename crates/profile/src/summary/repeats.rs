//! What repeats, as tables.

use std::io::{self, Write};

use millstream_terminal::table::new_table;

use crate::model::Profile;
use crate::repeats::{Repeat, of};

use super::text::{ShortNames, Show, more, share};

/// Prints what repeats, if anything does.
pub(super) fn write(profile: &Profile, show: Show, out: &mut dyn Write) -> io::Result<()> {
    let repeats = of(profile);
    if repeats.is_empty() {
        return Ok(());
    }
    let names = ShortNames::of(profile);
    let call = |k: u32| &profile.instructions[k as usize];
    let place = |k: u32| names.place(profile.place_of(call(k)));
    writeln!(out, "calls that repeat: use `Machine::traced`, or `--replay` for a whole trace")?;
    let header = ["repeats from", "to", ">calls", ">rounds", ">share", ">first instructions"];
    let mut table = new_table(show.terminal, &header);
    let (mut other, mut others) = (0, new_table(show.terminal, &OTHERS));
    for repeat in repeats.iter().take(show.rows) {
        let Repeat { calls, rounds, first: [from, to], depth, around, differing } = repeat;
        table.add_row([
            format!("{}{}", "· ".repeat(*depth), place(*from)),
            place(*to),
            calls.to_string(),
            rounds.to_string(),
            share((calls * rounds) as u64, *around as u64),
            format!("{from} to {to}"),
        ]);
        for &[one, then] in differing {
            let arguments = |k| profile.arguments_of(call(k)).unwrap_or_default().to_owned();
            let name = profile.name_of(call(one)).to_owned();
            if other < show.rows {
                others.add_row([name, place(one), arguments(one), arguments(then)]);
            }
            other += 1;
        }
    }
    writeln!(out, "{table}")?;
    more(out, repeats.len(), show.rows)?;
    if other > 0 {
        writeln!(out, "arguments that differ between rounds: give these to the traced function")?;
        writeln!(out, "{others}")?;
        more(out, other, show.rows)?;
    }
    Ok(())
}

/// The header of the table of calls whose arguments differ between rounds.
const OTHERS: [&str; 4] = ["other arguments", "at", "first", "then"];
