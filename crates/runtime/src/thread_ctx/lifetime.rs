//! The start and the stop of a worker, as stream policies see them.

use std::sync::Arc;

use millstream_stream_policy::{StreamPolicy, WorkerGroup};
use millstream_types::{Cause, Failure, Origin, StreamType, catch_unit};

use crate::scope::reentrancy;
use crate::tables::Tables;

/// A worker that has started. Its drop, on the same thread, stops it.
pub(super) struct WorkerLifetime {
    tables: Arc<Tables>,
    group: WorkerGroup,
    /// The policies whose start succeeded, by number.
    started: Vec<usize>,
}

impl WorkerLifetime {
    /// Calls the start of each policy.
    pub(super) fn begin(tables: &Arc<Tables>, group: WorkerGroup) -> WorkerLifetime {
        let mut begun = WorkerLifetime { tables: tables.clone(), group, started: Vec::new() };
        let policies = tables.policies.all();
        let succeeds =
            |k: &usize| begun.call(*k, "on_worker_start", |p| p.on_worker_start(&begun.group));
        begun.started = (0..policies.len()).filter(succeeds).collect();
        begun
    }

    /// Calls a function of a policy. Returns whether it succeeded; a panic is noted.
    fn call(&self, policy: usize, name: &str, call: impl FnOnce(&dyn StreamPolicy)) -> bool {
        let WorkerLifetime { tables, group, .. } = self;
        let Some(policy) = tables.policies.all().get(policy) else { return false };
        let mut ty = StreamType::COMPUTE;
        let called = reentrancy::enter(tables.machine, || {
            catch_unit(|| {
                ty = policy.stream_type();
                call(&**policy);
            })
        });
        let Err(error) = called else { return true };
        tables.note_failure(Failure {
            cause: Cause::Panic,
            message: format!("`{name}` of the policy of {ty} streams {error}"),
            instruction: "ThreadCtx",
            op: None,
            operands: Vec::new(),
            stream: format!("a worker of {group}"),
            seq: 0,
            origin: Origin::Unknown,
            launched: None,
        });
        false
    }
}

impl Drop for WorkerLifetime {
    fn drop(&mut self) {
        for policy in std::mem::take(&mut self.started).into_iter().rev() {
            self.call(policy, "on_worker_stop", |p| p.on_worker_stop(&self.group));
        }
    }
}
