//! A launch: blocks one after another, and of a block the threads one after another. A thread that
//! waits for others is left where it is, on a stack of its own, and goes on once they are there.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::ptr::null_mut;
use std::sync::PoisonError;

use anyhow::{Context, Result, bail, ensure};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::argument::Argument;
use super::library::{Kernel, Library};

/// The bytes of a thread's stack.
const STACK: usize = 128 << 10;

/// Threads of a warp.
const WARP: usize = 32;

/// The blocks of a launch, and the threads of each.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) blocks: [u32; 3],
    pub(crate) threads: [u32; 3],
}

/// What a kernel's thread knows, and what it asks for: the same lies in `prelude.hpp`.
#[repr(C)]
pub(super) struct Machine {
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

/// Why a thread does not go on.
#[derive(Clone, Copy, PartialEq)]
enum Wait {
    /// For all threads of the block.
    Block,
    /// For all threads of its warp.
    Warp,
    /// It never will.
    Failed,
}

/// The thread that runs.
struct Running {
    yielder: *const Yielder<(), Wait>,
    thread: usize,
    /// What each thread gives at an exchange, by turns in two places: nobody begins with a third before
    /// all have read the first.
    given: Vec<[u64; 2]>,
    exchanges: Vec<usize>,
    failure: Option<String>,
}

thread_local! {
    static RUNNING: Cell<*mut Running> = const { Cell::new(null_mut()) };
}

type Fiber = Coroutine<(), Wait, (), DefaultStack>;

/// The block that runs on this thread of the host.
///
/// # Safety
/// A kernel is running, and nobody else looks at its state now.
unsafe fn running<'a>() -> &'a mut Running {
    // SAFETY: it is set as long as a kernel runs.
    unsafe { &mut *RUNNING.get() }
}

/// Leaves the thread that runs until it may go on.
fn wait(why: Wait) {
    // SAFETY: kernels alone call this, and a thread that runs has set its way out, which lies on its own
    // stack. Others run meanwhile, and set theirs.
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
    // SAFETY: kernels alone call this, and only one thread runs at a time.
    let all = unsafe { running() };
    let (me, turn) = (all.thread, all.exchanges[all.thread] % 2);
    all.exchanges[me] += 1;
    all.given[me][turn] = value;
    wait(Wait::Warp);
    // SAFETY: as above.
    let all = unsafe { running() };
    all.given.get(me / WARP * WARP + from as usize % WARP).map_or(0, |given| given[turn])
}

unsafe extern "C" fn fail(what: *const c_char, address: u64, bytes: u64) {
    // SAFETY: kernels alone call this, with a text of the prelude's; only one thread runs at a time.
    unsafe {
        let what = CStr::from_ptr(what).to_string_lossy();
        running().failure = Some(format!("{what}: {bytes} bytes at {address:#x}"));
    }
    wait(Wait::Failed);
}

/// A number's place in three dimensions.
fn place(number: usize, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let (x, y) = (x as usize, y as usize);
    [number % x, number / x % y, number / x / y].map(|k| k as u32)
}

fn count(of: [u32; 3]) -> usize {
    of.map(|k| k as usize).iter().product()
}

impl Library {
    /// Runs a kernel on an argument that was made for it.
    ///
    /// # Errors
    /// A thread failed, or threads wait for others that never come.
    ///
    /// # Safety
    /// The argument's operands are valid, and used by nobody else, until this returns.
    pub(crate) unsafe fn run(&self, kernel: Kernel, argument: &Argument, grid: Grid) -> Result<()> {
        let at = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the variable is the library's, and ours under the lock. Kernels look at it while they
        // run, through an address of their own, which is why it is only written by address below.
        let machine = at.0;
        let first = Machine {
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
        let mut stacks = Vec::new();
        for number in 0..count(grid.blocks) {
            let block = place(number, grid.blocks);
            // SAFETY: as above.
            unsafe { (*machine).block = block };
            // Every second block runs its threads in the other order.
            let backwards = number % 2 == 1;
            let run = Block { kernel, argument, machine, threads: grid.threads, backwards };
            run.run(&mut stacks).with_context(|| format!("block {block:?}"))?;
        }
        Ok(())
    }
}

/// One block.
struct Block<'a> {
    kernel: Kernel,
    argument: &'a Argument,
    machine: *mut Machine,
    threads: [u32; 3],
    backwards: bool,
}

impl Block<'_> {
    fn run(&self, stacks: &mut Vec<DefaultStack>) -> Result<()> {
        let count = count(self.threads);
        let mut state = Running {
            yielder: std::ptr::null(),
            thread: 0,
            given: vec![[0; 2]; count],
            exchanges: vec![0; count],
            failure: None,
        };
        RUNNING.set(&raw mut state);
        // The threads that wait.
        let mut waiting: Vec<Option<(Fiber, Wait)>> = (0..count).map(|_| None).collect();
        let outcome =
            self.start(&mut waiting, stacks).and_then(|()| self.finish(&mut waiting, stacks));
        RUNNING.set(null_mut());
        for (mut fiber, _) in waiting.into_iter().flatten() {
            // SAFETY: what is left on the stack is a kernel's, which owns nothing, and our functions
            // that it called, which hold nothing while they wait.
            unsafe { fiber.force_reset() };
            stacks.push(fiber.into_stack());
        }
        match state.failure {
            Some(what) => bail!("thread {:?}: {what}", place(state.thread, self.threads)),
            None => outcome,
        }
    }

    /// Lets a thread go on until it waits or ends.
    fn go_on(
        &self,
        thread: usize,
        mut fiber: Fiber,
        waiting: &mut [Option<(Fiber, Wait)>],
        stacks: &mut Vec<DefaultStack>,
    ) -> Result<()> {
        // SAFETY: no thread runs now.
        unsafe {
            running().thread = thread;
            (*self.machine).thread = place(thread, self.threads);
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

    /// The threads in the order in which they run.
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
                // SAFETY: a thread that runs has the state to itself; the kernel was compiled for this
                // argument, whose operands the caller of the launch answers for.
                unsafe {
                    running().yielder = yielder;
                    entry(argument.cast());
                }
            });
            self.go_on(thread, fiber, waiting, stacks)?;
        }
        Ok(())
    }

    /// Lets threads go on until all have ended: those of a warp when all of it have come to an
    /// exchange, and those of the block when all of it have come to a barrier.
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
            let mut moved = false;
            let mut together: Vec<_> =
                (0..count).step_by(WARP).map(|first| first..count.min(first + WARP)).collect();
            together.retain(|warp| all(&waiting[warp.clone()], Wait::Warp));
            if together.is_empty() && all(waiting, Wait::Block) {
                together.push(0..count);
            }
            for threads in together {
                for thread in self.order(threads) {
                    if let Some((fiber, _)) = waiting[thread].take() {
                        self.go_on(thread, fiber, waiting, stacks)?;
                    }
                }
                moved = true;
            }
            let there = waiting.iter().flatten().count();
            ensure!(moved, "{there} of {count} threads wait for others, which never come");
        }
        Ok(())
    }
}
