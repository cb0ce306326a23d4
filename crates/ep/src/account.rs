//! A device's memory account: the bytes in use against a limit. The backends that allocate host
//! memory share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_types::{DeviceId, Error, Result};

/// Counts the bytes in use against a limit.
#[derive(Debug)]
pub(crate) struct Account {
    limit: u64,
    in_use: AtomicU64,
    peak: AtomicU64,
}

/// Bytes charged to an account. Dropping the value credits them.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Account {
    pub(crate) fn new(limit: u64) -> Arc<Account> {
        Arc::new(Account { limit, in_use: AtomicU64::new(0), peak: AtomicU64::new(0) })
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Charges `bytes` for `device`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: the limit would be exceeded.
    pub(crate) fn charge(self: &Arc<Account>, bytes: usize, device: &DeviceId) -> Result<Charge> {
        let bytes = bytes as u64;
        let fits = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.limit);
        // Relaxed is enough: the counters order no other memory.
        match self.in_use.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(before) => {
                self.peak.fetch_max(before + bytes, Ordering::Relaxed);
                Ok(Charge { account: self.clone(), bytes })
            }
            Err(_) => Err(self.out_of_memory(bytes, device)),
        }
    }

    /// Returns the error of a failed allocation of `bytes`.
    pub(crate) fn out_of_memory(&self, bytes: u64, device: &DeviceId) -> Error {
        Error::OutOfMemory {
            device: device.clone(),
            purpose: "device memory".to_owned(),
            wanted: bytes,
            in_use: self.in_use(),
            limit: self.limit,
            holders: Vec::new(),
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.in_use.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_up_to_the_limit_and_credits_on_drop() {
        let account = Account::new(100);
        let device = DeviceId::cpu(0);
        let first = account.charge(60, &device).unwrap();
        let Err(Error::OutOfMemory { wanted, in_use, limit, .. }) = account.charge(41, &device)
        else {
            panic!("an account with 40 bytes left accepted a charge of 41");
        };
        assert_eq!((wanted, in_use, limit), (41, 60, 100));
        let second = account.charge(40, &device).unwrap();
        drop((first, second));
        assert_eq!((account.in_use(), account.peak()), (0, 100));
        assert!(account.charge(usize::MAX, &device).is_err());
    }
}
