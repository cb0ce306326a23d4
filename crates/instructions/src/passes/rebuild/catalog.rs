//! The streams that a list declares, as a catalog.

use millstream_types::{Error, Result, StreamId, StreamKey};
use rustc_hash::FxHashMap;

use crate::catalog::{StreamCatalog, StreamFacts};
use crate::instruction::Via;
use crate::list::{InstructionList, StreamDecl};
use crate::passes::rebuild::plan::Plan;

/// A catalog of the streams that a list declares.
pub(in crate::passes) struct ListCatalog {
    streams: Vec<StreamDecl>,
    /// Whether a wait of a stream for another one is by the device, where the list has such a wait.
    by_device: FxHashMap<(StreamKey, StreamKey), bool>,
    /// Whether every wait is by the host.
    by_host: bool,
}

impl ListCatalog {
    pub(in crate::passes) fn of(list: &InstructionList, plan: &Plan<'_>) -> ListCatalog {
        let mut by_device = FxHashMap::default();
        for instruction in &list.instructions {
            let body = &instruction.body;
            if let (Some(at), Some(until), Some(via)) = (body.at(), body.until(), body.via()) {
                let key = |s: StreamId| list.streams[s.index()].key.clone();
                let device = matches!(via, Via::Device(_));
                by_device.insert((key(at.stream), key(until.stream)), device);
            }
        }
        ListCatalog { streams: plan.streams.clone(), by_device, by_host: plan.by_host }
    }
}

impl StreamCatalog for ListCatalog {
    fn describe(&self, key: &StreamKey) -> Result<StreamFacts> {
        let decl = self.streams.iter().find(|decl| decl.key == *key);
        let decl = decl.ok_or_else(|| Error::Internal { message: format!("{key}: no stream") })?;
        // The memories that it reads do not matter: stated calls are not asked where they lie.
        Ok(StreamFacts::on(key.device.clone()).accepting(decl.work))
    }

    /// Answers as the list does; where it has no such wait, streams of one device other than the
    /// host wait on the device.
    fn waits_on_device(&self, waiter: &StreamKey, source: &StreamKey) -> bool {
        match self.by_device.get(&(waiter.clone(), source.clone())) {
            _ if self.by_host => false,
            Some(&answer) => answer,
            None => waiter.device == source.device && waiter.device.kind() != "cpu",
        }
    }
}
