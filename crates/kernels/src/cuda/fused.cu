// The numbers of the steps of a fused program are passed as words: whole, or the bits of a double.
__device__ inline void number(long long word, i64& v) { v = word; }
__device__ inline void number(long long word, double& v) {
    union { long long word; double value; } bits;
    bits.word = word;
    v = bits.value;
}
__device__ inline void number(long long word, float& v) {
    double wide;
    number(word, wide);
    v = (float)wide;
}
