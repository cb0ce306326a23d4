//! Whether the other processes exist.
//!
//! A process that is killed sends nothing. One on the same computer is seen to be gone by its entry
//! in `/proc`. One on another computer sends no more heartbeats: every process sends one each
//! second, to rank 0, or from rank 0 to all. Rank 0 tells all others of a rank that is gone.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::process;
use std::time::{Duration, Instant};

/// How often the processes of the same computer are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How often a process sends a heartbeat.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);

/// Where a process is, as the others know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// The hash of what identifies the computer and its numbering of processes; 0 if unknown.
    computer: u64,
    /// The number of the process.
    process: u64,
    /// The time at which it began: numbers of processes are reused.
    began: u64,
}

impl Address {
    /// The length of an address in bytes.
    pub(super) const BYTES: usize = 24;

    /// Returns the address of this process.
    pub(super) fn own() -> Address {
        let process = process::id().into();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let namespace = fs::read_link("/proc/self/ns/pid");
        let (Ok(boot), Ok(namespace), Some((_, began))) = (boot, namespace, stat(process)) else {
            return Address { computer: 0, process, began: 0 };
        };
        let mut hasher = DefaultHasher::new();
        (boot, namespace).hash(&mut hasher);
        Address { computer: hasher.finish().max(1), process, began }
    }

    /// Returns the address as bytes.
    pub(super) fn bytes(self) -> [u8; Address::BYTES] {
        let mut bytes = [0; Address::BYTES];
        let words = [self.computer, self.process, self.began];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Returns the address of these bytes.
    pub(super) fn of(bytes: &[u8]) -> Address {
        let word = |k: usize| {
            let word = bytes.get(k * 8..k * 8 + 8).and_then(|word| word.try_into().ok());
            u64::from_le_bytes(word.unwrap_or_default())
        };
        Address { computer: word(0), process: word(1), began: word(2) }
    }

    /// Returns whether the process is known to be gone, seen from this one.
    fn is_gone(self, from: Address) -> bool {
        if self.computer == 0 || self.computer != from.computer {
            return false;
        }
        match stat(self.process) {
            None => true,
            Some((state, began)) => began != self.began || matches!(state, 'Z' | 'X'),
        }
    }
}

/// Returns the state of a process and the time at which it began; none if there is no such process.
fn stat(process: u64) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may contain anything.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// What a process knows of the existence of the others.
pub(super) struct Presence {
    rank: usize,
    addresses: Vec<Address>,
    latest: Vec<Instant>,
    next_look: Instant,
    next_heartbeat: Instant,
}

impl Presence {
    /// Returns the knowledge of a rank, by the addresses of all.
    pub(super) fn new(rank: usize, addresses: Vec<Address>) -> Presence {
        let now = Instant::now();
        let latest = vec![now; addresses.len()];
        Presence { rank, addresses, latest, next_look: now, next_heartbeat: now }
    }

    /// Notes a heartbeat.
    pub(super) fn note(&mut self, rank: usize) {
        if let Some(latest) = self.latest.get_mut(rank) {
            *latest = Instant::now();
        }
    }

    /// Returns whether it is time for a heartbeat.
    pub(super) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_time = now >= self.next_heartbeat;
        if is_time {
            self.next_heartbeat = now + HEARTBEAT;
        }
        is_time
    }

    /// Returns a rank that is lost, and how that is known. `longest` is the longest time between
    /// two heartbeats. Looks now and then, unless it is urgent.
    pub(super) fn look(&mut self, longest: Duration, is_urgent: bool) -> Option<(usize, String)> {
        let now = Instant::now();
        if now < self.next_look && !is_urgent {
            return None;
        }
        self.next_look = now + LOOK;
        let own = self.addresses[self.rank];
        for (rank, address) in self.addresses.iter().enumerate() {
            if rank == self.rank {
                continue;
            }
            if address.is_gone(own) {
                let process = address.process;
                return Some((rank, format!("rank {rank} is lost: its process {process} is gone")));
            }
            let missing = now.duration_since(self.latest[rank]);
            if (self.rank == 0 || rank == 0) && missing > longest {
                let message = format!(
                    "rank {rank} is lost, or cut off: it sent nothing for {:.1} s",
                    missing.as_secs_f64()
                );
                return Some((rank, message));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::{Address, Presence};

    #[test]
    fn a_process_that_has_ended_is_gone() {
        let own = Address::own();
        assert_eq!(Address::of(&own.bytes()), own);
        assert!(!own.is_gone(own));
        let mut child = Command::new("true").spawn().unwrap();
        let other = Address { process: child.id().into(), ..own };
        child.wait().unwrap();
        assert!(other.is_gone(own));
        let elsewhere = Address { computer: own.computer ^ 2, ..other };
        assert!(!elsewhere.is_gone(own), "nothing is known of other computers");
        let before = Address { began: own.began + 1, ..own };
        assert!(before.is_gone(own), "another process has its number");
        let found = Presence::new(0, vec![own, other]).look(Duration::MAX, false);
        let (rank, message) = found.unwrap();
        assert!(rank == 1 && message.contains("rank 1 is lost: its process"), "{message}");
    }

    #[test]
    fn missing_heartbeats_are_noticed() {
        let unknown = Address { computer: 0, process: 1, began: 0 };
        let mut presence = Presence::new(1, vec![unknown; 3]);
        let (rank, message) = presence.look(Duration::ZERO, false).unwrap();
        assert!(
            rank == 0 && message.contains("sent nothing"),
            "ranks but 0 get heartbeats of rank 0 alone: {message}"
        );
        let mut presence = Presence::new(1, vec![unknown; 3]);
        assert_eq!(presence.look(Duration::MAX, false), None);
    }
}
