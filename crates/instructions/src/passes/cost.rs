//! The times of calls, for passes that weigh one order against another.

use millstream_types::TensorSpec;

/// A model of the time that a list takes. Passes compare its answers with one another, so a wrong
/// scale does little harm, and a wrong answer none to the results of a list.
pub trait CostModel: Sync {
    /// Returns the time of a call of `op`, in nanoseconds, from the tensors that it reads and those
    /// that it writes.
    fn call(&self, op: &str, reads: &[&TensorSpec], writes: &[&TensorSpec]) -> u64;

    /// Returns the time that a wait for another stream adds, in nanoseconds, where the point has
    /// completed already.
    fn wait(&self) -> u64 {
        100
    }

    /// Returns the time from the end of a call until a call on another stream begins that waits for
    /// it, in nanoseconds.
    fn hand_over(&self) -> u64 {
        CoreCosts::COMPILED.hand_over
    }

    /// Returns the time from which a call's kernel is split over all cores, in nanoseconds; none if
    /// the streams share no cores.
    fn split(&self) -> Option<u64> {
        None
    }
}

/// The times of one core of a desktop computer: a launch, and the longer of two times, that of the
/// operations and that of the bytes.
///
/// The figures are for the scale alone: 20 ns for a call in a compiled list, 24 bytes and 64
/// operations on f32 in a nanosecond. A core reaches about 10 GB/s of main memory in STREAM
/// (McCalpin, 1995, <https://www.cs.virginia.edu/stream/>), and more of what its caches hold; two
/// fused multiply-adds of 256 bits in a cycle are 32 operations, and of 512 bits 64. Elementwise
/// calls were measured at 27 bytes, products of 32 to 256 rows at 50 to 73 operations.
#[derive(Clone, Copy, Debug)]
pub struct CoreCosts {
    /// The time of each call besides its work, in nanoseconds.
    pub launch: u64,
    /// The bytes through memory in a nanosecond.
    pub bytes: u64,
    /// The operations in a nanosecond.
    pub operations: u64,
    /// The bytes of a call from which its kernel is split over all cores; none if streams share no
    /// cores.
    pub split: Option<u64>,
    /// The time of a hand-over between streams, in nanoseconds.
    pub hand_over: u64,
}

impl CoreCosts {
    /// Calls of a compiled list. Elementwise kernels split calls of more than 32,768 elements,
    /// which move 256 KiB. A hand-over wakes a worker now and then; in a virtual machine, where
    /// that is dear, 20 µs were measured on average (docs/performance.md, "Facts behind choices").
    pub const COMPILED: CoreCosts = CoreCosts {
        launch: 20,
        bytes: 24,
        operations: 64,
        split: Some(1 << 18),
        hand_over: 20_000,
    };

    /// Calls that a machine emits one by one: a worker takes and completes each, and sleeps more
    /// often between them.
    pub const EAGER: CoreCosts =
        CoreCosts { launch: 150, hand_over: 40_000, ..CoreCosts::COMPILED };

    /// Kernels of a device such as an A100: 1.5 TB/s, 10 operations on f32 in a picosecond, 3 µs
    /// for a launch and for a wait between its streams.
    pub const GPU: CoreCosts = CoreCosts {
        launch: 3_000,
        bytes: 1_500,
        operations: 10_000,
        split: None,
        hand_over: 3_000,
    };
}

impl Default for CoreCosts {
    fn default() -> CoreCosts {
        CoreCosts::COMPILED
    }
}

impl CostModel for CoreCosts {
    fn call(&self, op: &str, reads: &[&TensorSpec], writes: &[&TensorSpec]) -> u64 {
        let moved = bytes(reads) + bytes(writes);
        let operations = operations(op, reads, writes);
        let bytes = moved / self.bytes.max(1);
        self.launch + bytes.max(operations / self.operations.max(1))
    }

    fn hand_over(&self) -> u64 {
        self.hand_over
    }

    fn split(&self) -> Option<u64> {
        Some(self.split? / self.bytes.max(1))
    }
}

/// Returns the bytes of the elements of all tensors.
pub fn bytes(specs: &[&TensorSpec]) -> u64 {
    specs.iter().map(|s| (s.numel() * s.dtype.size()) as u64).sum()
}

/// Returns the number of operations of a call of `op`, from the shapes of its inputs and outputs. A
/// multiplication and an addition count as two. An op that the table lacks counts one operation for
/// each element of its largest operand.
pub fn operations(op: &str, inputs: &[&TensorSpec], outputs: &[&TensorSpec]) -> u64 {
    let largest = inputs.iter().chain(outputs).map(|s| s.numel() as u64).max().unwrap_or(0);
    let made = outputs.first().map_or(0, |s| s.numel() as u64);
    let last = |k: usize| inputs.get(k).and_then(|s| s.shape().last()).map_or(1, |n| *n as u64);
    let product = match op.trim_end_matches('_') {
        // Each element of the result is a sum over the first operand's last dimension.
        "mm" | "bmm" | "matmul" | "dot" | "mv" | "linear" => Some(2 * made * last(0)),
        // The first operand is added to the product of the others.
        "addmm" | "baddbmm" | "addmv" => Some(2 * made * last(1) + made),
        // Each element of the result is a sum over a filter: the weights of one channel.
        "convolution" | "conv1d" | "conv2d" | "conv3d" => {
            let filter = inputs.get(1).map_or(1, |w| {
                let out = w.shape().first().copied().unwrap_or(1).max(1);
                (w.numel() / out) as u64
            });
            Some(2 * made * filter)
        }
        // The gradients of input and weight: each is a convolution as large as the forward one.
        "convolution_backward" => {
            let gradient = inputs.first().map_or(0, |g| g.numel() as u64);
            let filter = inputs.get(2).map_or(1, |w| {
                let out = w.shape().first().copied().unwrap_or(1).max(1);
                (w.numel() / out) as u64
            });
            Some(4 * gradient * filter)
        }
        // Two products: queries by keys, then the result by values.
        name if name.contains("scaled_dot_product") && !name.contains("backward") => {
            let length = inputs.get(1).map_or(1, |k| {
                let shape = k.shape();
                shape.get(shape.len().saturating_sub(2)).copied().unwrap_or(1) as u64
            });
            Some(4 * inputs.first().map_or(0, |q| q.numel() as u64) * length)
        }
        _ => None,
    };
    product.unwrap_or(largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_types::DType;

    fn spec(shape: &[usize]) -> TensorSpec {
        TensorSpec::contiguous(DType::F32, shape).unwrap()
    }

    #[test]
    fn products_count_multiplications_and_additions() {
        let (a, b, c) = (spec(&[8, 16]), spec(&[16, 32]), spec(&[8, 32]));
        assert_eq!(operations("matmul", &[&a, &b], &[&c]), 2 * 8 * 16 * 32);
        assert_eq!(operations("addmm", &[&c, &a, &b], &[&c]), 2 * 8 * 16 * 32 + 8 * 32);
        let (x, w, y) = (spec(&[1, 3, 8, 8]), spec(&[4, 3, 3, 3]), spec(&[1, 4, 6, 6]));
        assert_eq!(operations("convolution", &[&x, &w], &[&y]), 2 * (4 * 6 * 6) * (3 * 3 * 3));
        assert_eq!(operations("relu", &[&x], &[&x]), 3 * 8 * 8);
        assert_eq!(operations("sum", &[&x], &[&spec(&[])]), 3 * 8 * 8);
    }
}
