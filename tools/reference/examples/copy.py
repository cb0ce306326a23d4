FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
image = f(1, 2, 3, 4).reshape(1, 2, 1, 2)
e("clone", x=f(1, 2, 3))
e("clone", lambda x, memory_format: x.clone(memory_format=FORMATS[memory_format]),
  x=image, memory_format="channels_last")
e("cast", lambda x, dtype: x.to(dtype), x=f(1.5, -2.7), dtype=torch.int64)
e("cast", lambda x, dtype, memory_format: x.to(dtype, memory_format=FORMATS[memory_format]),
  x=image, dtype=torch.float64, memory_format="channels_last")
e("copy_", x=f(1, 2, 3), src=f(4, 5, 6))
e("fill", lambda x, value: x.fill_(value), x=f(1, 2, 3), value=7)
