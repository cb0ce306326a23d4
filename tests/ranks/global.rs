//! Global tensors: the ranks of a mesh, as threads, against one rank.

use std::sync::{Arc, Mutex};

use millstream::comm::{
    Call, CommError, Communicator, LocalCommunicator, LocalGroup, Request, Slot,
};
use millstream::sbp::{B, P, S};
use millstream::*;

/// A rank's connection that notes the collectives of its machine.
struct Noted {
    rank: LocalCommunicator,
    calls: Mutex<Vec<String>>,
}

impl Communicator for Noted {
    fn kind(&self) -> &'static str {
        self.rank.kind()
    }

    fn rank(&self) -> usize {
        self.rank.rank()
    }

    fn ranks(&self) -> usize {
        self.rank.ranks()
    }

    fn start(&self, call: Call) -> Request {
        self.calls.lock().unwrap().push(kind(&call));
        self.rank.start(call)
    }

    fn skip(&self, slot: Slot, op: &str, cause: &str) {
        self.rank.skip(slot, op, cause);
    }

    fn abort(&self, cause: &str) {
        self.rank.abort(cause);
    }

    fn error(&self) -> Option<CommError> {
        self.rank.error()
    }

    fn deliveries(&self) -> Option<u64> {
        self.rank.deliveries()
    }

    fn report_stall(&self, deliveries: u64) {
        self.rank.report_stall(deliveries);
    }
}

/// Returns the name of a collective.
fn kind(call: &Call) -> String {
    let all = format!("{:?}", call.collective);
    all.split([' ', '(']).next().unwrap_or_default().to_owned()
}

/// A rank of a test.
struct Rank {
    machine: Machine,
    noted: Arc<Noted>,
}

impl Rank {
    /// Returns the collectives since the last call.
    fn calls(&self) -> Vec<String> {
        self.machine.synchronize().unwrap();
        std::mem::take(&mut *self.noted.calls.lock().unwrap())
    }
}

/// Runs a function on so many ranks. A panic on one rank ends the others' waits.
fn on_ranks<T: Send>(ranks: usize, function: impl Fn(&Rank) -> Result<T> + Sync) -> Vec<T> {
    let run = |communicator: LocalCommunicator| {
        let noted = Arc::new(Noted { rank: communicator, calls: Mutex::default() });
        let config = MachineConfig::default().communicator(noted.clone()).submitters(Some(1));
        let rank = Rank { machine: Machine::new(config)?, noted };
        function(&rank)
    };
    LocalGroup::run(ranks, run).unwrap()
}

/// Every way to hold a tensor of so many dimensions on a mesh of so many axes.
fn shardings(axes: usize, dims: usize) -> Vec<Vec<Sbp>> {
    let each: Vec<Sbp> = (0..dims).map(S).chain([B, P]).collect();
    let mut all = vec![Vec::new()];
    for _ in 0..axes {
        all = all
            .into_iter()
            .flat_map(|of: Vec<Sbp>| each.iter().map(move |sbp| [&of[..], &[*sbp]].concat()))
            .collect();
    }
    all
}

/// Returns the elements of a part of a dense tensor.
fn part_of(all: &[f32], shape: &[usize], sharding: &Sharding, rank: u32) -> Vec<f32> {
    let at = sharding.mesh().coordinates(rank).unwrap();
    let part = sharding.part(shape, &at);
    let mut index = vec![0; shape.len()];
    let mut made = Vec::new();
    for element in all {
        if index.iter().zip(&part).all(|(k, range)| range.contains(k)) {
            made.push(*element);
        }
        for dim in (0..shape.len()).rev() {
            index[dim] += 1;
            if index[dim] < shape[dim] {
                break;
            }
            index[dim] = 0;
        }
    }
    made
}

/// Every pair of shardings, even and uneven parts, also empty ones.
#[test]
fn redistributions_keep_the_tensor() {
    let meshes: Vec<(usize, Mesh)> =
        vec![(3, Mesh::new([2, 0, 1]).unwrap()), (4, Mesh::new([[0, 1], [3, 2]]).unwrap())];
    for (ranks, mesh) in meshes {
        for shape in [vec![6, 4], vec![5, 7, 2], vec![2, 3]] {
            let numel: usize = shape.iter().product();
            let data: Vec<f32> = (0..numel).map(|k| k as f32).collect();
            on_ranks(ranks, |rank| {
                let own = rank.machine.communicator().rank() as u32;
                for from in shardings(mesh.rank(), shape.len()) {
                    let lengths: Vec<i64> = shape.iter().map(|n| *n as i64).collect();
                    let machine = &rank.machine;
                    let x = Tensor::from_slice_global(
                        &data,
                        lengths,
                        machine,
                        &mesh,
                        from.iter().copied(),
                    )?;
                    for to in shardings(mesh.rank(), shape.len()) {
                        let y = x.redistribute(to.iter().copied())?;
                        let what = format!("{shape:?} on {mesh}: {from:?} to {to:?}");
                        let held = y.sharding().unwrap();
                        assert_eq!(held.sbp(), to, "{what}");
                        if to.iter().all(|sbp| sbp.reduction().is_none()) {
                            let part = y.to_local()?.to_vec::<f32>()?;
                            assert_eq!(part, part_of(&data, &shape, held, own), "{what}");
                        }
                        assert_eq!(y.full_tensor()?.to_vec::<f32>()?, data, "{what}");
                    }
                }
                Ok(())
            });
        }
    }
}

/// The example of the design: two layers, without a collective before the sum is needed.
#[test]
fn products_divide() {
    let mesh = Mesh::new([[0, 1], [2, 3]]).unwrap().axes(["dp", "tp"]).unwrap();
    let x: Vec<f32> = (0..8 * 16).map(|k| (k % 7) as f32).collect();
    let w: Vec<f32> = (0..16 * 6).map(|k| (k % 5) as f32 - 2.0).collect();
    let one = Machine::new(MachineConfig::default()).unwrap();
    let expected = Tensor::from_slice(&x, (8, 16), &one)
        .and_then(|x| x.matmul(&Tensor::from_slice(&w, (16, 6), &one)?))
        .and_then(|y| y.to_vec::<f32>())
        .unwrap();
    on_ranks(4, |rank| {
        let machine = &rank.machine;
        let x = Tensor::from_slice_global(&x, (8, 16), machine, &mesh, [S(0), B])?;
        let w = Tensor::from_slice_global(&w, (16, 6), machine, &mesh, [B, S(1)])?;
        let y = x.matmul(&w)?;
        assert_eq!(y.sbp().unwrap(), [S(0), S(1)]);
        assert_eq!(rank.calls(), [""; 0]);
        let z = y.redistribute([S(0), B])?;
        assert_eq!(rank.calls().len(), 1);
        assert_eq!(z.full_tensor()?.to_vec::<f32>()?, expected);
        Ok(())
    });
}
