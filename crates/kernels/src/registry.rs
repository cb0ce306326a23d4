//! Kernels by device kind and op. A registry is a value; anyone can add to it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::context::KernelCtx;

/// What runs when an op is called on a device of some kind.
pub trait Kernel: Send + Sync {
    /// Runs the call, or launches it on the context's native stream.
    ///
    /// # Errors
    /// Whatever cannot be known before running. What it wrote counts as poisoned.
    fn run(&self, ctx: &KernelCtx<'_>) -> anyhow::Result<()>;
}

impl<F: Fn(&KernelCtx<'_>) -> anyhow::Result<()> + Send + Sync> Kernel for F {
    fn run(&self, ctx: &KernelCtx<'_>) -> anyhow::Result<()> {
        self(ctx)
    }
}

/// The kernels that a machine knows.
#[derive(Clone, Default)]
pub struct KernelRegistry {
    kernels: HashMap<String, HashMap<String, Arc<dyn Kernel>>>,
}

impl KernelRegistry {
    /// A registry without kernels.
    pub fn new() -> KernelRegistry {
        KernelRegistry::default()
    }

    /// Sets the kernel of `op` for devices of `kind`; an earlier one is replaced.
    pub fn register(&mut self, kind: &str, op: &str, kernel: Arc<dyn Kernel>) {
        self.kernels.entry(kind.to_owned()).or_default().insert(op.to_owned(), kernel);
    }

    /// The kernel of `op` for devices of `kind`.
    pub fn get(&self, kind: &str, op: &str) -> Option<&Arc<dyn Kernel>> {
        self.kernels.get(kind)?.get(op)
    }

    /// The ops that have a kernel for devices of `kind`, by name.
    pub fn ops(&self, kind: &str) -> Vec<&str> {
        let mut ops: Vec<&str> =
            self.kernels.get(kind).into_iter().flatten().map(|(op, _)| op.as_str()).collect();
        ops.sort_unstable();
        ops
    }
}

/// A registry of the standard ops' kernels.
pub fn standard() -> KernelRegistry {
    let mut kernels = KernelRegistry::new();
    crate::cpu::register(&mut kernels);
    #[cfg(feature = "cuda")]
    crate::cuda::register(&mut kernels);
    kernels
}

impl fmt::Debug for KernelRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (kind, ops) in &self.kernels {
            let mut names: Vec<&String> = ops.keys().collect();
            names.sort();
            map.entry(kind, &names);
        }
        map.finish()
    }
}
