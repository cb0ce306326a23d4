//! A launch: the blocks run one after another, and so do the threads of a block. A thread that
//! waits for others is suspended on its own stack, and continues when they have arrived.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::argument::Argument;
use super::library::{Kernel, Library};

/// The size of a thread's stack in bytes.
const STACK: usize = 128 << 10;

/// Stacks between launches: mapping and clearing them takes longer than most kernels.
static STACKS: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());

/// The greatest number of stacks between launches.
const KEPT: usize = 1024;

/// The number of threads of a warp.
const WARP: usize = 32;

/// The blocks of a launch, and the threads of each.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) blocks: [u32; 3],
    pub(crate) threads: [u32; 3],
}

/// The interface of a kernel's running thread. `ms_machine` in `prelude.hpp` has the same layout.
#[repr(C)]
pub(super) struct LaunchState {
    thread: [u32; 3],
    block: [u32; 3],
    block_dim: [u32; 3],
    grid_dim: [u32; 3],
    ranges: *const [u64; 2],
    range_count: u64,
    barrier: extern "C" fn(),
    exchange: extern "C" fn(u64, u32) -> u64,
    fail: unsafe extern "C" fn(*const c_char, u64, u64),
}

/// The reason why a thread is suspended.
#[derive(Clone, Copy, PartialEq)]
enum Wait {
    /// It waits for all threads of the block.
    Block,
    /// It waits for all threads of its warp.
    Warp,
    /// It has failed and never continues.
    Failed,
}

/// The block that runs, and its running thread.
struct Running {
    yielder: *const Yielder<(), Wait>,
    thread: usize,
    /// The values that each thread offers at exchanges, alternating between two slots: no thread
    /// begins a third exchange before all threads have read the first.
    offered: Vec<[u64; 2]>,
    /// The number of exchanges that each thread has begun.
    exchanges: Vec<usize>,
    failure: Option<String>,
}

thread_local! {
    static RUNNING: Cell<*mut Running> = const { Cell::new(null_mut()) };
}

type Fiber = Coroutine<(), Wait, (), DefaultStack>;

/// Returns the state of the block that runs on this thread of the host.
///
/// # Safety
/// A kernel is running, and no other reference to its state is in use.
unsafe fn running<'a>() -> &'a mut Running {
    // SAFETY: the pointer is set while a kernel runs.
    unsafe { &mut *RUNNING.get() }
}

/// Suspends the running thread of the kernel.
fn wait(why: Wait) {
    // SAFETY: only kernels call this. A running thread has set its yielder, which is on its own
    // stack. Other threads run meanwhile and set theirs, so the thread sets its own again.
    unsafe {
        let yielder = running().yielder;
        (*yielder).suspend(why);
        running().yielder = yielder;
    }
}

extern "C" fn barrier() {
    wait(Wait::Block);
}

extern "C" fn exchange(value: u64, from: u32) -> u64 {
    // SAFETY: only kernels call this, and one thread runs at a time.
    let state = unsafe { running() };
    let (own, slot) = (state.thread, state.exchanges[state.thread] % 2);
    state.exchanges[own] += 1;
    state.offered[own][slot] = value;
    wait(Wait::Warp);
    // SAFETY: as above.
    let state = unsafe { running() };
    state.offered.get(own / WARP * WARP + from as usize % WARP).map_or(0, |offered| offered[slot])
}

unsafe extern "C" fn fail(what: *const c_char, address: u64, bytes: u64) {
    // SAFETY: only kernels call this, with a text of the prelude, and one thread runs at a time.
    unsafe {
        let what = CStr::from_ptr(what).to_string_lossy();
        running().failure = Some(format!("{what}: {bytes} bytes at {address:#x}"));
    }
    wait(Wait::Failed);
}

/// Returns the position of a number in three dimensions.
fn position(number: usize, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let (x, y) = (x as usize, y as usize);
    [number % x, number / x % y, number / x / y].map(|k| k as u32)
}

fn count(of: [u32; 3]) -> usize {
    of.map(|k| k as usize).iter().product()
}

impl Library {
    /// Runs a kernel on its argument.
    ///
    /// # Errors
    /// A thread failed, or threads wait for others that never arrive.
    ///
    /// # Safety
    /// The argument's operands are valid, and no other code uses them, until this returns.
    pub(crate) unsafe fn run(&self, kernel: Kernel, argument: &Argument, grid: Grid) -> Result<()> {
        let at = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the variable belongs to the library, and the lock makes this launch its only
        // user. Running kernels read it through their own address, so it is written by address.
        let machine = at.0;
        let first = LaunchState {
            thread: [0; 3],
            block: [0; 3],
            block_dim: grid.threads,
            grid_dim: grid.blocks,
            ranges: argument.operands.as_ptr(),
            range_count: argument.operands.len() as u64,
            barrier,
            exchange,
            fail,
        };
        // SAFETY: as above.
        unsafe { machine.write(first) };
        let mut stacks =
            std::mem::take(&mut *STACKS.lock().unwrap_or_else(PoisonError::into_inner));
        let outcome = (0..count(grid.blocks)).try_for_each(|number| {
            let block = position(number, grid.blocks);
            // SAFETY: as above.
            unsafe { (*machine).block = block };
            // Every second block runs its threads in reverse order.
            let backwards = number % 2 == 1;
            let run = Block { kernel, argument, machine, threads: grid.threads, backwards };
            run.run(&mut stacks).with_context(|| format!("block {block:?}"))
        });
        let mut kept = STACKS.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT.saturating_sub(kept.len());
        kept.extend(stacks.into_iter().take(room));
        outcome
    }
}

/// One block of a launch.
struct Block<'a> {
    kernel: Kernel,
    argument: &'a Argument,
    machine: *mut LaunchState,
    threads: [u32; 3],
    backwards: bool,
}

impl Block<'_> {
    fn run(&self, stacks: &mut Vec<DefaultStack>) -> Result<()> {
        let count = count(self.threads);
        let mut state = Running {
            yielder: std::ptr::null(),
            thread: 0,
            offered: vec![[0; 2]; count],
            exchanges: vec![0; count],
            failure: None,
        };
        RUNNING.set(&raw mut state);
        // The suspended threads.
        let mut waiting: Vec<Option<(Fiber, Wait)>> = (0..count).map(|_| None).collect();
        let outcome =
            self.start(&mut waiting, stacks).and_then(|()| self.finish(&mut waiting, stacks));
        RUNNING.set(null_mut());
        for (mut fiber, _) in waiting.into_iter().flatten() {
            // SAFETY: the stack holds frames of a kernel, which owns nothing, and of the functions
            // above, which own nothing while they wait.
            unsafe { fiber.force_reset() };
            stacks.push(fiber.into_stack());
        }
        match state.failure {
            Some(what) => bail!("thread {:?}: {what}", position(state.thread, self.threads)),
            None => outcome,
        }
    }

    /// Runs a thread until it waits or ends.
    fn resume(
        &self,
        thread: usize,
        mut fiber: Fiber,
        waiting: &mut [Option<(Fiber, Wait)>],
        stacks: &mut Vec<DefaultStack>,
    ) -> Result<()> {
        // SAFETY: no thread of the kernel is running.
        unsafe {
            running().thread = thread;
            (*self.machine).thread = position(thread, self.threads);
        }
        match fiber.resume(()) {
            CoroutineResult::Return(()) => stacks.push(fiber.into_stack()),
            CoroutineResult::Yield(why) => {
                waiting[thread] = Some((fiber, why));
                ensure!(why != Wait::Failed, "a thread failed");
            }
        }
        Ok(())
    }

    /// Returns the threads in the order in which they run.
    fn order(&self, threads: std::ops::Range<usize>) -> impl Iterator<Item = usize> + use<> {
        let (first, count, backwards) = (threads.start, threads.len(), self.backwards);
        (0..count).map(move |k| first + if backwards { count - 1 - k } else { k })
    }

    /// Runs each thread from its start until it waits or ends.
    fn start(
        &self,
        waiting: &mut [Option<(Fiber, Wait)>],
        stacks: &mut Vec<DefaultStack>,
    ) -> Result<()> {
        for thread in self.order(0..waiting.len()) {
            let stack = match stacks.pop() {
                Some(stack) => stack,
                None => DefaultStack::new(STACK)?,
            };
            let (entry, argument) = (self.kernel.entry, self.argument.words.as_ptr());
            let fiber = Fiber::with_stack(stack, move |yielder, ()| {
                // SAFETY: the running thread is the only user of the state. The kernel was compiled
                // for this argument, whose operands the caller of the launch guarantees.
                unsafe {
                    running().yielder = yielder;
                    entry(argument.cast());
                }
            });
            self.resume(thread, fiber, waiting, stacks)?;
        }
        Ok(())
    }

    /// Continues threads until all have ended: the threads of a warp when all of them wait at an
    /// exchange, and the threads of the block when all of them wait at a barrier.
    fn finish(
        &self,
        waiting: &mut [Option<(Fiber, Wait)>],
        stacks: &mut Vec<DefaultStack>,
    ) -> Result<()> {
        let count = waiting.len();
        let all = |waiting: &[Option<(Fiber, Wait)>], why: Wait| {
            waiting.iter().all(|one| one.as_ref().is_some_and(|(_, wait)| *wait == why))
        };
        while waiting.iter().any(Option::is_some) {
            let mut progressed = false;
            let mut together: Vec<_> =
                (0..count).step_by(WARP).map(|first| first..count.min(first + WARP)).collect();
            together.retain(|warp| all(&waiting[warp.clone()], Wait::Warp));
            if together.is_empty() && all(waiting, Wait::Block) {
                together.push(0..count);
            }
            for threads in together {
                for thread in self.order(threads) {
                    if let Some((fiber, _)) = waiting[thread].take() {
                        self.resume(thread, fiber, waiting, stacks)?;
                    }
                }
                progressed = true;
            }
            let stuck = waiting.iter().flatten().count();
            ensure!(progressed, "{stuck} of {count} threads wait for others that never arrive");
        }
        Ok(())
    }
}
