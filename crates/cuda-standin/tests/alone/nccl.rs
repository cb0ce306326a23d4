//! Collectives by NCCL: the suite of all backends on device memory, the mistakes of ranks, and
//! communicators that fail.
//!
//! Long because it has the devices of the ranks, and the suite of all backends on them.

#[path = "../../../comm/tests/suite/mod.rs"]
mod suite;

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use millstream::comm::{
    Buffer, Call, Channel, Collective, Communicator, DeviceCall, Elements, LocalGroup,
    NcclCommunicator, Outcome, ProcessGroup, ReduceOp, Request,
};
use millstream::ep::cpu::CpuBackend;
use millstream::ep::cuda::nccl::{NcclMemory, NcclReduction, check_reduction};
use millstream::ep::cuda::{CudaBackend, CudaConfig, NativeStream};
use millstream::ep::{Backend, Device, Memory, Progress, Registry, Work, WorkResult};
use millstream::sbp::{B, P, S};
use millstream::{DType, DeviceId, DriverKind, Machine, MachineConfig, Mesh, Stream, StreamKey};
use millstream::{StreamType, Tensor, TensorSpec};
use millstream_backoff::wait_until;
use millstream_cuda_standin::control::Failure;

use crate::{call, no_violations, read, stand_in, upload};
use suite::{LONG, bytes, calls, values};

/// A rank's device, with one stream.
struct RankDevice {
    device: Arc<dyn Device>,
    stream: Box<dyn millstream::ep::Stream>,
}

/// A call's memory on the device.
struct OnDevice {
    given: Vec<(Elements, Box<dyn Memory>)>,
    taken: Vec<(Elements, Box<dyn Memory>)>,
}

impl RankDevice {
    fn open(backend: &CudaBackend, rank: usize) -> RankDevice {
        let device = backend.open(rank as u32).unwrap();
        let stream = device.create_stream(Arc::new(|| ())).unwrap();
        RankDevice { device, stream }
    }

    /// Copies between the host and the device, in the order of the stream.
    fn copy(&mut self, to: *mut u8, from: *const u8, bytes: usize) {
        struct Copy(usize, usize, usize);
        impl Work for Copy {
            fn run(&mut self, native: &dyn std::any::Any) -> WorkResult {
                let native: &NativeStream = native.downcast_ref().unwrap();
                // SAFETY: both are valid until `wait` has returned.
                unsafe { native.copy(self.0 as *mut u8, self.1 as *const u8, self.2) }
            }
            fn detach(&mut self) -> Box<dyn Work> {
                unreachable!("the device runs it at once")
            }
        }
        let progress = self.stream.submit(&mut Copy(to as usize, from as usize, bytes)).unwrap();
        let Progress::Pending(ticket) = progress else { panic!("the device is asynchronous") };
        let (mut is_done, begun) = (false, Instant::now());
        wait_until(|| {
            assert!(begun.elapsed() < LONG, "a copy never completes");
            let mut see = |done, result: WorkResult| {
                result.unwrap();
                is_done |= done == ticket;
            };
            self.stream.poll(&mut see).unwrap();
            is_done
        });
    }

    fn upload(&mut self, buffer: &Buffer) -> (Elements, Box<dyn Memory>) {
        let memory = self.device.allocate(buffer.bytes().len().max(1)).unwrap();
        self.copy(memory.base().as_ptr(), buffer.bytes().as_ptr(), buffer.bytes().len());
        (buffer.elements(), memory)
    }

    fn download(&mut self, elements: Elements, memory: &dyn Memory) -> Vec<u8> {
        let mut bytes = vec![0; elements.numel * elements.dtype.size()];
        self.copy(bytes.as_mut_ptr(), memory.base().as_ptr(), bytes.len());
        bytes
    }

    /// Starts a call on the device.
    fn start(&mut self, nccl: &NcclCommunicator, call: &Call) -> (Request, OnDevice) {
        let given: Vec<_> = call.given.iter().map(|buffer| self.upload(buffer)).collect();
        let zeros = |elements: &Elements| self.upload(&Buffer::zeros(*elements).unwrap());
        let taken: Vec<_> = call.expected.iter().map(zeros).collect();
        let native: &NativeStream = self.stream.native().downcast_ref().unwrap();
        let of = |tensors: &[(Elements, Box<dyn Memory>)]| {
            let each = tensors.iter().map(|(elements, memory)| {
                let bytes = elements.numel * elements.dtype.size();
                // SAFETY: the memory lives until the stream has been waited for.
                (*elements, unsafe { NcclMemory::new(memory.base().as_ptr(), bytes) })
            });
            each.collect()
        };
        let request = nccl.start_on_device(DeviceCall {
            slot: call.slot.clone(),
            collective: call.collective.clone(),
            op: call.op,
            given: of(&given),
            taken: of(&taken),
            origin: call.origin.clone(),
            stream: native.for_collectives(),
        });
        (request, OnDevice { given, taken })
    }
}

/// `ncclRemoteError`.
const REMOTE_ERROR: u32 = 6;

fn outcome(request: Request) -> Outcome {
    let (sender, outcome) = channel();
    request.then(move |got| drop(sender.send(got)));
    outcome.recv_timeout(LONG).expect("an outcome")
}

/// Runs a function as each of so many ranks, each with a device of its own.
fn as_ranks(ranks: usize, run: impl Fn(&Arc<NcclCommunicator>, &mut RankDevice) + Sync) {
    let backend = CudaBackend::new(CudaConfig::default());
    let run = &run;
    thread::scope(|scope| {
        for (rank, base) in LocalGroup::communicators(ranks).into_iter().enumerate() {
            let backend = backend.clone();
            scope.spawn(move || {
                let mut device = RankDevice::open(&backend, rank);
                let nccl = Arc::new(NcclCommunicator::connect(Arc::new(base)).unwrap());
                run(&nccl, &mut device);
            });
        }
    });
}

/// Returns whether NCCL reduces what a call reduces.
fn is_possible(call: &Call) -> bool {
    match call.collective {
        Collective::AllReduce(reduction)
        | Collective::Reduce { reduction, .. }
        | Collective::ReduceScatter { reduction, .. } => {
            let of = match reduction {
                ReduceOp::Min => NcclReduction::Min,
                ReduceOp::Max => NcclReduction::Max,
                _ => NcclReduction::Sum,
            };
            call.given.iter().all(|buffer| check_reduction(buffer.dtype(), of).is_ok())
        }
        _ => true,
    }
}

#[test]
fn the_suite_of_all_backends() {
    let _turn = stand_in().turn();
    for ranks in [2, 4] {
        as_ranks(ranks, |nccl, device| {
            let rank = nccl.rank();
            let local = LocalGroup::communicators(ranks);
            let mut expected = Vec::new();
            for (other, communicator) in local.iter().enumerate() {
                let started = calls(other, ranks).into_iter().map(|call| communicator.start(call));
                let started: Vec<_> = started.collect();
                if other == rank {
                    expected = started;
                }
            }
            let own = calls(rank, ranks);
            let mut started = Vec::new();
            for call in &own {
                started.push(match call.slot.channel {
                    // These are made by the other communicator.
                    Channel::Barriers => (nccl.start(call.clone()), None),
                    _ => {
                        let (request, memory) = device.start(nccl, call);
                        (request, Some(memory))
                    }
                });
            }
            let mut refused = 0;
            for ((call, (request, memory)), expected) in own.iter().zip(started).zip(&expected) {
                let done = outcome(request);
                if !is_possible(call) {
                    let error = done.expect_err("NCCL has no such reduction").to_string();
                    assert!(error.contains("NCCL reduces i8, u8, i32"), "{error}");
                    refused += 1;
                    continue;
                }
                done.unwrap_or_else(|e| panic!("rank {rank}: {call}: {e}"));
                let wanted = bytes(&expected.test().expect("all ranks have called")).unwrap();
                let taken = memory.iter().flat_map(|memory| &memory.taken);
                let got: Vec<Vec<u8>> =
                    taken.map(|(elements, memory)| device.download(*elements, &**memory)).collect();
                // Others than the root of a reduction keep what they had.
                let got = if wanted.is_empty() { Vec::new() } else { got };
                assert!(got == wanted, "rank {rank}: {call}: other bytes");
                for (buffer, (elements, memory)) in
                    call.given.iter().zip(memory.iter().flat_map(|memory| &memory.given))
                {
                    let kept = device.download(*elements, &**memory);
                    assert!(kept == buffer.bytes(), "rank {rank}: {call}: changed what it gives");
                }
            }
            assert!(refused < own.len() / 3, "{refused} of {} calls were refused", own.len());
        });
    }
    no_violations();
}

/// A sum of all ranks.
fn sum(nccl: &NcclCommunicator, number: u64, reduction: ReduceOp) -> Call {
    let group = ProcessGroup::all(nccl.ranks());
    let x = values(DType::F32, 3, nccl.rank());
    Call {
        slot: millstream::comm::Slot { channel: Channel::Collectives(group), number },
        collective: Collective::AllReduce(reduction),
        op: "allreduce_",
        expected: vec![x.elements()],
        given: vec![x],
        origin: millstream::Origin::Unknown,
    }
}

#[test]
fn mistakes_are_found_before_a_launch() {
    let _turn = stand_in().turn();
    as_ranks(2, |nccl, device| {
        let rank = nccl.rank();
        let fails = |request: Request, text: &str| {
            let error = outcome(request).expect_err(text).to_string();
            assert!(error.contains(text), "rank {rank}: {error}");
        };
        let other = if rank == 0 { ReduceOp::Max } else { ReduceOp::Sum };
        let (started, _memory) = device.start(nccl, &sum(nccl, 0, other));
        fails(started, "rank 0 calls allreduce_(f32[3]; max) by NCCL");
        // One rank's tensor is on its device, the other's on the host.
        let call = sum(nccl, 1, ReduceOp::Sum);
        let (started, _memory) = match rank {
            0 => (nccl.start(call), None),
            _ => {
                let (request, memory) = device.start(nccl, &call);
                (request, Some(memory))
            }
        };
        fails(started, "allreduce_(f32[3]; sum) by NCCL");
        let call = sum(nccl, 2, ReduceOp::Sum);
        if rank == 0 {
            nccl.skip(call.slot, call.op, "no operand");
        } else {
            let (started, _memory) = device.start(nccl, &call);
            fails(started, "rank 0 has skipped allreduce_: no operand");
        }
        // All of that has launched nothing, and the next call succeeds.
        let (started, memory) = device.start(nccl, &sum(nccl, 3, ReduceOp::Sum));
        outcome(started).unwrap();
        let (elements, memory) = &memory.taken[0];
        device.download(*elements, &**memory);
    });
    no_violations();
}

/// Runs a function as each of so many ranks, each with a machine on a device of its own.
fn as_machines(ranks: usize, run: impl Fn(&Machine, usize) + Sync) {
    let run = &run;
    thread::scope(|scope| {
        for (rank, base) in LocalGroup::communicators(ranks).into_iter().enumerate() {
            scope.spawn(move || {
                let mut kernels = millstream::kernels::standard();
                millstream_cuda_standin::register(&mut kernels);
                let devices = Registry::new();
                devices.register(Arc::new(CpuBackend::new()));
                CudaBackend::new(CudaConfig::default()).register(&devices);
                let nccl = NcclCommunicator::connect(Arc::new(base)).unwrap();
                let config =
                    MachineConfig::of(millstream::ops::standard(), kernels, Arc::new(devices))
                        .driver(DriverKind::Threaded)
                        .threads(1)
                        .communicator(Arc::new(nccl));
                run(&Machine::new(config).unwrap(), rank);
            });
        }
    });
}

/// The streams of a rank: one that computes, and one for collectives.
fn streams(m: &Machine, rank: usize) -> (Stream, Stream) {
    let device = DeviceId::cuda(rank as u32);
    let ring = m.stream(&StreamKey::new(device.clone(), StreamType::CCL, 0)).unwrap();
    (m.compute(&device, 0).unwrap(), ring)
}

fn all_reduce(m: &Machine, x: &Tensor, ring: &Stream) -> Tensor {
    m.call("allreduce_", &[x]).attr("op", "sum").collective_on(ring).unwrap().remove(0)
}

#[test]
fn a_machine_orders_collectives_with_its_other_calls() {
    let turn = stand_in().turn();
    as_machines(2, |m, rank| {
        let (compute, ring) = streams(m, rank);
        let mut x = upload(m, &compute, &[1.0, 2.0, 3.0, 4.0]);
        for _ in 0..20 {
            let doubled = call(m, "add", &[&x, &x], &compute);
            x = all_reduce(m, &doubled, &ring);
            x = m.call("mul", &[&x]).attr("other", 0.25).on(&compute).unwrap().remove(0);
        }
        assert_eq!(read(&x).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        // A strided operand goes through a dense copy on the device.
        let column = m.call("slice", &[&x]).attr("dim", 0).attr("step", 2);
        let column = column.on(&compute).unwrap().remove(0);
        all_reduce(m, &column, &ring);
        assert_eq!(read(&x).unwrap(), [2.0, 2.0, 6.0, 4.0]);
        let sent = all_reduce(m, &upload(m, &compute, &[rank as f32]), &ring);
        assert_eq!(read(&sent).unwrap(), [1.0]);
        m.barrier().unwrap();
    });
    assert!(turn.calls().iter().any(|line| line.starts_with("ncclAllReduce")));
    no_violations();
}

/// The parts of global tensors are redistributed on the devices.
#[test]
fn global_tensors_stay_on_their_devices() {
    let turn = stand_in().turn();
    let mesh = Mesh::new([1, 0]).unwrap();
    as_machines(2, |m, rank| {
        let compute = streams(m, rank).0;
        // Rank 1 has the first rows.
        let first = if rank == 1 { 0.0 } else { 4.0 };
        let rows: Vec<f32> = (0..4u8).map(|k| first + f32::from(k)).collect();
        let part = upload(m, &compute, &rows).reshape((2, 2)).unwrap();
        let x = part.to_global(&mesh, [S(0)]).unwrap();
        let doubled = x.mul(2.0).unwrap();
        let sums = doubled.sum(0).unwrap();
        assert_eq!(sums.sbp().unwrap(), [P]);
        let sums = sums.redistribute([B]).unwrap().to_local().unwrap();
        assert_eq!(sums.device(), &compute.key().device);
        assert_eq!(read(&sums).unwrap(), [24.0, 32.0]);
        let column = doubled.redistribute([S(1)]).unwrap().to_local().unwrap();
        let own = if rank == 1 { [0.0, 4.0, 8.0, 12.0] } else { [2.0, 6.0, 10.0, 14.0] };
        assert_eq!(read(&column).unwrap(), own);
        let all = doubled.full_tensor().unwrap();
        assert_eq!(read(&all).unwrap(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]);
        m.barrier().unwrap();
    });
    let calls = turn.calls();
    for name in ["ncclAllReduce", "ncclAllGather", "ncclSend", "ncclRecv"] {
        assert!(calls.iter().any(|line| line.starts_with(name)), "{name}: {calls:?}");
    }
    no_violations();
}

#[test]
fn a_poisoned_operand_is_an_error_on_all_ranks() {
    let _turn = stand_in().turn();
    as_machines(2, |m, rank| {
        let (compute, ring) = streams(m, rank);
        let x = upload(m, &compute, &[1.0, 2.0]);
        let last = if rank == 1 { 9i64 } else { 1 };
        let spec = TensorSpec::contiguous(DType::I64, &[2]).unwrap();
        let bytes = [0i64, last].iter().flat_map(|v| v.to_ne_bytes()).collect();
        let index = m.upload(&compute, spec, bytes).unwrap();
        let selected = m.call("index_select", &[&x, &index]).attr("dim", 0);
        let selected = selected.on(&compute).unwrap().remove(0);
        // The operand is known to be poisoned when the collective is reached.
        let _ = m.synchronize();
        let error = read(&all_reduce(m, &selected, &ring)).unwrap_err().to_string();
        let expected = match rank {
            0 => "rank 1 has skipped allreduce_",
            _ => "index_select",
        };
        assert!(error.contains(expected), "rank {rank}: {error}");
        // Nothing was launched, so the next collective succeeds.
        assert_eq!(read(&all_reduce(m, &x, &ring)).unwrap(), [2.0, 4.0], "rank {rank}");
    });
    no_violations();
}

/// An asynchronous error of NCCL on one rank aborts the communicators of all. What is on the device
/// then ends, and is poisoned.
#[test]
fn an_asynchronous_error_ends_what_is_under_way() {
    let turn = stand_in().turn();
    let places = std::sync::Barrier::new(3);
    let (sender, communicators) = channel();
    let sender = Mutex::new(sender);
    thread::scope(|scope| {
        let (places, sender) = (&places, &sender);
        scope.spawn(move || {
            as_machines(2, |m, rank| {
                let (compute, ring) = streams(m, rank);
                let x = upload(m, &compute, &[1.0, 2.0]);
                assert_eq!(read(&all_reduce(m, &x, &ring)).unwrap(), [2.0, 4.0]);
                sender.lock().unwrap().send(m.communicator().clone()).unwrap();
                places.wait();
                places.wait();
                let error = read(&all_reduce(m, &x, &ring)).unwrap_err().to_string();
                assert!(error.contains("remote process exited"), "rank {rank}: {error}");
                let later = read(&all_reduce(m, &x, &ring)).unwrap_err().to_string();
                assert!(later.contains("allreduce_"), "rank {rank}: {later}");
            });
        });
        places.wait();
        // No command runs, so that the next collective stays on the device.
        let hold = turn.hold();
        turn.fail(Failure::once("ncclCommGetAsyncError", 40, REMOTE_ERROR));
        places.wait();
        let begun = Instant::now();
        for _ in 0..2 {
            let communicator: Arc<dyn Communicator> = communicators.recv_timeout(LONG).unwrap();
            wait_until(|| {
                assert!(begun.elapsed() < LONG, "no error");
                communicator.error().is_some()
            });
        }
        drop(hold);
    });
    no_violations();
}
