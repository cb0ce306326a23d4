//! The comparison of the ranks' collectives before their programs run.
//!
//! Each rank gives a hash of its calls in their order. Where all hashes are equal, the ranks meet.
//! Otherwise the first rank verifies the lists of all. So nothing runs, no data moves, and every
//! rank has the same error. The hashes are exchanged as collectives of a group that no program
//! names.
//!
//! If the calls of any rank depend on data, the calls of all are compared when they are made.

use millstream_comm::{CommError, Communicator};
use millstream_instructions::InstructionList;
use millstream_instructions::text::{parse_list, print_list};
use millstream_trace::Program;
use millstream_verify::{CommunicatorRules, rank_calls, verify_ranks};

use crate::exchange::Exchange;

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
    let calls = list.map(|list| rank_calls(list, communicator.rank(), communicator.ranks()));
    let calls = calls.map(|calls| blake3::hash(calls.join("\n").as_bytes()).to_hex().to_string());
    let what = "the comparison of the ranks' programs";
    let mut exchange = Exchange { communicator, group: GROUP, what, next: 0 };
    // Each rank of a folder reads a program of its own.
    let name = program.wholes.as_ref().map(|_| program.source.name().to_owned());
    let given: Vec<[Option<String>; 3]> = exchange.all(&[name, program_hash(program), calls])?;
    let [name, text, calls] = &given[0];
    if let Some(other) = given.iter().position(|[own, of, _]| own == name && of != text) {
        return Err(CommError::new(format!(
            "ranks 0 and {other} read different programs, and none has run: a program that names \
             ranks is read by all of them"
        )));
    }
    let may_differ = given.iter().any(|[.., of]| of != calls);
    match list.filter(|_| may_differ && given.iter().all(|[.., of]| of.is_some())) {
        Some(list) => verify(&mut exchange, list, rules),
        None => Ok(()),
    }
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
        Some(violation) => {
            let message = "the ranks' programs do not meet, and none has run";
            Err(CommError::new(format!("{message}: {violation}")))
        }
        None => Ok(()),
    }
}

/// Returns the hash (BLAKE3, hexadecimal) of the text of the program that all ranks read, if this
/// is the part or the list of one of them.
pub fn program_hash(program: &Program) -> Option<String> {
    let text = || blake3::hash(program.source.text().as_bytes()).to_hex().to_string();
    match program.wholes.is_some() {
        true => Some(text()),
        false => program.rank.as_ref()?.program.clone(),
    }
}
