//! What a kernel has chosen for calls, kept for later ones on like operands. Calls on many tensors,
//! and the steps of executables, have no slot that keeps their
//! [bound form](crate::prepared::PreparedKernel).

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_types::{Attrs, DType, Dims};
use rustc_hash::{FxHashMap, FxHasher};

use crate::context::KernelCtx;

/// The number of calls that a cache remembers. A program with more kinds of calls begins anew.
const MOST: usize = 4096;

/// The plans of calls, by kernel, the operands' layouts and the arguments.
pub(crate) struct PlanCache<P>(Mutex<FxHashMap<u64, Remembered<P>>>);

enum Remembered<P> {
    /// One call. Most that differ from all others, such as those with a new seed, stay the only
    /// ones, and would be planned in vain.
    Once,
    /// The plan, if the kernel has one for such calls.
    Planned(Call, Option<Arc<P>>),
}

/// A call without addresses.
struct Call {
    kernel: u64,
    operands: Vec<(DType, Dims, Dims, usize)>,
    attrs: Attrs,
    workspace: usize,
}

impl<P> Default for PlanCache<P> {
    fn default() -> PlanCache<P> {
        PlanCache(Mutex::default())
    }
}

impl<P> PlanCache<P> {
    /// Returns the plan for a call of a kernel, each of which has a number. The second call of a
    /// kind makes it. Addresses differ by their remainder of `align`.
    pub(crate) fn get(
        &self,
        ctx: &KernelCtx<'_>,
        (kernel, align): (u64, usize),
        plan: impl FnOnce() -> Option<P>,
    ) -> Option<Arc<P>> {
        let mut hash = FxHasher::default();
        (kernel, ctx.operands(), ctx.workspace().1, ctx.attrs()).hash(&mut hash);
        for k in 0..ctx.operands() {
            let x = ctx.nth(k);
            (x.dtype, x.shape, x.strides, x.data.addr() % align).hash(&mut hash);
        }
        let hash = hash.finish();
        let mut calls = self.calls();
        match calls.get(&hash) {
            Some(Remembered::Planned(call, plan)) => {
                return plan.clone().filter(|_| call.is_like(ctx, (kernel, align)));
            }
            Some(Remembered::Once) => {}
            None => {
                if calls.len() >= MOST {
                    calls.clear();
                }
                calls.insert(hash, Remembered::Once);
                return None;
            }
        }
        // Not under the lock: to plan may be to compile.
        drop(calls);
        let plan = plan().map(Arc::new);
        self.calls()
            .insert(hash, Remembered::Planned(Call::of(ctx, (kernel, align)), plan.clone()));
        plan
    }

    fn calls(&self) -> MutexGuard<'_, FxHashMap<u64, Remembered<P>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    fn of(ctx: &KernelCtx<'_>, (kernel, align): (u64, usize)) -> Call {
        let operand = |k| {
            let x = ctx.nth(k);
            let (shape, strides) = (Dims::from_slice(x.shape), Dims::from_slice(x.strides));
            (x.dtype, shape, strides, x.data.addr() % align)
        };
        let operands = (0..ctx.operands()).map(operand).collect();
        Call { kernel, operands, attrs: ctx.attrs().clone(), workspace: ctx.workspace().1 }
    }

    fn is_like(&self, ctx: &KernelCtx<'_>, (kernel, align): (u64, usize)) -> bool {
        let is_like = |(k, (dtype, shape, strides, rest)): (usize, &(DType, Dims, Dims, usize))| {
            let x = ctx.nth(k);
            x.dtype == *dtype
                && x.shape == shape.as_slice()
                && x.strides == strides.as_slice()
                && x.data.addr() % align == *rest
        };
        self.kernel == kernel
            && self.operands.len() == ctx.operands()
            && self.workspace == ctx.workspace().1
            && self.attrs == *ctx.attrs()
            && self.operands.iter().enumerate().all(is_like)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Operands, RawTensor};

    struct One(usize, [usize; 2]);

    impl Operands for One {
        fn len(&self) -> usize {
            1
        }

        fn get(&self, _: usize) -> RawTensor<'_> {
            let data = std::ptr::without_provenance_mut(self.0);
            RawTensor { data, dtype: DType::F32, shape: &[2, 3], strides: &self.1 }
        }
    }

    #[test]
    fn the_second_call_of_a_kind_makes_the_plan_of_all_later_ones() {
        let cache: PlanCache<u32> = PlanCache::default();
        let made = std::cell::Cell::new(0);
        let plan = |x: One, attrs: Attrs, kernel| {
            // SAFETY: nothing accesses the operand.
            let ctx = unsafe { KernelCtx::new(&x, &attrs, (std::ptr::null_mut(), 0), None, &()) };
            let plan = || {
                made.set(made.get() + 1);
                Some(made.get())
            };
            cache.get(&ctx, (kernel, 256), plan).map(|plan| *plan)
        };
        let (dense, none) = ([3, 1], Attrs::new);
        assert_eq!(plan(One(256, dense), none(), 0), None);
        assert_eq!(plan(One(512, dense), none(), 0), Some(1));
        assert_eq!(plan(One(768, dense), none(), 0), Some(1));
        // Another alignment, layout, argument or kernel is another call.
        assert_eq!(plan(One(260, dense), none(), 0), None);
        assert_eq!(plan(One(256, [1, 2]), none(), 0), None);
        assert_eq!(plan(One(256, dense), none().with("dim", 1), 0), None);
        assert_eq!(plan(One(256, dense), none(), 1), None);
        assert_eq!(plan(One(256, dense), none(), 1), Some(2));
        assert_eq!(plan(One(256, dense), none(), 0), Some(1));
    }
}
