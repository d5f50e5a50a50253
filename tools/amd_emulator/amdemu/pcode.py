"""Parser of the ISA pseudocode language: text -> syntax tree (tuples).

Statements:  ('assign', lvalue, op, value)  ('if', [(cond, body)...], else_body)  ('for', var, first, last, body)  ('while', cond, body)
             ('break',)  ('declare', name, (kind, bits), count)  ('expr', value)
Values:      ('num', value, kind, bits)  ('fnum', value, bits)  ('var', name)  ('suf', value, (kind, bits))  ('idx', value, index)
             ('slice', value, high, low)  ('slicew', value, low, width)  ('call', name, args)  ('cast', (kind, bits), value)
             ('un', op, value)  ('bin', op, a, b)  ('cond', c, a, b)  ('cat', values)
kind is one of u i b f bf fp8 bf8; bits is None for an unsized number.  Line breaks have no meaning in the language.
"""

import functools
import re


class PcodeError(ValueError):
    pass


_TOK = re.compile(
    r"""
   (?P<ws>\s+|//[^\n]*)
 | (?P<sized>\d+'(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)[UILF]*)
 | (?P<cast>\d+'(?:BF|[UIBF])(?![A-Za-z0-9_]))
 | (?P<num>0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U|F)?)
 | (?P<id>[A-Za-z_]\w*)
 | (?P<op>\*\*|<<|>>|<=|>=|==|!=|<>|&&|\|\||\+:|\+=|-=|\*=|\|=|&=|\^=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
 | (?P<str>"[^"]*")
""",
    re.X,
)
_TYPE = re.compile(r"^(?:(u|i|b|f|bf(?!8|6))(\d+)|(fp8|bf8|fp4|fp6|bf6))$")
_KW = {
    "if",
    "then",
    "elsif",
    "else",
    "endif",
    "for",
    "in",
    "do",
    "endfor",
    "while",
    "endwhile",
    "break",
    "declare",
    "return",
    "lambda",
}


def parse_type(s):
    m = _TYPE.match(s)
    if not m:
        return None
    if m[3]:
        return (m[3], {"fp8": 8, "bf8": 8, "fp4": 4, "fp6": 6, "bf6": 6}[m[3]])
    return (m[1], int(m[2]))


class _Parser:
    def __init__(self, text):
        self.toks, o = [], 0
        while o < len(text):
            m = _TOK.match(text, o)
            if not m:
                raise PcodeError(f"cannot read {text[o : o + 30]!r}")
            if m.lastgroup != "ws":
                self.toks.append((m.lastgroup, m[0]))
            o = m.end()
        self.toks.append(("end", ""))
        self.p = 0

    def peek(self, n=0):
        return self.toks[min(self.p + n, len(self.toks) - 1)][1]

    def kind(self, n=0):
        return self.toks[min(self.p + n, len(self.toks) - 1)][0]

    def take(self, want=None):
        t = self.toks[self.p]
        if want is not None and t[1] != want:
            raise PcodeError(f"{want!r} expected, {t[1]!r} found")
        self.p += 1
        return t[1]

    def opt(self, s):
        if self.peek() == s:
            self.p += 1
            return True
        return False

    # -- statements
    def body(self, *ends):
        r = []
        while True:
            while self.opt(";"):
                pass
            if self.peek() in ends or self.kind() == "end":
                return r
            r.append(self.stmt())

    def program(self):
        r = self.body()
        if self.kind() != "end":
            raise PcodeError(f"unexpected {self.peek()!r}")
        return r

    def stmt(self):
        t = self.peek()
        if t == "if":
            self.take()
            arms = []
            while True:
                c = self.expr()
                self.take("then")
                arms.append((c, self.body("elsif", "else", "endif")))
                if not self.opt("elsif"):
                    break
            els = self.body("endif") if self.opt("else") else []
            self.take("endif")
            return ("if", arms, els)
        if t == "for":
            self.take()
            v = self.take()
            self.take("in")
            a = self.expr()
            self.take(":")
            b = self.expr()
            self.take("do")
            s = self.body("endfor")
            self.take("endfor")
            return ("for", v, a, b, s)
        if t == "while":
            self.take()
            c = self.expr()
            self.take("do")
            s = self.body("endwhile")
            self.take("endwhile")
            return ("while", c, s)
        if t == "break":
            self.take()
            return ("break",)
        if t == "declare":
            self.take()
            n = self.take()
            self.take(":")
            if self.kind() != "cast":
                raise PcodeError(f"type expected, {self.peek()!r} found")
            ty = self.casttype(self.take())
            cnt = None
            if self.opt("["):
                cnt = self.expr()
                self.take("]")
            return ("declare", n, ty, cnt[1] if cnt and cnt[0] == "num" else cnt)
        if t in _KW:
            raise PcodeError(f"statement {t!r}")
        e = self.expr()
        if self.peek() in ("=", "+=", "-=", "*=", "|=", "&=", "^="):
            op = self.take()
            if self.peek() == "lambda":
                raise PcodeError("lambda")
            v = self.expr()
            if self.peek() == "=":  # a = b = value: the inner target is assigned first, then read
                self.take()
                w = self.expr()
                return ("assign2", e, v, w)
            return ("assign", e, op[:-1], v)
        return ("expr", e)

    # -- expressions, lowest precedence first
    def expr(self):
        c = self.binary(0)
        if self.peek() == "?":
            self.take()
            a = self.expr()
            self.take(":")
            b = self.expr()
            return ("cond", c, a, b)
        return c

    LEVELS = [
        ["||"],
        ["&&"],
        ["|"],
        ["^"],
        ["&"],
        ["==", "!=", "<>"],
        ["<", ">", "<=", ">="],
        ["<<", ">>"],
        ["+", "-"],
        ["*", "/", "%"],
    ]

    def binary(self, lv):
        if lv == len(self.LEVELS):
            return self.unary()
        a = self.binary(lv + 1)
        while self.peek() in self.LEVELS[lv] and self.kind() == "op":
            op = self.take()
            b = self.binary(lv + 1)
            a = ("bin", op, a, b)
        return a

    def unary(self):
        if self.kind() == "op" and self.peek() in "-+!~" and self.peek():
            op = self.take()
            e = self.unary()
            return e if op == "+" else ("un", op, e)
        e = self.postfix(self.primary())
        if self.opt("**"):
            e = ("bin", "**", e, self.unary())
        return e

    def postfix(self, e):
        while True:
            if self.opt("."):
                s = self.take()
                ty = parse_type(s)
                e = ("suf", e, ty) if ty else ("member", e, s)
            elif self.opt("["):
                a = self.expr()
                if self.opt(":"):
                    e = ("slice", e, a, self.expr())
                elif self.opt("+:"):
                    e = ("slicew", e, a, self.expr())
                else:
                    e = ("idx", e, a)
                self.take("]")
            else:
                return e

    @staticmethod
    def casttype(t):
        bits, k = t.split("'")
        return ({"U": "u", "I": "i", "B": "b", "F": "f", "BF": "bf"}[k], int(bits))

    def primary(self):
        k, t = self.kind(), self.take()
        if k == "sized":
            bits, v = t.split("'")
            bits = int(bits)
            m = re.match(r"(0x[0-9a-fA-F]+|\d+\.\d+|\d+)([UILF]*)", v)
            if "." in m[1]:
                return ("fnum", float(m[1]), bits)
            return ("num", int(m[1], 0), "i" if "I" in m[2] else "u" if "U" in m[2] else "b", bits)
        if k == "num":
            if "." in t or (t.endswith("F") and not t.startswith("0x")):
                return ("fnum", float(t.rstrip("F")), 32 if t.endswith("F") else 64)
            m = re.match(r"(0x[0-9a-fA-F]+|\d+)(ULL|LL|U)?", t)
            v = int(m[1], 0)
            s = m[2] or ""
            bits = 64 if "LL" in s else 32
            if bits == 32 and v >> 32:
                bits = 64
            return ("num", v, "u" if "U" in s or (v >> 31 and bits == 32) else "i", bits)
        if k == "cast":
            ty = self.casttype(t)
            self.take("(")
            e = self.expr()
            self.take(")")
            return ("cast", ty, e)
        if k == "op" and t == "(":
            e = self.expr()
            self.take(")")
            return e
        if k == "op" and t == "{":
            l = [self.expr()]
            while self.opt(","):
                l.append(self.expr())
            self.take("}")
            return ("cat", l)
        if k == "id" and t not in _KW:
            if self.opt("("):
                a = []
                if not self.opt(")"):
                    a.append(self.expr())
                    while self.opt(","):
                        a.append(self.expr())
                    self.take(")")
                return ("call", t, a)
            return ("var", t)
        raise PcodeError(f"unexpected {t!r}")


@functools.lru_cache(None)
def parse(text):
    """syntax tree of a pseudocode text; PcodeError when it is prose or uses something outside the language"""
    return _Parser(text).program()
