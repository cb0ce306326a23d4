def layer(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return A.native_layer_norm(x, normalized_shape, weight, bias, eps)


def batch(x, training, weight=None, bias=None, running_mean=None, running_var=None, momentum=0.1,
          eps=1e-5):
    return A.native_batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps)


x = f([1, 3], [2, 8])
e("native_layer_norm", layer, names="y mean rstd", x=x, normalized_shape=(2,))
e("native_layer_norm", layer, names="y mean rstd", x=x, normalized_shape=(2,), weight=f(1, 2))
e("native_layer_norm", layer, names="y mean rstd", x=x, normalized_shape=(2,), bias=f(5, 5))
e("native_layer_norm", layer, names="y mean rstd", x=x, normalized_shape=(2,), eps=3)
x = f([1, 2], [3, 8])
e("native_batch_norm", batch, names="y mean rstd", x=x, training=True)
e("native_batch_norm", batch, names="y mean rstd", x=x, training=True, weight=f(1, 2))
e("native_batch_norm", batch, names="y mean rstd", x=x, training=True, bias=f(5, 5))
e("native_batch_norm", batch, names="y mean rstd", x=x, training=True, eps=3)
e("native_batch_norm", batch, names="y _ _", x=x, training=False, running_mean=f(1, 4),
  running_var=f(4, 16))
