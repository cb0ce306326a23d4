// Gradients of a normalisation. Operands: the gradient, x, means, 1 / deviations or variances, weight, the
// gradients for x, weight and bias. Flags: 1 there is a weight, 2 it is the same all along a row, 4 the
// fourth is variances and they are constants, 8, 16, 32 the gradients for x, weight and bias are wanted.
// Rows in several parts have no gradient for x: in its place lie the sums of the parts, to be joined.
struct P { T dot, sum; };
__device__ inline P both(P a, P b) { return {a.dot + b.dot, a.sum + b.sum}; }
__device__ inline void given(const Rows<8>& call, const u64 (&at)[8], P total) {
    if (call.flags & 16) store((E6*)call.operand[6].data + at[6], total.dot);
    if (call.flags & 32) store((E7*)call.operand[7].data + at[7], total.sum);
}
// What is taken at once: gradients, times the weight where that is each element's own; x normalised.
struct Some { T grad[AT_ONCE], y[AT_ONCE], rstd[AT_ONCE], weight[AT_ONCE]; };
extern "C" __global__ void NAME(const Rows<8> call) {
    __shared__ P shared[256];
    Seat s = seat(call);
    const E0* grad = (const E0*)call.operand[0].data;
    const E1* x = (const E1*)call.operand[1].data;
    const E2* means = (const E2*)call.operand[2].data;
    const E3* rstds = (const E3*)call.operand[3].data;
    const E4* weight = (const E4*)call.operand[4].data;
    T eps = (T)call.numbers[0], count = (T)call.length;
    bool constants = call.flags & 4, whole = call.flags & 2;
    auto some = [&](const u64 (&of)[8]) {
        Some all;
        auto grads = load_pack<AT_ONCE>(grad + of[0]);
        auto xs = beside<1>(call, x + of[1]);
        auto mean = beside<2>(call, means + of[2]);
        auto rstd = beside<3>(call, rstds + of[3]);
        Pack<E4, AT_ONCE> weights = {};
        if (call.flags & 1) weights = beside<4>(call, weight + of[4]);
        for (int k = 0; k < AT_ONCE; ++k) {
            T g = (T)carry(grads.at[k]), v = (T)carry(rstd.at[k]);
            all.weight[k] = call.flags & 1 ? (T)carry(weights.at[k]) : (T)1;
            all.rstd[k] = constants ? 1 / sqrt(v + eps) : v;
            all.grad[k] = call.flags & 8 && !whole ? g * all.weight[k] : g;
            all.y[k] = ((T)carry(xs.at[k]) - (T)carry(mean.at[k])) * all.rstd[k];
        }
        return all;
    };
    u64 groups = (call.rows + s.rows - 1) / s.rows;
    for (u64 task = blockIdx.x; task < groups * call.parts; task += gridDim.x) {
        u64 group = task / call.parts, number = task - group * call.parts, row = group * s.rows + s.row;
        u64 first = number * call.part, end = first + call.part, at[8];
        if (end > call.length) end = call.length;
        if (row >= call.rows) end = first;
        begin(call, row < call.rows ? row : 0, at);
        P total = {0, 0}, part = {0, 0};
        unsigned taken = 0;
        each(call, at, first, end, s, [&](u64, const u64 (&of)[8], int) {
            Some v = some(of);
            for (int k = 0; k < AT_ONCE; ++k) {
                part.dot += v.grad[k] * v.y[k];
                part.sum += v.grad[k];
            }
            taken += AT_ONCE;
            if (taken % 128 == 0) {
                total = both(total, part);
                part = {0, 0};
            }
        });
        total = together(both(total, part), s, shared, [](P a, P b) { return both(a, b); });
        if (s.place == 0 && row < call.rows) {
            if (call.parts == 1) {
                given(call, at, total);
            } else {
                P* to = (P*)call.operand[5].data + (row * call.parts + number);
                MS_TOUCH(to, 1);
                *to = total;
            }
        }
        if (!(call.flags & 8)) continue;
        T of_g = constants ? (T)0 : total.sum / count, of_gy = constants ? (T)0 : total.dot / count;
        each(call, at, 0, end, s, [&](u64, const u64 (&of)[8], int) {
            Some v = some(of);
            Pack<E5, AT_ONCE> made;
            for (int k = 0; k < AT_ONCE; ++k) {
                T one = v.rstd[k] * (v.grad[k] - of_g - v.y[k] * of_gy);
                made.at[k] = Cast<E5>::of(whole ? one * v.weight[k] : one);
            }
            store_pack<E5, AT_ONCE>((E5*)call.operand[5].data + of[5], made);
        });
    }
}
extern "C" __global__ void NAME_join(const Rows<8> call) {
    __shared__ P shared[256];
    auto join = [](P a, P b) { return both(a, b); };
    each_joined<5>(call, shared, P{0, 0}, join, [&](const u64 (&at)[8], P total) { given(call, at, total); });
}
