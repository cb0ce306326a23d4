// Normalisation of rows. Operands: x, weight, bias, the result, means, 1 / deviations, running means and
// variances. Flags: 1 there is a weight, 2 a bias, 4 mean and variance are the row's, 8 they are stored,
// 16 there is a running mean, 32 a running variance, 64 those change.
extern "C" __global__ void BOUNDED NAME(const Rows<8> call) {
    __shared__ T shared[256];
    Seat s = seat(call);
    const E0* x = (const E0*)call.operand[0].data;
    const E1* weight = (const E1*)call.operand[1].data;
    const E2* bias = (const E2*)call.operand[2].data;
    E3* out = (E3*)call.operand[3].data;
    E6* old_mean = (E6*)call.operand[6].data;
    E7* old_variance = (E7*)call.operand[7].data;
    // A row is read but once if each thread's elements of it fit into registers.
    Pack<E0, AT_ONCE> xs[HELD ? HELD : 1];
    T eps = (T)call.numbers[0], momentum = (T)call.numbers[1], count = (T)call.length;
    auto sum = [](T a, T b) { return a + b; };
    u64 groups = (call.rows + s.rows - 1) / s.rows;
    for (u64 group = blockIdx.x; group < groups; group += gridDim.x) {
        u64 row = group * s.rows + s.row, end = row < call.rows ? call.length : 0, at[8];
        begin(call, row < call.rows ? row : 0, at);
#if HELD
        each(call, at, 0, end, s, [&](u64, const u64 (&of)[8], int turn) { xs[turn] = load_pack<AT_ONCE>(x + of[0]); });
#endif
        T mean = 0, variance = 1;
        if (call.flags & 16) mean = load(old_mean + at[6]);
        if (call.flags & 32) variance = load(old_variance + at[7]);
        if (call.flags & 4) {
            T was_mean = mean, was_variance = variance, total = 0, part = 0;
            unsigned taken = 0;
            each(call, at, 0, end, s, [&](u64, const u64 (&of)[8], int turn) {
                if (!HELD) xs[turn] = load_pack<AT_ONCE>(x + of[0]);
                for (int k = 0; k < AT_ONCE; ++k) part += (T)carry(xs[turn].at[k]);
                taken += AT_ONCE;
                if (taken % 128 == 0) { total += part; part = 0; }
            });
            mean = together(total + part, s, shared, sum) / count;
            total = part = 0;
            each(call, at, 0, end, s, [&](u64, const u64 (&of)[8], int turn) {
                if (!HELD) xs[turn] = load_pack<AT_ONCE>(x + of[0]);
                for (int k = 0; k < AT_ONCE; ++k) {
                    T apart = (T)carry(xs[turn].at[k]) - mean;
                    part += apart * apart;
                }
                taken += AT_ONCE;
                if (taken % 128 == 0) { total += part; part = 0; }
            });
            variance = together(total + part, s, shared, sum) / count;
            if (s.place == 0 && row < call.rows) {
                T corrected = variance * count / (count - 1);
                bool changes = call.flags & 64;
                if (changes && call.flags & 16) store(old_mean + at[6], momentum * mean + (1 - momentum) * was_mean);
                if (changes && call.flags & 32) store(old_variance + at[7], momentum * corrected + (1 - momentum) * was_variance);
            }
        }
        T rstd = 1 / sqrt(variance + eps);
        if (call.flags & 8 && s.place == 0 && row < call.rows) {
            store((E4*)call.operand[4].data + at[4], mean);
            store((E5*)call.operand[5].data + at[5], rstd);
        }
        each(call, at, 0, end, s, [&](u64, const u64 (&of)[8], int turn) {
            if (!HELD) xs[turn] = load_pack<AT_ONCE>(x + of[0]);
            Pack<E1, AT_ONCE> weights = {};
            Pack<E2, AT_ONCE> biases = {};
            Pack<E3, AT_ONCE> made;
            if (call.flags & 1) weights = beside<1>(call, weight + of[1]);
            if (call.flags & 2) biases = beside<2>(call, bias + of[2]);
            for (int k = 0; k < AT_ONCE; ++k) {
                T w = call.flags & 1 ? (T)carry(weights.at[k]) : (T)1;
                T b = call.flags & 2 ? (T)carry(biases.at[k]) : (T)0;
                made.at[k] = Cast<E3>::of(((T)carry(xs[turn].at[k]) - mean) * rstd * w + b);
            }
            store_pack<E3, AT_ONCE>(out + of[3], made);
        });
    }
}
