// Normalisation of rows.
// Operands: x, weight, bias, the result, means, 1 / deviations, running means and variances.
// Flags: 1 there is a weight; 2 there is a bias; 4 compute mean and variance of the row; 8 store
// them; 16 there is a running mean; 32 there is a running variance; 64 update the running
// statistics.
extern "C" __global__ void BOUNDED NAME(const RowArgs<8> args) {
    __shared__ T shared[256];
    RowThread s = row_thread(args);
    const E0* x = (const E0*)args.operand[0].data;
    const E1* weight = (const E1*)args.operand[1].data;
    const E2* bias = (const E2*)args.operand[2].data;
    E3* out = (E3*)args.operand[3].data;
    E6* running_mean = (E6*)args.operand[6].data;
    E7* running_variance = (E7*)args.operand[7].data;
    // A row is read only once if each thread's elements fit into registers.
    Vector<E0, VECTOR_WIDTH> xs[REGISTER_LOADS ? REGISTER_LOADS : 1];
    T eps = (T)args.scalars[0], momentum = (T)args.scalars[1], count = (T)args.length;
    auto sum = [](T a, T b) { return a + b; };
    u64 groups = (args.rows + s.rows - 1) / s.rows;
    for (u64 group = blockIdx.x; group < groups; group += gridDim.x) {
        u64 row = group * s.rows + s.row, end = row < args.rows ? args.length : 0, at[8];
        row_offsets(args, row < args.rows ? row : 0, at);
#if REGISTER_LOADS
        for_each(args, at, 0, end, s, [&](u64, const u64 (&of)[8], int step) {
            xs[step] = load_vector<VECTOR_WIDTH>(x + of[0]);
        });
#endif
        T mean = 0, variance = 1;
        if (args.flags & 16) mean = load(running_mean + at[6]);
        if (args.flags & 32) variance = load(running_variance + at[7]);
        if (args.flags & 4) {
            T previous_mean = mean, previous_variance = variance, total = 0, part = 0;
            unsigned added = 0;
            for_each(args, at, 0, end, s, [&](u64, const u64 (&of)[8], int step) {
                if (!REGISTER_LOADS) xs[step] = load_vector<VECTOR_WIDTH>(x + of[0]);
                for (int k = 0; k < VECTOR_WIDTH; ++k) part += (T)carry(xs[step].at[k]);
                added += VECTOR_WIDTH;
                if (added % 128 == 0) { total += part; part = 0; }
            });
            mean = reduce_row(total + part, s, shared, sum) / count;
            total = part = 0;
            for_each(args, at, 0, end, s, [&](u64, const u64 (&of)[8], int step) {
                if (!REGISTER_LOADS) xs[step] = load_vector<VECTOR_WIDTH>(x + of[0]);
                for (int k = 0; k < VECTOR_WIDTH; ++k) {
                    T difference = (T)carry(xs[step].at[k]) - mean;
                    part += difference * difference;
                }
                added += VECTOR_WIDTH;
                if (added % 128 == 0) { total += part; part = 0; }
            });
            variance = reduce_row(total + part, s, shared, sum) / count;
            if (s.thread == 0 && row < args.rows) {
                T corrected = variance * count / (count - 1);
                bool updates = args.flags & 64;
                T keep = 1 - momentum;
                if (updates && args.flags & 16)
                    store(running_mean + at[6], momentum * mean + keep * previous_mean);
                if (updates && args.flags & 32)
                    store(
                        running_variance + at[7],
                        momentum * corrected + keep * previous_variance
                    );
            }
        }
        T rstd = 1 / sqrt(variance + eps);
        if (args.flags & 8 && s.thread == 0 && row < args.rows) {
            store((E4*)args.operand[4].data + at[4], mean);
            store((E5*)args.operand[5].data + at[5], rstd);
        }
        for_each(args, at, 0, end, s, [&](u64, const u64 (&of)[8], int step) {
            if (!REGISTER_LOADS) xs[step] = load_vector<VECTOR_WIDTH>(x + of[0]);
            Vector<E1, VECTOR_WIDTH> weights = {};
            Vector<E2, VECTOR_WIDTH> biases = {};
            Vector<E3, VECTOR_WIDTH> results;
            if (args.flags & 1) weights = load_operand<1>(args, weight + of[1]);
            if (args.flags & 2) biases = load_operand<2>(args, bias + of[2]);
            for (int k = 0; k < VECTOR_WIDTH; ++k) {
                T w = args.flags & 1 ? (T)carry(weights.at[k]) : (T)1;
                T b = args.flags & 2 ? (T)carry(biases.at[k]) : (T)0;
                results.at[k] = Cast<E3>::of(((T)carry(xs[step].at[k]) - mean) * rstd * w + b);
            }
            store_vector<E3, VECTOR_WIDTH>(out + of[3], results);
        });
    }
}
