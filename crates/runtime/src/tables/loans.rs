//! Memory of other owners that tensors lie in.
//!
//! # Rules
//! 1. A loan is kept here, by the number of the storage, from the begin of its first tensor to the
//!    end of its last.
//! 2. Then each last use that has not completed holds it. Whoever drops it last returns it, as a
//!    host function: the owner's code may take long, or use this machine, which gets an error.
//! 3. The loans of tensors that never end are returned with the tables. Hanging instructions keep
//!    the tables, so their memory is never returned.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::task::{Wake, Waker};

use millstream_types::Point;

use crate::sync::points::{Milestone, Waiter};
use crate::sync::{AtomicUsize, Mutex, Ordering};
use crate::tables::Tables;

/// Memory of another owner. Dropping it returns the memory.
pub type Loan = Box<dyn Send + Sync>;

/// The loans of live storages, by the storages' numbers.
#[derive(Default)]
pub struct Loans {
    of_storages: Mutex<HashMap<u64, Loan>>,
    /// How many there are.
    count: AtomicUsize,
}

impl Loans {
    pub(crate) fn add(&self, storage: u64, loan: Loan) {
        let mut loans = self.of_storages.lock().unwrap_or_else(PoisonError::into_inner);
        loans.insert(storage, loan);
        self.count.store(loans.len(), Ordering::Relaxed);
    }

    pub(crate) fn take(&self, storage: u64) -> Option<Loan> {
        let mut loans = self.of_storages.lock().unwrap_or_else(PoisonError::into_inner);
        let loan = loans.remove(&storage);
        self.count.store(loans.len(), Ordering::Relaxed);
        loan
    }

    /// Returns whether there are loans.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        // Relaxed: the thread that drops a tensor on a loan has its handle from the thread that
        // made it, after the loan was added.
        self.count.load(Ordering::Relaxed) > 0
    }
}

/// The loan of a storage that has ended. The last uses that have not completed share it.
struct Ended {
    loan: Option<Loan>,
    tables: Arc<Tables>,
}

impl Wake for Ended {
    /// Gives up a share: the last use that completes drops the loan.
    fn wake(self: Arc<Ended>) {}
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(loan) = self.loan.take() {
            self.tables.host_workers.run_apart(Box::new(move || drop(loan)));
        }
    }
}

/// Returns a loan once the last uses of its storage have completed. Called under the engine's
/// lock.
pub(crate) fn end(tables: &Arc<Tables>, loan: Loan, last_uses: impl Iterator<Item = Point>) {
    let ended = Arc::new(Ended { loan: Some(loan), tables: tables.clone() });
    for point in last_uses {
        let share = Waiter::Task(Waker::from(ended.clone()));
        tables.points.park(point, Milestone::Completed, share);
    }
}
