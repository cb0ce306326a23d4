x, weight = f([[1, 2, 3, 4]]), f([[1, 1]])


def convolution(x, weight, bias=None, stride=(1,), padding=(0,), dilation=(1,), transposed=False,
                output_padding=(0,), groups=1):
    return A.convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding,
                         groups)


e("convolution", convolution, x=x, weight=weight)
e("convolution", convolution, x=x, weight=weight, stride=(2,))
e("convolution", convolution, x=x, weight=weight, padding=(1,))
e("convolution", convolution, x=x, weight=weight, dilation=(2,))
e("convolution", convolution, x=x, weight=weight, bias=f(10))
e("convolution", convolution, x=x, weight=weight, transposed=True)
e("convolution", convolution, x=x, weight=weight, transposed=True, stride=(2,),
  output_padding=(1,))
e("convolution", convolution, x=f([[1, 2], [3, 4]]), weight=f([[1, 1]], [[1, -1]]), groups=2)
image = f([[1, 2, 3], [4, 5, 6]])
FLAT = f([[1, 2, 3, 4, 5]])


def max_pool(x, kernel_size, **k):
    return A.max_pool2d_with_indices(x, kernel_size, **k)


e("max_pool2d_with_indices", max_pool, names="values indices", x=image, kernel_size=(2, 2),
  stride=(1, 1))
e("max_pool2d_with_indices", max_pool, names="values indices", x=image, kernel_size=(2, 2),
  padding=(1, 1))
e("max_pool2d_with_indices", max_pool, names="values indices", x=FLAT, kernel_size=(1, 2),
  dilation=(1, 2))
e("max_pool2d_with_indices", max_pool, names="values indices", x=FLAT, kernel_size=(1, 2),
  ceil_mode=True)


def avg_pool(x, kernel_size, **k):
    return A.avg_pool2d(x, kernel_size, **k)


e("avg_pool2d", avg_pool, x=image, kernel_size=(2, 2), stride=(1, 1))
e("avg_pool2d", avg_pool, x=FLAT, kernel_size=(1, 2), padding=(0, 1))
e("avg_pool2d", avg_pool, x=FLAT, kernel_size=(1, 2), ceil_mode=True)
e("avg_pool2d", avg_pool, x=FLAT, kernel_size=(1, 2), padding=(0, 1), count_include_pad=False)
e("avg_pool2d", avg_pool, x=FLAT, kernel_size=(1, 2), divisor_override=1)
e("_adaptive_avg_pool2d", x=f([[1, 2, 3, 4]]), output_size=(1, 2))
