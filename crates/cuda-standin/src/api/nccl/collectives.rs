//! The collectives of NCCL, by their names in its library.

use std::ffi::c_int;

use millstream_comm::Collective;

use super::take;
use crate::ranks::{Kind, Operation, dtype, reduction};
use crate::state::driver;

/// Returns the number of ranks and the position of a communicator, which may not exist.
fn about(comm: u64) -> (usize, usize) {
    let state = driver().lock();
    state.comms.get(&comm).map_or((1, 0), |comm| (comm.group.ranks, comm.position))
}

/// Defines calls of the library, with their addresses, their number of elements, the type of these
/// and further numbers, and the communicator: what is called, and the memory that the rank gives
/// and gets.
macro_rules! calls {
    ($($name:ident($($at:ident),*; $count:ident, $dtype:ident $(, $number:ident)*; $comm:ident) {
        $kind:expr, $given:expr, $taken:expr
    })*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($at: u64,)*
            $count: usize,
            $dtype: c_int,
            $($number: c_int,)*
            $comm: u64,
            stream: u64,
        ) -> c_int {
            // None if the stand-in does not know a number.
            let operation = || {
                let (op, dtype) = (stringify!($name), dtype($dtype)?);
                Some(Operation { op, kind: $kind, dtype, given: $given, taken: $taken })
            };
            take(stringify!($name), $comm, stream, operation())
        }
    )*};
}

calls! {
    ncclAllReduce(from, to; count, dtype, op; comm) {
        Kind::Collective(Collective::AllReduce(reduction(op)?)),
        Some((from, count)),
        Some((to, count))
    }
    ncclReduce(from, to; count, dtype, op, root; comm) {
        Kind::Collective(Collective::Reduce { reduction: reduction(op)?, root: root as usize }),
        Some((from, count)),
        (about(comm).1 as c_int == root).then_some((to, count))
    }
    ncclAllGather(from, to; count, dtype; comm) {
        Kind::Collective(Collective::AllGather { counts: vec![count; about(comm).0] }),
        Some((from, count)),
        Some((to, count * about(comm).0))
    }
    ncclReduceScatter(from, to; count, dtype, op; comm) {
        Kind::Collective(Collective::ReduceScatter {
            reduction: reduction(op)?,
            counts: vec![count; about(comm).0],
        }),
        Some((from, count * about(comm).0)),
        Some((to, count))
    }
    ncclSend(from; count, dtype, peer; comm) {
        Kind::Send(peer as usize), Some((from, count)), None
    }
    ncclRecv(to; count, dtype, peer; comm) {
        Kind::Receive(peer as usize), None, Some((to, count))
    }
}

/// A broadcast. A root that has its result in other memory sends it a message, too.
#[unsafe(no_mangle)]
unsafe extern "C" fn ncclBroadcast(
    from: u64,
    to: u64,
    count: usize,
    number: c_int,
    root: c_int,
    comm: u64,
    stream: u64,
) -> c_int {
    let own = about(comm).1;
    let broadcast = Kind::Collective(Collective::Broadcast { root: root as usize });
    let (given, taken) = (Some((from, count)), Some((to, count)));
    let mut all = match own as c_int == root {
        true => vec![(broadcast, given, None)],
        false => vec![(broadcast, None, taken)],
    };
    if own as c_int == root && from != to {
        all.extend([(Kind::Send(own), given, None), (Kind::Receive(own), None, taken)]);
    }
    let mut calls = all.into_iter().map(|(kind, given, taken)| {
        let of = |dtype| Operation { op: "ncclBroadcast", kind, dtype, given, taken };
        take("ncclBroadcast", comm, stream, dtype(number).map(of))
    });
    calls.find(|code| *code != 0).unwrap_or(0)
}
