//! The numbers of a launch: those of a list's collectives, and those that are arguments of calls.

use std::sync::Arc;

use millstream_ops::collective::Channel;
use millstream_types::{Attrs, OpId, Result};

use super::{Compiler, too_many};

impl Compiler<'_> {
    /// Notes the arguments of a call if each launch gives some. Returns their position.
    pub(super) fn given(&mut self, attrs: Option<&Arc<Attrs>>) -> Option<u32> {
        let attrs = attrs.filter(|attrs| attrs.scalars().next().is_some())?;
        self.given.push(attrs.clone());
        Some(self.given.len() as u32 - 1)
    }

    /// Numbers a collective among the calls of its channel, in the order of the list.
    pub(super) fn number(&mut self, op: OpId, attrs: Option<&Attrs>) -> Result<Option<(u16, u64)>> {
        let name = self.tables.ops.get(op).map_or("", |op| op.name());
        if !self.tables.is_collective(op) {
            return Ok(None);
        }
        let none = Attrs::new();
        let ranks = self.tables.communicator.ranks();
        let Some(channel) = Channel::of(name, attrs.unwrap_or(&none), ranks)? else {
            return Ok(None);
        };
        let known = self.channels.iter().position(|(known, _)| *known == channel);
        let at = known.unwrap_or_else(|| {
            self.channels.push((channel, 0));
            self.channels.len() - 1
        });
        let (_, count) = &mut self.channels[at];
        *count += 1;
        Ok(Some((u16::try_from(at).map_err(|_| too_many("channels"))?, *count - 1)))
    }
}
