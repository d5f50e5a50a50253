"""AMD GPU code objects: ELF, kernel descriptors, metadata, clang offload bundles."""

import struct

MACH = {
    0x3F: "gfx90a",
    0x4C: "gfx942",
    0x4F: "gfx950",
    0x41: "gfx1100",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x44: "gfx1103",
    0x43: "gfx1150",
    0x4A: "gfx1151",
    0x48: "gfx1200",
    0x4E: "gfx1201",
}


def msgpack(b, o=0):
    """the part of MessagePack that the metadata note uses -> (value, next offset)"""
    t = b[o]
    o += 1

    def seq(n, o):
        r = []
        for _ in range(n):
            v, o = msgpack(b, o)
            r.append(v)
        return r, o

    def mp(n, o):
        r = {}
        for _ in range(n):
            k, o = msgpack(b, o)
            r[k], o = msgpack(b, o)
        return r, o

    def txt(n, o):
        return bytes(b[o : o + n]).decode(), o + n

    if t < 0x80:
        return t, o
    if t < 0x90:
        return mp(t & 15, o)
    if t < 0xA0:
        return seq(t & 15, o)
    if t < 0xC0:
        return txt(t & 31, o)
    if t >= 0xE0:
        return t - 256, o
    if t in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[t], o
    num = {
        0xCC: ">B",
        0xCD: ">H",
        0xCE: ">I",
        0xCF: ">Q",
        0xD0: ">b",
        0xD1: ">h",
        0xD2: ">i",
        0xD3: ">q",
        0xCA: ">f",
        0xCB: ">d",
    }
    if t in num:
        return struct.unpack_from(num[t], b, o)[0], o + struct.calcsize(num[t])
    n, fn = {
        0xD9: (">B", txt),
        0xDA: (">H", txt),
        0xDB: (">I", txt),
        0xDC: (">H", seq),
        0xDD: (">I", seq),
        0xDE: (">H", mp),
        0xDF: (">I", mp),
    }[t]
    return fn(struct.unpack_from(n, b, o)[0], o + struct.calcsize(n))


class CodeObject:
    def __init__(self, src, arch=None):
        """src: file name or bytes; an offload bundle needs arch when it holds several targets"""
        if isinstance(src, str):
            with open(src, "rb") as f:
                d = f.read()
        else:
            d = bytes(src)
        if d[:24] == b"__CLANG_OFFLOAD_BUNDLE__":
            n, o = struct.unpack_from("<Q", d, 24)[0], 32
            for _ in range(n):
                off, sz, tl = struct.unpack_from("<QQQ", d, o)
                tr = d[o + 24 : o + 24 + tl].decode()
                o += 24 + tl
                if "amdgcn" in tr and sz and (arch is None or arch in tr):
                    d = d[off : off + sz]
                    break
            else:
                raise ValueError("the bundle has no entry for the architecture")
        if d[:4] != b"\x7fELF":
            raise ValueError("not an ELF file")
        self.data = d
        (shoff,) = struct.unpack_from("<Q", d, 40)
        (flags,) = struct.unpack_from("<I", d, 48)
        (phoff,) = struct.unpack_from("<Q", d, 32)
        phes, phn, shes, shn = struct.unpack_from("<HHHH", d, 54)
        self.gfx = MACH.get(flags & 0xFF, f"machine {flags & 0xFF:#x}")
        self.ph = [struct.unpack_from("<IIQQQQQQ", d, phoff + i * phes) for i in range(phn)]
        sh = [struct.unpack_from("<IIQQQQIIQQ", d, shoff + i * shes) for i in range(shn)]
        self.size = max(p[3] + p[6] for p in self.ph if p[0] == 1)
        self.sym, self.rela, self.meta = {}, [], {}
        for s in sh:
            if s[1] in (2, 11):
                strs = sh[s[6]]
                for i in range(s[5] // 24):
                    nm, info, _oth, shx, val, sz = struct.unpack_from("<IBBHQQ", d, s[4] + 24 * i)
                    e = d.index(b"\0", strs[4] + nm)
                    self.sym[d[strs[4] + nm : e].decode()] = (val, sz, shx)
            if s[1] == 4:
                syms = sh[s[6]]
                for i in range(s[5] // 24):
                    off, info, add = struct.unpack_from("<QQq", d, s[4] + 24 * i)
                    sval = (
                        struct.unpack_from("<IBBHQQ", d, syms[4] + 24 * (info >> 32))[4]
                        if info >> 32
                        else 0
                    )
                    self.rela.append((off, info & 0xFFFFFFFF, sval, add))
        for p in self.ph:
            if p[0] != 4:
                continue
            o = p[2]
            while o < p[2] + p[5]:
                nn, dn, ty = struct.unpack_from("<III", d, o)
                do = o + 12 + (nn + 3 & ~3)
                if ty == 32:
                    self.meta, _ = msgpack(d[do : do + dn])
                o = do + (dn + 3 & ~3)
        self.kernels = {k[".name"]: k for k in self.meta.get("amdhsa.kernels", [])}
        # executable part: only this is ever decoded
        self.text = next(((p[3], p[6]) for p in self.ph if p[0] == 1 and p[1] & 1), (0, self.size))

    def image(self):
        im = bytearray(self.size)
        for p in self.ph:
            if p[0] == 1:
                im[p[3] : p[3] + p[5]] = self.data[p[2] : p[2] + p[5]]
        return im

    def relocated(self, base):
        """the image as loaded at address base"""
        im = self.image()
        for off, ty, sv, add in self.rela:
            v = {13: base + add, 3: base + sv + add}.get(ty)  # RELATIVE64, ABS64
            if v is None:
                raise NotImplementedError(f"relocation type {ty}")
            struct.pack_into("<Q", im, off, v & (1 << 64) - 1)
        return im

    def kd(self, kernel):
        """kernel descriptor"""
        s = self.sym.get(kernel + ".kd")
        if s is None:
            raise KeyError(f"no kernel {kernel} in the code object")
        off = s[0]
        b = bytes(self.image()[off : off + 64])
        g, p, ka = struct.unpack_from("<III", b, 0)
        (ent,) = struct.unpack_from("<q", b, 16)
        r3, r1, r2, props, preload = struct.unpack_from("<IIIHH", b, 44)
        return {
            "lds": g,
            "scratch": p,
            "kernarg": ka,
            "entry": off + ent,
            "rsrc1": r1,
            "rsrc2": r2,
            "rsrc3": r3,
            "props": props,
            "preload": preload,
        }
