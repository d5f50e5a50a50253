"""Instruction forms: one C function per opcode, encoding, operand kinds and modifiers; register numbers and constants come from the
operand structure (Op of csrc/emu.h), so that one compiled function serves every instruction of its form.
"""

import re
import struct

from .decode import Unsupported
from .emitc import Body
from .overrides import OVER
from .pcode import PcodeError, parse

K_CONST, SINK = 255, 254  # SINK: a scalar register that nothing reads, target of writes to NULL
FCONST = {
    240: 0.5,
    241: -0.5,
    242: 1.0,
    243: -1.0,
    244: 2.0,
    245: -2.0,
    246: 4.0,
    247: -4.0,
    248: 0.15915494309189532,
}
SHARED_APERTURE, PRIVATE_APERTURE = (
    0x00010000,
    0x00020000,
)  # high halves of the generic addresses of LDS and scratch

# CDNA: 16-bit results clear the upper half of the register, except those of these instructions
KEEP_HIGH = re.compile(
    r"^V_(MAD|FMA|DIV_FIXUP|MED3|MIN3|MAX3|MAD_MIX\w*)_[FIU]16$|^V_MAD_MIX|^V_ASHR_PK"
)
# integer instructions whose clamp saturates the exact result
INT_CLAMP = re.compile(
    r"^V_(PK_)?(ADD|SUB|SUBREV|MAD|MUL_LO|DOT\d\w*)(_NC|_I32|_U32)*_[IU](16|32|24|8|4)\w*$|^V_DOT"
)


def fbits(v, bits, fmt=""):
    if bits == 64:
        return struct.unpack("<Q", struct.pack("<d", v))[0]
    if bits == 32:
        return struct.unpack("<I", struct.pack("<f", v))[0]
    if "BF16" in fmt:
        return struct.unpack("<I", struct.pack("<f", v))[0] >> 16
    return struct.unpack("<H", struct.pack("<e", v))[0]


class Form:
    """key, C text of the function, and the contents of the operand structure"""

    __slots__ = ("key", "op", "text")

    def __init__(self, key, text, op):
        self.key, self.text, self.op = key, text, op


def new_op(i):
    return {
        "a": [0, 0, 0, 0],
        "k": [0, 0, 0],
        "d": 0,
        "d1": SINK,
        "imm": 0,
        "x": 0,
        "y": 0,
        "size": i.size,
    }


class FormBuilder:
    def __init__(self, arch, gfx):
        self.arch, self.gfx, self.cdna = arch, gfx, arch == "cdna"
        self.ws = 64 if self.cdna else 32
        self.m0 = 124 if self.cdna else 125
        self.fnuz = gfx in ("gfx940", "gfx941", "gfx942")
        self.cache = {}

    def pcode(self, name, text):
        t = OVER.get(name, text)
        if not t:
            raise Unsupported(f"{name}: no pseudocode")
        try:
            return parse(t), t
        except (PcodeError, LookupError, TypeError, ValueError) as e:
            raise Unsupported(f"{name}: {e}") from None

    # -- operands
    def scalar(self, r, op, n, bits, fmt, lit):
        """fill source n with scalar operand r; returns 's'"""
        if r == 255:
            return self.const(op, n, lit, bits, fmt, True)
        if 128 <= r <= 208:
            return self.const(op, n, r - 128 if r <= 192 else 192 - r, bits, fmt)
        if r in FCONST:
            if "PK2_F32" in fmt:
                v = fbits(FCONST[r], 32)
                v |= v << 32
            elif bits == 64:
                v = fbits(FCONST[r], 64)
            elif bits == 16 or "16" in fmt:
                if "F16" not in fmt:
                    raise Unsupported(f"floating-point constant in a {fmt} operand")
                v = fbits(FCONST[r], 16, fmt)
            else:
                v = fbits(FCONST[r], 32)
            op["a"][n], op["k"][n] = K_CONST, v
            return "s"
        if r == 235:
            return self.const(op, n, SHARED_APERTURE << 32, 64, fmt)
        if r == 236:
            return self.const(op, n, SHARED_APERTURE << 32 | 0xFFFFFFFF, 64, fmt)
        if r == 237:
            return self.const(op, n, PRIVATE_APERTURE << 32, 64, fmt)
        if r == 238:
            return self.const(op, n, PRIVATE_APERTURE << 32 | 0xFFFFFFFF, 64, fmt)
        if r == 124 and not self.cdna:
            return self.const(op, n, 0, bits, fmt)
        if r < 128 or r == 253:
            op["a"][n] = r
            return "s"
        raise Unsupported(f"scalar operand {r}")

    @staticmethod
    def const(op, n, v, bits, fmt, literal=False):
        if literal and bits == 64:
            if "F64" in fmt:
                v <<= 32
            elif fmt == "I64" and v >> 31:
                v -= 1 << 32
        if "PK2_F32" in fmt:
            v = v & 0xFFFFFFFF
            v |= v << 32
        op["a"][n], op["k"][n] = K_CONST, v & ((1 << (64 if bits == 64 else 32)) - 1)
        return "s"

    # -- scalar instructions
    def salu(self, i):
        name, (tree, _text) = i.name, self.pcode(i.name, i.pcode)
        op, ops = new_op(i), i.ops
        sizes, pre, kinds = {}, [], []
        d = i.f("sdst", "vdst") if i.has("sdst") or i.has("vdst") else None
        dbits = ops.get("sdst", ops.get("vdst", ("", 32, "")))[1]
        if i.fmt in ("SOPK", "SOPP"):
            pre.append("u64 SIMM16 = (u32)o->imm;")
            op["imm"] = i.sf("simm16")
            sizes["SIMM16"] = 16
            cmpk = "CMPK" in name
            pre.append("u64 S0 = w->s[o->d];" if cmpk else "u64 S0 = (u32)o->imm;")
            pre.append("u64 S1 = (u32)o->imm;")
            sizes.update(S0=32, S1=32)
        else:
            n = 0
            for n, f in enumerate(
                ("ssrc0", "ssrc1") if i.fmt.startswith("SOP") else ("src0", "src1", "src2")
            ):
                if not i.has(f) or (f not in ops and not i.fmt.startswith("SOP")):
                    continue
                fmt, bits, _ = ops.get(f, ("B32", 32, ""))
                r = i.f(f)
                if r >= 256:
                    raise Unsupported(f"{name} with a vector source")
                self.scalar(r, op, n, bits, fmt, i.lit)
                pre.append(f"u64 S{n} = sc{64 if bits == 64 else 32}(w, o, {n});")
                sizes[f"S{n}"] = 64 if bits == 64 else 32
                neg, ab = (
                    (i.f("neg") >> n & 1, i.f("abs") >> n & 1)
                    if not i.fmt.startswith("SOP")
                    else (0, 0)
                )
                pre.append(self.sign(f"S{n}", bits, neg, ab))
                kinds.append(f"{bits}{neg}{ab}")
        sizes["SIMM32"] = 32
        op["x"] = i.lit or 0
        if d is not None:
            op["d"] = SINK if d == 124 and not self.cdna else d
            pre.append(f"u64 D0 = {'s64(w, o->d)' if dbits == 64 else 'w->s[o->d]'};")
            sizes["D0"] = 64 if dbits == 64 else 32
        sizes.update(
            SCC=32, EXEC=64 if self.cdna else 32, VCC=64 if self.cdna else 32, M0=32, ieee=32
        )
        b = Body({"WAVE32": int(not self.cdna), "WAVE64": int(self.cdna)}, sizes)
        try:
            c = b.stmts(tree)
        except (PcodeError, LookupError, TypeError, ValueError) as e:
            raise Unsupported(f"{name}: {e}") from None
        if not b.wrote & {"D0", "SCC", "EXEC", "M0"}:
            raise Unsupported(f"{name}: the text assigns no result")
        post = []
        if "D0" in b.wrote:
            post.append(
                "put64(w, o->d, D0);"
                if sizes["D0"] == 64
                else f"w->s[o->d] = (u32)D0{' & 0xffffu' if dbits == 16 else ''};"
            )
        if "SCC" in b.wrote:
            post.append("w->s[253] = SCC;")
        if "EXEC" in b.wrote:
            post.insert(0, "mask_wr(w, EXEC_LO, EXEC);")
        if "M0" in b.wrote:
            post.append(f"w->s[{self.m0}] = (u32)M0;")
        if b.wrote & {"VCC"}:
            raise Unsupported(f"{name} writes VCC")
        pre += [
            "u32 SCC = w->s[253];",
            "u64 EXEC = exec_of(w);",
            f"u64 VCC = mask_rd(w, VCC_LO), M0 = w->s[{self.m0}], SIMM32 = o->x; u32 ieee = w->ieee;",
        ]
        txt = (
            " ".join(pre)
            + " "
            + " ".join(b.decl)
            + " "
            + c
            + " "
            + " ".join(post)
            + " return R_NEXT;"
        )
        return Form(f"{self.arch}|{i.fmt}|{name}|{'|'.join(kinds)}", txt, op)

    @staticmethod
    def sign(v, bits, neg, ab):
        """source modifiers: absolute value, then negation, of a value of the given size"""
        s = 1 << (bits - 1)
        m = "ull" if bits == 64 else "u"
        return (f"{v} &= ~{s:#x}ull;" if ab else "") + (f"{v} ^= {s:#x}{m};" if neg else "")

    # -- vector instructions
    def valu(self, i):
        if i.fmt == "VOPD":
            return self.vopd(i)
        op = new_op(i)
        key, txt = self.lane_form(i, op)
        return Form(key, txt, op)

    def lane_form(self, i, op):
        name, ops = i.name, i.ops
        tree, text = self.pcode(name, i.pcode)
        v, vop3, vop3p = i.variant, i.fmt.startswith("VOP3") and i.fmt != "VOP3P", i.fmt == "VOP3P"
        sdwa, dpp = v == "SDWA", v in ("DPP16", "DPP8")
        opsel = i.f("opsel") if vop3 or vop3p else 0
        neg, ab = (i.f("neg") if vop3 or vop3p else 0), (i.f("abs") if vop3 else 0)
        opsel_hi = i.f("opsel_hi") | i.f("opsel_hi2") << 2 if vop3p else 0
        neg_hi = i.f("neg_hi") if vop3p else 0
        clamp = i.f("clmp") if vop3 or vop3p or sdwa else 0
        omod = i.f("omod") if vop3 or sdwa else 0
        consts = {
            "OPSEL": opsel,
            "OPSEL_HI": opsel_hi,
            "NEG": neg,
            "WAVE32": int(not self.cdna),
            "WAVE64": int(self.cdna),
            "wave32": int(not self.cdna),
        }
        if "INST." in text:
            consts.update({"INST.OMOD": omod, "INST.ABS": ab, "INST.NEG": neg})
            omod = ab = neg = 0
        if "SDWA_SRC0_SEL" in text:
            consts.update(
                SDWA_SRC0_SEL=i.f("src0_sel") if sdwa else 6,
                BYTE0=0,
                BYTE1=1,
                BYTE2=2,
                BYTE3=3,
                WORD0=4,
                WORD1=5,
            )
        mix = "_MIX" in name
        sizes, head, load, kinds = {}, [], [], []
        for n, fs in enumerate((("src0",), ("src1", "vsrc1"), ("src2",))):
            f = next((x for x in fs if i.has(x)), None)
            info = next((ops[x] for x in fs if x in ops), None)
            if f is None or (info is None and not re.search(rf"\b(S|SRC){n}\b", text)):
                continue
            fmt, bits, _ = info or ("B32", 32, "")
            if fmt == "M64" or (n == 2 and not re.search(r"\bS2\b", text)):
                continue  # a lane mask, handled below
            if n == 0 and (dpp or sdwa):
                r = i.f("vsrc0") + (0 if sdwa and i.f("s0") else 256)
            elif f == "vsrc1":
                r = i.f(f) + (0 if sdwa and i.f("s1") else 256)
            else:
                r = i.f(f)
            if bits > 64:
                raise Unsupported(f"{name}: {bits}-bit source")
            wide64 = bits == 64
            S = f"S{n}"
            hi16 = 0
            if r >= 256:
                row = r - 256
                if (
                    not self.cdna
                    and bits == 16
                    and i.fmt in ("VOP1", "VOP2", "VOPC")
                    and not vop3
                    and row >= 128
                ):
                    row -= 128
                    hi16 = 1
                op["a"][n] = 256 + row
                kd = "v"
                head.append(f"const u32 *p{n} = w->v[o->a[{n}] - 256];")
                ln = "j" if n == 0 and dpp else "l"
                rd = f"(u64)p{n}[{ln}]" + (f" | (u64)p{n}[64 + {ln}] << 32" if wide64 else "")
            else:
                kd = self.scalar(r, op, n, bits, fmt, i.lit)
                if (
                    vop3p
                    and op["a"][n] == K_CONST
                    and r != 255
                    and "PK2_F32" in fmt
                    and opsel_hi >> n & 1
                ):
                    raise Unsupported(f"{name}: constant as the second half of a pair of f32")
                if mix and r in FCONST and opsel_hi >> n & 1:
                    op["k"][n] = fbits(FCONST[r], 16)
                head.append(f"const u64 k{n} = sc{64 if wide64 else 32}(w, o, {n});")
                rd = f"k{n}"
            load.append(f"u64 {S} = {rd};")
            sizes[S] = 64 if wide64 else 32
            mods = ""
            b = 1 << n
            if sdwa and n < 2 and "SDWA_SRC0_SEL" not in text:
                sel, sx = i.f(f"src{n}_sel"), i.f(f"src{n}_sext")
                load.append(self.sdwa_src(S, sel, sx))
                mods += f"q{sel}{sx}"
                if i.f(f"src{n}_abs") or i.f(f"src{n}_neg"):
                    load.append(
                        self.sign(
                            S, 16 if bits == 16 else 32, i.f(f"src{n}_neg"), i.f(f"src{n}_abs")
                        )
                    )
                    mods += f"n{i.f(f'src{n}_neg')}{i.f(f'src{n}_abs')}"
            elif (
                dpp
                and v == "DPP16"
                and n < 2
                and not vop3
                and not vop3p
                and (i.f(f"src{n}_abs") or i.f(f"src{n}_neg"))
            ):
                load.append(self.sign(S, bits, i.f(f"src{n}_neg"), i.f(f"src{n}_abs")))
                mods += f"n{i.f(f'src{n}_neg')}{i.f(f'src{n}_abs')}"
            if vop3p:
                x, m = self.packed(
                    S, name, fmt, bits, *(bool(z & b) for z in (opsel, opsel_hi, neg, neg_hi)), mix
                )
                load.append(x)
                mods += m
            elif vop3:
                if opsel & b and bits == 16:
                    hi16 = 1
                elif opsel & b and "OPSEL" not in text:
                    raise Unsupported(f"{name}: op_sel on a {bits}-bit source")
            if hi16:
                load.append(f"{S} >>= 16;")
                mods += "h"
            if vop3 and (neg & b or ab & b):
                load.append(self.sign(S, min(bits, 64), neg & b, ab & b))
                mods += f"n{int(bool(neg & b))}{int(bool(ab & b))}"
            kinds.append(f"{kd}{bits if bits == 64 else ''}{mods}")
        return self.finish(
            i, op, name, tree, text, sizes, head, load, kinds, consts, clamp, omod, opsel
        )

    @staticmethod
    def sdwa_src(S, sel, sx):
        if sel == 6:
            return ""
        sh, w = (8 * sel, 8) if sel < 4 else (16 * (sel - 4), 16)
        return (
            f"{S} = (u32)SEXT32({S} >> {sh}, {w});"
            if sx
            else f"{S} = ({S} >> {sh}) & {(1 << w) - 1};"
        )

    @staticmethod
    def packed(S, name, fmt, bits, lo, hi, neg, neg_hi, mix):
        """VOP3P source selection -> (C, key part)"""
        if mix:  # f32, or one half of a register; neg_hi is the absolute value here
            bit = (31 if lo else 15) if hi else 31
            return (f"{S} &= ~{1 << bit:#x}ull;" if neg_hi else "") + (
                f"{S} ^= {1 << bit:#x}u;" if neg else ""
            ), f"m{int(neg)}{int(neg_hi)}{int(lo)}{int(hi)}"
        if "PK2_F32" in fmt or (name == "V_PK_MOV_B32"):
            if name == "V_PK_MOV_B32":
                return "", ""
            r, _sg = "", f"{S} = "
            if (lo, hi) != (False, True):
                r = f"{S} = ({S} >> {32 if lo else 0} & 0xffffffffull) | ({S} >> {32 if hi else 0}) << 32;"
            if neg:
                r += f"{S} ^= 0x80000000ull;"
            if neg_hi:
                r += f"{S} ^= 0x8000000000000000ull;"
            return r, f"p{int(lo)}{int(hi)}{int(neg)}{int(neg_hi)}"
        if re.search(r"PK2?_B?[FIUB]16", fmt):
            r = ""
            if (lo, hi) != (False, True):
                r = f"{S} = ({S} >> {16 if lo else 0} & 0xffffu) | ({S} >> {16 if hi else 0} & 0xffffu) << 16;"
            if (neg or neg_hi) and "F16" not in fmt:
                raise Unsupported(f"{name}: negated integer source")
            if neg:
                r += f"{S} ^= 0x8000u;"
            if neg_hi:
                r += f"{S} ^= 0x80000000u;"
            return r, f"p{int(lo)}{int(hi)}{int(neg)}{int(neg_hi)}"
        if fmt in ("F32",) and neg:
            return f"{S} ^= 0x80000000u;", "n1"
        if fmt in ("F32",) and neg_hi:
            return f"{S} &= ~0x80000000ull;", "n2"
        if fmt == "F16" and neg:
            return f"{S} ^= 0x8000u;", "n1"
        return "", ""

    def finish(self, i, op, name, tree, text, sizes, head, load, kinds, consts, clamp, omod, opsel):
        ops, v = i.ops, i.variant
        sdwa, dpp = v == "SDWA", v in ("DPP16", "DPP8")
        dfmt, dbits, _ = ops.get("vdst", ("", 32, ""))
        vopc = "CMP" in name and name.startswith("V_CMP")
        sizes["SIMM32"] = sizes["SIMM16"] = 32
        op["x"] = op["x"] or (i.lit or 0)
        mods = f"c{clamp}o{omod}s{opsel}" if clamp or omod or opsel else ""
        mods += f"S{consts['SDWA_SRC0_SEL']}" if "SDWA_SRC0_SEL" in consts else ""
        mods += (
            f"I{consts['INST.OMOD']}{consts['INST.ABS']}{consts['INST.NEG']}"
            if "INST.OMOD" in consts
            else ""
        )
        mods += f"N{consts['NEG']}" if re.search(r"\bNEG\b", text) else ""
        mods += f"H{consts['OPSEL_HI']}" if "OPSEL_HI" in text else ""
        wide, sat = False, clamp and not vopc and not re.search(r"F(16|32|64)", dfmt)
        if sat and "CVT" not in name:
            if not INT_CLAMP.match(name):
                raise Unsupported(f"{name} with clamp")
            wide = True
        if not vopc:
            if dbits > 64:
                raise Unsupported(f"{name}: {dbits}-bit result")
            sizes["D0"] = 64 if dbits == 64 else 32
        sizes.update(VCC=64, ieee=32, EXEC=64, SCC=32)
        b = Body(consts, sizes, wide)
        b.vars["VCC"] = ["vcc", 64, ("b", 64), None]
        try:
            c = b.stmts(tree)
        except (PcodeError, LookupError, TypeError, ValueError) as e:
            raise Unsupported(f"{name}: {e}") from None
        if b.wrote & {"VCC", "EXEC", "SCC"}:
            raise Unsupported(f"{name}: writes a scalar register")
        if not b.wrote & {"D0", "mask", "vcc", "execmask"}:
            raise Unsupported(f"{name}: the text assigns no result")
        if i.fmt.endswith("_SDST") and not b.wrote & {"mask", "execmask"}:
            raise Unsupported(f"{name}: scalar result")
        # destination
        store, pre, hi = "", "", False
        if not vopc:
            row = i.f("vdst")
            full = "OPSEL" in text or "VDST" in text or dbits > 16 or "_MIX" in name
            if not self.cdna and dbits == 16 and i.fmt in ("VOP1", "VOP2") and row >= 128:
                row -= 128
                hi = True
            if dbits == 16 and opsel & 8 and not full:
                hi = True
            elif opsel & 8 and full and "OPSEL" not in text:
                raise Unsupported(f"{name}: op_sel on the result")
            op["d"] = row
            head.append("u32 *pd = w->v[o->d];")
            pre = f"u64 D0 = pd[l]{' | (u64)pd[64 + l] << 32' if dbits == 64 else ''};" + (
                "D0 >>= 16;" if hi else ""
            )
            post = self.out_mods(dfmt, dbits, clamp and not sat, omod)
            mods += "H" if hi else ""
            if sdwa and i.has("dst_sel"):
                store = post + self.sdwa_dst(i.f("dst_sel"), i.f("dst_unused"), dbits)
                mods += f"d{i.f('dst_sel')}{i.f('dst_unused')}"
            elif dbits == 64:
                store = post + "pd[l] = (u32)D0; pd[64 + l] = (u32)(D0 >> 32);"
            elif full or dbits not in (8, 16):
                store = post + "pd[l] = (u32)D0;"
            elif hi:
                store = post + "pd[l] = (pd[l] & 0xffffu) | (u32)D0 << 16;"
            elif self.cdna and not KEEP_HIGH.match(name):
                store = post + "pd[l] = (u32)(D0 & 0xffffu);"
            else:
                store = post + "pd[l] = (pd[l] & 0xffff0000u) | (u32)(D0 & 0xffffu);"
        tail = []
        if "mask" in b.wrote:
            if i.fmt == "VOPC":
                op["d"] = i.f("sdst") if sdwa and i.f("sd") else 106
            else:
                op["d"] = i.f("vdst")
            if op["d"] == 124 and not self.cdna:
                op["d"] = SINK
            tail.append("mask_wr(w, o->d, dm);")
        if "execmask" in b.wrote:
            tail.append("mask_wr(w, EXEC_LO, em);")
        if "vcc" in b.wrote:
            op["d1"] = (
                i.f("sdst") if i.fmt == "VOP3SD" or (sdwa and i.has("sdst") and i.f("sd")) else 106
            )
            if op["d1"] == 124 and not self.cdna:
                op["d1"] = SINK
            tail.append("mask_wr(w, o->d1, vm);")
        if "VCC" in b.used:
            from_src2 = i.fmt.startswith("VOP3") and "src2" in ops and "FMAS" not in name
            op["a"][3] = i.f("src2") if from_src2 else 106
            if op["a"][3] > 123 and op["a"][3] not in (126,):
                raise Unsupported(f"{name}: lane mask operand {op['a'][3]}")
            head.append("const u64 vcc = mask_rd(w, o->a[3]);")
        lane = f"{pre} {' '.join(load)} {' '.join(b.decl)} {c} {store}"
        loop = "for (u64 m = ex; m; m &= m - 1) { const int l = __builtin_ctzll(m);"
        if dpp:
            self.dpp_params(i, op)
            mods += v
            two = 64 if "p0[64" in " ".join(load) else 0
            head.append(
                "u32 t0[128]; memcpy(t0, p0, sizeof t0); p0 = t0;"
                if two
                else "u32 t0[64]; memcpy(t0, p0, sizeof t0); p0 = t0;"
            )
            zero = next(x for x in load if x.startswith("u64 S0"))
            body = lane.replace(
                zero, zero.replace("u64 S0 = ", "u64 S0 = j < 0 ? 0 : (").replace(";", ");")
            )
            loop += " int j = dpp_lane(w, o, l, ex); if (j == -2) continue;"
            lane = body
        txt = (
            f"{' '.join(head)} const u64 ex = exec_of(w); const u32 ieee = w->ieee; const u64 SIMM32 = o->x, SIMM16 = o->x; u64 dm = 0, vm = 0, em = 0; "
            f"(void)ieee; (void)SIMM32; (void)SIMM16; (void)dm; (void)vm; (void)em; {loop} {lane} }} {' '.join(tail)} return R_NEXT;"
        )
        fz = "z" if self.fnuz and re.search("fp8|bf8", text) else ""
        return f"{self.arch}|{i.fmt}|{name}|{','.join(kinds)}|{mods}{fz}", txt

    @staticmethod
    def out_mods(fmt, bits, clamp, omod):
        """result modifiers of floating-point instructions"""
        if not clamp and not omod:
            return ""
        m = {1: "* 2.0f", 2: "* 4.0f", 3: "* 0.5f"}.get(omod, "")
        if "PK2_F32" in fmt:
            return "D0 = fb32(CLAMP01(bf32((u32)D0))) | (u64)fb32(CLAMP01(bf32((u32)(D0 >> 32)))) << 32;"
        if re.search("PK2?_F16", fmt):
            return (
                "D0 = f2h(CLAMP01(h2f((u16)D0))) | (u32)f2h(CLAMP01(h2f((u16)(D0 >> 16)))) << 16;"
            )
        if "F16" in fmt:
            rd, wr, ct = "h2f((u16)D0)", "D0 = f2h(x_);", "float"
        elif "F32" in fmt:
            rd, wr, ct = "bf32((u32)D0)", "D0 = fb32(x_);", "float"
        elif "F64" in fmt:
            rd, wr, ct = "bf64(D0)", "D0 = fb64(x_);", "double"
        elif omod:
            raise Unsupported(f"output modifier on {fmt}")
        else:
            return ""
        return f"{{ {ct} x_ = {rd} {m}; {'x_ = CLAMP01(x_);' if clamp else ''} {wr} }}"

    @staticmethod
    def sdwa_dst(sel, unused, bits):
        if sel == 6:
            return "pd[l] = (u32)(D0 & 0xffffu);" if bits == 16 else "pd[l] = (u32)D0;"
        sh, w = (8 * sel, 8) if sel < 4 else (16 * (sel - 4), 16)
        m = (1 << w) - 1
        if unused == 2:
            return f"pd[l] = (pd[l] & ~{m << sh:#x}u) | ((u32)D0 & {m:#x}u) << {sh};"
        if unused == 1:
            return f"pd[l] = (u32)SEXT32(D0, {w}) << {sh};"
        return f"pd[l] = ((u32)D0 & {m:#x}u) << {sh};"

    def dpp_params(self, i, op):
        """x: control and masks, y: lane selections of DPP8; imm is free in vector instructions"""
        if i.variant == "DPP16":
            if not self.cdna and i.f("dpp") in (0x130, 0x134, 0x138, 0x13C, 0x142, 0x143):
                raise Unsupported(f"{i.name}: DPP control {i.f('dpp'):#x}")
            op["y"] = (
                i.f("dpp")
                | i.f("row_mask") << 12
                | i.f("bank_mask") << 16
                | i.f("bc") << 20
                | i.f("fi") << 21
            )
        else:
            s0 = i.tab["src0"]
            fi = ((i.raw >> s0[0]) & s0[1]) == 234
            op["imm"] = sum(i.f(f"lane_sel_{k}") << 3 * k for k in range(8))
            op["y"] = 1 << 31 | int(fi) << 21

    def vopd(self, i):
        """two operations of one instruction; both read their sources before either writes"""
        op = new_op(i)
        op["x"] = i.lit or 0
        dx = i.f("vdstx")
        dy = i.f("vdsty") << 1 | (~dx & 1)
        head, body, key = [], [], []
        for h, (name, pc, _ops), s0, s1 in (
            ("X", (i.name, i.pcode, i.ops), "srcx0", "vsrcx1"),
            ("Y", i.y, "srcy0", "vsrcy1"),
        ):
            tree, _text = self.pcode(name, pc)
            t = {"a": [0] * 4, "k": [0] * 3}
            r = i.f(s0)
            n = 0 if h == "X" else 1
            load = []
            f0 = "PK2_F16" if "DOT2" in name else "F32" if name.endswith("F32") else "B32"
            if r >= 256:
                t["a"][0] = r
                load.append(f"u64 S0 = w->v[o->a[{n}] - 256][l];")
                kd = "v"
            else:
                kd = self.scalar(r, t, 0, 32, f0, i.lit)
                head.append(f"const u64 k{h} = sc32(w, o, {n});")
                load.append(f"u64 S0 = k{h};")
            op["a"][n], op["k"][n] = t["a"][0], t["k"][0]
            op["a"][2 + n] = i.f(s1)
            load.append(
                f"u64 S1 = w->v[o->a[{2 + n}]][l]; u64 D0 = w->v[o->{'d' if h == 'X' else 'd1'}][l];"
            )
            b = Body(
                {"WAVE32": 1, "WAVE64": 0},
                {"S0": 32, "S1": 32, "D0": 32, "SIMM32": 32, "VCC": 64, "ieee": 32},
            )
            b.vars["VCC"] = ["vcc", 64, ("b", 64), None]
            try:
                c = b.stmts(tree)
            except (PcodeError, LookupError, TypeError, ValueError) as e:
                raise Unsupported(f"{name}: {e}") from None
            body.append(f"{{ {' '.join(load)} {' '.join(b.decl)} {c} r{h} = (u32)D0; }}")
            key.append(f"{name}:{kd}")
        op["d"], op["d1"] = dx, dy
        txt = (
            f"{' '.join(head)} const u64 ex = exec_of(w), vcc = mask_rd(w, VCC_LO); const u32 ieee = w->ieee; const u64 SIMM32 = o->x; (void)ieee; (void)SIMM32; (void)vcc; "
            f"for (u64 m = ex; m; m &= m - 1) {{ const int l = __builtin_ctzll(m); u32 rX, rY; {' '.join(body)} w->v[o->d][l] = rX; w->v[o->d1][l] = rY; }} return R_NEXT;"
        )
        return Form(f"{self.arch}|VOPD|{'|'.join(key)}", txt, op)
