def c2c(x, dim, forward, normalization=0):
    return A._fft_c2c(x, dim, normalization, forward)


def r2c(x, dim, onesided, normalization=0):
    return A._fft_r2c(x, dim, normalization, onesided)


def c2r(x, dim, last_dim_size, normalization=0):
    return A._fft_c2r(x, dim, normalization, last_dim_size)


e("_fft_c2c", c2c, x=c(1, 2j), dim=(0,), forward=True)
e("_fft_c2c", c2c, x=c(1 + 2j, 1 - 2j), dim=(0,), forward=False, normalization=2)
e("_fft_r2c", r2c, x=f(1, 2, 3, 5), dim=(0,), onesided=True)
e("_fft_r2c", r2c, x=f(1, 2, 3, 5), dim=(0,), onesided=True, normalization=1)
e("_fft_c2r", c2r, x=c(10, -2 + 2j, -2), dim=(0,), last_dim_size=4)
e("_fft_c2r", c2r, x=c(10, -2 + 2j, -2), dim=(0,), last_dim_size=4, normalization=2)
