//! Global tensors: the ranks of a mesh, as threads, against one rank.

mod compiled;
mod random;
mod scaler;
mod training;
mod views;

use std::sync::Arc;

use millstream::comm::{LocalCommunicator, LocalGroup};
use millstream::sbp::{B, P, S};
use millstream::*;
use millstream_testing::observed_rank::ObservedRank;

/// A rank of a test.
struct Rank {
    machine: Machine,
    observed: Arc<ObservedRank>,
}

impl Rank {
    /// Returns the collectives since the last call.
    fn calls(&self) -> Vec<String> {
        self.machine.synchronize().unwrap();
        self.observed.take_calls()
    }
}

/// Runs a function on so many ranks. A panic on one rank ends the others' waits.
fn on_ranks<T: Send>(ranks: usize, function: impl Fn(&Rank) -> Result<T> + Sync) -> Vec<T> {
    let run = |communicator: LocalCommunicator| {
        let observed = Arc::new(ObservedRank::new(communicator));
        let config = MachineConfig::default().communicator(observed.clone()).submitters(Some(1));
        let rank = Rank { machine: Machine::new(config)?, observed };
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

/// A convolution in groups divides by its groups, and so do its gradients: nothing moves.
#[test]
fn groups_of_channels_divide() {
    let mesh = Mesh::new([0, 1]).unwrap();
    let x: Vec<f32> = (0..64).map(|k| (k % 7) as f32 - 3.0).collect();
    let w: Vec<f32> = (0..8 * 9).map(|k| (k % 5) as f32 - 2.0).collect();
    let convolved = |x: Tensor, w: Tensor| -> Result<[Tensor; 3]> {
        let (x, w) = (x.with_grad()?, w.with_grad()?);
        let machine = x.machine().clone();
        let tape = machine.tape();
        let attrs = Attrs::new().with("padding", vec![1i64, 1]).with("groups", 2);
        let y = machine.call("convolution", &[&x, &w]).attrs(attrs).run()?.remove(0);
        let made = y.detach()?;
        tape.backward_from(&[(&y, &made)], false)?;
        Ok([made, x.grad().unwrap(), w.grad().unwrap()])
    };
    let all = |made: [Tensor; 3]| made.map(|x| x.to_vec::<f32>().unwrap());
    let one = Machine::new(MachineConfig::default()).unwrap();
    let expected = Tensor::from_slice(&x, (1, 4, 4, 4), &one)
        .and_then(|x| convolved(x, Tensor::from_slice(&w, (4, 2, 3, 3), &one)?))
        .map(all)
        .unwrap();
    on_ranks(2, |rank| {
        let machine = &rank.machine;
        let x = Tensor::from_slice_global(&x, (1, 4, 4, 4), machine, &mesh, [S(1)])?;
        let w = Tensor::from_slice_global(&w, (4, 2, 3, 3), machine, &mesh, [S(0)])?;
        rank.calls();
        let made = convolved(x, w)?;
        assert_eq!(rank.calls(), [""; 0]);
        let held = made.each_ref().map(|x| x.sbp().unwrap()[0]);
        assert_eq!(held, [S(1), S(1), S(0)]);
        for (made, expected) in made.iter().zip(&expected) {
            assert_eq!(made.full_tensor()?.to_vec::<f32>()?, *expected);
        }
        Ok(())
    });
}

/// A rank outside a mesh makes the same calls, and emits nothing.
#[test]
fn ranks_outside_the_mesh_emit_nothing() {
    let (inner, other) = (Mesh::new([0, 2]).unwrap(), Mesh::new([1, 0]).unwrap());
    let data: Vec<f32> = (0..15).map(|k| k as f32).collect();
    on_ranks(3, |rank| {
        let machine = &rank.machine;
        let x = Tensor::from_slice_global(&data, (5, 3), machine, &inner, [S(0)])?;
        let y = x.mul(2.0)?.sum(0)?;
        assert_eq!((y.shape(), y.sbp().unwrap()), (&[3][..], &[P][..]));
        let own = machine.communicator().rank();
        if own == 1 {
            assert_eq!(rank.calls(), [""; 0]);
            let error = y.to_local().unwrap_err().to_string();
            assert!(error.contains("this rank has no part of f32[3]"), "{error}");
        }
        // To another mesh: the columns of the sum on ranks 1 and 0.
        let z = y.to_global(&other, [S(0)])?;
        let doubled = z.add(1.0)?;
        if own < 2 {
            let sums: Vec<f32> =
                (0..3).map(|c| (0..5).map(|r| 2.0 * data[r * 3 + c]).sum()).collect();
            let all: Vec<f32> = sums.iter().map(|sum| sum + 1.0).collect();
            assert_eq!(doubled.full_tensor()?.to_vec::<f32>()?, all);
            let part = doubled.to_local()?.to_vec::<f32>()?;
            assert_eq!(part, if own == 1 { &all[..2] } else { &all[2..] });
        }
        Ok(())
    });
}

/// Mistakes are found before data moves, on every rank.
#[test]
fn mistakes_are_refused() {
    let (mesh, other) = (Mesh::new([0, 1]).unwrap(), Mesh::new([1, 0]).unwrap());
    on_ranks(2, |rank| {
        let machine = &rank.machine;
        let held = |mesh: &Mesh, sbp: Sbp| Sharding::new(mesh, [sbp]).unwrap();
        let x = Tensor::zeros((4, 4), DType::F32, (machine, &held(&mesh, S(0))))?;
        let w = Tensor::zeros((4, 4), DType::F32, (machine, &held(&other, B)))?;
        let local = Tensor::zeros((4, 4), DType::F32, machine)?;
        let expect = |result: Result<Tensor>, text: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
        expect(
            x.matmul(&w),
            "operand 0, f32[4,4], is on mesh [0,1], and operand 1, f32[4,4], on mesh [1,0]",
        );
        let square = Mesh::of(&[1, 2], &[0, 1])?;
        let wide = Tensor::zeros((4, 4), DType::F32, (machine, &Sharding::broadcast(&square)))?;
        let into = |target: &Tensor| {
            machine.call("relu", &[&x]).out(&[target]).run().map(|mut made| made.remove(0))
        };
        expect(into(&wide), "and the tensor for its result on mesh [[0,1]]");
        expect(into(&w), "and the tensor for its result on mesh [1,0]");
        expect(x.add(&local), "operand 1, f32[4,4], is a tensor of this rank");
        expect(local.redistribute([B]), "f32[4,4] is a tensor of this rank, not a global one");
        expect(x.redistribute([B, B]), "the mesh has the axis 0; sbp names 2");
        expect(x.redistribute([S(2)]), "S2 splits dimension 2 of a tensor with 2 dimension(s)");
        expect(local.to_global(&Mesh::new([0, 7])?, [B]), "names rank 7, and the program has 2");
        let error = x.to_vec::<f32>().unwrap_err().to_string();
        assert!(
            error.contains("f32[4,4] is held as S0 by mesh [0,1]; read `full_tensor()?`"),
            "{error}"
        );
        // The parts' descriptions are compared.
        let own = machine.communicator().rank();
        let sbp = if own == 0 { B } else { S(0) };
        let error = local.to_global(&mesh, [sbp]).unwrap_err().to_string();
        assert!(error.contains("rank 1 calls to_global f32[4,4] S0, rank 0 f32[4,4] B"), "{error}");
        let turned = if own == 0 { &mesh } else { &other };
        expect(local.to_global(turned, [S(0)]), "for another mesh than rank");
        let part = Tensor::zeros((3 - own as i64, 2), DType::F32, machine)?;
        assert_eq!(part.to_global(&mesh, [S(0)])?.shape(), [5, 2]);
        let part = Tensor::zeros((2 + own as i64, 2), DType::F32, machine)?;
        expect(part.to_global(&mesh, [S(0)]), "its part of [5, 2] would be");
        Ok(())
    });
}

/// DTensor's defects, by the numbers of PyTorch's issues.
#[test]
fn cases_of_other_implementations() {
    let mesh = Mesh::new([[0, 1], [2, 3]]).unwrap();
    let data: Vec<f32> = (0..60).map(|k| k as f32).collect();
    on_ranks(4, |rank| {
        let machine = &rank.machine;
        let made = |shape: &[i64], sbp: [Sbp; 2]| {
            let numel: i64 = shape.iter().product();
            let data = &data[..numel as usize];
            Tensor::from_slice_global(data, shape.to_vec(), machine, &mesh, sbp)
        };
        // 179502: a view of a dimension that is split, and does not divide into the new ones.
        let x = made(&[6, 5], [S(0), B])?;
        let view = x.reshape((3, 2, 5))?;
        assert_eq!(view.full_tensor()?.to_vec::<f32>()?, data[..30]);
        // 166598: a contraction of dimensions that the axes split in unequal orders.
        let (a, b) = (made(&[4, 8], [S(1), S(1)])?, made(&[8, 4], [B, S(0)])?);
        let product = a.matmul(&b)?.full_tensor()?.to_vec::<f32>()?;
        let element =
            |r: usize, c: usize| -> f32 { (0..8).map(|k| data[r * 8 + k] * data[k * 4 + c]).sum() };
        let all: Vec<f32> = (0..16).map(|k| element(k / 4, k % 4)).collect();
        assert_eq!(product, all);
        // 143372 and 144109: uneven parts, also empty ones, viewed and gathered.
        let x = made(&[5, 3], [S(0), S(0)])?;
        assert_eq!(x.reshape(15)?.full_tensor()?.to_vec::<f32>()?, data[..15]);
        let x = made(&[3, 2], [S(0), S(0)])?;
        assert_eq!(x.redistribute([S(1), B])?.full_tensor()?.to_vec::<f32>()?, data[..6]);
        // 118836: strides are those of the whole tensor, and the parts' are in their order.
        let x = made(&[4, 6], [B, S(1)])?.t()?;
        assert_eq!(x.spec().layout.strides(), [1, 6]);
        assert_eq!(x.to_local()?.spec().layout.strides(), [1, 3]);
        assert_eq!(x.redistribute([B, B])?.spec().layout.strides(), [4, 1]);
        // 168255: lists of tensors are calls like others.
        let x = made(&[4, 2], [S(0), B])?;
        let joined = Tensor::cat(&[&x, &x], 1)?;
        assert_eq!((joined.sbp().unwrap(), joined.shape()), (&[S(0), B][..], &[4, 4][..]));
        Ok(())
    });
}

/// Uses that mean the tensor of one rank say so, and change nothing.
#[test]
fn uses_of_one_rank_are_refused() {
    let mesh = Mesh::new([0, 1]).unwrap();
    on_ranks(2, |rank| {
        let machine = &rank.machine;
        let rows = Sharding::new(&mesh, [S(0)])?;
        let x = Tensor::ones((4, 2), DType::F32, (machine, &rows))?;
        let stream = machine.current_stream()?;
        let out = Tensor::zeros((4, 2), DType::F32, machine)?;
        let view = TensorSpec::contiguous(DType::F32, &[8])?;
        let refused: Vec<(&str, Result<()>)> = vec![
            ("a view by strides", x.view_storage(view).map(drop)),
            ("a copy to a stream", x.copy_to(&stream).map(drop)),
            ("a copy into it", out.copy_into(&x)),
            ("a copy of it", x.copy_into(&out)),
            ("a host function", x.access(Access::Read, |_| Ok(())).map(drop)),
            ("a section", machine.critical_section(&[&x]).map(drop)),
            ("a prepared call", machine.call("relu", &[&x]).prepare().map(drop)),
            ("a result of one rank", machine.call("relu", &[&x]).out(&[&out]).run().map(drop)),
            ("DLPack", x.to_dlpack().map(drop)),
            ("its elements", x.read().map(drop)),
        ];
        for (what, result) in refused {
            let error = result.expect_err(what).to_string();
            let is_told = ["is a global tensor", "is held as S0", "is a tensor of this rank"];
            assert!(is_told.iter().any(|text| error.contains(text)), "{what}: {error}");
        }
        assert!(format!("{x}").contains("is held as S0 by mesh [0,1]"), "{x}");
        x.synchronize()?;
        let shown = "f32[4,2] on cpu:0, held as S0 on mesh [0,1], the part of this rank: ready";
        assert!(format!("{x:?}").contains(shown), "{x:?}");
        x.completion()?.wait()?;
        assert_eq!(x.full_tensor()?.to_vec::<f32>()?, [1.0; 8]);
        x.release()?;
        assert!(x.relu().is_err());
        Ok(())
    });
}
