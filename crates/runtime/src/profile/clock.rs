//! The clock of a recording.

use quanta::Clock as Counter;

/// A clock that counts from its creation. A reading is the processor's time-stamp counter where all
/// cores share one of constant speed, and otherwise the system's monotonic clock.
#[derive(Debug)]
pub struct Clock {
    counter: Counter,
    origin: u64,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        let counter = Counter::new();
        let origin = counter.raw();
        Clock { counter, origin }
    }

    /// Returns when the clock was created, in nanoseconds that all clocks of a process count alike.
    pub(crate) fn began(&self) -> u64 {
        self.counter.delta_as_nanos(0, self.origin)
    }

    /// Returns the counter's value. Never 0.
    #[inline]
    pub(crate) fn raw(&self) -> u64 {
        self.counter.raw().max(1)
    }

    /// Returns the time of a reading, in nanoseconds since the clock's creation.
    pub(crate) fn ns(&self, raw: u64) -> u64 {
        self.counter.delta_as_nanos(self.origin, raw.max(self.origin))
    }

    /// Returns the time, in nanoseconds since the clock's creation.
    pub fn now(&self) -> u64 {
        self.ns(self.raw())
    }
}
