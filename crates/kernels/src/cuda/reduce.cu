// A reduction. Defined before, by the op: `Partial`, `identity`, `accumulate`, `combine`, `finish`.
__device__ inline void write_result(
    const RowArgs<4>& args, u64 row, const u64 (&at)[4], u64 part, Partial total
) {
    if (args.parts == 1) return finish(args, at, total);
    Partial* to = (Partial*)args.operand[3].data + (row * args.parts + part);
    MS_TOUCH(to, 1);
    *to = total;
}
extern "C" __global__ void NAME(const RowArgs<4> args) {
    __shared__ Partial shared[256];
    RowThread s = row_thread(args);
    u64 groups = (args.rows + s.rows - 1) / s.rows;
    for (u64 task = blockIdx.x; task < groups * args.parts; task += gridDim.x) {
        u64 group = task / args.parts, part = task - group * args.parts;
        u64 row = group * s.rows + s.row;
        u64 first = part * args.part, end = first + args.part, at[4];
        if (end > args.length) end = args.length;
        if (row >= args.rows) end = first;
        row_offsets(args, row < args.rows ? row : 0, at);
        const E* x = (const E*)args.operand[0].data;
        // Adds short partial sums: the error grows with the square root of a row's length.
        Partial total = identity(), partial = identity();
        unsigned added = 0;
        for_each_vector<0>(args, at, first, end, s, x, [&](u64 index, const Vector<E, VECTOR_WIDTH>& xs) {
#pragma unroll
            for (int k = 0; k < VECTOR_WIDTH; ++k)
                accumulate(partial, read<T, Via>(xs.at[k]), (i64)index + k, (T)args.scalars[0]);
            added += VECTOR_WIDTH;
            if (added % 128 == 0) {
                total = combine(total, partial);
                partial = identity();
            }
        });
        auto combined = [](Partial a, Partial b) { return combine(a, b); };
        total = reduce_row(combine(total, partial), s, shared, combined);
        if (s.thread == 0 && row < args.rows) write_result(args, row, at, part, total);
    }
}
extern "C" __global__ void NAME_combine(const RowArgs<4> args) {
    __shared__ Partial shared[256];
    auto combined = [](Partial a, Partial b) { return combine(a, b); };
    combine_parts<3>(args, shared, identity(), combined, [&](const u64 (&at)[4], Partial total) {
        finish(args, at, total);
    });
}
