// Philox 4x32 with 10 rounds, as in the host's `philox.rs`.
struct RandomWords { unsigned at[4]; };
// The seed or the offset: a constant, and whether operand k is added to it.
#define NUMBER(k, integer) \
    ((u64)args.integers[integer] + (args.integers[(integer) + 1] ? (u64)DATA(const i64, k)[0] : 0))
// The number of element `index` in the whole tensor, which operand k numbers if the call draws a
// part.
#define ELEMENT_NUMBER(k, integer) \
    (args.integers[(integer) + 1] \
         ? (u64)args.integers[integer] + offset(args, k, position, 0, args.rank) \
         : index)
__device__ inline RandomWords random_words(u64 block, u64 offset, u64 seed) {
    unsigned a = (unsigned)block, b = (unsigned)(block >> 32);
    unsigned c = (unsigned)offset, d = (unsigned)(offset >> 32);
    unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const u64 first = (u64)0xd2511f53u * a, second = (u64)0xcd9e8d57u * c;
        a = (unsigned)(second >> 32) ^ b ^ k0;
        c = (unsigned)(first >> 32) ^ d ^ k1;
        b = (unsigned)second;
        d = (unsigned)first;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return {{a, b, c, d}};
}
__device__ inline u64 long_word(const RandomWords& words, unsigned k) {
    return (u64)words.at[2 * k] | (u64)words.at[2 * k + 1] << 32;
}
// A number from 0 up to 1.
__device__ inline double fraction(u64 x) { return (double)(x >> 11) * 1.1102230246251565e-16; }
__device__ inline bool is_below(unsigned word, double p) {
    return (double)word * 2.3283064365386963e-10 < p;
}
