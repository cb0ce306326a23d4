x, y = f([1, 2]), f([3, 4])
e("cat", tensors=[x, y], dim=1)
e("stack", tensors=[f(1, 2), f(3, 4)], dim=0)
e("repeat", x=f(1, 2), repeats=(2, 2))
