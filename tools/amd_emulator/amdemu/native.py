"""Instructions implemented by hand in the core library: program control, memory, matrix, cross-lane moves.

native(i, fb) -> (C function name, operand structure) or None when the instruction is an ordinary arithmetic one.
"""

import re

from .decode import Unsupported
from .forms import SINK, new_op

LOAD, SX, D16, HI, LDS, OFFEN, IDXEN, SADDR, VADDR, RET, TR, SOFF, BUF, ST64 = (
    1 << k for k in range(14)
)

SIZES = {
    "UBYTE": (1, 0),
    "SBYTE": (1, 1),
    "BYTE": (1, 0),
    "USHORT": (2, 0),
    "SSHORT": (2, 1),
    "SHORT": (2, 0),
    "DWORD": (4, 0),
    "DWORDX2": (8, 0),
    "DWORDX3": (12, 0),
    "DWORDX4": (16, 0),
    "DWORDX8": (32, 0),
    "DWORDX16": (64, 0),
    "U8": (1, 0),
    "I8": (1, 1),
    "B8": (1, 0),
    "U16": (2, 0),
    "I16": (2, 1),
    "B16": (2, 0),
    "B32": (4, 0),
    "B64": (8, 0),
    "B96": (12, 0),
    "B128": (16, 0),
    "B256": (32, 0),
    "B512": (64, 0),
}
MOVES = ("LOAD", "STORE", "READ", "WRITE", "READ2", "WRITE2", "READ2ST64", "WRITE2ST64")
WAITS = re.compile(
    r"^S_(NOP|WAITCNT|WAIT_|DELAY_ALU|CLAUSE|SETPRIO|ICACHE_INV|INST_PREFETCH|SET_INST_PREFETCH|CODE_END|INCPERFLEVEL|DECPERFLEVEL|TTRACEDATA|"
    r"VERSION|PREFETCH|DCACHE|BUFFER_GL|GL1_INV|GL0_INV|BARRIER_SIGNAL|WAKEUP|SET_VALU_COEXEC)"
)
ATOMS = {
    "ADD": 0,
    "SUB": 1,
    "SMIN": 2,
    "UMIN": 3,
    "SMAX": 4,
    "UMAX": 5,
    "AND": 6,
    "OR": 7,
    "XOR": 8,
    "SWAP": 9,
    "CMPSWAP": 10,
    "INC": 11,
    "DEC": 12,
    "ADD_F32": 13,
    "MIN_F32": 14,
    "MAX_F32": 15,
    "PK_ADD_F16": 16,
    "PK_ADD_BF16": 17,
    "RSUB": 18,
    "MSKOR": 19,
    "CMP_F32": 20,
    "CLAMP_SUB": 21,
}


def atomic_code(t):
    """operation text of the opcode name -> number in atomic.c (64-bit ones + 32)"""
    if t in ("PK_ADD_F16", "PK_ADD_BF16"):
        return ATOMS[t]
    if t in ("ADD_F64", "MIN_F64", "MAX_F64"):
        return 32 + ATOMS[t[:3] + "_F32"]
    t = (
        t.replace("MIN_NUM_F32", "MIN_F32")
        .replace("MAX_NUM_F32", "MAX_F32")
        .replace("FMIN", "MIN_F32")
        .replace("FMAX", "MAX_F32")
    )
    if t in ATOMS:
        return ATOMS[t]
    w = 0
    m = re.match(r"^(.*?)_(X2|U32|I32|B32|U64|I64|B64)$", t)
    if m:
        t, k = m[1], m[2]
        w = 32 if "64" in k or k == "X2" else 0
        if t in ("MIN", "MAX"):
            t = ("S" if k[0] == "I" else "U") + t
        if t == "SUB_CLAMP":
            t = "CLAMP_SUB"
    if t in ATOMS and not t.endswith("F32"):
        return w + ATOMS[t]
    return None


def mem_kind(name):
    """(bytes, flags, two elements?) of a load or store; None for other memory instructions"""
    t = name.split("_")[1:]
    if t[0] not in MOVES or any(x in t for x in ("ADDTID", "FORMAT", "BLOCK")):
        return None
    fl = (
        (LOAD if t[0].startswith(("LOAD", "READ")) else 0)
        | (D16 if "D16" in t else 0)
        | (HI if "HI" in t else 0)
        | (LDS if "LDS" in t else 0)
    )
    tr = None
    if "TR" in t:
        tr = t[-1]
        t = t[: t.index("TR")]
    s = [x for x in t[1:] if x in SIZES]
    if len(s) != 1:
        return None
    n, sx = SIZES[s[0]]
    two = "2" in t[0] or "2ADDR" in t
    if "ST64" in t[0] or "STRIDE64" in t:
        fl |= ST64
    return n, fl | (SX if sx else 0), two, tr


def native(i, fb):
    n, op = i.name, new_op(i)
    if i.fmt in ("SOPP", "SOPK", "SOP1", "SOP2", "SOPC"):
        return scalar(i, fb, n, op)
    if i.fmt == "SMEM":
        return smem(i, fb, n, op)
    if i.fmt == "DS":
        return ds(i, fb, n, op)
    if i.fmt in ("MUBUF", "VBUFFER"):
        return buffer(i, fb, n, op)
    if i.fmt in ("GLOBAL", "FLAT", "SCRATCH", "VGLOBAL", "VFLAT", "VSCRATCH"):
        return glob(i, fb, n, op)
    if i.fmt == "MTBUF" or i.fmt == "VINTERP":
        raise Unsupported(n)
    if "MFMA" in n:
        return mfma(i, fb, n, op)
    if "WMMA" in n or "SWMMAC" in n:
        return wmma(i, fb, n, op)
    return vector(i, fb, n, op)


def scalar(i, fb, n, op):
    if n in ("S_ENDPGM", "S_ENDPGM_SAVED"):
        return "h_end", op
    if n in ("S_BARRIER", "S_BARRIER_WAIT"):
        return "h_barrier", op
    if n in ("S_SLEEP", "S_SLEEP_VAR"):
        return "h_yield", op
    if WAITS.match(n):
        return "h_nop", op
    if n in ("S_SENDMSG",):
        if i.f("simm16") in (2, 3):
            return "h_nop", op  # deallocate registers, geometry shader
        raise Unsupported(f"{n} {i.f('simm16')}")
    if n.startswith("S_SENDMSG_RTN"):
        op.update(d=i.f("sdst"), x=8 if "64" in n else 4)
        return "h_sendmsg_rtn", op
    if n == "S_TRAP":
        raise Unsupported(f"s_trap {i.f('simm16')} (abort, assert or __builtin_trap in the kernel)")
    op["imm"] = i.sf("simm16")
    if n == "S_BRANCH":
        return "h_branch", op
    if n.startswith("S_CBRANCH_"):
        c = {"SCC0": 0, "SCC1": 1, "VCCZ": 2, "VCCNZ": 3, "EXECZ": 4, "EXECNZ": 5}.get(n[10:])
        if c is None:
            raise Unsupported(n)
        op["x"] = c
        return "h_cbranch", op
    d = i.f("sdst")
    if d == 124 and not fb.cdna:
        d = SINK
    op["d"] = d
    if n == "S_GETPC_B64":
        return "h_getpc", op
    if n in ("S_SETPC_B64", "S_SWAPPC_B64"):
        fb.scalar(i.f("ssrc0"), op, 0, 64, "U64", i.lit)
        return ("h_setpc" if "SET" in n else "h_swappc"), op
    if n == "S_CALL_B64":
        return "h_call", op
    if n == "S_GETREG_B32":
        op["imm"] = i.f("simm16")
        return "h_getreg", op
    if n == "S_SETREG_B32":
        op["imm"] = i.f("simm16")
        return "h_setreg", op
    if n == "S_SETREG_IMM32_B32":
        op.update(imm=i.f("simm16"), x=1)
        op["k"][0] = i.lit
        return "h_setreg", op
    if n in ("S_ROUND_MODE", "S_DENORM_MODE"):
        op["x"] = 0 if "ROUND" in n else 4
        return "h_modebits", op
    if (
        n in ("S_SETHALT", "S_SETKILL")
        or "GPR_IDX" in n
        or "MOVREL" in n
        or "FORK" in n
        or "JOIN" in n
        or "BARRIER" in n
        or n in ("S_RFE_B64", "S_SETVSKIP")
    ):
        raise Unsupported(n)
    return None


def smem(i, fb, n, op):
    if n in ("S_MEMTIME", "S_MEMREALTIME"):
        op["d"] = i.f("sdata")
        return "h_memtime", op
    if WAITS.match(n) or "DCACHE" in n or "PREFETCH" in n or "ATC_PROBE" in n:
        return "h_nop", op
    buf = "BUFFER" in n
    last = n.rsplit("_", 1)[1]
    if not re.match(r"^S_(BUFFER_)?(LOAD|STORE)_", n) or last not in SIZES:
        raise Unsupported(n)
    nb, sx = SIZES[last]
    off, so = i.sf("ioffset", "offset"), i.f("soffset")
    if fb.cdna:
        if i.f("soffset_en"):
            use = True
            off = off if i.f("imm") else 0
        elif i.f("imm"):
            use = False
        else:
            use, so, off = True, i.f("offset") & 0x7F, 0
    else:
        use = so != 124
    op.update(
        d=i.f("sdata"),
        imm=off,
        x=nb,
        y=(SX if sx else 0) | (BUF if buf else 0) | (SOFF if use else 0),
    )
    op["a"][0], op["a"][1] = i.f("sbase") * 2, so
    if "_STORE_" in n:
        if buf:
            raise Unsupported(n)
        return "h_sstore", op
    return "h_smem", op


def ds(i, fb, n, op):
    acc = 256 if i.f("acc") else 0
    if i.f("gds"):
        raise Unsupported(f"{n} gds")
    op["a"][0], op["a"][1], op["a"][2], op["d"] = (
        i.f("addr"),
        i.f("data0") + acc,
        i.f("data1") + acc,
        i.f("vdst") + acc,
    )
    off = i.f("offset0") | i.f("offset1") << 8
    op["imm"] = off
    if n == "DS_NOP":
        return "h_nop", op
    if n == "DS_SWIZZLE_B32":
        return "h_swizzle", op
    if n == "DS_PERMUTE_B32":
        return "h_permute", op
    if n in ("DS_BPERMUTE_B32", "DS_BPERMUTE_FI_B32"):
        op["x"] = int("_FI_" in n)
        return "h_bpermute", op
    if "ADDTID" in n:
        op["y"] = LOAD if "READ" in n or "LOAD" in n else 0
        return "h_ds_addtid", op
    k = mem_kind(n)
    if k:
        nb, fl, two, tr = k
        if tr:
            if tr not in ("B16", "B8"):
                raise Unsupported(n)
            op["x"] = 2 if tr == "B16" else 1
            return "h_ds_tr", op
        op.update(x=nb, y=fl)
        if two:
            op["imm"] = i.f("offset0") | i.f("offset1") << 16
            return "h_ds2", op
        return "h_ds", op
    m = re.match(r"^DS_(.*?)(_RTN)?(_[UIB](?:32|64)|_F32|_F64|_F16|_BF16)$", n)
    if m:
        t, ret, ty = m[1], bool(m[2]), m[3]
        hi = 0
        if t in ("CMPST",):
            t, hi = "CMPSWAP", HI  # older name: the first data operand is the comparand
        if t in ("CMPSTORE",):
            t = "CMPSWAP"
        if t in ("WRXCHG", "STOREXCHG"):
            t = "SWAP"
        t = t.replace("_RTN", "")
        if ty in ("_F32", "_F64") and t == "CMPSWAP":
            raise Unsupported(n)
        c = atomic_code(t + ty)
        if c is not None and "2" not in t:
            op.update(x=c, y=(RET if ret else 0) | hi)
            return "h_ds_atomic", op
    raise Unsupported(n)


def atomic(i, fb, n, op, base):
    m = n.split("ATOMIC_", 1)
    c = atomic_code(m[1]) if len(m) == 2 else None
    if c is None:
        raise Unsupported(n)
    ret = i.f("glc", "sc0") if fb.arch != "rdna4" else i.f("th") & 1
    op["imm"] = (op["imm"] & 0xFFFFFF) | c << 24
    op["y"] |= RET if ret else 0
    if op["imm"] >> 31:
        op["imm"] -= 1 << 32
    return base, op


def buffer(i, fb, n, op):
    if any(x in n for x in ("_INV", "_WBL2", "_GL0", "_GL1")):
        return "h_nop", op
    if i.f("tfe"):
        raise Unsupported(f"{n} tfe")
    acc = 256 if i.f("acc") else 0
    so = i.f("soffset")
    op["a"][0], op["a"][1], op["a"][2], op["d"] = (
        i.f("vaddr"),
        i.f("rsrc") if fb.arch == "rdna4" else i.f("srsrc") * 4,
        i.f("vdata") + acc,
        i.f("vdata") + acc,
    )
    op["imm"] = (i.sf("ioffset") if i.has("ioffset") else i.f("offset")) & 0xFFFFFF
    fl = (OFFEN if i.f("offen") else 0) | (IDXEN if i.f("idxen") else 0)
    fb.scalar(
        so, op, 0 if so > 127 or (so == 124 and not fb.cdna) else 3, 32, "U32", None
    ) if so != 255 else None
    if so > 127 or (so == 124 and not fb.cdna):
        op["a"][0] = i.f("vaddr")  # a constant offset is in k[0]
    else:
        fl |= SOFF
    op["y"] = fl
    if "ATOMIC" in n:
        return atomic(i, fb, n, op, "h_buffer_atomic")
    k = mem_kind(n)
    if not k:
        raise Unsupported(n)
    op["x"] = k[0]
    op["y"] |= k[1] | (LDS if i.f("lds") else 0)
    return "h_buffer", op


def glob(i, fb, n, op):
    if n in ("GLOBAL_INV", "GLOBAL_WB", "GLOBAL_WBINV"):
        return "h_nop", op
    scratch, flat = "SCRATCH" in i.fmt, "FLAT" in i.fmt and not n.startswith("GLOBAL")
    acc = 256 if i.f("acc") and fb.cdna else 0
    sa = i.f("saddr")
    null = 0x7F if fb.cdna else 124
    has_s = not flat and sa != null and sa < 124
    off = i.sf("ioffset", "offset")
    if flat and not i.has("ioffset"):
        off = i.f("offset")
    op["a"][0], op["a"][1], op["a"][2], op["d"] = (
        i.f("addr", "vaddr"),
        sa,
        i.f("data", "vsrc") + acc,
        i.f("vdst") + acc,
    )
    op["imm"] = off & 0xFFFFFF
    fl = SADDR if has_s else 0
    if scratch and i.f("sve"):
        fl |= VADDR
    op["y"] = fl
    if "ATOMIC" in n:
        if flat:
            op["y"] |= BUF
        return atomic(i, fb, n, op, "h_flat" if flat else "h_global_atomic")
    k = mem_kind(n)
    if not k or k[3]:
        raise Unsupported(n)
    op["x"] = k[0]
    op["y"] |= k[1] | (LDS if i.f("lds") else 0)
    return "h_scratch" if scratch else "h_flat" if flat else "h_global", op


TY = {
    "F32": 0,
    "F16": 1,
    "BF16": 2,
    "FP8": 3,
    "BF8": 4,
    "I8": 5,
    "U8": 6,
    "I4": 7,
    "U4": 8,
    "F64": 9,
}


def mfma(i, fb, n, op):
    m = re.match(r"V_MFMA_(?:SCALE_)?(F32|F64|I32)_(\d+)X(\d+)X(\d+)(?:_(\d+)B)?_(.+)$", n)
    if not m:
        raise Unsupported(n)
    out, M, N, K, B, ty = m[1], int(m[2]), int(m[3]), int(m[4]), int(m[5] or 1), m[6]
    cbsz, abid, blgp = i.f("cbsz"), i.f("abid"), i.f("blgp")
    if ty == "F8F6F4":
        f = {0: "FP8", 1: "BF8"}
        if i.fmt == "VOP3PX2" or cbsz not in f or blgp not in f:
            raise Unsupported(f"{n} with scales or a 6- or 4-bit format")
        ta, tb = f[cbsz], f[blgp]
    else:
        if cbsz or abid or blgp:
            raise Unsupported(f"{n} with cbsz, abid or blgp")
        ta, tb = (
            ty.split("_")
            if re.match(r"^[BF][FP]8_[BF][FP]8$", ty)
            else (ty.replace("_1K", ""),) * 2
        )
    if ta == "XF32":
        ta = tb = "F32"  # computed with all bits of the inputs
    if ta not in TY or (out == "F64" and M != 16):
        raise Unsupported(n)
    acc, acd = i.f("acc"), i.f("acc_cd")
    op["d"] = i.f("vdst") + (256 if acd else 0)
    bits = 64 if out == "F64" else 32
    for k, (f, a) in enumerate((("src0", acc & 1), ("src1", acc >> 1 & 1), ("src2", acd))):
        r = i.f(f)
        if r >= 256:
            op["a"][k] = r + (256 if a else 0)
        else:
            fb.scalar(
                r, op, k, bits, "F64" if bits == 64 else "I32" if out == "I32" else "F32", None
            )
    op.update(
        x=M | N << 8 | B << 16 | int(fb.fnuz) << 24,
        y=K | TY[ta] << 8 | TY[tb] << 12 | {"F32": 0, "F64": 9, "I32": 5}[out] << 16,
    )
    return "h_mfma", op


def wmma(i, fb, n, op):
    m = re.match(r"V_WMMA_(F32|F16|BF16|I32)_16X16X(\d+)_(.+)$", n)
    if not m:
        raise Unsupported(n)
    out, K, ty = m[1], int(m[2]), m[3]
    neg, nh = i.f("neg"), i.f("neg_hi")
    if ty.startswith("IU"):
        ta, tb = ("I" if neg & 1 else "U") + ty[2:], ("I" if neg & 2 else "U") + ty[2:]
    else:
        ta, tb = ty.split("_") if "_" in ty else (ty, ty)
        if neg & 3 or nh & 3:
            raise Unsupported(f"{n} with negated A or B")
    if ty.startswith("IU") and i.f("clmp"):
        raise Unsupported(f"{n} with clamp")
    op["d"] = i.f("vdst")
    for k, f in enumerate(("src0", "src1", "src2")):
        r = i.f(f)
        if r >= 256:
            op["a"][k] = r
        elif k < 2:
            raise Unsupported(f"{n} with a scalar matrix")
        else:
            fb.scalar(
                r, op, k, 32, {"F32": "F32", "I32": "I32", "F16": "F16", "BF16": "BF16"}[out], None
            )
    fl = ((neg >> 2 & 1) | (nh >> 2 & 1) << 1) if out != "I32" else 0
    op.update(
        x=K
        | TY[ta] << 8
        | TY[tb] << 12
        | {"F32": 0, "F16": 1, "BF16": 2, "I32": 5}[out] << 16
        | int(fb.arch == "rdna4") << 20,
        y=fl | (i.f("opsel") >> 2 & 1) << 2,
    )
    return "h_wmma", op


def vector(i, fb, n, op):
    if n in ("V_NOP", "V_PIPEFLUSH"):
        return "h_nop", op
    if i.variant and n.startswith(("V_READ", "V_WRITE", "V_PERMLANE", "V_SWAP", "V_ACCVGPR")):
        raise Unsupported(f"{n} {i.variant}")

    def src(k, f):
        r = i.f(f)
        if r >= 256:
            op["a"][k] = r
        else:
            fb.scalar(r, op, k, 32, "B32", i.lit)

    if n in ("V_READFIRSTLANE_B32", "V_READLANE_B32"):
        src(0, "src0")
        op["d"] = i.f("vdst")
        if op["d"] == 124 and not fb.cdna:
            op["d"] = SINK
        if n == "V_READFIRSTLANE_B32":
            return "h_readfirstlane", op
        src(1, "src1")
        return "h_readlane", op
    if n == "V_WRITELANE_B32":
        src(0, "src0")
        src(1, "src1")
        op["d"] = i.f("vdst")
        return "h_writelane", op
    if n == "V_ACCVGPR_READ":
        op["a"][0] = i.f("src0") + 256
        op["d"] = i.f("vdst")
        return "h_movrow", op
    if n == "V_ACCVGPR_WRITE":
        src(0, "src0")
        op["d"] = i.f("vdst") + 256
        return "h_movrow", op
    if n == "V_ACCVGPR_MOV_B32":
        op["a"][0] = i.f("src0") + 256
        op["d"] = i.f("vdst") + 256
        return "h_movrow", op
    if n == "V_SWAP_B32":
        src(0, "src0")
        op["d"] = i.f("vdst")
        return "h_swap", op
    if n in ("V_PERMLANE16_SWAP_B32", "V_PERMLANE32_SWAP_B32"):
        src(0, "src0")
        op.update(d=i.f("vdst"), x=16 if "16" in n else 32)
        return "h_permswap", op
    if n in (
        "V_PERMLANE16_B32",
        "V_PERMLANEX16_B32",
        "V_PERMLANE16_VAR_B32",
        "V_PERMLANEX16_VAR_B32",
    ):
        s = i.f("opsel")
        src(0, "src0")
        src(1, "src1")
        if "VAR" not in n:
            src(2, "src2")
        op.update(
            d=i.f("vdst"),
            x=int("X16" in n) | (s & 1) << 1 | (s >> 1 & 1) << 2 | (8 if "VAR" in n else 0),
        )
        return "h_permlane16", op
    if n == "V_PERMLANE64_B32" and not fb.cdna:
        return "h_nop", op  # no effect in wave32
    if (
        n.startswith(
            (
                "V_MOVREL",
                "V_SWAPREL",
                "V_PERMLANE",
                "V_SWAP_B16",
                "V_CVT_SCALE",
                "V_INTERP",
                "V_TRIG_PREOP",
            )
        )
        or "SMFMAC" in n
    ):
        raise Unsupported(n)
    return None
