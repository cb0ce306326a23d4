//! The calls that every backend makes, with the results of the ranks of one process. Tests of
//! backends elsewhere include this file by its path.

use std::time::Duration;

use millstream_comm::{
    Buffer, Call, Channel, Collective, Elements, Outcome, ProcessGroup, ReduceOp, Slot,
};
use millstream_types::{DType, Origin};

/// How long an outcome may take: far longer than it does, unless it never comes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Returns the elements of a rank: different from one another, and none exact in the sums.
pub(crate) fn values(dtype: DType, numel: usize, rank: usize) -> Buffer {
    let mut buffer = Buffer::zeros(Elements { dtype, numel }).unwrap();
    let mut state = 0x9e37_79b9_u32.wrapping_mul(rank as u32 + 1);
    for (k, element) in buffer.bytes_mut().chunks_exact_mut(dtype.size()).enumerate() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223 + k as u32);
        let small = (state >> 8) as f32 / (1 << 24) as f32 + 0.5;
        match dtype {
            DType::F32 => element.copy_from_slice(&small.to_ne_bytes()),
            DType::F64 => element.copy_from_slice(&f64::from(small).to_ne_bytes()),
            DType::F16 => element.copy_from_slice(&half::f16::from_f32(small).to_ne_bytes()),
            DType::BF16 => element.copy_from_slice(&half::bf16::from_f32(small).to_ne_bytes()),
            DType::Bool => element[0] = (state >> 31) as u8,
            _ => element.iter_mut().zip(state.to_ne_bytes()).for_each(|(to, byte)| *to = byte),
        }
    }
    buffer
}

/// The calls of one rank, without their numbers.
struct Calls {
    rank: usize,
    ranks: usize,
    made: Vec<Call>,
}

impl Calls {
    fn add(
        &mut self,
        channel: Channel,
        op: &'static str,
        collective: Collective,
        given: Vec<Buffer>,
        expected: Vec<Elements>,
    ) {
        let number = self.made.iter().filter(|call| call.slot.channel == channel).count() as u64;
        let slot = Slot { channel, number };
        let origin = Origin::Unknown;
        self.made.push(Call { slot, collective, op, given, expected, origin });
    }
}

/// Returns the calls of a rank: every collective with every dtype, also without elements for some
/// rank, in groups, as messages.
pub(crate) fn calls(rank: usize, ranks: usize) -> Vec<Call> {
    let mut calls = Calls { rank, ranks, made: Vec::new() };
    let all = Channel::Collectives(ProcessGroup::all(ranks));
    for dtype in DType::REAL {
        for numel in [1, 7, 5000] {
            let x = values(dtype, numel, rank);
            let of_x = x.elements();
            let of = |numel| Elements { dtype, numel };
            let reductions = match dtype {
                DType::Bool => vec![ReduceOp::Min, ReduceOp::Max],
                _ if dtype.is_float() => ReduceOp::ALL.to_vec(),
                _ => vec![ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max],
            };
            for reduction in reductions {
                let twice = vec![x.clone(), x.clone()];
                calls.add(
                    all.clone(),
                    "allreduce_",
                    Collective::AllReduce(reduction),
                    twice,
                    vec![of_x; 2],
                );
                let collective = Collective::Reduce { reduction, root: ranks - 1 };
                calls.add(all.clone(), "reduce_", collective, vec![x.clone()], vec![of_x]);
                // Uneven parts, one of them empty.
                let mut counts: Vec<usize> =
                    (0..ranks).map(|r| if r == 1 { 0 } else { numel / ranks }).collect();
                counts[0] += numel - counts.iter().sum::<usize>();
                let own = of(counts[rank]);
                let collective = Collective::ReduceScatter { reduction, counts };
                calls.add(all.clone(), "reduce_scatter_", collective, vec![x.clone()], vec![own]);
            }
            let given = if rank == 0 { vec![x.clone()] } else { Vec::new() };
            let expected = if rank == 0 { Vec::new() } else { vec![of_x] };
            calls.add(
                all.clone(),
                "broadcast_",
                Collective::Broadcast { root: 0 },
                given,
                expected,
            );
            let counts: Vec<usize> = (0..ranks).map(|r| numel * r).collect();
            let total = of(counts.iter().sum());
            let part = values(dtype, counts[rank], rank);
            calls.add(
                all.clone(),
                "allgather_",
                Collective::AllGather { counts: counts.clone() },
                vec![part.clone()],
                vec![total],
            );
            let root = 1;
            let expected = if rank == root { vec![total] } else { Vec::new() };
            calls.add(
                all.clone(),
                "gather_to_",
                Collective::Gather { root, counts: counts.clone() },
                vec![part],
                expected,
            );
            let given =
                if rank == root { vec![values(dtype, total.numel, rank)] } else { Vec::new() };
            calls.add(
                all.clone(),
                "scatter_from_",
                Collective::Scatter { root, counts: counts.clone() },
                given,
                vec![of(counts[rank])],
            );
            // Rank r gives numel · (r + to) elements to rank `to`.
            let sent: Vec<usize> = (0..ranks).map(|to| numel * (rank + to)).collect();
            let given = vec![values(dtype, sent.iter().sum(), rank)];
            let expected = vec![of(sent.iter().sum())];
            calls.add(
                all.clone(),
                "alltoall_",
                Collective::AllToAll { received: sent.clone(), sent },
                given,
                expected,
            );
            // Rank 0 takes no part but its call: Open MPI 4.1 confused the next operations then.
            let of_pair = |a: usize, b: usize| if a == 0 || b == 0 { 0 } else { numel + a };
            let sent: Vec<usize> = (0..ranks).map(|to| of_pair(rank, to)).collect();
            let received: Vec<usize> = (0..ranks).map(|from| of_pair(from, rank)).collect();
            let given = vec![values(dtype, sent.iter().sum(), rank)];
            let expected = vec![of(received.iter().sum())];
            let collective = Collective::AllToAll { sent, received };
            calls.add(all.clone(), "alltoall_", collective, given, expected);
            let (to, from) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            calls.add(
                Channel::Receive { from, tag: 3 },
                "recv_",
                Collective::Receive,
                Vec::new(),
                vec![of_x],
            );
            calls.add(
                Channel::Send { to, tag: 3 },
                "send",
                Collective::Send,
                vec![x.clone()],
                Vec::new(),
            );
            calls.add(
                Channel::Barriers,
                "global_sync",
                Collective::Barrier,
                Vec::new(),
                Vec::new(),
            );
            for index in 0..2 {
                let group = ProcessGroup::new(&[0, ranks - 1], index, ranks).unwrap();
                if group.position(rank).is_some() {
                    let channel = Channel::Collectives(group);
                    calls.add(
                        channel,
                        "allreduce_",
                        Collective::AllReduce(ReduceOp::Sum),
                        vec![x.clone()],
                        vec![of_x],
                    );
                }
            }
        }
    }
    let Calls { rank, ranks, mut made } = calls;
    // Each rank starts its calls in an order of its own.
    assert!(rank < ranks);
    let half = made.len() / 2;
    made.rotate_left(half * rank / ranks);
    made
}

/// Returns the bytes of an outcome.
pub(crate) fn bytes(outcome: &Outcome) -> Result<Vec<Vec<u8>>, String> {
    let buffers = outcome.as_ref().map_err(ToString::to_string)?;
    Ok(buffers.iter().map(|buffer| buffer.bytes().to_vec()).collect())
}
