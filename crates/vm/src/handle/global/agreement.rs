//! Exchange of small values between the ranks of a mesh, to compare what they do.

use std::hash::BuildHasher;

use millstream_types::{DType, Error, Mesh, Result, StreamKey, StreamType};
use rustc_hash::FxBuildHasher;

use crate::handle::machine::Machine;
use crate::handle::{Tensor, request};

/// The most bytes of a line in an error.
const LINE: usize = 256;

/// Returns the words of each rank of a mesh, in its order. All of them call this with equally many
/// words; waits for them.
pub(crate) fn exchange(machine: &Machine, mesh: &Mesh, own: &[i64]) -> Result<Vec<Vec<i64>>> {
    let _below = request::suspend(&[request::Rank::Record, request::Rank::Trace]);
    let (stream, ranks) = (machine.current_stream()?, mesh.ranks());
    let given = Tensor::from_slice(own, own.len(), &stream)?;
    let out = Tensor::zeros(own.len() * ranks.len(), DType::I64, &stream)?;
    let mut group: Vec<i64> = ranks.iter().map(|rank| i64::from(*rank)).collect();
    group.sort_unstable();
    let ring = StreamKey::new(stream.key().device.clone(), StreamType::CCL, 0);
    let call = machine.call("allgather_", &[&out, &given]).attr("group", group.clone());
    call.collective_on(&machine.stream(&ring)?)?;
    let all = out.to_vec::<i64>()?;
    let of_rank = |rank: &u32| {
        let at = group.iter().position(|of| *of == i64::from(*rank)).unwrap_or(0);
        all[at * own.len()..][..own.len()].to_vec()
    };
    Ok(ranks.iter().map(of_rank).collect())
}

/// Returns the text of each rank of a mesh, in its order, cut to `LINE` bytes. All of them call
/// this; waits for them.
pub(crate) fn exchange_text(machine: &Machine, mesh: &Mesh, own: &str) -> Result<Vec<String>> {
    let mut bytes = own.as_bytes().to_vec();
    bytes.resize(LINE, 0);
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, b| word << 8 | i64::from(*b));
    let words: Vec<i64> = bytes.chunks_exact(8).map(word).collect();
    let text = |words: Vec<i64>| {
        let bytes: Vec<u8> = words.into_iter().flat_map(i64::to_be_bytes).collect();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    };
    Ok(exchange(machine, mesh, &words)?.into_iter().map(text).collect())
}

/// Checks that all ranks of a mesh compile the same function, which `lines` describe. All of them
/// call this; waits for them.
///
/// # Errors
/// Two ranks differ, with the first line in which they do.
pub(crate) fn check(machine: &Machine, mesh: &Mesh, lines: &[String]) -> Result<()> {
    let is_alone = mesh.ranks().len() == 1;
    if is_alone || super::coordinates(machine, mesh).is_none() {
        return Ok(());
    }
    let hash = FxBuildHasher;
    let digest = hash.hash_one(lines) as i64;
    let digests = exchange(machine, mesh, &[digest, lines.len() as i64])?;
    if digests.iter().all(|of| *of == digests[0]) {
        return Ok(());
    }
    let most = digests.iter().map(|of| of[1] as usize).max().unwrap_or(0);
    let mut hashes: Vec<i64> = lines.iter().map(|line| hash.hash_one(line) as i64).collect();
    hashes.resize(most, 0);
    let hashes = exchange(machine, mesh, &hashes)?;
    let first = (0..most).find_map(|line| {
        let other = hashes.iter().position(|of| of[line] != hashes[0][line])?;
        Some((line, other))
    });
    let (line, other) = first.unwrap_or_default();
    let own = lines.get(line).map_or("nothing more", String::as_str);
    let texts = exchange_text(machine, mesh, own)?;
    let message = format!(
        "the ranks of mesh {mesh} compile different functions: rank {} has {}, rank {} has {}; \
         all of them compile the same one",
        mesh.ranks()[other],
        texts[other],
        mesh.ranks()[0],
        texts[0]
    );
    Err(Error::Invalid { what: "function", message })
}
