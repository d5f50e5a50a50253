"""Machine code -> instructions, driven by the wheel's bit-field tables."""

import re


class Unsupported(NotImplementedError):
    """an instruction, or a use of one, that this emulator does not model"""


class Ins:
    """one decoded instruction: encoding, opcode name, raw bits, operand information"""

    __slots__ = ("fmt", "lit", "name", "ops", "pcode", "raw", "size", "tab", "variant", "y")

    def f(self, *names, default=0):
        for n in names:
            d = self.tab.get(n)
            if d is not None:
                return (self.raw >> d[0]) & d[1]
        return default

    def sf(self, *names):
        """a signed field"""
        for n in names:
            d = self.tab.get(n)
            if d is not None:
                v = (self.raw >> d[0]) & d[1]
                return v - d[1] - 1 if v > d[1] >> 1 else v
        return 0

    def has(self, n):
        return n in self.tab


# Order of recognition: specific encodings before the ones that are their prefixes.  Variants (literal, SDWA, DPP) are chosen
# afterwards, by the value of the source field.
ORDER = {
    "cdna": [
        "VOP3P_MFMA",
        "VOP3P",
        "VOP3SD",
        "VOP3_SDST",
        "VOP3",
        "DS",
        "GLOBAL",
        "SCRATCH",
        "FLAT",
        "MUBUF",
        "MTBUF",
        "SMEM",
        "SOP1",
        "SOPC",
        "SOPP",
        "SOPK",
        "VOPC",
        "VOP1",
        "SOP2",
        "VOP2",
    ],
    "rdna3": [
        "VOPD",
        "VOP3P",
        "VINTERP",
        "VOP3SD",
        "VOP3_SDST",
        "VOP3",
        "DS",
        "GLOBAL",
        "SCRATCH",
        "FLAT",
        "MUBUF",
        "MTBUF",
        "SMEM",
        "SOP1",
        "SOPC",
        "SOPP",
        "SOPK",
        "VOPC",
        "VOP1_SDST",
        "VOP1",
        "SOP2",
        "VOP2",
    ],
    "rdna4": [
        "VOPD",
        "VOP3P",
        "VINTERP",
        "VOP3SD",
        "VOP3_SDST",
        "VOP3",
        "DS",
        "VGLOBAL",
        "VSCRATCH",
        "VFLAT",
        "VBUFFER",
        "SMEM",
        "SOP1",
        "SOPC",
        "SOPP",
        "SOPK",
        "VOPC",
        "VOP1_SDST",
        "VOP1",
        "SOP2",
        "VOP2",
    ],
}
SRC = ("src0", "src1", "src2", "ssrc0", "ssrc1", "srcx0", "srcy0")


class Decoder:
    def __init__(self, tables, arch):
        self.t, self.arch, self.bytop, self.cache = tables, arch, {}, {}
        self.cand = []
        for n in ORDER[arch]:
            f = tables[n]
            mask = val = 0
            for lo, m, v in f["fixed"]:
                if lo < 32:
                    mask |= m << lo
                    val |= v << lo
            opf = f["fields"].get("op")
            lit = tables.get(n + "_LIT")
            allops = dict(f["ops"])
            if lit:
                allops = {**lit["ops"], **allops}
            self.cand.append((n, mask, val, opf, allops, f))

    def decode(self, b, o=0):
        """instruction at offset o of the bytes b; ValueError when the encoding is not known"""
        w0 = int.from_bytes(b[o : o + 4], "little")
        if self.arch == "cdna" and w0 >> 16 == 0xD3AC:
            return self._px2(b, o)  # a 16-byte pair: scale operands, then the matrix instruction
        for n, mask, val, opf, ops, f in self._by_top(w0):
            if w0 & mask != val:
                continue
            if n == "VOPD":
                return self._vopd(b, o, w0, f)
            code = (w0 >> opf[0]) & opf[1]
            op = ops.get(code)
            if op is not None:
                return self._make(b, o, n, f, op)
        raise ValueError(f"unknown encoding {w0:#010x}")

    def _by_top(self, w0):
        t = w0 >> 23
        c = self.bytop.get(t)
        if c is None:
            c = self.bytop[t] = [
                x for x in self.cand if (w0 >> 23 << 23) & x[1] & 0xFF800000 == x[2] & 0xFF800000
            ]
        return c

    def _make(self, b, o, n, f, op):
        i = Ins()
        i.fmt, i.name, i.pcode, i.ops, i.variant, i.lit, i.y = (
            n,
            op[0],
            op[1],
            op[2],
            "",
            None,
            None,
        )
        size, tab = f["size"], f["fields"]
        raw = int.from_bytes(b[o : o + size], "little")
        src0 = (raw >> tab["src0"][0]) & tab["src0"][1] if "src0" in tab else None
        if src0 == 249 and self.arch == "cdna":
            i.variant = "SDWA"
        elif src0 == 250:
            i.variant = "DPP16"
        elif src0 in (233, 234) and self.arch != "cdna":
            i.variant = "DPP8"
        if i.variant:
            v = (
                self.t.get(f"{n}_{i.variant}")
                or self.t.get(f"{n}_{i.variant}_SDST")
                or self.t.get(n.replace("_SDST", "") + "_" + i.variant)
            )
            if v is None or n in ("SOP1", "SOP2"):
                raise ValueError(f"{i.name}: {i.variant} variant of {n} is not known")
            tab, size = {**tab, **v["fields"]}, v["size"]
            if n.endswith("_SDST") and "vdst" in f["fields"]:
                tab["vdst"] = f["fields"]["vdst"]
                size = max(size, f["size"] + 4)
        else:
            lit = (
                any(
                    s in tab and (raw >> tab[s][0]) & tab[s][1] == 255 and tab[s][1] >= 255
                    for s in SRC
                )
                or "literal" in tab
            )
            if (
                not lit
                and n in ("VOP2", "SOP2", "SOPK")
                and re.search("(FMAMK|FMAAK|MADMK|MADAK|SETREG_IMM32)", i.name)
            ):
                lit = True
            if lit:
                i.lit = int.from_bytes(b[o + size : o + size + 4], "little")
                size += 4
        i.tab, i.size, i.raw = tab, size, int.from_bytes(b[o : o + size], "little")
        return i

    def _px2(self, b, o):
        f = self.t["VOP3PX2"]
        raw = int.from_bytes(b[o : o + 16], "little")
        opf = f["fields"]["op"]
        op = f["ops"].get((raw >> opf[0]) & opf[1])
        if op is None:
            raise ValueError("unknown VOP3PX2 opcode")
        i = Ins()
        i.fmt, i.name, i.pcode, i.ops, i.variant, i.lit, i.y = (
            "VOP3PX2",
            op[0],
            op[1],
            op[2],
            "",
            None,
            None,
        )
        i.tab, i.size, i.raw = f["fields"], 16, raw
        return i

    def _vopd(self, b, o, w0, f):
        tab = f["fields"]
        raw = int.from_bytes(b[o : o + 8], "little")
        x, y = (
            f["ops"].get((raw >> tab["opx"][0]) & tab["opx"][1]),
            f["ops"].get((raw >> tab["opy"][0]) & tab["opy"][1]),
        )
        if x is None or y is None:
            raise ValueError("unknown VOPD opcode")
        i = Ins()
        i.fmt, i.name, i.pcode, i.ops, i.variant, i.lit, i.y = "VOPD", x[0], x[1], x[2], "", None, y
        lit = any((raw >> tab[s][0]) & tab[s][1] == 255 for s in ("srcx0", "srcy0")) or re.search(
            "FMAAK|FMAMK", x[0] + y[0]
        )
        i.size = 8
        if lit:
            i.lit = int.from_bytes(b[o + 8 : o + 12], "little")
            i.size = 12
        i.tab, i.raw = tab, raw
        return i
