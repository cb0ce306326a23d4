// The gradients of a normalisation.
// Operands: the gradient, x, means, 1 / deviations or variances, weight, the gradients of x, weight
// and bias.
// Flags: 1 there is a weight; 2 it is constant along a row; 4 the fourth operand holds variances,
// and the statistics are constants; 8, 16, 32 compute the gradient of x, weight, bias. Rows in
// several parts have no gradient of x: the sixth operand holds the sums of the parts instead.
struct Partial { T dot, sum; };
__device__ inline Partial combine(Partial a, Partial b) { return {a.dot + b.dot, a.sum + b.sum}; }
__device__ inline void write_sums(const RowArgs<8>& args, const u64 (&at)[8], Partial total) {
    if (args.flags & 16) store((E6*)args.operand[6].data + at[6], total.dot);
    if (args.flags & 32) store((E7*)args.operand[7].data + at[7], total.sum);
}
// The elements of a vector: gradients, times the weight if it varies along the row; normalised x.
struct Elements {
    T grad[VECTOR_WIDTH], y[VECTOR_WIDTH], rstd[VECTOR_WIDTH], weight[VECTOR_WIDTH];
};
extern "C" __global__ void NAME(const RowArgs<8> args) {
    __shared__ Partial shared[256];
    RowThread s = row_thread(args);
    const E0* grad = (const E0*)args.operand[0].data;
    const E1* x = (const E1*)args.operand[1].data;
    const E2* means = (const E2*)args.operand[2].data;
    const E3* rstds = (const E3*)args.operand[3].data;
    const E4* weight = (const E4*)args.operand[4].data;
    T eps = (T)args.scalars[0], count = (T)args.length;
    bool constants = args.flags & 4, weight_is_constant = args.flags & 2;
    auto load_elements = [&](const u64 (&of)[8]) {
        Elements all;
        auto grads = load_vector<VECTOR_WIDTH>(grad + of[0]);
        auto xs = load_operand<1>(args, x + of[1]);
        auto mean = load_operand<2>(args, means + of[2]);
        auto rstd = load_operand<3>(args, rstds + of[3]);
        Vector<E4, VECTOR_WIDTH> weights = {};
        if (args.flags & 1) weights = load_operand<4>(args, weight + of[4]);
        for (int k = 0; k < VECTOR_WIDTH; ++k) {
            T g = (T)carry(grads.at[k]), v = (T)carry(rstd.at[k]);
            all.weight[k] = args.flags & 1 ? (T)carry(weights.at[k]) : (T)1;
            all.rstd[k] = constants ? 1 / sqrt(v + eps) : v;
            all.grad[k] = args.flags & 8 && !weight_is_constant ? g * all.weight[k] : g;
            all.y[k] = ((T)carry(xs.at[k]) - (T)carry(mean.at[k])) * all.rstd[k];
        }
        return all;
    };
    u64 groups = (args.rows + s.rows - 1) / s.rows;
    for (u64 task = blockIdx.x; task < groups * args.parts; task += gridDim.x) {
        u64 group = task / args.parts, number = task - group * args.parts;
        u64 row = group * s.rows + s.row;
        u64 first = number * args.part, end = first + args.part, at[8];
        if (end > args.length) end = args.length;
        if (row >= args.rows) end = first;
        row_offsets(args, row < args.rows ? row : 0, at);
        Partial total = {0, 0}, part = {0, 0};
        unsigned added = 0;
        for_each(args, at, first, end, s, [&](u64, const u64 (&of)[8], int) {
            Elements v = load_elements(of);
            for (int k = 0; k < VECTOR_WIDTH; ++k) {
                part.dot += v.grad[k] * v.y[k];
                part.sum += v.grad[k];
            }
            added += VECTOR_WIDTH;
            if (added % 128 == 0) {
                total = combine(total, part);
                part = {0, 0};
            }
        });
        auto combined = [](Partial a, Partial b) { return combine(a, b); };
        total = reduce_row(combine(total, part), s, shared, combined);
        if (s.thread == 0 && row < args.rows) {
            if (args.parts == 1) {
                write_sums(args, at, total);
            } else {
                Partial* to = (Partial*)args.operand[5].data + (row * args.parts + number);
                MS_TOUCH(to, 1);
                *to = total;
            }
        }
        if (!(args.flags & 8)) continue;
        T mean_g = constants ? (T)0 : total.sum / count;
        T mean_gy = constants ? (T)0 : total.dot / count;
        for_each(args, at, 0, end, s, [&](u64, const u64 (&of)[8], int) {
            Elements v = load_elements(of);
            Vector<E5, VECTOR_WIDTH> results;
            for (int k = 0; k < VECTOR_WIDTH; ++k) {
                T one = v.rstd[k] * (v.grad[k] - mean_g - v.y[k] * mean_gy);
                results.at[k] = Cast<E5>::of(weight_is_constant ? one * v.weight[k] : one);
            }
            store_vector<E5, VECTOR_WIDTH>((E5*)args.operand[5].data + of[5], results);
        });
    }
}
extern "C" __global__ void NAME_combine(const RowArgs<8> args) {
    __shared__ Partial shared[256];
    auto combined = [](Partial a, Partial b) { return combine(a, b); };
    combine_parts<5>(args, shared, Partial{0, 0}, combined, [&](const u64 (&at)[8], Partial total) {
        write_sums(args, at, total);
    });
}
