OF_ONE = """i0 special_i0e special_i1 special_i1e special_bessel_j0 special_bessel_j1
special_bessel_y0 special_bessel_y1 special_modified_bessel_i0 special_modified_bessel_i1
special_modified_bessel_k0 special_modified_bessel_k1 special_scaled_modified_bessel_k0
special_scaled_modified_bessel_k1 special_spherical_bessel_j0 special_airy_ai special_erfcx
special_log_ndtr""".split()
for op in OF_ONE:
    e(op, x=f(0.5, 1, 2))
e("special_ndtri", x=f(0.25, 0.5, 0.9))
e("polygamma", lambda x: torch.polygamma(0, x), x=f(0.5, 1, 2))
e("polygamma", lambda x, n: torch.polygamma(n, x), x=f(0.5, 1, 2), n=1)
e("special_zeta", x=f(2, 4), q=f(1, 2))
e("igamma", a=f(1, 2), x=f(0.5, 3))
e("igammac", a=f(1, 2), x=f(0.5, 3))
for kind in "tuvw":
    e(f"special_chebyshev_polynomial_{kind}", x=f(0.5, 2), n=f(2, 3))
    e(f"special_shifted_chebyshev_polynomial_{kind}", x=f(0.5, 2), n=f(2, 3))
for kind in ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
             "legendre_polynomial_p"]:
    e(f"special_{kind}", x=f(0.5, 2), n=f(2, 3))
e("frexp", lambda x: torch.frexp(x), names="mantissa exponent", x=f(1, 6, -0.75))
