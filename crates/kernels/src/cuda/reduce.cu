// A reduction: `P`, `nothing`, `take`, `join` and `finish` are the op's own.
__device__ inline void given(const Rows<4>& call, u64 row, const u64 (&at)[4], u64 part, P total) {
    if (call.parts == 1) return finish(call, at, total);
    P* to = (P*)call.operand[3].data + (row * call.parts + part);
    MS_TOUCH(to, 1);
    *to = total;
}
extern "C" __global__ void NAME(const Rows<4> call) {
    __shared__ P shared[256];
    Seat s = seat(call);
    u64 groups = (call.rows + s.rows - 1) / s.rows;
    for (u64 task = blockIdx.x; task < groups * call.parts; task += gridDim.x) {
        u64 group = task / call.parts, part = task - group * call.parts, row = group * s.rows + s.row;
        u64 first = part * call.part, end = first + call.part, at[4];
        if (end > call.length) end = call.length;
        if (row >= call.rows) end = first;
        begin(call, row < call.rows ? row : 0, at);
        const E* x = (const E*)call.operand[0].data;
        // Short sums are added up: the error grows with the root of a row's length.
        P total = nothing(), some = nothing();
        unsigned taken = 0;
        each(call, at, first, end, s, [&](u64 index, const u64 (&of)[4], int) {
            auto xs = load_pack<AT_ONCE>(x + of[0]);
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k)
                take(some, read<T, Via>(xs.at[k]), (i64)index + k, (T)call.numbers[0]);
            taken += AT_ONCE;
            if (taken % 128 == 0) {
                total = join(total, some);
                some = nothing();
            }
        });
        total = together(join(total, some), s, shared, [](P a, P b) { return join(a, b); });
        if (s.place == 0 && row < call.rows) given(call, row, at, part, total);
    }
}
extern "C" __global__ void NAME_join(const Rows<4> call) {
    __shared__ P shared[256];
    auto both = [](P a, P b) { return join(a, b); };
    each_joined<3>(call, shared, nothing(), both, [&](const u64 (&at)[4], P total) { finish(call, at, total); });
}
