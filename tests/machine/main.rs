//! The machine's contract, one case per file: a program, the list that the machine emits where the
//! order matters, and the results.
//!
//! Snapshots of lists omit origins. Each list is the same under every driver and in every run, and
//! the checker accepts it.

mod abandoned_waiters;
mod barrier;
mod batch;
mod cancel;
mod chain;
mod critical_section;
mod current_stream;
mod device_lost;
mod diamond;
mod dropped_streams;
mod drops;
mod elapsed_time;
mod event_pool;
mod event_reuse;
mod event_ring;
mod event_snapshot;
mod events;
mod executable;
mod executable_within;
mod failed_allocation;
mod fan_out;
mod foreign;
mod functions;
mod futures;
mod healed_in_flight;
mod host_frontier;
mod host_to_device_and_back;
mod kinds;
mod launch;
mod laziness;

mod lock_entries;
mod many_executables;
mod memory;
mod memory_checks;
mod memory_limit;
mod memory_threads;
mod misuse;
mod mixed_order;
mod on_complete;
mod oneflow;
mod placement;
mod poison;
mod poison_on_device;
mod policies;
mod pool;
mod pool_order;
mod profile;
mod rank_threads;
mod record_and_wait_back;
mod record_before_wait;
mod reentrancy;
mod refusal_places;
mod refused_launch;
mod refused_order;
mod remote_waits;
mod shutdown;
mod storage;
mod stream_options;
mod threads;
mod traced;
mod transfers;
mod unprotected;
mod user_waits;
mod verbs;
mod views;
mod watchdog;
mod watermark;
mod workspaces;
mod write_after_reads;
