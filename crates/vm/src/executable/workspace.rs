//! The private memory of launches as a number, and as a tensor of the caller.

use smallvec::SmallVec;

use millstream_instructions::passes::{Effort, arena_plans};
use millstream_instructions::planner::GRANULARITY;
use millstream_instructions::{Body, InstructionsBuilder, TensorRef};
use millstream_types::{Access, DType, DeviceId, Error, Result, TensorSpec};

use super::{Executable, ExecutableInner};

/// The private memory that a launch needs on a device, in bytes.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{DType, TensorSpec};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let f = machine.record(|r| {
/// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// #     let y = r.call("cumsum", &[x]).attr("dim", 0).run()?;
/// #     let y = r.call("cumsum", &[y[0]]).attr("dim", 0).run()?;
/// #     r.output("y", &y[0])
/// # })?.compile()?;
/// for Workspace { device, bytes, scratch, .. } in f.workspace() {
///     println!("{bytes} bytes on {device}, of which a call takes {scratch} at most");
/// }
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// The device.
    pub device: DeviceId,
    /// The whole: the least size of a tensor for [`LaunchBuilder::workspace`].
    ///
    /// [`LaunchBuilder::workspace`]: crate::LaunchBuilder::workspace
    pub bytes: u64,
    /// The part, from its beginning, in which tensors lie between calls.
    pub intermediates: u64,
    /// The largest scratch memory of one call.
    pub scratch: u64,
    /// The bytes that no placement of the list's memory goes below; 0 if it is not known.
    pub bound: u64,
}

impl Executable {
    /// Returns the private memory that a launch needs, by device.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let f = machine.record(|r| {
    ///     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[200, 2])?)?;
    ///     let y = r.call("cumsum", &[x]).attr("dim", 0).run()?;
    ///     let y = r.call("cumsum", &[y[0]]).attr("dim", 0).run()?;
    ///     r.output("y", &y[0])
    /// })?;
    /// let needed = f.compile()?.workspace();
    /// assert!(needed[0].bytes >= 1600 && needed[0].bound >= 1600);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn workspace(&self) -> Vec<Workspace> {
        let program = &self.0.program;
        let plans = arena_plans(&program.list, Effort::Fast).ok().flatten().unwrap_or_default();
        let one = |(device, bytes): &(DeviceId, u64)| {
            let is_here = |arena: usize| program.list.arenas.get(arena) == Some(device);
            let (mut intermediates, mut scratch) = (0, 0);
            for body in program.list.instructions.iter().map(|i| &i.body) {
                let Some(place) = body.placement().filter(|p| is_here(p.arena.index())) else {
                    continue;
                };
                match body {
                    Body::OpCall { .. } => scratch = place.size.max(scratch),
                    _ => intermediates = (place.offset + place.size).max(intermediates),
                }
            }
            let bound = plans.iter().filter(|plan| plan.device == *device);
            let bound = bound.map(|plan| plan.offsets.bound).sum();
            Workspace { device: device.clone(), bytes: *bytes, intermediates, scratch, bound }
        };
        program.memory.iter().map(one).collect()
    }
}

impl ExecutableInner {
    /// Returns the caller's tensors, given with their specs and devices, in the order of the
    /// devices with private memory; none if the caller gave none.
    ///
    /// # Errors
    /// A tensor is no memory that a launch can use, or a device has none.
    pub(super) fn workspaces(
        &self,
        given: &[(TensorRef, &TensorSpec, &DeviceId)],
    ) -> Result<Option<SmallVec<[TensorRef; 1]>>> {
        if given.is_empty() {
            return Ok(None);
        }
        let refused = |message: String| Error::Invalid { what: "workspace", message };
        let memory = &self.program.memory;
        let needs = || {
            let needs = memory.iter().map(|(device, bytes)| format!("{bytes} bytes on {device}"));
            let needs: Vec<String> = needs.collect();
            if needs.is_empty() { "none".to_owned() } else { needs.join(", ") }
        };
        for (k, &(_, spec, device)) in given.iter().enumerate() {
            let is_twice = given[..k].iter().any(|(.., other)| *other == device);
            if !memory.iter().any(|(of, _)| of == device) || is_twice {
                let message = format!(
                    "expected one tensor for each device with private memory, {}, got {spec} on \
                     {device}",
                    needs()
                );
                return Err(refused(message));
            }
            let is_aligned = (spec.layout.offset() as u64).is_multiple_of(GRANULARITY);
            if spec.dtype != DType::U8 || !spec.layout.is_contiguous() || !is_aligned {
                return Err(refused(format!(
                    "expected a contiguous tensor of u8 at a multiple of {GRANULARITY} bytes in \
                     its storage, got {spec}"
                )));
            }
        }
        let of = |(device, bytes): &(DeviceId, u64)| {
            let here = given.iter().find(|(.., of)| *of == device);
            let &(tensor, spec, _) = here.ok_or_else(|| {
                let needs = needs();
                refused(format!("expected one for each device, {needs}, got none on {device}"))
            })?;
            let size = spec.numel() as u64;
            if size < *bytes {
                let message = format!("expected at least {bytes} bytes on {device}, got {size}");
                return Err(refused(message));
            }
            Ok(tensor)
        };
        memory.iter().map(of).collect::<Result<_>>().map(Some)
    }

    /// Checks that workspaces share no bytes with formals.
    pub(super) fn check_workspaces(
        &self,
        builder: &InstructionsBuilder,
        workspaces: &[TensorRef],
        formals: &[Option<TensorRef>],
    ) -> Result<()> {
        for (&workspace, (_, size)) in workspaces.iter().zip(&self.program.memory) {
            let begin = builder.spec(workspace)?.layout.offset() as u64;
            let own = begin..begin + size;
            let storage = builder.storage_of(workspace)?;
            for (formal, tensor) in formals.iter().enumerate() {
                let Some(tensor) = *tensor else { continue };
                if builder.storage_of(tensor)? != storage {
                    continue;
                }
                let bytes = builder.storage_bytes(tensor)?;
                let used = self.program.extent(formal, builder.spec(tensor)?, bytes)?;
                if used.start < own.end && own.start < used.end {
                    let name = self.program.name(formal);
                    let message = format!(
                        "it lies in bytes {own:?} of a storage of which {name:?} uses {used:?}; \
                         give memory that no formal uses"
                    );
                    return Err(Error::Invalid { what: "workspace", message });
                }
            }
        }
        Ok(())
    }
}

/// The access of a launch to its workspaces: what was in them does not matter.
pub(super) const ACCESS: Access = Access::Write;
