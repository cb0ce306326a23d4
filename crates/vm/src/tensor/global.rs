//! Global tensors: how programs make, redistribute and read them.

use std::hash::BuildHasher;
use std::sync::Arc;

use millstream_runtime::scope::origin;
use millstream_types::layout::{MAX_DIMS, brief};
use millstream_types::{Element, Error, Mesh, Result, Sbp, Sharding, TensorSpec};

use rustc_hash::FxBuildHasher;

use crate::handle::global::{self, agreement};
use crate::handle::machine::Machine;
use crate::handle::{Stream, Tensor, stream_of};

use super::Ints;

/// Tensors that the ranks of a mesh hold together. Each rank of the mesh makes the same calls; a
/// rank outside it may make them too, and emits nothing.
impl Tensor {
    /// Returns a global tensor with these elements, in row-major order. Every rank gives all of
    /// them, and keeps its part.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{Mesh, sbp::S};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let mesh = Mesh::new([0])?; // of one rank
    /// let x = Tensor::from_slice_global(&[1.0f32, 2.0], 2, &machine, &mesh, [S(0)])?;
    /// assert_eq!(x.full_tensor()?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::from_slice`]; the tensor cannot be held so, or the program lacks a rank of the
    /// mesh.
    #[track_caller]
    pub fn from_slice_global<T: Element>(
        elements: &[T],
        shape: impl Ints,
        machine: &Machine,
        mesh: &Mesh,
        sbp: impl IntoIterator<Item = Sbp>,
    ) -> Result<Tensor> {
        let sharding = Sharding::new(mesh, sbp).map_err(|e| e.at(&origin::caller()))?;
        Tensor::from_slice(elements, shape, (machine, &sharding))
    }

    /// Returns how the ranks of a mesh hold the tensor; `None` for a tensor of this rank.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32], 1, &machine)?;
    /// assert!(x.sharding().is_none());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn sharding(&self) -> Option<&Sharding> {
        self.global().map(|global| &*global.sharding)
    }

    /// Returns the mesh whose ranks hold the tensor; `None` for a tensor of this rank.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, Mesh, Sharding};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let whole = Sharding::broadcast(&Mesh::new([0])?);
    /// let x = Tensor::zeros(3, DType::F32, (&machine, &whole))?;
    /// assert_eq!(x.mesh().unwrap().ranks(), [0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn mesh(&self) -> Option<&Mesh> {
        self.sharding().map(Sharding::mesh)
    }

    /// Returns how the ranks along each axis of the mesh hold the tensor; `None` for a tensor of
    /// this rank.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, Mesh, Sharding, sbp::S};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let rows = Sharding::new(&Mesh::new([0])?, [S(0)])?;
    /// let x = Tensor::zeros(3, DType::F32, (&machine, &rows))?;
    /// assert_eq!(x.sbp().unwrap(), [S(0)]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn sbp(&self) -> Option<&[Sbp]> {
        self.sharding().map(Sharding::sbp)
    }

    /// Returns the part of this rank, a tensor on the same memory.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{Mesh, sbp::S};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mesh = Mesh::new([0])?;
    /// let x = Tensor::from_slice_global(&[1.0f32, 2.0], 2, &machine, &mesh, [S(0)])?;
    /// assert_eq!(x.to_local()?.to_vec::<f32>()?, [1.0, 2.0]); // all of it, as it has one rank
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor is not global, or this rank is outside its mesh.
    #[track_caller]
    pub fn to_local(&self) -> Result<Tensor> {
        let part = self.held().and_then(|held| held.own(self.spec()));
        part.cloned().map_err(|e| e.at(&origin::caller()))
    }

    /// Returns all elements as a tensor of this rank: the ranks of the mesh exchange their parts,
    /// so each of them has to call this.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{Mesh, sbp::P};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mesh = Mesh::new([0])?;
    /// let x = Tensor::from_slice_global(&[1.0f32, 2.0], 2, &machine, &mesh, [P])?;
    /// assert_eq!(x.full_tensor()?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor is not global, or this rank is outside its mesh.
    #[track_caller]
    pub fn full_tensor(&self) -> Result<Tensor> {
        let origin = origin::caller();
        let mesh = self.held().map_err(|e| e.at(&origin))?.sharding.mesh().clone();
        self.held_as(Sharding::broadcast(&mesh)).map_err(|e| e.at(&origin))?.to_local()
    }

    /// Returns the global tensor with this part on this rank, and none outside of the mesh. The
    /// ranks do not compare what they give, so that no rank waits for another.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{Mesh, Sharding};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// let part = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let whole = Sharding::broadcast(&Mesh::new([0])?);
    /// let x = Tensor::of_part(Some(part.clone()), part.spec().clone(), whole, &s)?;
    /// assert_eq!(x.full_tensor()?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor cannot be held so, or the part is not this rank's.
    #[track_caller]
    pub fn of_part(
        part: Option<Tensor>,
        spec: TensorSpec,
        sharding: Sharding,
        stream: &Stream,
    ) -> Result<Tensor> {
        let origin = origin::caller();
        let made = || {
            global::check_mesh(&stream.machine, sharding.mesh())?;
            sharding.check(spec.dtype, spec.shape())?;
            let at = global::coordinates(&stream.machine, sharding.mesh());
            let own = at.map(|at| sharding.local_spec(&spec, &at)).transpose()?;
            if part.as_ref().map(Tensor::spec) != own.as_ref() {
                let message = format!("another part than that of {} as {sharding}", spec.brief());
                return Err(Error::Invalid { what: "tensor", message });
            }
            let (spec, sharding) = (Arc::new(spec), Arc::new(sharding));
            let views = global::Views::default();
            Ok(global::wrap(part, spec, sharding, views, stream, &origin))
        };
        made().map_err(|e| e.at(&origin))
    }

    /// Returns the tensor as the ranks of its mesh hold it in another way, with dense parts.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{Mesh, sbp::{B, S}};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mesh = Mesh::new([0])?;
    /// let x = Tensor::from_slice_global(&[1.0f32, 2.0], 2, &machine, &mesh, [S(0)])?;
    /// let y = x.redistribute([B])?; // an allgather, where the mesh has several ranks
    /// assert_eq!(y.sbp().unwrap(), [B]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor is not global, or cannot be held so.
    #[track_caller]
    pub fn redistribute(&self, sbp: impl IntoIterator<Item = Sbp>) -> Result<Tensor> {
        let to = || {
            let mesh = self.held()?.sharding.mesh();
            self.held_as(Sharding::new(mesh, sbp)?)
        };
        to().map_err(|e| e.at(&origin::caller()))
    }

    /// Returns a global tensor. Of a tensor of this rank, which is its part, the ranks compare
    /// dtype, shape and `sbp`, and wait for one another; the parts of a split dimension must be
    /// [`part`](millstream_types::sharding::part)s of their sum. Of a global tensor, the ranks of
    /// both meshes exchange what the new ones need.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{Mesh, sbp::S};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let part = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let x = part.to_global(&Mesh::new([0])?, [S(0)])?;
    /// assert_eq!(x.shape(), [2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The ranks' tensors do not make one, it cannot be held so, or this rank has a part and is
    /// outside the mesh.
    #[track_caller]
    pub fn to_global(&self, mesh: &Mesh, sbp: impl IntoIterator<Item = Sbp>) -> Result<Tensor> {
        let origin = origin::caller();
        let made = || {
            let sharding = Sharding::new(mesh, sbp)?;
            match self.global() {
                Some(_) => self.held_as(sharding),
                None => self.joined(sharding),
            }
        };
        made().map_err(|e| e.at(&origin))
    }

    fn held(&self) -> Result<&global::Global> {
        self.global().ok_or_else(|| Error::Invalid {
            what: "tensor",
            message: format!(
                "{} is a tensor of this rank, not a global one; `to_global(&mesh, sbp)?` makes it \
                 one",
                self.spec().brief()
            ),
        })
    }

    /// Checks that the ranks of a mesh hold the tensor.
    ///
    /// # Errors
    /// It is a tensor of this rank, or held by another mesh.
    pub(crate) fn held_by(&self, mesh: &Mesh) -> Result<()> {
        let own = self.held()?.sharding.mesh();
        if own == mesh {
            return Ok(());
        }
        let message = format!(
            "{} is on mesh {own}, and the function is compiled for mesh {mesh}; redistribute it by \
             `to_global(&mesh, sbp)?`",
            self.spec().brief()
        );
        Err(Error::Invalid { what: "tensor", message })
    }

    #[track_caller]
    fn held_as(&self, to: Sharding) -> Result<Tensor> {
        let stream = stream_of(self)?;
        global::redistributed(self, &Arc::new(to), &stream, &origin::caller())
    }

    /// Returns the global tensor whose part on this rank is this tensor.
    #[track_caller]
    fn joined(&self, sharding: Sharding) -> Result<Tensor> {
        let machine = self.machine();
        global::check_mesh(machine, sharding.mesh())?;
        let Some(at) = global::coordinates(machine, sharding.mesh()) else {
            let message = format!(
                "rank {} is outside mesh {}, so it has no part of the tensor; make it there by \
                 `from_slice_global` or a place of the mesh",
                machine.communicator().rank(),
                sharding.mesh()
            );
            return Err(Error::Invalid { what: "tensor", message });
        };
        let mesh = sharding.mesh();
        let sbp: Vec<String> = sharding.sbp().iter().map(Sbp::to_string).collect();
        let text = |shape: &[usize]| format!("{} {}", brief(self.dtype(), shape), sbp.join(" "));
        let hash = FxBuildHasher;
        let own_mesh = hash.hash_one((mesh.shape(), mesh.ranks())) as i64;
        let kind = hash.hash_one((self.dtype().to_string(), &sbp, self.rank())) as i64;
        let lengths = self.shape().iter().map(|length| *length as i64);
        let mut own: Vec<i64> = [own_mesh, kind].into_iter().chain(lengths).collect();
        own.resize(2 + MAX_DIMS, 0);
        let all = agreement::exchange(machine, mesh, &own)?;
        if let Some(other) = all.iter().position(|of| of[..2] != all[0][..2]) {
            // Every rank has come here.
            let texts = agreement::exchange_text(machine, mesh, &text(self.shape()))?;
            let [rank, first] = [other, 0].map(|k| mesh.ranks()[k]);
            let message = if all[other][0] != all[0][0] {
                format!(
                    "rank {rank} calls to_global for another mesh than rank {first}, or with the \
                     ranks in another order"
                )
            } else {
                let (given, expected) = (&texts[other], &texts[0]);
                format!("rank {rank} calls to_global {given}, rank {first} {expected}")
            };
            return Err(Error::Invalid { what: "tensor", message });
        }
        let shapes = all.iter().map(|of| of[2..][..self.rank()].iter().map(|v| *v as usize));
        let shapes: Vec<Vec<usize>> = shapes.map(Iterator::collect).collect();
        sharding.check(self.dtype(), self.shape())?;
        // The whole length of a split dimension is the sum along its axes, that of the others is
        // every rank's.
        let mut shape: Vec<usize> = self.shape().to_vec();
        for (dim, length) in shape.iter_mut().enumerate() {
            *length = (0..mesh.ranks().len())
                .filter(|k| {
                    let of = mesh.coordinates_at(*k);
                    let mut axes = of.iter().zip(&at).zip(sharding.sbp());
                    axes.all(|((of, own), sbp)| *sbp == Sbp::Split(dim) || of == own)
                })
                .map(|k| shapes[k][dim])
                .sum();
        }
        for (k, other) in shapes.iter().enumerate() {
            let expected = sharding.local_shape(&shape, &mesh.coordinates_at(k));
            if other[..] != expected[..] {
                let message = format!(
                    "rank {} calls to_global {}; its part of {shape:?} would be {:?}",
                    mesh.ranks()[k],
                    text(other),
                    &expected[..],
                );
                return Err(Error::Invalid { what: "tensor", message });
            }
        }
        let spec = Arc::new(TensorSpec::contiguous(self.dtype(), &shape)?);
        let part = self.contiguous()?;
        let stream = stream_of(self)?;
        let origin = origin::caller();
        let (sharding, views) = (Arc::new(sharding), global::Views::default());
        Ok(global::wrap(Some(part), spec, sharding, views, &stream, &origin))
    }
}
