//! Plans of calls: what a call launches is chosen once, and later calls like it give addresses
//! alone.
//!
//! A kernel is planned by running it on operands at addresses of no memory, on a stream that notes
//! launches instead of making them ([`NativeStream::plan`]). So a plan has what the kernel itself
//! chooses: functions, grids, argument blocks, products of matrices. The argument blocks say where
//! their addresses stand ([`ArgsHeader`](super::args::ArgsHeader)).
//!
//! # Rules
//! 1. A kernel chooses by its operands' layouts, the arguments, the device, the overlap of operands
//!    with written ones, and the alignment of addresses to at most [`ALIGN`] bytes. The first three
//!    are those of the plan; a call whose operands overlap or are aligned otherwise is no call of
//!    the plan.
//! 2. A kernel that needs more than launches has no plan: scratch memory of the stream, flags for
//!    errors, copies, the host.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use smallvec::SmallVec;

use millstream_ep::cuda::{KernelLaunch, NativeStream, PlannedLaunch, WorkPlan};
use millstream_types::{Attrs, TensorSpec, catch_panic};

use super::args::MemoryRange;
use super::native;
use crate::context::{KernelCtx, Operands, RawTensor};
use crate::cpu::call_layouts::unlocated;
use crate::cpu::multi_tensor::overlap;
use crate::plan_cache::PlanCache;
use crate::prepared::{KernelSpec, PlannedKernel};
use crate::registry::{Kernel, KernelRegistry};

/// The greatest alignment of an address that kernels choose by.
const ALIGN: u64 = 256;

/// The distance of the addresses that operands have while a call is planned.
const DISTANCE: u64 = 1 << 40;

/// A kernel that can be planned.
struct Plannable {
    kernel: Arc<dyn Kernel>,
    /// A number that no other kernel of the process has: streams keep the plans.
    number: u64,
}

impl Plannable {
    /// Launches a call by the plan of earlier ones like it. Returns false if there is none.
    fn launch_planned(&self, ctx: &KernelCtx<'_>, native: &NativeStream) -> Result<bool> {
        // The numbers of a graph's launches are no part of a plan.
        if ctx.graph_words().is_some() {
            return Ok(false);
        }
        let key = (self.number, ALIGN as usize);
        let plan = native.kept::<PlanCache<KernelPlan>>().get(ctx, key, || {
            let operands: Vec<RawTensor<'_>> = (0..ctx.operands()).map(|k| ctx.nth(k)).collect();
            // Which operands a call writes is its op's to say: here, any.
            let plan = || {
                let written = |_| true;
                KernelPlan::new(
                    &*self.kernel,
                    &operands,
                    written,
                    (ctx.attrs(), ctx.workspace().1),
                    native,
                )
            };
            catch_panic(plan).ok()
        });
        let Some(plan) = plan else { return Ok(false) };
        let addresses = (0..ctx.operands()).map(|k| ctx.nth(k).data);
        let (workspace, bytes) = ctx.workspace();
        let addresses: SmallVec<[*mut u8; 8]> =
            addresses.chain((bytes > 0).then_some(workspace)).collect();
        // SAFETY: the context's operands and workspace, as for any call.
        unsafe { plan.launch_on(&addresses, native) }
    }
}

impl Kernel for Plannable {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        if self.launch_planned(ctx, native(ctx)?)? {
            return Ok(());
        }
        self.kernel.run(ctx)
    }

    fn plan(
        &self,
        call: KernelSpec<'_>,
        written: &[bool],
        native: &dyn Any,
    ) -> Option<Arc<dyn PlannedKernel>> {
        let native = native.downcast_ref()?;
        let KernelSpec { operands, attrs, workspace } = call;
        // Storages are aligned, so the remainder of an address is the offset.
        let offset = |spec: &TensorSpec| spec.layout.offset() * spec.dtype.size();
        let operands = operands.iter().map(|spec| RawTensor {
            data: std::ptr::without_provenance_mut(offset(spec)),
            ..unlocated(spec)
        });
        let operands: Vec<RawTensor<'_>> = operands.collect();
        // A call without a plan runs in its context, which gives the error.
        let plan = || {
            let written = |k: usize| written[k];
            KernelPlan::new(&*self.kernel, &operands, written, (attrs, workspace), native)
        };
        Some(Arc::new(catch_panic(plan).ok()?))
    }
}

/// Registers kernels such that they can be planned.
pub(super) fn register(plannable: &KernelRegistry, kernels: &mut KernelRegistry) {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    for op in plannable.ops(super::KIND) {
        if let Some(kernel) = plannable.get(super::KIND, op) {
            // Relaxed: a number has no other meaning.
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let kernel = Plannable { kernel: kernel.clone(), number };
            kernels.register(super::KIND, op, Arc::new(kernel));
        }
    }
}

/// The launches of a call of a kernel: for each its function, grid, block, shared memory and
/// argument block, or its matrix product, and where the call's addresses stand in it.
struct KernelPlan {
    /// The operands, and the workspace if there is one.
    operands: SmallVec<[PlannedOperand; 4]>,
    plan: WorkPlan,
    /// For each launch, what is launched, where its addresses stand, and the argument block, in
    /// which each call sets them.
    launches: Mutex<Vec<(PlannedLaunch, SmallVec<[Place; 4]>)>>,
}

/// An operand of a plan.
struct PlannedOperand {
    /// Its address while the call was planned.
    address: u64,
    bytes: u64,
    is_written: bool,
}

/// An address in a launch.
struct Place {
    /// The word of the argument block; of a product, which of its matrices.
    at: usize,
    operand: usize,
    /// The bytes from the operand's first element.
    offset: u64,
}

/// Operands at the addresses of a plan.
struct Unlocated<'a>(Vec<RawTensor<'a>>);

impl Operands for Unlocated<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        self.0[index]
    }
}

impl KernelPlan {
    /// Plans a call on operands like these, whose addresses are those of the call but for a
    /// multiple of [`ALIGN`].
    ///
    /// # Errors
    /// The kernel refuses the call, or needs more than launches.
    fn new(
        kernel: &dyn Kernel,
        like: &[RawTensor<'_>],
        is_written: impl Fn(usize) -> bool,
        (attrs, workspace): (&Attrs, usize),
        native: &NativeStream,
    ) -> Result<KernelPlan> {
        let mut operands: SmallVec<[PlannedOperand; 4]> = SmallVec::new();
        let mut tensors = Vec::new();
        for (k, &x) in like.iter().enumerate() {
            let address = (k as u64 + 1) * DISTANCE + x.data.addr() as u64 % ALIGN;
            let data = std::ptr::without_provenance_mut(address as usize);
            let tensor = RawTensor { data, ..x };
            let bytes = MemoryRange::of(&tensor).bytes;
            operands.push(PlannedOperand { address, bytes, is_written: is_written(k) });
            tensors.push(tensor);
        }
        let memory = (like.len() as u64 + 1) * DISTANCE;
        if workspace > 0 {
            let bytes = workspace as u64;
            operands.push(PlannedOperand { address: memory, bytes, is_written: true });
        }
        ensure!(operands.iter().all(|x| x.bytes <= DISTANCE / 2), "an operand is too large");
        let tensors = Unlocated(tensors);
        let memory = (std::ptr::without_provenance_mut(memory as usize), workspace);
        // SAFETY: the stream plans: it launches nothing, so nothing accesses the operands.
        let ctx = unsafe { KernelCtx::new(&tensors, attrs, memory, None, native) };
        let mut plan = native.plan(|| kernel.run(&ctx))?;
        let places = |launch: &PlannedLaunch| {
            let addresses: SmallVec<[(usize, u64); 4]> = match launch {
                PlannedLaunch::Kernel(launch) => addresses(&launch.arguments)?,
                PlannedLaunch::Gemm(gemm) => {
                    let matrices = [&gemm.x, &gemm.y, &gemm.out];
                    matrices.iter().map(|m| m.data.addr() as u64).enumerate().collect()
                }
                PlannedLaunch::Access(at) => SmallVec::from_iter([(0, at.addr() as u64)]),
            };
            let place = |(at, address)| place(&operands, at, address);
            addresses.into_iter().map(place).collect::<Result<_>>()
        };
        let launches = std::mem::take(&mut plan.launches).into_iter();
        let launches = launches.map(|launch| {
            let places = places(&launch)?;
            Ok((launch, places))
        });
        let launches = Mutex::new(launches.collect::<Result<_>>()?);
        Ok(KernelPlan { operands, plan, launches })
    }

    /// Returns whether the kernel would choose what is planned for operands at these addresses.
    fn is_for(&self, addresses: &[*mut u8]) -> bool {
        let all = || self.operands.iter().zip(addresses.iter().map(|data| data.addr()));
        let is_aligned = all().all(|(x, at)| at as u64 % ALIGN == x.address % ALIGN);
        let ranges = all().map(|(x, at)| (at, x.bytes as usize, x.is_written));
        addresses.len() == self.operands.len() && is_aligned && overlap(ranges).is_none()
    }

    /// Launches the plan on operands at these addresses; launches nothing and returns false if it
    /// is not for them.
    ///
    /// # Errors
    /// The device refuses a launch.
    ///
    /// # Safety
    /// As for [`PlannedKernel::launch`].
    unsafe fn launch_on(&self, operands: &[*mut u8], native: &NativeStream) -> Result<bool> {
        if !native.has_device_of(&self.plan) || !self.is_for(operands) {
            return Ok(false);
        }
        let address = |place: &Place| operands[place.operand].wrapping_add(place.offset as usize);
        // A launch copies its argument block.
        let mut launches = self.launches.lock().unwrap_or_else(PoisonError::into_inner);
        for (launch, places) in &*launches {
            if matches!(launch, PlannedLaunch::Access(_))
                && !native.can_access(address(&places[0]))?
            {
                return Ok(false);
            }
        }
        for (launch, places) in &mut *launches {
            match launch {
                PlannedLaunch::Access(_) => {}
                PlannedLaunch::Kernel(KernelLaunch { kernel, grid, block, shared, arguments }) => {
                    for place in places {
                        arguments[place.at] = address(place).addr() as u64;
                    }
                    // SAFETY: the kernel's own argument block, with the addresses of this call's
                    // operands, which the caller guarantees.
                    unsafe { native.launch_block(kernel, *grid, *block, *shared, arguments)? };
                }
                PlannedLaunch::Gemm(gemm) => {
                    for place in places {
                        let matrices = [&mut gemm.x, &mut gemm.y, &mut gemm.out];
                        matrices[place.at].data = address(place);
                    }
                    // SAFETY: as above, for the matrices. No written operand overlaps another.
                    unsafe { native.gemm(gemm)? };
                }
            }
        }
        Ok(true)
    }
}

/// Returns the addresses in an argument block, each with its word. Absent operands have none.
fn addresses(arguments: &[u64]) -> Result<SmallVec<[(usize, u64); 4]>> {
    let [first, second] = *arguments.first_chunk().context("no header")?;
    let ([size, operands], [offset, stride]) = (halves(first), halves(second));
    ensure!(size == size_of_val(arguments), "an argument block of another size");
    let range = |k: usize| {
        let at = (offset + k * stride) / size_of::<u64>();
        let data = *arguments.get(at).context("an operand outside of the argument block")?;
        Ok((at, data))
    };
    let all: Result<SmallVec<[(usize, u64); 4]>> = (0..operands).map(range).collect();
    Ok(all?.into_iter().filter(|(_, data)| *data != 0).collect())
}

/// Returns the two halves of a word, the lower address first.
fn halves(word: u64) -> [usize; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [[a, b, c, d], [e, f, g, h]].map(|half| u32::from_ne_bytes(half) as usize)
}

/// Returns where an address of a launch comes from.
fn place(operands: &[PlannedOperand], at: usize, address: u64) -> Result<Place> {
    let has = |x: &PlannedOperand| (x.address..=x.address + x.bytes).contains(&address);
    let operand = operands.iter().position(has).context("an address of no operand")?;
    Ok(Place { at, operand, offset: address - operands[operand].address })
}

impl PlannedKernel for KernelPlan {
    unsafe fn launch(&self, operands: &[*mut u8], native: &dyn Any) -> Result<bool> {
        let Some(native) = native.downcast_ref() else { return Ok(false) };
        // SAFETY: guaranteed by the caller.
        unsafe { self.launch_on(operands, native) }
    }
}
