//! The arguments of a kernel: operands, attributes, workspace, threads and native stream.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use once_cell::sync::OnceCell;

use millstream_comm::Communicator;
use millstream_types::{Attrs, DType, Dims, Origin};

use crate::completion::{CompletionToken, DeferredCompletion};

/// A view of a tensor's memory: address, dtype, shape and strides.
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
    /// Returns the number of elements.
    pub fn numel(&self) -> usize {
        millstream_types::layout::numel(self.shape)
    }

    /// Returns whether the elements follow one another in row-major order.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1usize;
        let mut dims = self.shape.iter().zip(self.strides).rev();
        dims.all(|(&length, &stride)| {
            let fits = length == 1 || stride == step;
            step = step.wrapping_mul(length);
            fits
        })
    }
}

/// As [`RawTensor`], with a layout of its own.
pub(crate) struct StoredTensor {
    pub(crate) data: *mut u8,
    dtype: DType,
    shape: Dims,
    strides: Dims,
}

// SAFETY: an address. A call's operands may be accessed on any thread until the call completes.
unsafe impl Send for StoredTensor {}

impl StoredTensor {
    pub(crate) fn of(tensor: &RawTensor<'_>) -> StoredTensor {
        let (shape, strides) = (Dims::from_slice(tensor.shape), Dims::from_slice(tensor.strides));
        StoredTensor { data: tensor.data, dtype: tensor.dtype, shape, strides }
    }

    pub(crate) fn raw(&self) -> RawTensor<'_> {
        let StoredTensor { data, dtype, shape, strides } = self;
        RawTensor { data: *data, dtype: *dtype, shape, strides }
    }
}

/// The operands of a call. Each is resolved when a kernel asks for it.
pub trait Operands {
    /// Returns the number of operands.
    fn len(&self) -> usize;

    /// Returns whether there are no operands.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns operand number `index`, which must be below [`Operands::len`].
    fn get(&self, index: usize) -> RawTensor<'_>;
}

/// The threads that all kernels of a machine share. The first call that uses them starts them.
pub struct Threads {
    count: usize,
    on_start: Arc<dyn Fn() + Send + Sync>,
    pool: OnceCell<Option<rayon::ThreadPool>>,
}

impl Threads {
    /// Describes `count` threads, each of which calls `on_start` first. If `count` is 0 or 1,
    /// kernels run on the thread that calls them.
    pub fn new(count: usize, on_start: Arc<dyn Fn() + Send + Sync>) -> Threads {
        Threads { count, on_start, pool: OnceCell::new() }
    }

    /// Returns the started threads, or none if kernels run on the calling thread. A failure to
    /// start threads also gives none: results do not depend on them.
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

    /// Calls `part` once for each of `0..parts`, on these threads if there are any, as
    /// [`KernelCtx::for_each`] does.
    #[inline]
    pub(crate) fn for_each(
        threads: Option<&Threads>,
        parts: usize,
        part: impl Fn(usize) + Sync + Send,
    ) {
        match pool_for(threads, parts) {
            Some(pool) => for_each_on(pool, parts, &part),
            None => {
                for k in 0..parts {
                    part(k);
                }
            }
        }
    }

    /// Returns the number of threads that share a kernel, at least one.
    pub fn count(&self) -> usize {
        self.count.max(1)
    }

    /// Returns the number of started threads.
    pub fn started(&self) -> usize {
        self.pool.get().and_then(Option::as_ref).map_or(0, rayon::ThreadPool::current_num_threads)
    }
}

/// The connection of a collective's kernel to the other ranks, and the place of its call.
#[derive(Clone, Copy)]
pub struct RankContext<'a> {
    /// The rank's communicator.
    pub communicator: &'a Arc<dyn Communicator>,
    /// The number of the call among those of its channel.
    pub number: u64,
    /// The place in the program.
    pub origin: &'a Origin,
}

/// One call of a kernel.
#[derive(Clone, Copy)]
pub struct KernelCtx<'a> {
    operands: &'a dyn Operands,
    attrs: &'a Attrs,
    workspace: (*mut u8, usize),
    threads: Option<&'a Threads>,
    native: &'a dyn Any,
    completion: Option<&'a dyn DeferredCompletion>,
    graph_words: Option<usize>,
    ranks: Option<&'a RankContext<'a>>,
}

impl<'a> KernelCtx<'a> {
    /// Creates the context of a call on these operands.
    ///
    /// # Safety
    /// For as long as the context lives:
    /// - every operand's memory is valid for reads and writes over all its elements, and aligned to
    ///   its dtype;
    /// - `workspace` is valid for its number of bytes, and nothing else uses it;
    /// - nothing else writes an operand, and nothing else reads an operand that the kernel writes.
    pub unsafe fn new(
        operands: &'a dyn Operands,
        attrs: &'a Attrs,
        workspace: (*mut u8, usize),
        threads: Option<&'a Threads>,
        native: &'a dyn Any,
    ) -> KernelCtx<'a> {
        let (completion, graph_words, ranks) = (None, None, None);
        KernelCtx { operands, attrs, workspace, threads, native, completion, graph_words, ranks }
    }

    /// Lets the kernel take a token and complete the call after it has returned.
    pub fn with_deferred_completion(self, completion: &'a dyn DeferredCompletion) -> KernelCtx<'a> {
        KernelCtx { completion: Some(completion), ..self }
    }

    /// Captures the call in a graph whose launches set numbers at this address of the device
    /// ([`KernelCtx::graph_words`]).
    pub fn with_graph_words(self, words: usize) -> KernelCtx<'a> {
        KernelCtx { graph_words: Some(words), ..self }
    }

    /// Gives the kernel of a collective its connection to the other ranks.
    pub fn with_ranks(self, ranks: &'a RankContext<'a>) -> KernelCtx<'a> {
        KernelCtx { ranks: Some(ranks), ..self }
    }

    /// Returns the connection to the other ranks.
    ///
    /// # Errors
    /// The call is not that of a collective.
    pub fn ranks(&self) -> anyhow::Result<&'a RankContext<'a>> {
        self.ranks.ok_or_else(|| anyhow::anyhow!("only a machine's collectives have ranks"))
    }

    /// Returns whether the kernel may complete the call later.
    pub fn may_defer_completion(&self) -> bool {
        self.completion.is_some()
    }

    /// Takes the token that completes the call, from any thread. The call then completes with the
    /// token instead of with its kernel. Dropping the token fails the call. An error that the
    /// kernel returns fails the call too, but takes effect only once the token is gone, because the
    /// token's holder may use the operands until then.
    ///
    /// # Errors
    /// The token was taken before, or the device runs kernels asynchronously: its calls complete in
    /// the order of its native stream.
    pub fn take_completion_token(&self) -> anyhow::Result<CompletionToken> {
        let completion = self.completion.ok_or_else(|| {
            anyhow::anyhow!("no completion token: calls of this device complete on its stream")
        })?;
        let token = completion.take_token();
        token.ok_or_else(|| anyhow::anyhow!("the call's completion token was taken before"))
    }

    /// Returns the number of operands.
    pub fn operands(&self) -> usize {
        self.operands.len()
    }

    /// Returns operand number `index`.
    ///
    /// # Errors
    /// There is no such operand: schema and kernel disagree.
    pub fn operand(&self, index: usize) -> anyhow::Result<RawTensor<'a>> {
        let count = self.operands.len();
        anyhow::ensure!(index < count, "operand {index} of {count}: schema and kernel disagree");
        Ok(self.operands.get(index))
    }

    /// Returns operand number `index`, which exists.
    pub(crate) fn nth(&self, index: usize) -> RawTensor<'a> {
        self.operands.get(index)
    }

    /// Returns where the kernel finds the numbers of a launch when it runs, if the call is captured
    /// in a graph: the device's address of an array of `i64`. Its element `k` is the number of
    /// scalar `k`, to which the kernel adds the constant of an argument [`AttrValue::Scalar`].
    ///
    /// [`AttrValue::Scalar`]: millstream_types::AttrValue::Scalar
    pub fn graph_words(&self) -> Option<usize> {
        self.graph_words
    }

    /// Returns the call's named arguments. Those that each launch of a list gives are numbers, but
    /// within the capture of a graph ([`KernelCtx::graph_words`]): a kernel that expects a number
    /// there fails, and the call is made anew in each launch.
    pub fn attrs(&self) -> &'a Attrs {
        self.attrs
    }

    /// Returns the address and bytes of the scratch memory that the schema requested. Its content
    /// is unspecified.
    pub fn workspace(&self) -> (*mut u8, usize) {
        self.workspace
    }

    /// Returns the native stream to launch on. The backend defines its type.
    pub fn native(&self) -> &'a dyn Any {
        self.native
    }

    /// Returns the shared threads, if there are any.
    pub(crate) fn threads(&self) -> Option<&'a Threads> {
        self.threads
    }

    /// Calls `part` once for each of `0..parts`, on the shared threads if there are any. The parts
    /// must not depend on one another or on their order.
    pub fn for_each(&self, parts: usize, part: impl Fn(usize) + Sync + Send) {
        Threads::for_each(self.threads, parts, part);
    }
}

/// Returns the threads that share so many parts.
fn pool_for(threads: Option<&Threads>, parts: usize) -> Option<&rayon::ThreadPool> {
    threads.filter(|_| parts > 1).and_then(Threads::pool)
}

/// Calls `part` for each of `0..parts` on the threads of a pool. It is not generic: the code of the
/// pool is compiled once, and not again for each kernel, where it was a third of this crate's code.
fn for_each_on(pool: &rayon::ThreadPool, parts: usize, part: &(dyn Fn(usize) + Sync)) {
    use rayon::prelude::*;
    pool.install(|| (0..parts).into_par_iter().for_each(part));
}
