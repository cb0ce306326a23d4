//! The exchange of values between all ranks, apart from the collectives of their programs.

use std::sync::mpsc::channel;

use millstream_comm::{
    Buffer, Call, Channel, Collective, CommError, Communicator, Elements, ProcessGroup, Slot,
};
use millstream_types::{DType, Origin};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The exchange of values between all ranks.
pub(crate) struct Exchange<'a> {
    pub(crate) communicator: &'a dyn Communicator,
    /// The index of its group, which no program has.
    pub(crate) group: u32,
    /// What it is for, as errors say it.
    pub(crate) what: &'static str,
    /// The number of the next collective. An exchange takes [`Exchange::NUMBERS`].
    pub(crate) next: u64,
}

impl Exchange<'_> {
    /// How many collectives an exchange takes.
    pub(crate) const NUMBERS: u64 = 2;

    /// Returns what each rank gives. Blocks until all have.
    ///
    /// # Errors
    /// A rank has ended.
    pub(crate) fn all<T: Serialize + DeserializeOwned>(
        &mut self,
        own: &T,
    ) -> Result<Vec<T>, CommError> {
        self.gathered(own, None)
    }

    /// Returns what each rank gives, on the first rank; nothing on the others.
    ///
    /// # Errors
    /// A rank has ended.
    pub(crate) fn on_first<T: Serialize + DeserializeOwned>(
        &mut self,
        own: &T,
    ) -> Result<Vec<T>, CommError> {
        self.gathered(own, Some(0))
    }

    fn gathered<T: Serialize + DeserializeOwned>(
        &mut self,
        own: &T,
        root: Option<usize>,
    ) -> Result<Vec<T>, CommError> {
        let ranks = self.communicator.ranks();
        let text = serde_json::to_vec(own).map_err(CommError::new)?;
        let length = Elements { dtype: DType::I64, numel: 1 };
        let lengths = Buffer::of_words(length, vec![text.len() as u64])?;
        let lengths = self.gather(lengths, vec![1; ranks], None)?;
        let counts = lengths.bytes().chunks_exact(size_of::<u64>());
        let counts = counts.filter_map(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)));
        let counts: Vec<usize> = counts.map(|count| count as usize).collect();
        let mut given = Buffer::zeros(Elements { dtype: DType::U8, numel: text.len() })?;
        given.bytes_mut().copy_from_slice(&text);
        let all = self.gather(given, counts.clone(), root)?;
        if root.is_some_and(|root| root != self.communicator.rank()) {
            return Ok(Vec::new());
        }
        let mut rest = all.bytes();
        let mut values = Vec::with_capacity(ranks);
        for count in counts {
            let broken = || CommError::new("the ranks' values are broken");
            let (text, after) = rest.split_at_checked(count).ok_or_else(broken)?;
            values.push(serde_json::from_slice(text).map_err(CommError::new)?);
            rest = after;
        }
        Ok(values)
    }

    /// Returns the elements of all ranks, one after the other; with a root, there alone.
    fn gather(
        &mut self,
        given: Buffer,
        counts: Vec<usize>,
        root: Option<usize>,
    ) -> Result<Buffer, CommError> {
        let ranks: Vec<usize> = (0..self.communicator.ranks()).collect();
        let gets_all = root.is_none_or(|root| root == self.communicator.rank());
        let group = ProcessGroup::new(&ranks, self.group, ranks.len())?;
        let numel = if gets_all { counts.iter().sum() } else { 0 };
        let elements = Elements { dtype: given.dtype(), numel };
        let request = self.communicator.start(Call {
            slot: Slot { channel: Channel::Collectives(group), number: self.next },
            collective: match root {
                Some(root) => Collective::Gather { root, counts },
                None => Collective::AllGather { counts },
            },
            op: self.what,
            given: vec![given],
            expected: gets_all.then_some(elements).into_iter().collect(),
            origin: Origin::Unknown,
        });
        self.next += 1;
        let (sender, outcome) = channel();
        request.then(move |outcome| drop(sender.send(outcome)));
        let lost = || CommError::new("the communicator gave no outcome");
        let mut received = outcome.recv().map_err(|_| lost())??;
        if !gets_all {
            return Buffer::zeros(elements);
        }
        received.pop().ok_or_else(lost)
    }
}
