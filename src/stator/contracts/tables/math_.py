"""`math`, `cmath`: numbers in, numbers out; anything else is asked for its number."""

from .rows import Functions

FUNCTIONS: Functions = {
    "math": {
        "pure calls | s": "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh "
        "degrees erf erfc exp exp2 expm1 fabs factorial floor fmod frexp gamma gcd hypot isclose "
        "isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf nextafter perm pow "
        "radians remainder sin sinh sqrt tan tanh trunc ulp fma@3.13+ fmax@3.15+ "
        "fmin@3.15+ isnormal@3.15+ issubnormal@3.15+ signbit@3.15+",
        "reads calls | di": "fsum dist sumprod@3.12+",
        "reads calls | dip": "prod",
    },
    "cmath": {
        "pure calls | s": "acos acosh asin asinh atan atanh cos cosh exp isclose isfinite isinf "
        "isnan log log10 phase polar rect sin sinh sqrt tan tanh",
    },
    "_statistics": {"pure calls | s": "_normal_dist_inv_cdf"},
}
