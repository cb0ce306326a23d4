//! Functions on global tensors, compiled for a mesh, and traced ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::sbp::{B, OPEN, P, S};
use millstream::*;

use super::on_ranks;

fn spec(shape: &[usize]) -> TensorSpec {
    TensorSpec::contiguous(DType::F32, shape).unwrap()
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|k| (k * 7 % 13) as f32 / 8.0 - 0.75).collect()
}

/// Two layers whose inputs and outputs are whole: the matrices in between are split by columns and
/// then by rows, with one reduction at the end.
#[test]
fn the_inner_matrices_of_two_layers_are_split() {
    let mesh = Mesh::new([0, 1, 2, 3]).unwrap();
    let (x, w, v) = (numbers(4 * 64), numbers(64 * 256), numbers(256 * 64));
    let one = Machine::new(MachineConfig::default()).unwrap();
    let layers = |x: &Tensor, w: &Tensor, v: &Tensor| x.matmul(w)?.relu()?.matmul(v);
    let expected = Tensor::from_slice(&x, (4, 64), &one)
        .and_then(|x| {
            let w = Tensor::from_slice(&w, (64, 256), &one)?;
            layers(&x, &w, &Tensor::from_slice(&v, (256, 64), &one)?)
        })
        .and_then(|y| y.to_vec::<f32>())
        .unwrap();
    let texts = on_ranks(4, |rank| {
        let machine = &rank.machine;
        let f = machine
            .shard(&mesh, |inputs| Ok(vec![layers(&inputs[0], &inputs[1], &inputs[2])?]))
            .input(spec(&[4, 64]), [B])
            .input(spec(&[64, 256]), [OPEN])
            .input(spec(&[256, 64]), [OPEN])
            .output([B])
            .compile()?;
        assert_eq!(rank.calls(), ["AllGather"], "the comparison of the functions");
        let held = |data: &[f32], shape: (i64, i64), sbp| {
            Tensor::from_slice_global(data, shape, machine, &mesh, [sbp])
        };
        // In the way that was found, and in another one, which is redistributed.
        let x = held(&x, (4, 64), B)?;
        for (of_w, of_v, collectives) in [(S(1), S(0), 1), (B, B, 1), (S(0), S(1), 3)] {
            let (w, v) = (held(&w, (64, 256), of_w)?, held(&v, (256, 64), of_v)?);
            rank.calls();
            let y = f.call(&[&x, &w, &v])?.remove(0);
            assert_eq!(rank.calls().len(), collectives, "{}", f.layouts());
            assert_eq!((y.sbp().unwrap(), y.shape()), (&[B][..], &[4, 64][..]));
            for (got, expected) in y.full_tensor()?.to_vec::<f32>()?.iter().zip(&expected) {
                assert!((got - expected).abs() <= 1e-3, "{got} and {expected}");
            }
        }
        let error = f.call(&[&x, &x, &x]).unwrap_err().to_string();
        assert!(error.contains("input 1 is f32[64,256], got f32[4,64]"), "{error}");
        let local = Tensor::zeros((4, 64), DType::F32, machine)?;
        let error = f.call(&[&local, &x, &x]).unwrap_err().to_string();
        assert!(error.contains("not a global one"), "{error}");
        Ok(f.layouts().to_string())
    });
    assert!(texts.iter().all(|text| *text == texts[0]), "all ranks plan alike");
    insta::assert_snapshot!(texts[0]);
}

/// A step with gradients and an optimiser's update: the batch is split for an open input, and the
/// gradients are summed by one collective.
#[test]
fn a_training_step_compiles() {
    let mesh = Mesh::new([0, 1]).unwrap();
    let data = numbers(8 * 4);
    let step = |x: &Tensor, w: &Tensor| {
        let tape = x.machine().tape();
        let loss = x.matmul(w)?.tanh()?.sum(..)?;
        tape.backward(&loss)?;
        w.grad().ok_or_else(|| Error::Internal { message: "no gradient".to_owned() })
    };
    let one = Machine::new(MachineConfig::default()).unwrap();
    let expected = Tensor::from_slice(&data, (8, 4), &one)
        .and_then(|x| step(&x, &Tensor::from_slice(&numbers(12), (4, 3), &one)?.with_grad()?))
        .and_then(|gradient| gradient.to_vec::<f32>())
        .unwrap();
    on_ranks(2, |rank| {
        let machine = &rank.machine;
        let whole = Sharding::broadcast(&mesh);
        let w = Tensor::from_slice(&numbers(12), (4, 3), (machine, &whole))?.with_grad()?;
        let f = machine
            .shard(&mesh, |inputs| step(&inputs[0], &w).map(|_| vec![]))
            .input(spec(&[8, 4]), [S(0)])
            .compile()?;
        assert!(w.grad().is_none(), "what the function leaves is undone");
        let x = Tensor::from_slice(&data, (8, 4), (machine, &whole))?;
        for _ in 0..3 {
            w.zero_grad();
            rank.calls();
            f.call(&[&x])?;
            assert_eq!(rank.calls(), ["AllReduce"]);
            let gradient = w.grad().unwrap();
            assert_eq!(gradient.sbp().unwrap(), [B]);
            let gradient = gradient.full_tensor()?.to_vec::<f32>()?;
            for (got, expected) in gradient.iter().zip(&expected) {
                assert!((got - expected).abs() <= 1e-4, "{got} and {expected}");
            }
        }
        Ok(())
    });
}

/// What cannot be compiled is refused, on all ranks and before anything runs.
#[test]
fn functions_that_cannot_be_compiled_are_refused() {
    let mesh = Mesh::new([0, 1]).unwrap();
    on_ranks(2, |rank| {
        let machine = &rank.machine;
        let refused = |built: Result<Sharded>, text: &str| {
            let error = built.unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
        let same = |inputs: &[Tensor]| Ok(inputs.to_vec());
        let shard = || machine.shard(&mesh, same);
        refused(
            shard().input(spec(&[4]), [OPEN, OPEN]).compile(),
            "mesh [0,1] has 1 axes, and an input names 2",
        );
        refused(
            shard().input(spec(&[4]), [S(1)]).compile(),
            "S1 splits dimension 1 of a tensor with 1 dimension(s)",
        );
        refused(
            shard().input(spec(&[4]), [OPEN]).output([B]).output([B]).compile(),
            "2 outputs are declared, and it returns 1",
        );
        refused(
            machine
                .shard(&mesh, |inputs| {
                    inputs[0].full_tensor()?.to_vec::<f32>()?;
                    Ok(vec![])
                })
                .input(spec(&[4]), [OPEN])
                .compile(),
            "uses the elements of a tensor, which has none before the launch",
        );
        let local = Tensor::zeros(4, DType::F32, machine)?;
        refused(
            machine.shard(&mesh, |_| Ok(vec![local.clone()])).compile(),
            "is a tensor of this rank, not a global one",
        );
        let elsewhere = Mesh::new([1, 0])?;
        let held = Tensor::zeros(4, DType::F32, (machine, &Sharding::broadcast(&elsewhere)))?;
        refused(
            machine.shard(&mesh, |_| Ok(vec![held.clone()])).compile(),
            "is on mesh [1,0], and the function is compiled for mesh [0,1]",
        );
        let runs = AtomicUsize::new(0);
        let other = |inputs: &[Tensor]| {
            // Relaxed: one thread.
            let is_first = runs.fetch_add(1, Ordering::Relaxed) == 0;
            Ok(if is_first { inputs.to_vec() } else { Vec::new() })
        };
        refused(
            machine.shard(&mesh, other).input(spec(&[4]), [OPEN]).compile(),
            "it returned 1 tensor(s), and 0 when it ran again",
        );
        let calls = |first: &'static [&'static str], again: &'static [&'static str]| {
            let runs = AtomicUsize::new(0);
            let function = move |inputs: &[Tensor]| {
                let ops = if runs.fetch_add(1, Ordering::Relaxed) == 0 { first } else { again };
                let x = &inputs[0];
                for op in ops {
                    let operands = [x, x];
                    let operands = if *op == "add" { &operands[..] } else { &operands[..1] };
                    machine.call(op, operands).one(&machine.current_stream()?)?;
                }
                Ok(vec![x.clone()])
            };
            machine.shard(&mesh, function).input(spec(&[4]), [OPEN]).compile()
        };
        refused(
            calls(&["relu", "add"], &["relu", "neg"]),
            "its call 1 was add of f32[4], f32[4] at ",
        );
        refused(calls(&["relu", "add"], &["neg"]), ", and neg of f32[4] when it ran again");
        refused(
            calls(&["relu"], &["relu", "neg"]),
            "it made 1 call(s), and also neg of f32[4] when it ran again",
        );
        refused(
            calls(&["relu", "neg", "add"], &["relu"]),
            "it made 3 call(s), and 1 when it ran again, without neg of f32[4] at ",
        );
        calls(&["relu", "add"], &["relu", "add"])?;
        let fixed = Tensor::zeros(4, DType::F32, (machine, &Sharding::new(&mesh, [P])?))?;
        refused(
            machine.shard(&mesh, |_| fixed.add_(1.0).map(|_| vec![])).compile(),
            "redistribute it to B first",
        );
        Ok(())
    });
}

/// Functions that differ by rank are refused on all of them, also where their collectives meet.
#[test]
fn ranks_compile_one_function() {
    let mesh = Mesh::new([2, 0, 1]).unwrap();
    on_ranks(3, |rank| {
        let (machine, own) = (&rank.machine, rank.machine.communicator().rank());
        let compile = |length: usize, function: &dyn Fn(&Tensor) -> Result<Tensor>| {
            let sharded = machine.shard(&mesh, |inputs| Ok(vec![function(&inputs[0])?]));
            sharded.input(spec(&[length]), [S(0)]).output([B]).compile().map(drop)
        };
        let refused = |made: Result<()>, text: &str| {
            let error = made.unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("compiled.rs"), "{error}");
        };
        let negated = |x: &Tensor| if own == 1 { x.neg()?.sum(0) } else { x.relu()?.sum(0) };
        refused(
            compile(6, &negated),
            "rank 1 has `neg` of [0: f32[6]] to [1], rank 2 has `relu` of [0: f32[6]] to [1]",
        );
        refused(
            compile(6, &|x| x.mul(if own == 0 { 2.0 } else { 3.0 })?.sum(0)),
            "rank 0 has `mul` of [0: f32[6]] with other=2.0 to [1], rank 2 has `mul` of \
             [0: f32[6]] with other=3.0",
        );
        refused(
            compile(6, &|x| if own == 1 { x.sum(0) } else { x.sum(0)?.neg() }),
            "rank 1 has the results [1], rank 2 has `neg` of [1: f32[]] to [2]",
        );
        refused(compile(6 + own / 2, &|x| x.sum(0)), "rank 0 has the input 0 f32[6]");
        // No rank waits for one that fails.
        let failed = compile(6, &|x| if own == 0 { x.reshape([5]) } else { x.sum(0) });
        refused(failed, if own == 0 { "reshape" } else { "rank 0 has the error: " });
        compile(6, &|x| x.sum(0))
    });
}

/// A rank outside of the mesh makes the same calls, knows the same tensors, and launches nothing.
#[test]
fn ranks_outside_the_mesh_compile_nothing() {
    let mesh = Mesh::new([2, 0]).unwrap();
    on_ranks(3, |rank| {
        let machine = &rank.machine;
        let f = machine
            .shard(&mesh, |inputs| Ok(vec![inputs[0].mul(2.0)?.sum(0)?]))
            .input(spec(&[6, 4]), [S(0)])
            .output([B])
            .compile()?;
        let is_outside = machine.communicator().rank() == 1;
        assert_eq!(f.executable().is_none(), is_outside);
        let rows = Sharding::new(&mesh, [S(0)])?;
        let x = Tensor::ones((6, 4), DType::F32, (machine, &rows))?;
        let y = f.call(&[&x])?.remove(0);
        assert_eq!((y.shape(), y.sbp().unwrap()), (&[4][..], &[B][..]));
        if !is_outside {
            assert_eq!(y.to_local()?.to_vec::<f32>()?, [12.0; 4]);
        }
        Ok(())
    });
}

/// A traced function takes global tensors: its capture is of this rank's part, and depends on how
/// they are held.
#[test]
fn traced_functions_take_global_tensors() {
    let mesh = Mesh::new([0, 1]).unwrap();
    on_ranks(2, |rank| {
        let machine = &rank.machine;
        let held = |sbp: Sbp| Sharding::new(&mesh, [sbp]).unwrap();
        let w = Tensor::from_slice(&numbers(12), (4, 3), (machine, &held(B)))?;
        let own = w.clone();
        let f = machine.traced(move |inputs, _| {
            let y = inputs[0].matmul(&own)?;
            Ok(vec![y.sum(0)?, y, inputs[0].clone()])
        });
        for (sbp, of_sum) in [(S(0), P), (B, B), (S(0), P), (B, B), (S(0), P)] {
            let x = Tensor::from_slice(&numbers(32), (8, 4), (machine, &held(sbp)))?;
            let made = f.call(&[&x]).run()?;
            assert_eq!((made[0].sbp().unwrap(), made[0].shape()), (&[of_sum][..], &[3][..]));
            assert_eq!((made[1].sbp().unwrap(), made[1].shape()), (&[sbp][..], &[8, 3][..]));
            assert_eq!(made[2].sbp().unwrap(), [sbp]);
            let plain = x.matmul(&w)?;
            assert_eq!(made[1].full_tensor()?.read()?, plain.full_tensor()?.read()?);
            let sum = plain.sum(0)?.full_tensor()?;
            assert_eq!(made[0].full_tensor()?.read()?, sum.read()?);
        }
        let report = f.report();
        assert_eq!((report.captures, report.replays), (2, 3), "{report}");
        let reason = "input 0: f32[8,4] held as B instead of f32[8,4] held as S0";
        assert!(report.to_string().contains(reason), "{report}");
        Ok(())
    });
}

/// A traced step of training: the gradients that it leaves are global.
#[test]
fn a_traced_training_step_leaves_global_gradients() {
    let mesh = Mesh::new([0, 1]).unwrap();
    on_ranks(2, |rank| {
        let machine = &rank.machine;
        let (whole, rows) = (Sharding::broadcast(&mesh), Sharding::new(&mesh, [S(0)])?);
        let run = |is_traced: bool| {
            let w = Tensor::from_slice(&numbers(12), (4, 3), (machine, &whole))?.with_grad()?;
            let mut state = optimisers::State::default();
            let own = w.clone();
            let step = machine.traced(move |inputs, _| {
                own.zero_grad();
                let tape = inputs[0].machine().tape();
                let loss = inputs[0].matmul(&own)?.tanh()?.mean(..)?;
                tape.backward(&loss)?;
                Ok(vec![loss.detach()?])
            });
            let mut losses = Vec::new();
            for k in 0..5 {
                let data: Vec<f32> = numbers(32).iter().map(|x| x + k as f32 / 16.0).collect();
                let x = Tensor::from_slice(&data, (8, 4), (machine, &rows))?;
                if !is_traced {
                    step.clear();
                }
                let loss = step.call(&[&x]).run()?.remove(0);
                assert_eq!(w.grad().unwrap().sbp().unwrap(), [B]);
                optimisers::sgd(&[&w], &mut state, &optimisers::Sgd::default())?;
                losses.push(loss.full_tensor()?.item::<f32>()?);
            }
            let report = step.report();
            assert_eq!(report.replays, if is_traced { 4 } else { 0 }, "{report}");
            losses.extend(w.full_tensor()?.to_vec::<f32>()?);
            Ok::<_, Error>(losses)
        };
        assert_eq!(run(true)?, run(false)?);
        Ok(())
    });
}
