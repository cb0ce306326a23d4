//! Writes in place to views, with gradients: on a mesh and on one rank.

use millstream::*;

use super::{on_ranks, shardings};

/// A program between two leaves' values and a loss: it changes `y`, or a view of it, by `z`.
type Change = fn(y: &Tensor, z: &Tensor) -> Result<Vec<Tensor>>;

/// Each with its name.
const CHANGES: &[(&str, Change)] = &[
    ("rows", |y, z| {
        y.narrow(0, 0, 2)?.add_(&z.narrow(0, 1, 2)?)?;
        Ok(vec![y.clone()])
    }),
    ("columns", |y, z| {
        y.narrow(1, 2, 3)?.mul_(&z.narrow(1, 0, 3)?)?;
        Ok(vec![y.clone()])
    }),
    ("a row", |y, z| {
        y.select(0, 1)?.copy_(&z.select(0, 2)?)?;
        Ok(vec![y.clone()])
    }),
    ("the transposed tensor", |y, z| {
        y.t()?.mul_(&z.t()?)?;
        Ok(vec![y.clone()])
    }),
    ("a view of a view, by a number", |y, _| {
        y.narrow(0, 1, 3)?.narrow(1, 2, 2)?.mul_(3.0)?;
        Ok(vec![y.clone()])
    }),
    ("a constant", |y, _| {
        y.narrow(1, 1, 2)?.fill_(2.0)?;
        Ok(vec![y.clone()])
    }),
    ("another shape", |y, z| {
        y.reshape((2, 2, 6))?.mul_(&z.reshape((2, 2, 6))?)?;
        Ok(vec![y.clone()])
    }),
    ("the diagonal", |y, z| {
        let diagonal = |x: &Tensor| x.diagonal();
        diagonal(y)?.add_(&diagonal(z)?)?;
        Ok(vec![y.clone()])
    }),
    ("the base of views", |y, z| {
        let (rows, columns) = (y.narrow(0, 1, 2)?, y.narrow(1, 1, 4)?);
        y.mul_(z)?;
        Ok(vec![y.clone(), rows, columns])
    }),
    ("one of two views", |y, z| {
        let (rows, columns) = (y.narrow(0, 1, 2)?, y.narrow(1, 1, 4)?);
        columns.mul_(&z.narrow(1, 2, 4)?)?;
        Ok(vec![y.clone(), rows])
    }),
];

/// Returns the loss of a program and the gradients of its leaves, on one rank or on a mesh.
fn run(
    change: Change,
    machine: &Machine,
    held: Option<(&Mesh, &[Sbp], &[Sbp])>,
) -> Result<Vec<Vec<f32>>> {
    let leaf = |seed: usize, sbp: Option<&[Sbp]>| {
        let data: Vec<f32> = (0..24).map(|k| ((k * 7 + seed) % 11) as f32 / 4.0 - 1.0).collect();
        let made = match (held, sbp) {
            (Some((mesh, ..)), Some(sbp)) => {
                Tensor::from_slice_global(&data, (4, 6), machine, mesh, sbp.iter().copied())
            }
            _ => Tensor::from_slice(&data, (4, 6), machine),
        };
        made?.with_grad()
    };
    let x = leaf(3, held.map(|(_, x, _)| x))?;
    let z = leaf(5, held.map(|(.., z)| z))?;
    let tape = machine.tape();
    let (y, factors) = (x.mul(2.0)?, z.mul(0.5)?);
    let mut loss: Option<Tensor> = None;
    for result in change(&y, &factors)? {
        let own = (&result * &result)?.sum(..)?;
        loss = Some(match loss {
            None => own,
            Some(loss) => loss.add(&own)?,
        });
    }
    let loss = loss.expect("a result");
    tape.backward(&loss)?;
    let mut made = Vec::new();
    for tensor in [Some(loss.detach()?), x.grad(), z.grad()].into_iter().flatten() {
        let whole = if held.is_some() { tensor.full_tensor()? } else { tensor };
        made.push(whole.to_vec::<f32>()?);
    }
    Ok(made)
}

/// A change is made as on one rank, with its gradients, or refused before anything moves, as
/// [the page](../../../docs/global-tensors.md) says.
#[test]
fn changes_of_views_have_the_gradients_of_one_rank() {
    let one = Machine::new(MachineConfig::default()).unwrap();
    let meshes = [(2, Mesh::new([0, 1]).unwrap()), (4, Mesh::new([[0, 1], [2, 3]]).unwrap())];
    for (name, change) in CHANGES {
        let expected = run(*change, &one, None).unwrap();
        for (ranks, mesh) in &meshes {
            let made = on_ranks(*ranks, |rank| {
                let mut made = 0;
                let all = shardings(mesh.rank(), 2);
                for (k, x) in all.iter().enumerate() {
                    for z in [x, &all[(k + 1) % all.len()]] {
                        let what = format!("{name} on {mesh}, {x:?} and {z:?}");
                        let got = match run(*change, &rank.machine, Some((mesh, x, z))) {
                            Ok(got) => got,
                            Err(error) => {
                                let text = error.to_string();
                                let is_told = text.contains("redistribute it to B first")
                                    || text.contains("shares memory with a view on one rank");
                                assert!(is_told, "{what}: {text}");
                                continue;
                            }
                        };
                        made += 1;
                        assert_eq!(got.len(), expected.len(), "{what}");
                        for (got, expected) in got.iter().zip(&expected) {
                            super::training::assert_near(got, expected, &what);
                        }
                    }
                }
                Ok(made)
            });
            assert!(made[0] > 0, "{name} on {mesh}");
        }
    }
}
