// Gradients of a normalisation. Operands: the gradient, x, means, 1 / deviations or variances, weight, the
// gradients for x, weight and bias. Flags: 1 there is a weight, 2 it is the same all along a row, 4 the
// fourth is variances and they are constants, 8, 16, 32 the gradients for x, weight and bias are wanted.
struct P { T dot, sum; };
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
    u64 groups = (call.rows + s.rows - 1) / s.rows;
    for (u64 group = blockIdx.x; group < groups; group += gridDim.x) {
        u64 row = group * s.rows + s.row, end = row < call.rows ? call.length : 0, at[8];
        begin(call, row < call.rows ? row : 0, at);
        auto of_weight = [&](const u64 (&of)[8]) { return call.flags & 1 ? read<T, T>(element(weight + of[4])) : (T)1; };
        auto of_rstd = [&](const u64 (&of)[8]) {
            T v = read<T, T>(element(rstds + of[3]));
            return constants ? 1 / sqrt(v + eps) : v;
        };
        auto of_grad = [&](const u64 (&of)[8]) {
            T v = read<T, T>(element(grad + of[0]));
            return call.flags & 8 && !whole ? v * of_weight(of) : v;
        };
        auto of_y = [&](const u64 (&of)[8]) {
            return (read<T, T>(element(x + of[1])) - read<T, T>(element(means + of[2]))) * of_rstd(of);
        };
        P total = {0, 0}, part = {0, 0};
        unsigned taken = 0;
        each(call, at, 0, end, s, [&](u64, const u64 (&of)[8]) {
            T g = of_grad(of);
            part.dot += g * of_y(of);
            part.sum += g;
            if (++taken % 128 == 0) {
                total = {total.dot + part.dot, total.sum + part.sum};
                part = {0, 0};
            }
        });
        total = {total.dot + part.dot, total.sum + part.sum};
        total = together(total, s, shared, [](P a, P b) { return P{a.dot + b.dot, a.sum + b.sum}; });
        if (s.place == 0 && row < call.rows) {
            if (call.flags & 16) store((E6*)call.operand[6].data + at[6], total.dot);
            if (call.flags & 32) store((E7*)call.operand[7].data + at[7], total.sum);
        }
        if (!(call.flags & 8)) continue;
        T of_g = constants ? (T)0 : total.sum / count, of_gy = constants ? (T)0 : total.dot / count;
        each(call, at, 0, end, s, [&](u64, const u64 (&of)[8]) {
            T v = of_rstd(of) * (of_grad(of) - of_g - of_y(of) * of_gy);
            store((E5*)call.operand[5].data + of[5], whole ? v * of_weight(of) : v);
        });
    }
}
