//! Kernels by device kind and op. A registry is a value; anyone can add to it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::context::KernelCtx;
use crate::prepared::{KernelSpec, PlannedKernel, PreparedKernel};
use rustc_hash::{FxHashMap, FxHashSet};

/// The implementation of an op for one kind of device.
pub trait Kernel: Send + Sync {
    /// Executes the call, or launches it on the context's native stream.
    ///
    /// # Errors
    /// Failures that cannot be detected before running. The call's outputs are then poisoned.
    fn run(&self, ctx: &KernelCtx<'_>) -> anyhow::Result<()>;

    /// Binds the kernel to the layouts and arguments of a call that runs many times. Returns none
    /// if the kernel has no such form: it is then run by [`Kernel::run`]. Both give the same bits.
    fn prepare(&self, _call: KernelSpec<'_>) -> Option<Arc<dyn PreparedKernel>> {
        None
    }

    /// Chooses once what a call launches on the device of a native stream. `written` says which
    /// operands the call writes. Returns none if the kernel has no such form: it is then run by
    /// [`Kernel::run`]. Both give the same bits.
    fn plan(
        &self,
        _call: KernelSpec<'_>,
        _written: &[bool],
        _native: &dyn Any,
    ) -> Option<Arc<dyn PlannedKernel>> {
        None
    }
}

impl<F: Fn(&KernelCtx<'_>) -> anyhow::Result<()> + Send + Sync> Kernel for F {
    fn run(&self, ctx: &KernelCtx<'_>) -> anyhow::Result<()> {
        self(ctx)
    }
}

/// The kernels of a machine. Clones share one table until one of them changes.
#[derive(Clone, Default)]
pub struct KernelRegistry(Arc<Table>);

#[derive(Clone, Default)]
struct Table {
    kernels: FxHashMap<String, FxHashMap<String, Arc<dyn Kernel>>>,
    /// The ops of which a program has given a kernel.
    own: FxHashSet<String>,
}

impl KernelRegistry {
    /// Creates a registry without kernels.
    pub fn new() -> KernelRegistry {
        KernelRegistry::default()
    }

    /// Sets the kernel of `op` for devices of `kind`. Replaces an earlier one.
    pub fn register(&mut self, kind: &str, op: &str, kernel: Arc<dyn Kernel>) {
        let table = Arc::make_mut(&mut self.0);
        table.own.insert(op.to_owned());
        table.kernels.entry(kind.to_owned()).or_default().insert(op.to_owned(), kernel);
    }

    /// Returns whether all kernels of `op` are those of [`standard`]: then what is known of the
    /// standard ones, as that they may be fused, is true of them.
    pub fn is_standard(&self, op: &str) -> bool {
        !self.0.own.contains(op)
    }

    /// Returns the kernel of `op` for devices of `kind`.
    pub fn get(&self, kind: &str, op: &str) -> Option<&Arc<dyn Kernel>> {
        self.0.kernels.get(kind)?.get(op)
    }

    /// Returns the names of the ops that have a kernel for devices of `kind`, sorted.
    pub fn ops(&self, kind: &str) -> Vec<&str> {
        let mut ops: Vec<&str> =
            self.0.kernels.get(kind).into_iter().flatten().map(|(op, _)| op.as_str()).collect();
        ops.sort_unstable();
        ops
    }
}

/// Returns a registry of the standard ops' kernels. It is filled once in a process.
pub fn standard() -> KernelRegistry {
    static STANDARD: OnceLock<KernelRegistry> = OnceLock::new();
    let filled = STANDARD.get_or_init(|| {
        let mut kernels = KernelRegistry::new();
        crate::cpu::register(&mut kernels);
        #[cfg(feature = "cuda")]
        crate::cuda::register(&mut kernels);
        Arc::make_mut(&mut kernels.0).own.clear();
        kernels
    });
    filled.clone()
}

impl fmt::Debug for KernelRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (kind, ops) in &self.0.kernels {
            let mut names: Vec<&String> = ops.keys().collect();
            names.sort();
            map.entry(kind, &names);
        }
        map.finish()
    }
}
