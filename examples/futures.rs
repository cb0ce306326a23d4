//! Results as futures: several requests share a thread, and none blocks it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use millstream::{Machine, MachineConfig, Result, Tensor};

/// Answers a request: the sum of the squares of the numbers below `n`.
async fn answer(machine: &Machine, n: i64) -> Result<i64> {
    let x = Tensor::arange(0..n, machine)?;
    let squares = (&x * &x)?.sum(..)?;
    Ok(squares.to_vec_async::<i64>().await?[0])
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Runs futures on this thread; any executor would do.
fn run_all<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let context = &mut Context::from_waker(&waker);
    let mut waiting: Vec<_> = futures.into_iter().map(Some).collect();
    let mut results: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    while results.iter().any(Option::is_none) {
        for (future, result) in waiting.iter_mut().zip(&mut results) {
            let Some(running) = future else { continue };
            if let Poll::Ready(done) = pin!(running).as_mut().poll(context) {
                (*future, *result) = (None, Some(done));
            }
        }
        if results.iter().any(Option::is_none) {
            std::thread::park();
        }
    }
    results.into_iter().flatten().collect()
}

/// Returns the answers to four requests.
///
/// # Errors
/// None is expected.
pub(crate) fn answers() -> Result<Vec<i64>> {
    let machine = Machine::new(MachineConfig::default())?;
    let requests = [3, 10, 100, 1000];
    let futures =
        requests.map(|n| Box::pin(answer(&machine, n)) as Pin<Box<dyn Future<Output = _>>>);
    run_all(futures.into()).into_iter().collect()
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    println!("{:?}", answers()?);
    Ok(())
}
