//! The minimum effective task granularity, METG(50 %): the length of a task at which the workers
//! spend half of their time on work. Source: E. Slaughter et al., "Task Bench: A Parameterized
//! Benchmark for Evaluating Parallel Runtime Performance", SC 2020.

/// The measured lengths of a task in microseconds.
pub(super) const GRAINS: [f64; 9] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0];

/// The search for the granularity, from short tasks to long ones. Between two measured lengths it
/// is interpolated on logarithmic scales, as in the peers' table.
pub(super) struct Granularity {
    workers: f64,
    /// The last length below it: its efficiency and its granularity.
    last: Option<(f64, f64)>,
    /// In microseconds; NaN if it is not found yet.
    pub(super) found: f64,
}

impl Granularity {
    pub(super) fn new(workers: u32) -> Granularity {
        Granularity { workers: workers.into(), last: None, found: f64::NAN }
    }

    /// Adds the wall time per task of the next length. Returns whether the search has ended.
    pub(super) fn add(&mut self, grain: f64, ns_per_task: f64) -> bool {
        let granularity = ns_per_task * self.workers / 1e3;
        let efficiency = grain / granularity;
        if efficiency < 0.5 {
            self.last = Some((efficiency, granularity));
            return false;
        }
        self.found = match self.last {
            Some((before, at)) => {
                let share = (0.5 - before) / (efficiency - before);
                (at.ln() + share * (granularity.ln() - at.ln())).exp()
            }
            None => granularity,
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_time_is_work() {
        // A task costs its length, shared by two workers, and 500 ns.
        let mut found = Granularity::new(2);
        let mut ends = GRAINS.iter().map(|grain| found.add(*grain, grain * 500.0 + 500.0));
        assert_eq!(ends.position(|end| end), Some(3));
        // Half of 2 us is work.
        assert!((found.found - 2.0).abs() < 1e-9, "{}", found.found);
    }
}
