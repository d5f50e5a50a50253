"""Syntax tree of the pseudocode -> C statements for one lane (or one scalar instruction).

Every variable is kept as raw bits in an unsigned C integer together with a static type, as the language allows any variable to be
read and written in any format (tmp[31 : 16].f16 = ...).  Values in expressions have a type (kind, bits):
  u i b   unsigned, signed, plain bits; C integers of at least 32 bits, always normalised to their width
  f bf    floating point; 16-bit formats are held as C float and rounded after every operation
  fp8 bf8 raw bytes, converted by functions only
The functions named here are those of csrc/lane.h.
"""

from .pcode import PcodeError

INT = ("u", "i", "b")


def ctype(t):
    k, n = t
    if k in ("f", "bf"):
        return "double" if n == 64 else "float"
    if k in ("fp8", "bf8", "fp6", "bf6", "fp4"):
        return "u32"
    s = "i" if k == "i" else "u"
    return s + ("32" if n <= 32 else "64" if n <= 64 else "128")


def mask(n):
    return f"{(1 << n) - 1:#x}" + ("ull" if n > 32 else "u")


class Body:
    """translates one program; the caller provides the variables of the instruction"""

    def __init__(self, consts, sizes, wide=False):
        self.consts = consts  # name -> integer: OPSEL, NEG, ...
        self.vars = {}  # name -> [C name, storage bits, type, array length]
        self.decl = []  # C declarations of local variables
        self.used, self.wrote = set(), set()
        self.wide = wide  # integer clamp: operands are widened, D0 saturates
        self.n = 0
        for n, bits in sizes.items():
            self.vars[n] = [n, bits, ("b", bits), None]
        if "D0" in sizes:
            self.vars["D"] = self.vars["D0"]  # some texts name the result so

    # -- representation
    def view(self, raw, rbits, t):
        k, n = t
        if k in ("f", "bf"):
            if n == 32:
                return f"bf32((u32)({raw}))"
            if n == 64:
                return f"bf64({raw})"
            return f"{'h2f' if k == 'f' else 'b2f'}((u16)({raw}))"
        if n > 64:
            return f"({ctype(t)})({raw})"
        if k == "i":
            if n == 64:
                return f"(i64)({raw})"
            if n == 32:
                return f"(i32)({raw})"
            return f"SEXT{32 if n < 32 else 64}({raw}, {n})"
        if n == 64:
            return f"(u64)({raw})"
        if n == 32:
            return f"(u32)({raw})"
        if n == 16:
            return f"(u32)(u16)({raw})"
        return (
            f"(u32)({raw})"
            if rbits <= n and n < 32
            else f"(({'u32' if n < 32 else 'u64'})({raw}) & {mask(n)})"
        )

    def toraw(self, c, t):
        k, n = t
        if k in ("f", "bf"):
            return {16: f"{'f2h' if k == 'f' else 'f2b'}({c})", 32: f"fb32({c})", 64: f"fb64({c})"}[
                n
            ]
        if n > 64:
            return f"(u128)({c})"
        if n == 64:
            return f"(u64)({c})"
        if n == 32:
            return f"(u64)(u32)({c})"
        return f"((u64)({c}) & {mask(n)})"

    def conv(self, c, t, to):
        if t == to:
            return c
        if to[0] in ("f", "bf"):
            if t[0] in ("f", "bf"):
                if to[1] == 16:
                    return f"{'hr' if to[0] == 'f' else 'br'}({c})" if t != to else c
                return f"({ctype(to)})({c})"
            if t[0] in ("fp8", "bf8"):
                return f"{t[0]}_to_f32({c}, FNUZ)"
            return self.view(self.toraw(c, t), t[1], to)
        if t[0] in ("f", "bf"):
            return self.view(self.toraw(c, t), t[1], to)
        if to[1] >= t[1]:
            return f"({ctype(to)})({c})"
        return self.view(f"({c})", t[1], to)

    # -- values
    def special(self, name):
        c = self.consts
        if name in c:
            return (f"{c[name]}u", ("u", 32))
        if name == "laneId":
            return ("(u32)l", ("u", 32))
        if name == "PI":
            return ("3.14159265358979323846", ("f", 64))
        if name == "INF":
            return ("(double)INFINITY", ("f", 64))
        if name == "NAN":
            return ("(double)NAN", ("f", 64))
        if name in ("UNDERFLOW_F32",):
            return ("1.401298464324817e-45f", ("f", 32))
        if name in ("OVERFLOW_F32",):
            return ("INFINITY", ("f", 32))
        if name == "UNDERFLOW_F64":
            return ("4.9406564584124654e-324", ("f", 64))
        if name == "OVERFLOW_F64":
            return ("(double)INFINITY", ("f", 64))
        raise PcodeError(f"unknown name {name}")

    def get(self, name):
        v = self.vars.get(name)
        if v is None:
            return None
        self.used.add(name)
        return v

    def const_of(self, e):
        """value of a constant expression, else None"""
        if e[0] == "num":
            return e[1]
        if e[0] == "var" and e[1] in self.consts:
            return self.consts[e[1]]
        if e[0] == "member" and e[1][0] == "var" and f"{e[1][1]}.{e[2]}" in self.consts:
            return self.consts[f"{e[1][1]}.{e[2]}"]
        if e[0] == "suf" and e[2][0] in INT:
            v = self.const_of(e[1])
            return None if v is None else v & ((1 << e[2][1]) - 1)
        if e[0] == "idx":
            v, i = self.const_of(e[1]), self.const_of(e[2])
            return None if v is None or i is None else v >> i & 1
        if e[0] == "slice":
            v, h, l = self.const_of(e[1]), self.const_of(e[2]), self.const_of(e[3])
            return None if None in (v, h, l) else v >> l & ((1 << (h - l + 1)) - 1)
        if e[0] == "bin" and e[1] in "+-*":
            a, b = self.const_of(e[2]), self.const_of(e[3])
            if a is None or b is None:
                return None
            return a + b if e[1] == "+" else a - b if e[1] == "-" else a * b
        return None

    def const_bits(self, e):
        if e[0] == "idx":
            return 1
        if e[0] == "suf":
            return min(e[2][1], 64)
        if e[0] == "slice":
            return self.const_of(e[2]) - self.const_of(e[3]) + 1
        return 32

    def width(self, hi, lo):
        """number of bits of [hi : lo] when it does not depend on run-time values"""
        a, b = self.const_of(hi), self.const_of(lo)
        if a is not None and b is not None:
            return a - b + 1

        def lin(e):
            if e[0] == "bin" and e[1] == "+":
                v = self.const_of(e[3])
                if v is not None:
                    b, c = lin(e[2])
                    return b, c + v
            return e, 0

        (x, c), (y, d) = lin(hi), lin(lo)
        if x == y:
            return c - d + 1
        raise PcodeError("bit range of variable width")

    def vgpr_alias(self, e):
        """VGPR[laneId][VDST.u32] is the destination, VGPR[laneId][SRC0.u32] the first source"""
        if (
            e[0] == "idx"
            and e[1][0] == "idx"
            and e[1][1] == ("var", "VGPR")
            and e[1][2] == ("var", "laneId")
        ):
            b = e[2][1] if e[2][0] == "suf" else e[2]
            return {("var", "VDST"): "D0", ("var", "SRC0"): "S0"}.get(b)

    def raw(self, e):
        """(C text of the bits, number of bits)"""
        k = e[0]
        cv = self.const_of(e)
        if cv is not None and k not in ("num",):
            return f"{cv}u", self.const_bits(e)
        if k == "var":
            v = self.get(e[1])
            if v is not None:
                if v[3] is not None:
                    raise PcodeError(f"{e[1]} is an array")
                return v[0], v[1]
        if k == "suf":
            r, n = self.raw(e[1])
            return (
                (r, e[2][1])
                if e[2][1] >= n
                else (f"({r} & {mask(e[2][1])})", e[2][1])
                if e[2][1] < 64
                else (r, e[2][1])
            )
        if k == "idx":
            a = self.vgpr_alias(e)
            if a:
                return self.raw(("var", a))
            if e[1][0] == "var" and e[1][1] in self.vars and self.vars[e[1][1]][3] is not None:
                v = self.get(e[1][1])
                i, _ = self.ev(e[2])
                return f"{v[0]}[{i}]", v[1]
            if e[1] in (("suf", ("var", "VCC"), ("u", 64)), ("var", "VCC")) and e[2] == (
                "var",
                "laneId",
            ):
                self.used.add("VCC")
                return "((vcc >> l) & 1)", 1
            r, n = self.raw(e[1])
            i, _ = self.ev(e[2])
            return f"(({r} >> ({i})) & 1)", 1
        if k == "slice":
            w = self.width(e[2], e[3])
            r, n = self.raw(e[1])
            if w <= 0:  # [0 : 31]: bits in reverse order
                a, b = self.const_of(e[2]), self.const_of(e[3])
                if (a, b) == (0, 31):
                    return f"rev32((u32)({r}))", 32
                if (a, b) == (0, 63):
                    return f"rev64({r})", 64
                raise PcodeError("reversed bit range")
            lc = self.const_of(e[3])
            if lc is not None and lc + w > n:
                raise PcodeError(f"bits {lc + w - 1} to {lc} of a {n}-bit value")
            lo, _ = self.ev(e[3])
            return self._field(r, n, lo, w)
        if k == "slicew":
            w = self.const_of(e[3])
            if w is None:
                raise PcodeError("bit range of variable width")
            r, n = self.raw(e[1])
            lo, _ = self.ev(e[2])
            return self._field(r, n, lo, w)
        c, t = self.ev(e)
        return self.toraw(c, t), t[1]

    @staticmethod
    def _field(r, n, lo, w):
        s = r if lo in ("0", "0u", "0ull") else f"({r} >> ({lo}))"
        return (f"((u64){s})" if w == 64 else s) if w >= 64 else f"({s} & {mask(w)})", w

    def ev(self, e):
        k = e[0]
        if k == "num":
            t = (e[2], e[3])
            v = e[1]
            if t[1] <= 32:
                return (f"{v & 0xFFFFFFFF}u" if e[2] != "i" else f"{v}", t)
            return (f"{v}ull" if e[2] != "i" else f"{v}ll", t)
        if k == "fnum":
            return (f"{e[1]!r}" + ("f" if e[2] < 64 else ""), ("f", e[2]))
        cv = self.const_of(e)
        if cv is not None:
            return f"{cv}u", ("u", self.const_bits(e))
        if k == "var":
            v = self.get(e[1])
            if v is None:
                return self.special(e[1])
            if e[1] in ("SCC", "ieee"):
                return v[0], ("u", 1)
            return self.view(v[0], v[1], v[2]), v[2]
        if k == "member":
            if e[1] == ("var", "WAVE_MODE") and e[2] == "IEEE":
                self.used.add("ieee")
                return "ieee", ("u", 1)
            raise PcodeError(f"unknown member {e[2]}")
        if k == "suf":
            b, t = e[1], e[2]
            if b == ("var", "DENORM"):
                return f"denorm{t[1]}", t
            if b[0] == "var" and b[1] in ("INF", "NAN"):
                c, bt = self.ev(b)
                return self.conv(c, bt, t), t
            if (
                self.wide and b[0] in ("var", "slice") and t[0] in "ui"
            ):  # integer clamp works on exact values
                r, n = self.raw(b)
                return f"(i64)({self.view(r, n, t)})", ("i", 64)
            if b[0] in ("call", "bin", "cond", "un", "cast"):
                c, bt = self.ev(b)
                return self.conv(c, bt, t), t
            r, n = self.raw(b)
            return self.view(r, n, t), t
        if k in ("idx", "slice", "slicew"):
            a = self.vars.get(e[1][1]) if k == "idx" and e[1][0] == "var" else None
            r, n = self.raw(e)
            t = a[2] if a and a[3] is not None else ("u", n)
            return self.view(r, n, t), t
        if k == "cast":
            if e[1][1] > 128:
                raise PcodeError(f"value of {e[1][1]} bits")
            c, t = self.ev(e[2])
            return self.conv(c, t, e[1]), e[1]
        if k == "un":
            return self.unary(e)
        if k == "bin":
            return self.binary(e)
        if k == "cond":
            c, _ = self.ev(e[1])
            (a, ta), (b, tb) = self.ev(e[2]), self.ev(e[3])
            t = self.join(ta, tb)
            return f"(({c}) ? ({self.conv(a, ta, t)}) : ({self.conv(b, tb, t)}))", t
        if k == "cat":
            parts = [self.ev(x) for x in e[1]]
            tot = sum(t[1] for _, t in parts)
            acc, sh = [], tot
            ct = "u128" if tot > 64 else "u64"
            for c, t in parts:
                sh -= t[1]
                acc.append(
                    f"(({ct})({self.toraw(c, t)}) << {sh})" if sh else f"({ct})({self.toraw(c, t)})"
                )
            return "(" + " | ".join(acc) + ")", ("u", tot)
        if k == "call":
            return self.call(e[1], e[2])
        raise PcodeError(f"value {k}")

    @staticmethod
    def join(a, b):
        if a == b:
            return a
        fa, fb = a[0] in ("f", "bf"), b[0] in ("f", "bf")
        if fa and fb:
            return a if a[1] >= b[1] else b
        if fa or fb:
            return a if fa else b
        n = max(a[1], b[1], 32)
        return (
            "i" if a[0] == "i" and b[0] == "i" else "u",
            32 if n <= 32 else 64 if n <= 64 else 128,
        )

    def unary(self, e):
        c, t = self.ev(e[2])
        op = e[1]
        if op == "!":
            return f"(!({c}))", ("u", 1)
        if op == "-":
            if t[0] in ("f", "bf"):
                return f"(-({c}))", t
            t2 = ("i" if t[0] in "ib" else "u", max(t[1], 32))
            return f"({ctype(t2)})(-({ctype(t2)})({c}))", t2
        t2 = (t[0], max(t[1], 32))
        return f"(~({c}))", t2

    def binary(self, e):
        op = e[1]
        if op in ("&&", "||"):
            (a, _), (b, _) = self.ev(e[2]), self.ev(e[3])
            return f"(({a}) {op} ({b}))", ("u", 1)
        (a, ta), (b, tb) = self.ev(e[2]), self.ev(e[3])
        if op == "**":
            if ta[0] != "f":
                raise PcodeError("power of an integer")
            return (f"powf({a}, (float)({b}))" if ta[1] < 64 else f"pow({a}, (double)({b}))"), ta
        if op in ("<<", ">>"):
            n = 32 if ta[1] <= 32 else 64 if ta[1] <= 64 else 128
            t = ("i" if ta[0] == "i" else "u", n)
            f = "SHL" if op == "<<" else "SAR" if ta[0] == "i" else "SHR"
            return f"{f}{n}({a}, {b})", t
        t = self.join(ta, tb)
        if op == "<>":  # less or greater: false for NaN, unlike !=
            if t[0] in ("f", "bf"):
                return (
                    f"(({self.conv(a, ta, t)}) < ({self.conv(b, tb, t)}) || ({self.conv(a, ta, t)}) > ({self.conv(b, tb, t)}))",
                    ("u", 1),
                )
            op = "!="
        if op in ("==", "!=", "<", ">", "<=", ">="):
            mixed = t[0] not in ("f", "bf") and {ta[0], tb[0]} <= set(INT) and ta[0] != tb[0]
            # a sized or plain constant compared with a signed value is signed
            constant = (e[3][0] == "num" and ta[0] == "i") or (e[2][0] == "num" and tb[0] == "i")
            if mixed and "i" in (ta[0], tb[0]) and constant:
                t = ("i", t[1])
            return f"(({self.conv(a, ta, t)}) {op} ({self.conv(b, tb, t)}))", ("u", 1)
        if t[0] in ("f", "bf"):
            if op not in "+-*/":
                raise PcodeError(f"{op} on floating point")
            r = f"(({self.conv(a, ta, t)}) {op} ({self.conv(b, tb, t)}))"
            return (f"hr{r}" if t == ("f", 16) else f"br{r}" if t == ("bf", 16) else r), t
        t = (t[0], max(32, t[1]))
        if op in ("/", "%"):
            return f"(({self.conv(a, ta, t)}) {op} NZ({self.conv(b, tb, t)}))", t
        return f"(({self.conv(a, ta, t)}) {op} ({self.conv(b, tb, t)}))", t

    # -- functions
    MINMAX = {
        "v_" + n
        for n in (
            "min",
            "max",
            "min_num",
            "max_num",
            "minimum",
            "maximum",
            "med3",
            "med3_num",
            "min3",
            "max3",
        )
    }
    UNARY = {
        "floor",
        "trunc",
        "ceil",
        "rint",
        "sqrt",
        "fract",
        "log2",
        "exp2",
        "rcp",
        "rsq",
        "sin2pi",
        "cos2pi",
        "abs",
        "tanh",
    }

    def call(self, name, args):
        if name in ("isNAN", "isSignalNAN", "isQuietNAN", "cvtToQuietNAN"):
            x = args[0]
            if x[0] == "cast" and x[1] == ("f", 64):
                x = x[2]  # look at the value itself: a conversion would change a signalling NaN
            c, t = self.ev(x)
            if t[0] != "f":
                raise PcodeError(f"{name} of {t}")
            if name == "cvtToQuietNAN":
                return (f"quiet{t[1]}({self.toraw(c, t)})", t)
            return f"{name}{t[1]}({self.raw(x)[0]})", ("u", 1)
        a = [self.ev(x) for x in args]
        if name in self.UNARY:
            c, t = a[0]
            if t[0] == "f" and name == "abs":
                return self.view(f"({self.toraw(c, t)} & {mask(t[1] - 1)})", t[1], t), t
            if t[0] != "f":
                raise PcodeError(f"{name} of {t}")
            r = f"x_{name}{'' if t[1] == 64 else 'f'}({c})"
            return (f"hr({r})" if t[1] == 16 else r), t
        if name == "fma":
            t = a[0][1]
            for _, u in a:
                t = self.join(t, u)
            c = ", ".join(self.conv(x, u, t) for x, u in a)
            return {16: f"hfma({c})", 32: f"fmaf({c})", 64: f"fma({c})"}[t[1]], t
        if name == "pow":
            if args[0][0] == "fnum" and args[0][1] == 2.0:
                return self.call("exp2", args[1:])
            raise PcodeError("pow")
        if name == "ldexp":
            c, t = a[0]
            r = f"x_ldexp{'' if t[1] == 64 else 'f'}({c}, (i32)({a[1][0]}))"
            return (f"hr({r})" if t[1] == 16 else r), t
        if name in ("exponent", "sign", "mantissa", "frexp_exp", "frexp_mant"):
            c, t = a[0]
            if t[0] != "f":
                raise PcodeError(f"{name} of {t}")
            r = f"{name}{t[1]}({self.toraw(c, t)})"
            return (
                (r, ("u", 1))
                if name == "sign"
                else (r, ("i", 32))
                if name in ("exponent", "frexp_exp")
                else (r, t)
            )
        if name == "signext":
            c, t = a[0]
            return f"(i64)({self.conv(c, t, ('i', t[1]))})", ("i", 64)
        if name == "signext_from_bit":
            c, t = a[0]
            return f"signext_bit{t[1]}({c}, {a[1][0]})", t
        if name == "isEven":
            return f"is_even({a[0][0]})", ("u", 1)
        if name == "bitCount":
            return f"__builtin_popcountll({a[0][0]})", ("u", 32)
        if name in ("s_ff1_i32_b64", "s_ff1_i32_b32"):
            return f"ff1({a[0][0]})", ("i", 32)
        if name in ("v_cvt_i16_f32", "v_cvt_u16_f32"):
            return f"f_to_{name[6]}({a[0][0]}, 16)", (name[6], 16)
        if name.rsplit("_", 1)[0] in self.MINMAX and name.rsplit("_", 1)[-1] in (
            "f16",
            "f32",
            "f64",
            "i32",
            "u32",
            "i16",
            "u16",
        ):
            s = name.rsplit("_", 1)[-1]
            t = (s[0], int(s[1:]))
            if s[0] == "f":
                if name[:6] in ("v_min3", "v_max3"):
                    raise PcodeError(f"function {name}")
                self.used.add("ieee")
                fn = name.rsplit("_", 1)[0] + {16: "_h", 32: "_s", 64: "_d"}[t[1]]
                # half precision passes bits: a conversion to float would change a signalling NaN
                c = ", ".join(
                    self.raw(x)[0] if t[1] == 16 else self.conv(y, u, t)
                    for x, (y, u) in zip(args, a, strict=False)
                )
                return f"{fn}({c}, ieee)", t
            if name.rsplit("_", 1)[0] not in ("v_min", "v_max", "v_min3", "v_max3"):
                raise PcodeError(f"function {name}")
            return f"{name[: -len(s)]}{s[0]}({', '.join(self.conv(x, u, t) for x, u in a)})", t
        return self.named(name, a)

    # hand-written functions of lane.h: name -> (C name, argument types, result type)
    F32, F16, F64, U32, I32 = ("f", 32), ("f", 16), ("f", 64), ("u", 32), ("i", 32)
    NAMED = {
        "perm_b32": ([U32] * 3, U32),
        "sad_u8": ([U32] * 3, U32),
        "msad_u8": ([U32] * 3, U32),
        "sad_u16": ([U32] * 3, U32),
        "sat8i": ([I32], U32),
        "sat8u": ([I32], U32),
        "pkrtz": ([F32, F32], U32),
        "div_scale32": ([F32] * 3, F32),
        "div_scale64": ([F64] * 3, F64),
        "div_flag32": ([F32] * 3, ("u", 1)),
        "div_flag64": ([F64] * 3, ("u", 1)),
        "div_fmas32": ([F32] * 3 + [U32], F32),
        "div_fmas64": ([F64] * 3 + [U32], F64),
        "class16": ([("u", 16)], U32),
        "class32": ([U32], U32),
        "class64": ([("u", 64)], U32),
        "sr_fp8": ([F32, U32], U32),
        "sr_bf8": ([F32, U32], U32),
        "cvt_off_i4": ([U32], F32),
        "prng": ([U32], U32),
        "mixsrc": ([U32] * 3, F32),
    }

    def named(self, name, a):
        if name in self.NAMED:
            ts, r = self.NAMED[name]
            extra = ", FNUZ" if name.startswith("sr_") else ""
            return (
                f"{name}({', '.join(self.conv(x, u, t) for (x, u), t in zip(a, ts, strict=False))}{extra})",
                r,
            )
        if "_to_" in name:
            from .pcode import parse_type

            s, d = name.split("_to_")
            c, t = a[0]
            if d in ("snorm", "unorm"):
                return f"f_to_{d}({c})", ("i" if d == "snorm" else "u", 16)
            st, dt = parse_type(s), parse_type(d)
            if st and dt and len(a) == 1:
                c = (
                    self.conv(c, t, st)
                    if t[0] in ("f", "bf") or st[0] in ("f", "bf", "fp8", "bf8") or t[1] > st[1]
                    else c
                )
                fs, fd = st[0] in ("f", "bf"), dt[0] in ("f", "bf")
                if fs and fd:
                    return self.conv(c, st, dt), dt
                if fs and dt[0] in ("fp8", "bf8"):
                    return f"f32_to_{dt[0]}({c}, FNUZ)", dt
                if st[0] in ("fp8", "bf8") and fd:
                    return f"{st[0]}_to_f32({c}, FNUZ)", dt
                if fs:
                    return f"{'d' if st[1] == 64 else 'f'}_to_{dt[0]}({c}, {dt[1]})", dt
                if fd:
                    r = f"({ctype(dt)})({c})"
                    return (f"hr((float)({c}))" if dt[1] == 16 else r), dt
                if dt[1] < st[1]:
                    return f"sat_{dt[0]}({c}, {dt[1]})", dt  # integer narrowing clamps
                return f"({ctype(dt)})({c})", dt
        raise PcodeError(f"function {name}")

    # -- statements
    IGNORED = {"ROUND_MODE", "prev_mode", "TRAPSTS"}

    def target(self, e):
        """assignable place -> (variable, low bit or None, width, type or None)"""
        if e[0] == "suf":
            v, lo, w, _ = self.target(e[1])
            return v, lo, min(w, e[2][1]) if w else e[2][1], e[2]
        if e[0] == "var":
            return e[1], None, None, None
        a = self.vgpr_alias(e)
        if a:
            return a, None, None, None
        if e[0] in ("slice", "slicew", "idx"):
            if (
                e[0] == "idx"
                and e[1][0] == "var"
                and e[1][1] in self.vars
                and self.vars[e[1][1]][3] is not None
            ):
                return ("elem", e[1][1], self.ev(e[2])[0]), None, None, None
            v, lo, w, _t = self.target(e[1])
            if e[0] == "slice":
                n = self.width(e[2], e[3])
                l2 = self.ev(e[3])[0]
            elif e[0] == "idx":
                n, l2 = 1, self.ev(e[2])[0]
            else:
                n, l2 = self.const_of(e[3]), self.ev(e[2])[0]
            if n <= 0:
                if isinstance(v, str) and lo is None:
                    return v, None, None, None  # D0[31 : 0] = x[0 : 31]
                raise PcodeError("reversed target")
            return v, l2 if lo is None else f"({lo}) + ({l2})", n, None
        raise PcodeError(f"assignment to {e[0]}")

    def base_name(self, e):
        while e[0] not in ("var", "cat"):
            a = self.vgpr_alias(e)
            if a:
                return a
            e = e[1]
        return e[1] if e[0] == "var" else None

    def newvar(self, name, bits, t, cnt=None):
        c = "t_" + name
        self.vars[name] = [c, bits, t, cnt]
        self.decl.append(
            f"{'u128' if bits > 64 else 'u64'} {c}{f'[{cnt}]' if cnt else ''}{' = {0}' if cnt else ' = 0'};"
        )

    def lane_bit(self, e):
        """x.u64[laneId] of a per-lane mask"""
        if e[0] == "suf" and e[1][0] == "idx":
            e = e[1]
        if e[0] == "idx" and e[2] == ("var", "laneId"):
            b = e[1][1] if e[1][0] == "suf" else e[1]
            if b in (("var", "D0"), ("var", "VCC"), ("var", "EXEC")):
                return b[1]
        if e in (("suf", ("var", "D1"), ("u", 1)), ("suf", ("var", "D1"), ("i", 1))):
            return "D1"

    def store(self, e, c, t):
        """C statement: place e := value"""
        m = self.lane_bit(e)
        if m:
            self.wrote.add({"D0": "mask", "VCC": "vcc", "D1": "vcc", "EXEC": "execmask"}[m])
            return f"SETBIT({ {'D0': 'dm', 'VCC': 'vm', 'D1': 'vm', 'EXEC': 'em'}[m] }, l, {c});"
        v, lo, w, ty = self.target(e)
        if isinstance(v, tuple):
            _, n, i = v
            var = self.vars[n]
            return f"{var[0]}[{i}] = {self.toraw(self.conv(c, t, ty or var[2]), ty or var[2])};"
        if v not in self.vars:
            if v in self.IGNORED:
                return ""
            if lo is not None or (w is None and ty is None):
                nt = (
                    ("b", 64)
                    if lo is not None
                    else t
                    if t[0] not in INT
                    else (t[0] if t[0] != "b" else "u", max(t[1], 32))
                )
            else:
                nt = ty
            self.newvar(v, max(nt[1], 64) if nt[1] <= 64 else 128, nt)
        var = self.vars[v]
        v = "D0" if v == "D" and var[0] == "D0" else v
        self.wrote.add(v)
        if v in ("SCC",):
            return f"SCC = (u32)(({c}) & 1);" if t[1] > 1 else f"SCC = ({c});"
        if lo is None and ty is None:
            ty = var[2] if var[2][0] not in ("b",) or t[0] in INT else t
        if v == "D0" and self.wide and ty and ty[0] in "ui":
            c, t = f"sat_{ty[0]}({c}, {ty[1]})", ty
        if w is not None and ty is None:
            ty = ("u", w) if t[0] in INT or t[1] != w else t
        raw = self.toraw(self.conv(c, t, ty), ty)
        n = w if w is not None else ty[1]
        if (lo is None and n >= var[1]) or (
            lo is None and v not in ("D0", "EXEC", "VCC", "M0") and var[0].startswith("t_")
        ):
            return f"{var[0]} = {raw};"
        if lo is None:
            lo = "0"
        return f"INSERT{128 if var[1] > 64 else 64}({var[0]}, {lo}, {n}, {raw});"

    def assign(self, lv, op, val):
        if lv[0] == "cat":
            c, t = self.ev(val)
            self.n += 1
            x = f"cat{self.n}"
            out = [f"u128 {x} = {self.toraw(c, t)};"]
            sh = 0
            for p in reversed(lv[1]):
                if p[0] != "suf":
                    raise PcodeError("part without a size")
                out.append(
                    self.store(p, self.view(f"({x} >> {sh})", 128, ("u", p[2][1])), ("u", p[2][1]))
                )
                sh += p[2][1]
            return "{ " + " ".join(out) + " }"
        if self.base_name(lv) in self.IGNORED:
            return ""
        c, t = self.ev(("bin", op, lv, val) if op else val)
        return self.store(lv, c, t)

    def stmts(self, l):
        return " ".join(self.stmt(s) for s in l)

    def stmt(self, s):
        k = s[0]
        if k == "assign":
            return self.assign(s[1], s[2], s[3])
        if k == "assign2":
            return self.assign(s[2], "", s[3]) + " " + self.assign(s[1], "", s[3])
        if k == "if":
            r = ""
            for i, (c, b) in enumerate(s[1]):
                cv = self.const_of(c)
                r += (
                    "else " if i else ""
                ) + f"if ({cv if cv is not None else self.ev(c)[0]}) {{ {self.stmts(b)} }} "
            return r + (f"else {{ {self.stmts(s[2])} }}" if s[2] else "")
        if k == "for":
            v = s[1]
            (a, _), (b, _) = self.ev(s[2]), self.ev(s[3])
            if v not in self.vars:
                self.newvar(v, 64, ("i", 32))
            c = self.vars[v][0]
            return f"for ({c} = ({a}); (i64){c} <= (i64)({b}); {c}++) {{ {self.stmts(s[4])} }}"
        if k == "break":
            return "break;"
        if k == "declare":
            _, n, t, cnt = s
            if cnt is not None and not isinstance(cnt, int):
                raise PcodeError("array of variable length")
            if t[1] > 128:
                raise PcodeError(f"variable of {t[1]} bits")
            if n not in self.vars:
                self.newvar(n, 64 if t[1] <= 64 else 128, t, cnt)
            return ""
        if k == "expr" and s[1][0] == "call" and s[1][1] in ("nop", "s_nop"):
            return ""
        raise PcodeError(f"statement {k}")
