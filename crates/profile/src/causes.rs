//! Why the waits of a list were made, where the list does not say so.
//!
//! The builder notes each need to wait with its tensors. The passes of an executable make a list
//! without these notes. What they state follows from the uses of the storages: a wait is made for
//! the tensors whose earlier uses, on the stream that it waits for, come no later than its point.
//! Where no wait of the instruction itself is for such a use, the stream knows it already.

use std::collections::BTreeMap;

use millstream_instructions::assigner::LastUses;
use millstream_types::{Point, StreamId};

use crate::from_list::Building;
use crate::model::{NONE, Resolution, Wait};

/// The uses of the storages of a list.
pub(crate) type Causes = LastUses<u32, Point>;

impl Building {
    /// Gives the waits of an instruction, at a point of the list, their tensors, and adds its needs
    /// that take no wait. `open` are the waits that precede it on its stream.
    pub(crate) fn explain(&mut self, causes: &mut Causes, own: u32, at: Point, open: &[u32]) {
        // The latest use of each other stream, and the tensors.
        let mut needs: BTreeMap<StreamId, (u64, Vec<u32>)> = BTreeMap::new();
        let operands = self.profile.operands_of(&self.profile.instructions[own as usize]).to_vec();
        for operand in &operands {
            let storage = self.profile.tensors[operand.tensor as usize].storage;
            let before = causes.before(&storage, operand.writes);
            for use_of in before.filter(|p| p.stream != at.stream) {
                let (seq, tensors) = needs.entry(use_of.stream).or_default();
                *seq = use_of.seq.max(*seq);
                if !tensors.contains(&operand.tensor) {
                    tensors.push(operand.tensor);
                }
            }
        }
        for operand in &operands {
            let storage = self.profile.tensors[operand.tensor as usize].storage;
            causes.add(storage, operand.writes, at);
        }
        for (stream, (seq, tensors)) in needs {
            let until = self.at(Point::new(stream, seq));
            let covers = |wait: &Wait| {
                let of = |k: u32| self.profile.instructions.get(k as usize).map(|i| i.stream);
                of(wait.until).is_some() && of(wait.until) == of(until) && wait.until >= until
            };
            let made = open.iter().find(|wait| covers(&self.profile.waits[**wait as usize]));
            if let Some(&made) = made {
                self.profile.waits[made as usize].tensors = tensors;
                continue;
            }
            let covered_by = self.covering(at.stream.index(), Point::new(stream, seq));
            let is_own = open.iter().any(|wait| {
                covered_by != NONE && self.profile.waits[*wait as usize].waiter == covered_by
            });
            let (resolution, covered_by) = match is_own {
                true => (Resolution::Implied, NONE),
                false => (Resolution::Known, covered_by),
            };
            let (waiter, user) = (own, own);
            let wait = Wait { waiter, until, user, resolution, covered_by, tensors };
            self.profile.waits.push(wait);
        }
    }
}
