//! The comparison of the ranks' collectives before their programs run.
//!
//! Each rank gives a table with a hash for each channel, which covers all calls of its program.
//! Where two hashes differ, the ranks give the calls of that channel, and every rank finds the
//! first one in which they differ. So nothing runs, and no data moves, and every rank has the same
//! error. The tables are exchanged as collectives of a group that no program names.
//!
//! Ranks whose calls match may still wait for one another in a cycle. If all make their calls in
//! one order, they do not; otherwise the first rank verifies the lists of all.
//!
//! A rank whose calls depend on data has no table. Its calls are compared when they are made.

use std::collections::BTreeMap;

use millstream_comm::{CommError, Communicator};
use millstream_instructions::InstructionList;
use millstream_instructions::text::{parse_list, print_list};
use millstream_trace::Program;
use millstream_verify::{ChannelCalls, CommunicatorRules, rank_calls, verify_ranks};

use crate::exchange::Exchange;

/// A channel in a rank's table: its name, its ranks, whether it is one of messages, the number of
/// its calls and their hash.
type Row = (String, Vec<usize>, bool, usize, String);

/// What a rank gives: the hash of the program's text, if it runs a part of it, its table, and a
/// hash of the order of its calls.
type Given = (Option<String>, Option<(Vec<Row>, String)>);

/// A call, with its place in the program: in what the ranks agree, and the text for errors.
type Text = (String, String);

/// A reserved group index.
const GROUP: u32 = u32::MAX - 1;

/// Compares the lists of all ranks, each of which gives its own. Blocks until all have.
///
/// # Errors
/// Two ranks call different things, or wait for one another; or a rank has ended.
pub(crate) fn compare(
    communicator: &dyn Communicator,
    program: &Program,
    list: Option<&InstructionList>,
    rules: CommunicatorRules,
) -> Result<(), CommError> {
    let own = list.map(|list| rank_calls(list, communicator.rank(), communicator.ranks()));
    let table = own.as_ref().map(|own| (own.iter().map(row).collect(), order(own)));
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
    let (tables, orders): (Vec<_>, Vec<_>) = tables.into_iter().map(Option::unzip).unzip();
    let Some(channel) = first_mismatch(&tables) else {
        let may_wait = orders.iter().all(Option::is_some) && orders.iter().any(|o| *o != orders[0]);
        return list.filter(|_| may_wait).map_or(Ok(()), |list| verify(&mut exchange, list, rules));
    };
    let own = own.as_ref().and_then(|own| own.iter().find(|calls| calls.channel == channel));
    let calls: Vec<Text> = own.map_or_else(Vec::new, |own| {
        own.calls.iter().map(|call| (call.text.clone(), call.site.clone())).collect()
    });
    let calls: Vec<Vec<Text>> = exchange.all(&calls)?;
    let ranks = tables.iter().flatten().flatten().find(|row| row.0 == channel);
    let ranks = ranks.map_or_else(Vec::new, |row| row.1.clone());
    Err(difference(&channel, &ranks, &calls))
}

/// Verifies the lists of all ranks on the first one.
///
/// # Errors
/// They do not meet, or a rank has ended.
fn verify(
    exchange: &mut Exchange<'_>,
    list: &InstructionList,
    rules: CommunicatorRules,
) -> Result<(), CommError> {
    let texts: Vec<String> = exchange.on_first(&print_list(list))?;
    let lists = texts.iter().map(|text| parse_list(text).map_err(CommError::new));
    let lists = lists.collect::<Result<Vec<_>, _>>()?;
    let verdict = verify_ranks(&lists.iter().collect::<Vec<_>>(), rules);
    let found: Vec<Vec<String>> =
        exchange.all(&verdict.violations.iter().map(ToString::to_string).collect())?;
    match found.into_iter().flatten().next() {
        Some(violation) => Err(CommError::new(violation)),
        None => Ok(()),
    }
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

fn hash<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&text.len().to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// Returns a hash of the order of a rank's calls.
fn order(own: &[ChannelCalls]) -> String {
    let of = own.iter().flat_map(|of| of.calls.iter().map(|call| (call.order, &*of.channel)));
    let mut calls: Vec<(usize, &str)> = of.collect();
    calls.sort_unstable();
    hash(calls.into_iter().map(|(_, channel)| channel))
}

fn row(of: &ChannelCalls) -> Row {
    let ChannelCalls { channel, ranks, is_messages, calls } = of;
    let hash = hash(calls.iter().map(|call| &*call.text));
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
