#!/usr/bin/env -S python3 -IS
"""hipconfig: what build systems ask about the prefix this lies in."""

import os
import sys

PREFIX = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def version():
    with open(os.path.join(PREFIX, "share", "hip", "version"), encoding="utf-8") as file:
        return ".".join(line.strip().partition("=")[2] for line in file)


ANSWERS = {
    ("--version", "-v"): version,
    ("--path", "-p", "--rocmpath", "-R"): lambda: PREFIX,
    ("--hipclangpath", "-l"): lambda: os.path.realpath(os.path.join(PREFIX, "llvm", "bin")),
    ("--platform", "-P"): lambda: "amd",
    ("--compiler", "-c"): lambda: "clang",
    ("--runtime", "-r"): lambda: "rocclr",
    ("--cpp_config", "-C"): lambda: f" -D__HIP_PLATFORM_AMD__= -I{PREFIX}/include",
}


def main():
    for option in sys.argv[1:] or ["--version"]:
        for options, answer in ANSWERS.items():
            if option in options:
                print(answer())
                break
        else:
            sys.exit(f"hipconfig: unknown option {option}")


main()
