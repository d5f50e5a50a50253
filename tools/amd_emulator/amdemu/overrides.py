"""Own pseudocode, where the published text is prose, uses local functions, or describes the result only roughly.

Keys are opcode names without the encoding suffix.  The functions are those of csrc/lane.h.
"""

OVER = {}


# minimum and maximum: two operands, then the combinations of three
for n in ("min", "max", "min_num", "max_num", "minimum", "maximum"):
    for k in ("f16", "f32", "f64"):
        for p in ("V", "S", "V_DUAL"):
            OVER[f"{p}_{n.upper()}_{k.upper()}"] = f"D0.{k} = v_{n}_{k}(S0.{k}, S1.{k})"
    for k in ("f16", "f32"):
        OVER[
            f"V_{n.upper().replace('MIN_NUM', 'MIN3_NUM').replace('MAX_NUM', 'MAX3_NUM') if 'NUM' in n.upper() and 'MUM' not in n.upper() else n.upper() + '3'}_{k.upper()}"
        ] = f"D0.{k} = v_{n}_{k}(v_{n}_{k}(S0.{k}, S1.{k}), S2.{k})"
    OVER[f"V_PK_{n.upper()}_F16"] = (
        f"D0[15 : 0].f16 = v_{n}_f16(S0[15 : 0].f16, S1[15 : 0].f16); D0[31 : 16].f16 = v_{n}_f16(S0[31 : 16].f16, S1[31 : 16].f16)"
    )
    OVER[f"V_PK_{n.upper()}3_F16"] = "; ".join(
        f"D0[{r}].f16 = v_{n}_f16(v_{n}_f16(S0[{r}].f16, S1[{r}].f16), S2[{r}].f16)"
        for r in ("15 : 0", "31 : 16")
    )
for k in ("f16", "f32"):
    K = k.upper()
    for s in ("", "_num"):
        a, b = f"v_min{s}_{k}", f"v_max{s}_{k}"
        S = s.upper()
        OVER[f"V_MINMAX{S}_{K}"] = f"D0.{k} = {b}({a}(S0.{k}, S1.{k}), S2.{k})"
        OVER[f"V_MAXMIN{S}_{K}"] = f"D0.{k} = {a}({b}(S0.{k}, S1.{k}), S2.{k})"
        OVER[f"V_MED3{S}_{K}"] = f"D0.{k} = v_med3{s}_{k}(S0.{k}, S1.{k}, S2.{k})"

# rounding and transcendental functions by name
for k in ("f16", "f32", "f64"):
    K = k.upper()
    for op, fn in (
        ("TRUNC", "trunc"),
        ("CEIL", "ceil"),
        ("FLOOR", "floor"),
        ("RNDNE", "rint"),
        ("FRACT", "fract"),
        ("SQRT", "sqrt"),
        ("RCP", "rcp"),
        ("RSQ", "rsq"),
        ("LOG", "log2"),
        ("EXP", "exp2"),
        ("SIN", "sin2pi"),
        ("COS", "cos2pi"),
        ("FREXP_MANT", "frexp_mant"),
        ("TANH", "tanh"),
    ):
        OVER[f"V_{op}_{K}"] = OVER[f"S_{op}_{K}"] = f"D0.{k} = {fn}(S0.{k})"
OVER["V_RCP_IFLAG_F32"] = "D0.f32 = rcp(S0.f32)"
for op, fn in (("EXP", "exp2"), ("LOG", "log2"), ("RCP", "rcp"), ("RSQ", "rsq"), ("SQRT", "sqrt")):
    OVER[f"V_S_{op}_F32"] = f"D0.f32 = {fn}(S0.f32)"
    OVER[f"V_S_{op}_F16"] = f"D0.u32 = 0U; D0.f16 = {fn}(S0.f16)"
OVER["V_FREXP_EXP_I32_F32"] = "D0.i32 = frexp_exp(S0.f32)"
OVER["V_FREXP_EXP_I32_F64"] = "D0.i32 = frexp_exp(S0.f64)"
OVER["V_FREXP_EXP_I16_F16"] = "D0.i16 = frexp_exp(S0.f16)"
OVER["V_LDEXP_F32"] = "D0.f32 = ldexp(S0.f32, S1.i32)"
OVER["V_LDEXP_F64"] = "D0.f64 = ldexp(S0.f64, S1.i32)"
OVER["V_LDEXP_F16"] = "D0.f16 = ldexp(S0.f16, S1.i16)"
for n in ("V_CVT_RPI_I32_F32", "V_CVT_NEAREST_I32_F32"):
    OVER[n] = "D0.i32 = f32_to_i32(floor(S0.f32 + 0.5F))"
OVER["V_CVT_OFF_F32_I4"] = "D0.f32 = cvt_off_i4(S0.u32[3 : 0])"

# division helpers: the scale steps depend on properties of the exact quotient
for b in (32, 64):
    OVER[f"V_DIV_SCALE_F{b}"] = (
        f"VCC.u64[laneId] = div_flag{b}(S0.f{b}, S1.f{b}, S2.f{b}); D0.f{b} = div_scale{b}(S0.f{b}, S1.f{b}, S2.f{b})"
    )
    OVER[f"V_DIV_FMAS_F{b}"] = (
        f"D0.f{b} = div_fmas{b}(S0.f{b}, S1.f{b}, S2.f{b}, VCC.u64[laneId].u32)"
    )

# comparison classes on the bits of the operand
for b in (16, 32, 64):
    OVER[f"V_CMP_CLASS_F{b}"] = f"D0.u64[laneId] = S1.u32[class{b}(S0.u{b})]"
    OVER[f"V_CMPX_CLASS_F{b}"] = f"EXEC.u64[laneId] = D0.u64[laneId] = S1.u32[class{b}(S0.u{b})]"

# packed bytes
OVER["V_PERM_B32"] = "D0.u32 = perm_b32(S0.u32, S1.u32, S2.u32)"
OVER["V_SAD_U8"] = "D0.u32 = sad_u8(S0.u32, S1.u32, S2.u32)"
OVER["V_SAD_HI_U8"] = "D0.u32 = (sad_u8(S0.u32, S1.u32, 0U) << 16U) + S2.u32"
OVER["V_MSAD_U8"] = "D0.u32 = msad_u8(S0.u32, S1.u32, S2.u32)"
OVER["V_SAD_U16"] = "D0.u32 = sad_u16(S0.u32, S1.u32, S2.u32)"
OVER["V_SAD_U32"] = "D0.u32 = (S0.u32 > S1.u32 ? S0.u32 - S1.u32 : S1.u32 - S0.u32) + S2.u32"
OVER["V_SAT_PK_U8_I16"] = "D0.b16 = { sat8u(S0[31 : 16].i16).u8, sat8u(S0[15 : 0].i16).u8 }"
OVER["V_ASHR_PK_I8_I32"] = (
    "D0[15 : 0] = { sat8i(S1.i32 >> S2[4 : 0].u32).u8, sat8i(S0.i32 >> S2[4 : 0].u32).u8 }"
)
OVER["V_ASHR_PK_U8_I32"] = (
    "D0[15 : 0] = { sat8u(S1.i32 >> S2[4 : 0].u32).u8, sat8u(S0.i32 >> S2[4 : 0].u32).u8 }"
)
OVER["V_PRNG_B32"] = "D0.u32 = prng(S0.u32)"
OVER["V_CVT_PKRTZ_F16_F32"] = OVER["V_CVT_PK_RTZ_F16_F32"] = OVER["S_CVT_PK_RTZ_F16_F32"] = (
    "D0.u32 = pkrtz(S0.f32, S1.f32)"
)
for f in ("fp8", "bf8"):
    OVER[f"V_CVT_SR_{f.upper()}_F32"] = (
        f"VGPR[laneId][VDST.u32][OPSEL[3 : 2].i32 * 8 + 7 : OPSEL[3 : 2].i32 * 8].u8 = sr_{f}(S0.f32, S1.u32).u8"
    )

# mixed precision: each operand is f32 or one half of a pair of f16
_m = "fma(mixsrc(S0.u32, OPSEL_HI[0].u32, OPSEL[0].u32), mixsrc(S1.u32, OPSEL_HI[1].u32, OPSEL[1].u32), mixsrc(S2.u32, OPSEL_HI[2].u32, OPSEL[2].u32))"
_n = (
    _m.replace("fma(", "")
    .replace(", mixsrc(S1", " * mixsrc(S1", 1)
    .replace(", mixsrc(S2", " + mixsrc(S2", 1)[:-1]
)
for n, t in (("FMA", _m), ("MAD", _n)):
    OVER[f"V_{n}_MIX_F32"] = f"D0.f32 = {t}"
    OVER[f"V_{n}_MIXLO_F16"] = f"D0[15 : 0].f16 = f32_to_f16({t})"
    OVER[f"V_{n}_MIXHI_F16"] = f"D0[31 : 16].f16 = f32_to_f16({t})"

# the two halves of a dual-issue instruction (not every table has their text)
OVER.update(
    {
        "V_DUAL_FMAC_F32": "D0.f32 = fma(S0.f32, S1.f32, D0.f32)",
        "V_DUAL_FMAAK_F32": "D0.f32 = fma(S0.f32, S1.f32, SIMM32.f32)",
        "V_DUAL_FMAMK_F32": "D0.f32 = fma(S0.f32, SIMM32.f32, S1.f32)",
        "V_DUAL_MUL_F32": "D0.f32 = S0.f32 * S1.f32",
        "V_DUAL_ADD_F32": "D0.f32 = S0.f32 + S1.f32",
        "V_DUAL_SUB_F32": "D0.f32 = S0.f32 - S1.f32",
        "V_DUAL_SUBREV_F32": "D0.f32 = S1.f32 - S0.f32",
        "V_DUAL_MOV_B32": "D0.b32 = S0.b32",
        "V_DUAL_MUL_DX9_ZERO_F32": "D0.f32 = ((S0.f32 == 0.0F) || (S1.f32 == 0.0F)) ? 0.0F : S0.f32 * S1.f32",
        "V_DUAL_CNDMASK_B32": "D0.u32 = VCC.u64[laneId] ? S1.u32 : S0.u32",
        "V_DUAL_ADD_NC_U32": "D0.u32 = S0.u32 + S1.u32",
        "V_DUAL_LSHLREV_B32": "D0.u32 = (S1.u32 << S0[4 : 0].u32)",
        "V_DUAL_AND_B32": "D0.u32 = (S0.u32 & S1.u32)",
        "V_DUAL_DOT2ACC_F32_F16": "D0.f32 = fma(S0[31 : 16].f16, S1[31 : 16].f16, fma(S0[15 : 0].f16, S1[15 : 0].f16, D0.f32))",
        "V_DUAL_DOT2ACC_F32_BF16": "D0.f32 = fma(S0[31 : 16].bf16, S1[31 : 16].bf16, fma(S0[15 : 0].bf16, S1[15 : 0].bf16, D0.f32))",
    }
)
# (the text slices beyond a 32-bit view of its operands)
OVER["V_PK_MOV_B32"] = (
    "D0.b64 = { (OPSEL[1].u1 ? S1[63 : 32] : S1[31 : 0]).u32, (OPSEL[0].u1 ? S0[63 : 32] : S0[31 : 0]).u32 }"
)
