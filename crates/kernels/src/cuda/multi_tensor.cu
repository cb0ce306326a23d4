// The table of a launch over sets of tensors: the tensors of each set, and those that all share.
// `multi_tensor.rs` declares the same types in Rust.
struct Memory { u64 data; u64 bytes; };
struct MultiArgs {
    ArgsHeader header; unsigned sets, columns; u64 chunks; long long integers[MAX_INTEGERS];
    u64 first[TABLE_SETS]; Memory operand[TABLE_OPERANDS];
};

// Returns the set of a chunk: the last one whose first chunk is not behind it.
__device__ inline unsigned set_of(const MultiArgs& args, u64 chunk) {
    unsigned low = 0, high = args.sets;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (args.first[middle] <= chunk) low = middle; else high = middle;
    }
    return low;
}
