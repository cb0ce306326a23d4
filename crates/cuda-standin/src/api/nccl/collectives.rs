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

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclAllReduce(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    op: c_int,
    comm: u64,
    stream: u64,
) -> c_int {
    let operation = dtype(kind).zip(reduction(op)).map(|(dtype, op)| Operation {
        op: "ncclAllReduce",
        kind: Kind::Collective(Collective::AllReduce(op)),
        dtype,
        given: Some((from, count)),
        taken: Some((to, count)),
    });
    take("ncclAllReduce", comm, stream, operation)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclReduce(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    op: c_int,
    root: c_int,
    comm: u64,
    stream: u64,
) -> c_int {
    let (is_root, root) = (about(comm).1 as c_int == root, root as usize);
    let operation = dtype(kind).zip(reduction(op)).map(|(dtype, reduction)| Operation {
        op: "ncclReduce",
        kind: Kind::Collective(Collective::Reduce { reduction, root }),
        dtype,
        given: Some((from, count)),
        taken: is_root.then_some((to, count)),
    });
    take("ncclReduce", comm, stream, operation)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclBroadcast(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    root: c_int,
    comm: u64,
    stream: u64,
) -> c_int {
    let (is_root, root) = (about(comm).1 as c_int == root, root as usize);
    let operation = |(given, taken)| {
        let kind = Kind::Collective(Collective::Broadcast { root });
        move |dtype| Operation { op: "ncclBroadcast", kind, dtype, given, taken }
    };
    let operation = match is_root {
        true => dtype(kind).map(operation((Some((from, count)), None))),
        false => dtype(kind).map(operation((None, Some((to, count))))),
    };
    if is_root && from != to {
        return copy_of_root(from, to, count, kind, comm, stream, operation);
    }
    take("ncclBroadcast", comm, stream, operation)
}

/// Takes a broadcast whose root has its result in other memory: a message to itself.
fn copy_of_root(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    comm: u64,
    stream: u64,
    operation: Option<Operation>,
) -> c_int {
    let own = about(comm).1;
    let message = |kind, given, taken| {
        move |dtype| Operation { op: "ncclBroadcast", kind, dtype, given, taken }
    };
    let send = dtype(kind).map(message(Kind::Send(own), Some((from, count)), None));
    let receive = dtype(kind).map(message(Kind::Receive(own), None, Some((to, count))));
    for operation in [operation, send, receive] {
        let code = take("ncclBroadcast", comm, stream, operation);
        if code != 0 {
            return code;
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclAllGather(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    comm: u64,
    stream: u64,
) -> c_int {
    let (ranks, _) = about(comm);
    let operation = dtype(kind).map(|dtype| Operation {
        op: "ncclAllGather",
        kind: Kind::Collective(Collective::AllGather { counts: vec![count; ranks] }),
        dtype,
        given: Some((from, count)),
        taken: Some((to, count * ranks)),
    });
    take("ncclAllGather", comm, stream, operation)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclReduceScatter(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    op: c_int,
    comm: u64,
    stream: u64,
) -> c_int {
    let (ranks, _) = about(comm);
    let counts = vec![count; ranks];
    let operation = dtype(kind).zip(reduction(op)).map(|(dtype, reduction)| Operation {
        op: "ncclReduceScatter",
        kind: Kind::Collective(Collective::ReduceScatter { reduction, counts }),
        dtype,
        given: Some((from, count * ranks)),
        taken: Some((to, count)),
    });
    take("ncclReduceScatter", comm, stream, operation)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclSend(
    from: u64,
    count: usize,
    kind: c_int,
    peer: c_int,
    comm: u64,
    stream: u64,
) -> c_int {
    let operation = dtype(kind).map(|dtype| Operation {
        op: "ncclSend",
        kind: Kind::Send(peer as usize),
        dtype,
        given: Some((from, count)),
        taken: None,
    });
    take("ncclSend", comm, stream, operation)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclRecv(
    to: u64,
    count: usize,
    kind: c_int,
    peer: c_int,
    comm: u64,
    stream: u64,
) -> c_int {
    let operation = dtype(kind).map(|dtype| Operation {
        op: "ncclRecv",
        kind: Kind::Receive(peer as usize),
        dtype,
        given: None,
        taken: Some((to, count)),
    });
    take("ncclRecv", comm, stream, operation)
}
