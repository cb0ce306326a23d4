//! Exchange of small values between the ranks of a mesh, to compare what they do.

use std::hash::{Hash, Hasher};

use millstream_types::{DType, Error, Mesh, Result, StreamKey, StreamType};
use rustc_hash::FxHasher;

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
    let hash = |of: &dyn Fn(&mut FxHasher)| {
        let mut hasher = FxHasher::default();
        of(&mut hasher);
        hasher.finish() as i64
    };
    let digest = hash(&|hasher| lines.hash(hasher));
    let digests = exchange(machine, mesh, &[digest, lines.len() as i64])?;
    if digests.iter().all(|of| *of == digests[0]) {
        return Ok(());
    }
    let most = digests.iter().map(|of| of[1] as usize).max().unwrap_or(0);
    let mut hashes: Vec<i64> = lines.iter().map(|line| hash(&|hasher| line.hash(hasher))).collect();
    hashes.resize(most, 0);
    let hashes = exchange(machine, mesh, &hashes)?;
    let first = (0..most).find_map(|line| {
        let other = hashes.iter().position(|of| of[line] != hashes[0][line])?;
        Some((line, other))
    });
    let (line, other) = first.unwrap_or_default();
    let mut text = lines.get(line).map_or("nothing more", String::as_str).as_bytes().to_vec();
    text.resize(LINE, 0);
    let words =
        text.chunks_exact(8).map(|bytes| bytes.iter().fold(0, |w, b| w << 8 | i64::from(*b)));
    let texts = exchange(machine, mesh, &words.collect::<Vec<i64>>())?;
    let text = |at: usize| {
        let bytes: Vec<u8> = texts[at].iter().flat_map(|word| word.to_be_bytes()).collect();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    };
    let message = format!(
        "the ranks of mesh {mesh} compile different functions: rank {} has {}, rank {} has {}; \
         all of them compile the same one",
        mesh.ranks()[other],
        text(other),
        mesh.ranks()[0],
        text(0)
    );
    Err(Error::Invalid { what: "function", message })
}
