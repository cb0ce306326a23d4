//! Networks whose parameters or batches the ranks divide: their results, and their collectives.

use std::path::Path;

use millstream::sbp::{B, P, S};
use millstream::*;

use super::on_ranks;

/// Two matrices of a layer each, split by columns and then by rows: one reduction forward, and one
/// backward.
#[test]
fn a_split_network_reduces_twice() {
    let mesh = Mesh::new([0, 1]).unwrap();
    on_ranks(2, |rank| {
        let machine = &rank.machine;
        let held = |sbp: Sbp| Sharding::new(&mesh, [sbp]).unwrap();
        let random = Generator::new(3);
        let x = Tensor::normal(0.0, 1.0, (8, 6), &random, (machine, &held(B)))?.with_grad()?;
        let w = Tensor::normal(0.0, 1.0, (6, 10), &random, (machine, &held(S(1))))?.with_grad()?;
        let v = Tensor::normal(0.0, 1.0, (10, 6), &random, (machine, &held(S(0))))?.with_grad()?;
        let tape = machine.tape();
        rank.calls();
        let hidden = x.matmul(&w)?.relu()?;
        assert_eq!(hidden.sbp().unwrap(), [S(1)]);
        let y = hidden.matmul(&v)?;
        assert_eq!(y.sbp().unwrap(), [P]);
        let y = y.redistribute([B])?;
        assert_eq!(rank.calls(), ["AllReduce"]);
        tape.backward(&(&y * &y)?.sum(..)?)?;
        assert_eq!(rank.calls(), ["AllReduce"], "the gradient of x");
        assert_eq!(w.grad().unwrap().sbp().unwrap(), [S(1)]);
        assert_eq!(v.grad().unwrap().sbp().unwrap(), [S(0)]);
        assert_eq!(x.grad().unwrap().sbp().unwrap(), [B]);
        Ok(())
    });
}

/// The loss and the gradients of a network, on one rank or with its batch split.
fn trained(machine: &Machine, mesh: Option<&Mesh>, bucket: usize) -> Result<Vec<Tensor>> {
    let random = Generator::new(5);
    let made = |shape: &[i64], sbp: Sbp| match mesh {
        None => Tensor::normal(0.0, 1.0, shape.to_vec(), &random, machine),
        Some(mesh) => {
            let sharding = Sharding::new(mesh, [sbp])?;
            Tensor::normal(0.0, 1.0, shape.to_vec(), &random, (machine, &sharding))
        }
    };
    let x = made(&[8, 4], S(0))?;
    let target = made(&[8, 2], S(0))?;
    let mut parameters = Vec::new();
    for [to, from] in [[6, 4], [6, 6], [2, 6]] {
        parameters.push(made(&[to, from], B)?.with_grad()?);
        parameters.push(made(&[to], B)?.with_grad()?);
    }
    let tape = machine.tape();
    tape.bucket(bucket);
    let mut hidden = x;
    for (k, layer) in parameters.chunks_exact(2).enumerate() {
        hidden = hidden.linear(&layer[0], Some(&layer[1]))?;
        if k < 2 {
            hidden = hidden.tanh()?;
        }
    }
    let difference = (&hidden - &target)?;
    let loss = (&difference * &difference)?.mean(..)?;
    tape.backward(&loss)?;
    let mut made = vec![loss.detach()?];
    for parameter in &parameters {
        let gradient = parameter.grad().unwrap();
        if mesh.is_some() {
            assert_eq!(gradient.sbp().unwrap(), [B]);
        }
        made.push(gradient);
    }
    Ok(made)
}

fn elements(tensors: &[Tensor]) -> Result<Vec<f32>> {
    let mut all = Vec::new();
    for tensor in tensors {
        let own = if tensor.sharding().is_some() { tensor.full_tensor()? } else { tensor.clone() };
        all.extend(own.to_vec::<f32>()?);
    }
    Ok(all)
}

pub(super) fn assert_near(got: &[f32], expected: &[f32], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (k, (a, b)) in got.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 2e-5 * (1.0 + b.abs()), "{what}: element {k}: {a} and {b}");
    }
}

/// Data parallelism without a line for it: one collective for each bucket of gradients.
#[test]
fn gradients_of_a_split_batch_are_reduced_in_buckets() {
    let one = Machine::new(MachineConfig::default()).unwrap();
    let expected = elements(&trained(&one, None, 0).unwrap()).unwrap();
    let mesh = Mesh::new([0, 1, 2]).unwrap();
    for (bucket, collectives) in [(1 << 20, 1), (100, 2), (1, 6)] {
        let mesh = &mesh;
        let results = on_ranks(3, |rank| {
            let recording = rank.machine.profile(&[])?;
            let made = trained(&rank.machine, Some(mesh), bucket)?;
            let calls = rank.calls();
            assert_eq!(calls.len(), collectives, "{bucket}: {calls:?}");
            let ranges = recording.finish()?.ranges.into_iter().map(|range| range.name);
            let named: Vec<String> = ranges.filter(|name| name.contains("gradient")).collect();
            assert_eq!(named.len(), collectives, "{bucket}: {named:?}");
            if collectives == 1 {
                assert_eq!(named, ["boxing of 6 gradients: P → B"]);
            }
            assert!(calls.iter().all(|call| call == "AllReduce"), "{calls:?}");
            elements(&made)
        });
        for result in results {
            assert_near(&result, &expected, "a batch of three ranks");
        }
    }
}

/// A sharded optimiser's step: the parameter is gathered, its gradient scattered.
#[test]
fn a_sharded_parameter_is_gathered_and_its_gradient_scattered() {
    let mesh = Mesh::new([0, 1]).unwrap();
    on_ranks(2, |rank| {
        let machine = &rank.machine;
        let held = |sbp: Sbp| Sharding::new(&mesh, [sbp]).unwrap();
        let random = Generator::new(3);
        let x = Tensor::normal(0.0, 1.0, (8, 6), &random, (machine, &held(S(0))))?;
        let w = Tensor::normal(0.0, 1.0, (6, 10), &random, (machine, &held(S(0))))?.with_grad()?;
        let tape = machine.tape();
        rank.calls();
        let recording = machine.profile(&[])?;
        let y = x.matmul(&w.redistribute([B])?)?;
        assert_eq!(rank.calls(), ["AllGather"]);
        tape.backward(&(&y * &y)?.sum(..)?)?;
        assert_eq!(rank.calls(), ["ReduceScatter"]);
        let ranges = recording.finish()?.ranges;
        let names = ranges.iter().filter_map(|range| range.name.strip_prefix("boxing: "));
        assert_eq!(names.collect::<Vec<_>>(), ["S0 → B", "P → S0"]);
        assert_eq!(w.grad().unwrap().sbp().unwrap(), [S(0)]);
        no_grad(|| w.sub_(&w.grad().unwrap().mul(0.1)?))?;
        assert_eq!(rank.calls(), [""; 0]);
        Ok(())
    });
}

/// A transformer layer, split by heads and by hidden units: two reductions forward, two backward.
#[test]
fn a_transformer_layer_reduces_four_times() {
    fn layer(
        machine: &Machine,
        mesh: Option<&Mesh>,
        check: &dyn Fn(&[&str], &str),
    ) -> Result<Vec<Tensor>> {
        let random = Generator::new(9);
        let made = |shape: &[i64], sbp: Sbp| -> Result<Tensor> {
            let made = match mesh {
                None => Tensor::normal(0.0, 0.3, shape.to_vec(), &random, machine)?,
                Some(mesh) => {
                    let sharding = Sharding::new(mesh, [sbp])?;
                    Tensor::normal(0.0, 0.3, shape.to_vec(), &random, (machine, &sharding))?
                }
            };
            made.with_grad()
        };
        let whole = |x: Tensor| if mesh.is_some() { x.redistribute([B]) } else { Ok(x) };
        // Two sequences of 3 words, 4 heads of 2 numbers.
        let x = made(&[2, 3, 8], B)?;
        let projections = [made(&[8, 8], S(0))?, made(&[8, 8], S(0))?, made(&[8, 8], S(0))?];
        let out = made(&[8, 8], S(1))?;
        let (up, down) = (made(&[16, 8], S(0))?, made(&[8, 16], S(1))?);
        let bias = made(&[16], S(0))?;
        let tape = machine.tape();
        let normal = |x: &Tensor| x.layer_norm([8], options::LayerNorm::default());
        // Where ranks take parts of the work, the gradient is summed.
        let input = whole(normal(&x)?)?;
        let heads = |w: &Tensor| input.linear(w, None)?.reshape((2, 3, 4, 2))?.transpose(1, 2);
        let [q, k, v] = [heads(&projections[0])?, heads(&projections[1])?, heads(&projections[2])?];
        let scores = (q.matmul(&k.transpose(-1, -2)?)? * 0.5)?.softmax(-1)?;
        let mixed = scores.matmul(&v)?.transpose(1, 2)?.reshape((2, 3, 8))?;
        let y = (&x + &whole(mixed.linear(&out, None)?)?)?;
        check(&["AllReduce"], "attention");
        let hidden = whole(normal(&y)?)?.linear(&up, Some(&bias))?.gelu()?;
        let z = (&y + &whole(hidden.linear(&down, None)?)?)?;
        check(&["AllReduce"], "hidden units");
        let loss = (&z * &z)?.sum(..)?;
        tape.backward(&loss)?;
        check(&["AllReduce", "AllReduce"], "backward");
        let parameters = [&x, &out, &up, &down, &bias].into_iter().chain(&projections);
        let mut made = vec![loss.detach()?];
        made.extend(parameters.filter_map(Tensor::grad));
        Ok(made)
    }
    let one = Machine::new(MachineConfig::default()).unwrap();
    let expected = elements(&layer(&one, None, &|_, _| {}).unwrap()).unwrap();
    let mesh = Mesh::new([0, 1]).unwrap();
    let results = on_ranks(2, |rank| {
        let check = |expected: &[&str], what: &str| assert_eq!(rank.calls(), expected, "{what}");
        elements(&layer(&rank.machine, Some(&mesh), &check)?)
    });
    for result in results {
        assert_near(&result, &expected, "a layer of two ranks");
    }
}

/// The recorded network of four ranks, as global tensors: of the sum each rank gets its rows, where
/// the recorded program reduces all of it on every rank, twice the bytes.
#[test]
fn a_recorded_network_moves_fewer_bytes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/pytorch/tp_mlp_4rank");
    let mesh = Mesh::new([0, 1, 2, 3]).unwrap();
    on_ranks(4, |rank| {
        let own = rank.machine.communicator().rank();
        let file = folder.join(format!("rank{own}/tensors.safetensors"));
        let file = Tensor::load(file, &rank.machine)?;
        let held = |name: &str, sbp: Sbp| file[name].to_global(&mesh, [sbp]);
        let (x, a, b) = (held("in/x", B)?, held("in/a", S(1))?, held("in/b", S(0))?);
        rank.calls();
        let y = x.matmul(&a)?.relu()?.matmul(&b)?;
        let gathered = y.tanh()?.redistribute([B])?;
        assert_eq!(rank.calls(), ["ReduceScatter", "AllGather"]);
        let expected = file["out/g"].to_vec::<f32>()?;
        assert_near(&gathered.to_vec::<f32>()?, &expected, "the recorded output");
        Ok(())
    });
}

/// A scope of autocast casts whole tensors, and the casts are of the parts.
#[test]
fn autocast_casts_global_tensors() {
    let mesh = Mesh::new([0, 1]).unwrap();
    let layer = |x: &Tensor, w: &Tensor| {
        autocast(DType::BF16, || {
            let y = x.matmul(w)?;
            assert_eq!(y.dtype(), DType::BF16);
            let z = y.exp()?;
            assert_eq!(z.dtype(), DType::F32);
            Ok(z)
        })
    };
    let (x, w): (Vec<f32>, Vec<f32>) = ((0..12).map(|k| k as f32 / 8.0).collect(), vec![0.5; 6]);
    let one = Machine::new(MachineConfig::default()).unwrap();
    let expected = Tensor::from_slice(&x, (4, 3), &one)
        .and_then(|x| layer(&x, &Tensor::from_slice(&w, (3, 2), &one)?))
        .and_then(|z| z.to_vec::<f32>())
        .unwrap();
    on_ranks(2, |rank| {
        let machine = &rank.machine;
        let x = Tensor::from_slice_global(&x, (4, 3), machine, &mesh, [S(0)])?;
        let w = Tensor::from_slice_global(&w, (3, 2), machine, &mesh, [B])?;
        let z = layer(&x, &w)?;
        assert_eq!(z.sbp().unwrap(), [S(0)]);
        assert_eq!(z.full_tensor()?.to_vec::<f32>()?, expected);
        Ok(())
    });
}
