// The pooling windows of an image. A range of rows is called y, a range of columns x.
// Integers: for the rows and then for the columns of an image: length, number of windows, window
// length, stride, padding, dilation; the strides of the image's rows and columns; the strides of
// the output's rows and columns; whether pooling is adaptive; whether padding counts; the divisor
// of sums, or 0 for the size of the window.
struct Axis { long long length, count, kernel, stride, padding, dilation; };
__device__ inline Axis axis(const StridedArgs& args, int k) {
    const long long* v = args.integers + 6 * k;
    Axis axis = {v[0], v[1], v[2], v[3], v[4], v[5]};
    return axis;
}
// A half-open range, and the length of a window with its padding.
struct Range { long long from, to, length; };
// The part of a window inside the image.
__device__ inline Range window(const Axis& axis, long long number, bool adaptive) {
    Range range;
    if (adaptive) {
        range.from = number * axis.length / axis.count;
        range.to = ((number + 1) * axis.length + axis.count - 1) / axis.count;
        range.length = range.to - range.from;
        return range;
    }
    long long from = number * axis.stride, to = from + axis.kernel;
    const long long end = axis.length + 2 * axis.padding;
    if (to > end) to = end;
    range.length = to - from;
    from -= axis.padding;
    to -= axis.padding;
    range.from = from < 0 ? 0 : from > axis.length ? axis.length : from;
    range.to = to < 0 ? 0 : to > axis.length ? axis.length : to;
    return range;
}
// The part of a dilated window inside the image: its first index, and the end.
__device__ inline Range dilated_window(const Axis& axis, long long number) {
    Range range;
    range.from = number * axis.stride - axis.padding;
    range.to = range.from + (axis.kernel - 1) * axis.dilation + 1;
    if (range.to > axis.length) range.to = axis.length;
    if (range.from < 0)
        range.from += (-range.from + axis.dilation - 1) / axis.dilation * axis.dilation;
    range.length = axis.kernel;
    return range;
}
// The windows that may contain an index.
__device__ inline Range windows_of(const Axis& axis, long long index, bool adaptive) {
    Range range;
    if (adaptive) {
        range.from = index * axis.count / axis.length;
        range.to = ((index + 1) * axis.count + axis.length - 1) / axis.length;
    } else {
        const long long reach = (axis.kernel - 1) * axis.dilation;
        const long long first = index + axis.padding - reach;
        range.from = first <= 0 ? 0 : (first + axis.stride - 1) / axis.stride;
        range.to = (index + axis.padding) / axis.stride + 1;
    }
    if (range.to > axis.count) range.to = axis.count;
    range.length = 0;
    return range;
}
// The divisor of a window's sum.
__device__ inline T divisor(const StridedArgs& args, const Range& y, const Range& x) {
    if (args.integers[18]) return (T)args.integers[18];
    if (args.integers[17]) return (T)(double)(y.length * x.length);
    return (T)(double)((y.to - y.from) * (x.to - x.from));
}
