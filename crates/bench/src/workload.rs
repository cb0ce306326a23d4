//! The workloads that all compared schedulers run: the same instructions on the same variables,
//! from the same seeds.

use anyhow::{Result, bail};

/// An instruction of a workload: the variables that it reads, and the one that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) reads: [u32; 3],
    pub(super) count: usize,
    pub(super) write: Option<u32>,
}

impl Node {
    fn new(reads: &[u32], write: Option<u32>) -> Node {
        let mut all = [0; 3];
        all[..reads.len()].copy_from_slice(reads);
        Node { reads: all, count: reads.len(), write }
    }

    pub(super) fn reads(&self) -> &[u32] {
        &self.reads[..self.count]
    }

    /// Returns the variables that are read, then the one that is written.
    pub(super) fn operands(&self) -> impl Iterator<Item = u32> + '_ {
        self.reads().iter().copied().chain(self.write)
    }
}

/// A workload: the number of its variables, and its instructions.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) variables: usize,
    pub(super) nodes: Vec<Node>,
    /// The number of points of a stencil; otherwise 0.
    pub(super) width: usize,
}

/// The names of the workloads that are timed as a stream of instructions.
pub(super) const STREAMS: &[&str] = &["chain", "indep", "nodep", "random", "fan"];

/// A random number generator. Source: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable
/// pseudorandom number generators", OOPSLA 2014; every program that runs these workloads uses it.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// Returns the workload of this name with about `n` instructions; a stencil has `n` steps of
/// `width`.
pub(super) fn workload(name: &str, n: usize, width: u32) -> Result<Workload> {
    let mut nodes = Vec::new();
    let variables = match name {
        // Each writes the same variable.
        "chain" => {
            nodes = vec![Node::new(&[], Some(0)); n];
            1
        }
        // None has an operand.
        "nodep" => {
            nodes = vec![Node::new(&[], None); n];
            1
        }
        // Each writes a variable of its own.
        "indep" => {
            nodes.extend((0..n as u32).map(|k| Node::new(&[], Some(k))));
            n
        }
        // One or two reads and a write, drawn from a hundred variables.
        "random" => {
            let mut draw = SplitMix(42);
            for _ in 0..n {
                let reads = 1 + draw.below(2);
                let write = draw.below(100);
                let mut other = |not: &[u32]| loop {
                    let drawn = draw.below(100);
                    if !not.contains(&drawn) {
                        break drawn;
                    }
                };
                let a = other(&[write]);
                let b = other(&[write, a]);
                let both = [a, b];
                nodes.push(Node::new(&both[..reads as usize], Some(write)));
            }
            100
        }
        // One instruction writes a variable, and eight read it.
        "fan" => {
            for _ in 0..n / 9 {
                nodes.push(Node::new(&[], Some(0)));
                nodes.extend((1..=8).map(|k| Node::new(&[0], Some(k))));
            }
            9
        }
        // Three neighbours of one step make a point of the next; two buffers alternate.
        "stencil" => {
            for step in 0..n as u32 {
                let (from, to) = ((step & 1) * width, (1 - (step & 1)) * width);
                for x in 0..width {
                    let low = x.saturating_sub(1);
                    let high = (x + 1).min(width - 1);
                    let reads: Vec<u32> = (low..=high).map(|k| from + k).collect();
                    nodes.push(Node::new(&reads, Some(to + x)));
                }
            }
            2 * width as usize
        }
        other => bail!("unknown workload '{other}': expected one of {}", STREAMS.join(", ")),
    };
    let width = if name == "stencil" { width as usize } else { 0 };
    Ok(Workload { variables, nodes, width })
}

impl Workload {
    /// Returns a workload whose instructions each write one of the first `touched` of `live`
    /// variables, drawn at random.
    pub(super) fn touching(n: usize, live: usize, touched: u32) -> Workload {
        let mut draw = SplitMix(42);
        let nodes = (0..n).map(|_| Node::new(&[], Some(draw.below(touched)))).collect();
        Workload { variables: live, nodes, width: 0 }
    }
}

/// Returns the value that a checked instruction computes: it depends on every read and on the order
/// of every write.
pub(super) fn step(id: u64, reads: impl IntoIterator<Item = u64>, written: u64) -> u64 {
    let mut hash = 0x1234u64.wrapping_add(id);
    for value in reads {
        hash = hash.wrapping_mul(31).wrapping_add(value);
    }
    written.wrapping_mul(1_099_511_628_211).wrapping_add(hash)
}

impl Workload {
    /// Returns the variables after all instructions in order; each begins as 1.
    pub(super) fn expected(&self) -> Vec<u64> {
        let mut values = vec![1u64; self.variables];
        for (id, node) in self.nodes.iter().enumerate() {
            if let Some(write) = node.write {
                let reads: Vec<u64> = node.reads().iter().map(|&r| values[r as usize]).collect();
                values[write as usize] = step(id as u64, reads, values[write as usize]);
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums over all variables that the programs of other schedulers print.
    #[test]
    fn workloads_equal_the_other_schedulers() {
        let random = workload("random", 3, 8).unwrap();
        assert_eq!(random.variables, 100);
        assert!(random.nodes.iter().all(|n| !n.reads().contains(&n.write.unwrap())));
        let fan = workload("fan", 20, 8).unwrap();
        assert_eq!((fan.nodes.len(), fan.nodes[1]), (18, Node::new(&[0], Some(1))));
        let stencil = workload("stencil", 2, 3).unwrap();
        assert_eq!(stencil.nodes[0], Node::new(&[0, 1], Some(3)));
        assert_eq!(stencil.nodes[4], Node::new(&[3, 4, 5], Some(1)));
        assert!(workload("x", 1, 1).is_err());
    }
}
