//! How the ranks of a program reach one another.

use std::fmt;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use millstream_types::DType;

/// Elements on their way from one rank to another, dense and row-major.
#[derive(Clone)]
pub struct Parcel {
    /// The type of the elements.
    pub dtype: DType,
    /// How many there are.
    pub numel: usize,
    /// Their bytes, in words, so that every dtype is aligned; the last one may be cut short.
    pub words: Arc<Vec<u64>>,
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.dtype, self.numel)
    }
}

/// The ranks of a program, as one of them sees them.
pub trait Group: Send + Sync {
    /// This rank, from 0.
    fn rank(&self) -> usize;

    /// How many there are.
    fn ranks(&self) -> usize;

    /// Gives every rank `k` what is at `parcels[k]`, and returns once all ranks have done so in
    /// this round: what each of them has for this one, in their order. `what` has to be the same
    /// for all. Called on the worker of a stream, which may be held.
    ///
    /// # Errors
    /// A rank means something else, or will not come.
    fn exchange(
        &self,
        round: u64,
        what: &str,
        parcels: Vec<Vec<Parcel>>,
    ) -> Result<Vec<Vec<Parcel>>>;

    /// Leaves something for another rank.
    ///
    /// # Errors
    /// There is no such rank.
    fn send(&self, to: usize, tag: i64, parcels: Vec<Parcel>) -> Result<()>;

    /// Waits for what another rank leaves; what has the same tag comes in its order.
    ///
    /// # Errors
    /// There is no such rank, or it has ended.
    fn recv(&self, from: usize, tag: i64) -> Result<Vec<Parcel>>;
}

/// The group of a program of one rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Single;

impl Group for Single {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn exchange(&self, _: u64, _: &str, parcels: Vec<Vec<Parcel>>) -> Result<Vec<Vec<Parcel>>> {
        ensure!(parcels.len() == 1, "parcels for {} ranks of 1", parcels.len());
        Ok(parcels)
    }

    fn send(&self, to: usize, _: i64, _: Vec<Parcel>) -> Result<()> {
        bail!("to rank {to}: the program has one rank")
    }

    fn recv(&self, from: usize, _: i64) -> Result<Vec<Parcel>> {
        bail!("from rank {from}: the program has one rank")
    }
}
