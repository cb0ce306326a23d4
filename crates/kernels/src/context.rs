//! What a kernel is given.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use once_cell::sync::OnceCell;

use millstream_types::{Attrs, DType};

use crate::later::{Later, OnComplete};

/// A tensor's memory, as a kernel sees it.
#[derive(Clone, Copy)]
pub struct RawTensor<'a> {
    /// The address of the first element (offset included), in the device's address space.
    pub data: *mut u8,
    /// The type of the elements.
    pub dtype: DType,
    /// The lengths of the dimensions.
    pub shape: &'a [usize],
    /// The strides of the dimensions, in elements.
    pub strides: &'a [usize],
}

impl fmt::Debug for RawTensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?} strides {:?}", self.dtype, self.shape, self.strides)
    }
}

impl RawTensor<'_> {
    /// The number of elements.
    pub fn numel(&self) -> usize {
        millstream_types::layout::numel(self.shape)
    }
}

/// The operands of a call, resolved only when asked for.
pub trait Operands {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Operand number `index`; `index` is below [`Operands::len`].
    fn get(&self, index: usize) -> RawTensor<'_>;
}

/// The threads that all kernels of a machine share, started at the first call that uses them.
pub struct Threads {
    count: usize,
    on_start: Arc<dyn Fn() + Send + Sync>,
    pool: OnceCell<Option<rayon::ThreadPool>>,
}

impl Threads {
    /// `count` threads, each of which calls `on_start` first. With one or none, kernels run on the
    /// thread that calls them.
    pub fn new(count: usize, on_start: Arc<dyn Fn() + Send + Sync>) -> Threads {
        Threads { count, on_start, pool: OnceCell::new() }
    }

    /// The threads; none if kernels are to run where they are called. Results are the same either
    /// way, so threads that cannot be started are done without.
    fn pool(&self) -> Option<&rayon::ThreadPool> {
        if self.count < 2 {
            return None;
        }
        let started = self.pool.get_or_init(|| {
            let on_start = self.on_start.clone();
            rayon::ThreadPoolBuilder::new()
                .num_threads(self.count)
                .thread_name(|k| format!("ms-kernel-{k}"))
                .start_handler(move |_| on_start())
                .build()
                .ok()
        });
        started.as_ref()
    }

    /// How many threads have been started.
    pub fn started(&self) -> usize {
        self.pool.get().and_then(Option::as_ref).map_or(0, rayon::ThreadPool::current_num_threads)
    }
}

/// One call of a kernel.
#[derive(Clone, Copy)]
pub struct KernelCtx<'a> {
    operands: &'a dyn Operands,
    attrs: &'a Attrs,
    workspace: (*mut u8, usize),
    threads: Option<&'a Threads>,
    native: &'a dyn Any,
    later: Option<&'a dyn Later>,
}

impl<'a> KernelCtx<'a> {
    /// A call on these operands.
    ///
    /// # Safety
    /// For as long as the context lives: every operand's memory is valid for reads and writes over
    /// all its elements and aligned to its dtype, `workspace` is valid for its number of bytes and
    /// used by nothing else, nobody else writes an operand, and nobody else reads an operand that
    /// the kernel writes.
    pub unsafe fn new(
        operands: &'a dyn Operands,
        attrs: &'a Attrs,
        workspace: (*mut u8, usize),
        threads: Option<&'a Threads>,
        native: &'a dyn Any,
    ) -> KernelCtx<'a> {
        KernelCtx { operands, attrs, workspace, threads, native, later: None }
    }

    /// The same call, which may complete later than its kernel returns.
    pub fn with_later(self, later: &'a dyn Later) -> KernelCtx<'a> {
        KernelCtx { later: Some(later), ..self }
    }

    /// A token that completes the call, from any thread: then it has not completed when the kernel
    /// returns, but once the token says so. A token that is dropped fails the call, and so does an
    /// error that the kernel returns; that, too, counts once the token has gone, as its holder may use
    /// the operands till then.
    ///
    /// # Errors
    /// The token was taken before, or the device runs kernels by itself: there, whatever is to be
    /// waited for has to be on its stream.
    pub fn on_complete(&self) -> anyhow::Result<OnComplete> {
        let later = self.later.ok_or_else(|| {
            anyhow::anyhow!("a call completes with its kernel where the device runs by itself")
        })?;
        later.take().ok_or_else(|| anyhow::anyhow!("the call's token was taken before"))
    }

    /// How many operands there are.
    pub fn operands(&self) -> usize {
        self.operands.len()
    }

    /// Operand number `index`.
    ///
    /// # Errors
    /// There is no such operand: schema and kernel disagree.
    pub fn operand(&self, index: usize) -> anyhow::Result<RawTensor<'a>> {
        let count = self.operands.len();
        anyhow::ensure!(index < count, "operand {index} of {count}: schema and kernel disagree");
        Ok(self.operands.get(index))
    }

    /// The call's named arguments.
    pub fn attrs(&self) -> &'a Attrs {
        self.attrs
    }

    /// The scratch memory that the schema asked for: address and bytes, of unspecified content.
    pub fn workspace(&self) -> (*mut u8, usize) {
        self.workspace
    }

    /// The native stream to launch on, as the backend defines it.
    pub fn native(&self) -> &'a dyn Any {
        self.native
    }

    /// Calls `part` once for each of `0..parts`, on the kernels' shared threads if there are any.
    /// The parts must not depend on one another or on their order.
    pub fn for_each(&self, parts: usize, part: impl Fn(usize) + Sync + Send) {
        match self.threads.filter(|_| parts > 1).and_then(Threads::pool) {
            Some(pool) => for_each_on(pool, parts, &part),
            None => (0..parts).for_each(part),
        }
    }
}

/// Calls `part` for each of `0..parts` on the threads of a pool. It is not generic: the code of the
/// pool is compiled once, and not again for each kernel, where it was a third of this crate's code.
fn for_each_on(pool: &rayon::ThreadPool, parts: usize, part: &(dyn Fn(usize) + Sync)) {
    use rayon::prelude::*;
    pool.install(|| (0..parts).into_par_iter().for_each(part));
}
