//! The comparison of the ranks' collectives before their programs run.
//!
//! Each rank gives a table with a hash for each channel, which covers all calls of its program.
//! Where two hashes differ, the ranks give the calls of that channel, and every rank finds the
//! first one in which they differ. So nothing runs, and no data moves, and every rank has the same
//! error. The tables are exchanged as collectives of a group that no program names.
//!
//! A rank whose calls depend on data has no table. Its calls are compared when they are made.

use std::collections::BTreeMap;

use millstream_comm::{CommError, Communicator};
use millstream_trace::Program;
use millstream_verify::ChannelCalls;

use crate::exchange::Exchange;

/// A channel in a rank's table: its name, its ranks, whether it is one of messages, the number of
/// its calls and their hash.
type Row = (String, Vec<usize>, bool, usize, String);

/// What a rank gives: the hash of the program's text, if it runs a part of it, and its table.
type Given = (Option<String>, Option<Vec<Row>>);

/// A call, with its place in the program: in what the ranks agree, and the text for errors.
type Text = (String, String);

/// A reserved group index.
const GROUP: u32 = u32::MAX - 1;

/// Compares the calls of all ranks, each of which gives its own. Blocks until all have.
///
/// # Errors
/// Two ranks call different things, or a rank has ended.
pub(crate) fn compare(
    communicator: &dyn Communicator,
    program: &Program,
    own: Option<&[ChannelCalls]>,
) -> Result<(), CommError> {
    let table: Option<Vec<Row>> = own.map(|own| own.iter().map(row).collect());
    let what = "the comparison of the ranks' programs";
    let mut exchange = Exchange { communicator, group: GROUP, what, next: 0 };
    let given: Vec<Given> = exchange.all(&(program_hash(program), table))?;
    let (divided, tables): (Vec<_>, Vec<_>) = given.into_iter().unzip();
    if let Some(other) = divided.iter().position(|text| *text != divided[0]) {
        return Err(CommError::new(format!(
            "ranks 0 and {other} read different programs, and none has run: a program that names \
             ranks is read by all of them"
        )));
    }
    let Some(channel) = first_mismatch(&tables) else { return Ok(()) };
    let own = own.and_then(|own| own.iter().find(|calls| calls.channel == channel));
    let calls: Vec<Text> = own.map_or_else(Vec::new, |own| {
        own.calls.iter().map(|call| (call.text.clone(), call.site.clone())).collect()
    });
    let calls: Vec<Vec<Text>> = exchange.all(&calls)?;
    let ranks = tables.iter().flatten().flatten().find(|row| row.0 == channel);
    let ranks = ranks.map_or_else(Vec::new, |row| row.1.clone());
    Err(difference(&channel, &ranks, &calls))
}

/// Returns the hash (BLAKE3, hexadecimal) of the text of the program that all ranks read, if this
/// is the part or the list of one of them.
pub fn program_hash(program: &Program) -> Option<String> {
    let text = || blake3::hash(program.source.text().as_bytes()).to_hex().to_string();
    match program.is_divided {
        true => Some(text()),
        false => program.rank.as_ref()?.program.clone(),
    }
}

fn row(of: &ChannelCalls) -> Row {
    let ChannelCalls { channel, ranks, is_messages, calls } = of;
    let mut hasher = blake3::Hasher::new();
    for call in calls {
        hasher.update(&call.text.len().to_le_bytes());
        hasher.update(call.text.as_bytes());
    }
    let hash = hasher.finalize().to_hex().to_string();
    (channel.clone(), ranks.clone(), *is_messages, calls.len(), hash)
}

/// Returns the first channel, by name, on which two ranks with a table differ.
fn first_mismatch(tables: &[Option<Vec<Row>>]) -> Option<String> {
    let mut channels: BTreeMap<&str, &Row> = BTreeMap::new();
    for row in tables.iter().flatten().flatten() {
        channels.entry(&row.0).or_insert(row);
    }
    let differs = |(name, row): &(&str, &Row)| {
        // No table: unknown. No row: the rank makes no call of the channel.
        let of = |rank: &usize| {
            let table = tables.get(*rank)?.as_ref()?;
            let found = table.iter().find(|row| row.0 == *name);
            Some(found.map_or((0, ""), |row| (row.3, row.4.as_str())))
        };
        let (ranks, is_messages) = (&row.1, row.2);
        if is_messages {
            let (sent, taken) = (ranks.first().and_then(of), ranks.last().and_then(of));
            let both = sent.zip(taken);
            return both.is_some_and(|(s, t)| t.0 > s.0 || (t.0 == s.0 && t.1 != s.1));
        }
        let known: Vec<(usize, &str)> = ranks.iter().filter_map(of).collect();
        known.windows(2).any(|pair| pair[0] != pair[1])
    };
    channels.into_iter().find(differs).map(|(name, _)| name.to_owned())
}

/// Returns the error of the first calls of a channel in which its ranks differ.
fn difference(channel: &str, ranks: &[usize], calls: &[Vec<Text>]) -> CommError {
    let of = |rank: usize, number: usize| calls.get(rank).and_then(|calls| calls.get(number));
    let most = ranks.iter().filter_map(|&rank| calls.get(rank)).map(Vec::len).max().unwrap_or(0);
    for number in 0..most {
        let Some((one, (text, site))) =
            ranks.iter().find_map(|&rank| Some((rank, of(rank, number)?)))
        else {
            continue;
        };
        for &other in ranks.iter().filter(|rank| **rank != one) {
            match of(other, number) {
                Some((theirs, _)) if theirs == text => {}
                Some((_, theirs)) => {
                    return CommError::new(format!(
                        "the ranks' programs do not meet, and none has run: rank {other} calls \
                         {theirs}, and rank {one} calls {site}, both as number {number} of \
                         {channel}"
                    ));
                }
                None => {
                    return CommError::new(format!(
                        "the ranks' programs do not meet, and none has run: rank {one} calls \
                         {site}, and rank {other} makes no call of its number, {number} of \
                         {channel}"
                    ));
                }
            }
        }
    }
    CommError::new(format!("the ranks' programs do not meet in {channel}, and none has run"))
}
