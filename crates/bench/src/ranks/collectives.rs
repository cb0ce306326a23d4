//! Each collective by size, through a stream and as the bare call.
//!
//! A call through a stream is submitted and waited for, as one whose result is needed at once. The
//! bare call blocks. Both use tensors of the same sizes.

use std::time::Instant;

use anyhow::Result;
use millstream::comm::mpi::BareCollective;
use millstream::{DType, DeviceId, Stream, StreamKey, StreamType, Tensor};

use super::{Ranks, Row, floats, row};

/// A collective: its op, and the bare one.
const COLLECTIVES: [(&str, BareCollective); 9] = [
    ("allreduce_", BareCollective::AllReduce),
    ("reduce_", BareCollective::Reduce),
    ("broadcast_", BareCollective::Broadcast),
    ("allgather_", BareCollective::AllGather),
    ("reduce_scatter_", BareCollective::ReduceScatter),
    ("alltoall_", BareCollective::AllToAll),
    ("gather_to_", BareCollective::Gather),
    ("scatter_from_", BareCollective::Scatter),
    ("send", BareCollective::SendReceive),
];

/// The bytes that a round passes on at least, and the most calls of a round.
const ROUND: (u64, u64) = (16 << 20, 100);

/// Measures all collectives.
pub(super) fn run(ranks: &Ranks, least: u64, most: u64) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (op, bare) in COLLECTIVES {
        let mut bytes = least;
        while bytes <= most {
            rows.push(one(ranks, (op, bare), bytes)?);
            bytes *= 4;
        }
    }
    Ok(rows)
}

/// The tensors of a collective, and how it is called.
struct Calls<'a> {
    ranks: &'a Ranks,
    op: &'static str,
    /// What the rank gives.
    given: Tensor,
    /// What it gets, where that is another tensor.
    taken: Tensor,
    ring: Stream,
}

impl Calls<'_> {
    /// Makes the call and waits for its end.
    fn call(&self) -> Result<()> {
        let machine = &self.ranks.machine;
        let (rank, ranks) = (self.ranks.rank(), self.ranks.ranks());
        let (given, taken) = (&self.given, &self.taken);
        let both: Vec<&Tensor> = match self.op {
            "allreduce_" | "reduce_" | "broadcast_" | "send" => vec![given],
            "gather_to_" if rank == 0 => vec![given, taken],
            "gather_to_" => vec![given],
            "scatter_from_" if rank == 0 => vec![taken, given],
            "scatter_from_" => vec![taken],
            _ => vec![taken, given],
        };
        let call = machine.call(self.op, &both);
        let call = match self.op {
            "reduce_" | "broadcast_" | "gather_to_" | "scatter_from_" => call.attr("root", 0),
            "send" => call.attr("to", ((rank + 1) % ranks) as i64),
            _ => call,
        };
        call.on(&self.ring)?;
        if self.op == "send" {
            let from = ((rank + ranks - 1) % ranks) as i64;
            machine.call("recv_", &[taken]).attr("from", from).on(&self.ring)?;
        }
        Ok(machine.synchronize()?)
    }
}

fn one(ranks: &Ranks, (op, bare): (&'static str, BareCollective), bytes: u64) -> Result<Row> {
    let count = ranks.ranks();
    let part = (bytes as usize / 4).div_ceil(count);
    let whole = part * count;
    let (given, taken) = match bare {
        BareCollective::AllGather | BareCollective::Gather => (part, whole),
        BareCollective::ReduceScatter | BareCollective::Scatter => (whole, part),
        _ => (whole, whole),
    };
    let machine = &ranks.machine;
    let ring = machine.stream(&StreamKey::new(DeviceId::cpu(0), StreamType::CCL, 0))?;
    let zeros = |numel: usize| Tensor::zeros(numel, DType::F32, &ring);
    let calls = Calls { ranks, op, given: zeros(given)?, taken: zeros(taken)?, ring: ring.clone() };
    let (mut given, mut taken) = (floats(given)?, floats(taken)?);
    let repetitions = (ROUND.0 / bytes).clamp(2, ROUND.1) as u32;
    calls.call()?;
    let before = ranks.mpi.messages();
    let mut times = Vec::new();
    for round in 0..=ranks.rounds {
        let begun = |ranks: &Ranks| ranks.meet().map(|()| Instant::now());
        let begun = begun(ranks)?;
        for _ in 0..repetitions {
            calls.call()?;
        }
        let own = ranks.slowest(begun.elapsed())?;
        // The buffers are used again, as the tensors are.
        let unused = (floats(0)?, floats(0)?);
        let (given_now, taken_now) =
            (std::mem::replace(&mut given, unused.0), std::mem::replace(&mut taken, unused.1));
        let (bare_time, received) =
            ranks.mpi.bare(bare, given_now.clone(), taken_now, repetitions)?;
        (given, taken) = (given_now, received);
        let other = ranks.slowest(bare_time)?;
        // The first round warms up.
        if round > 0 {
            times.push((own / f64::from(repetitions), other / f64::from(repetitions)));
        }
    }
    let calls_made = f64::from(repetitions * (ranks.rounds + 1));
    let sent = (ranks.mpi.messages() - before) as f64 / calls_made;
    let messages = ranks.of_all(sent)?.iter().sum();
    let bytes = whole as u64 * 4;
    Ok(row(("collective", op.to_owned(), bytes), count, &times, Some(messages)))
}
