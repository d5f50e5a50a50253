#!/usr/bin/env -S python3 -IS
"""hipcc: a small compiler driver in the manner of AMD's, over the clang of the system.

It marks C++ sources as HIP, adds the headers and device libraries of the prefix it lies in, and the
HIP runtime when it links. HIPCC_VERBOSE=1 prints the command. HIPCC_COMPILE_FLAGS_APPEND and
HIPCC_LINK_FLAGS_APPEND work as with AMD's. HIPCC_NO_RPATH=1 links without a path to the runtime.
"""

import os
import shlex
import sys

PREFIX = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
LLVM = os.path.realpath(os.environ.get("HIP_CLANG_PATH", os.path.join(PREFIX, "llvm", "bin")))
HIP_SOURCES = (".hip", ".cu", ".cpp", ".cxx", ".cc", ".C", ".c++")
NO_LINK = {"-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "-emit-pch", "--precompile"}
# Options whose value is the next word.
TAKE_VALUE = {
    *("-o", "-x", "-I", "-L", "-D", "-U", "-l", "-T", "-u", "-z", "-e", "-MF", "-MT", "-MQ"),
    *("-include", "-include-pch", "-isystem", "-iquote", "-idirafter", "-imacros", "-isysroot"),
    *("-Xclang", "-Xlinker", "-Xassembler", "-Xpreprocessor", "-Xarch_device", "-Xarch_host"),
    *("-Xoffload-linker", "-mllvm", "-target", "--target", "--param", "-aux-triple"),
}


def expand(words):
    """The words of the command line with those of response files in place."""
    for word in words:
        if word.startswith("@") and os.path.isfile(word[1:]):
            with open(word[1:], encoding="utf-8") as file:
                yield from expand(shlex.split(file.read()))
        else:
            yield word


def resource_folder():
    """The folder above clang's own headers, for HIP includes <include/cuda_wrappers/...>."""
    base = os.path.join(os.path.dirname(LLVM), "lib", "clang")
    for version in sorted(os.listdir(base)):
        folder = os.path.join(base, version)
        if os.path.isdir(os.path.join(folder, "include", "cuda_wrappers")):
            return folder
    sys.exit(f"hipcc: there are no headers of clang below {base}; install the package again")


def variable(name):
    return shlex.split(os.environ.get(name, ""))


def main():
    words = [*expand(sys.argv[1:]), *variable("HIPCC_COMPILE_FLAGS_APPEND")]
    body = []
    given = None  # the language that the caller's -x set
    current = "none"  # the one that holds in `body`
    is_hip = has_input = False
    rest = iter(words)
    for word in rest:
        if word in TAKE_VALUE:
            value = next(rest, None)
            if value is None:
                sys.exit(f"hipcc: {word} needs a value")
            if word == "-x":
                given = None if value == "none" else value
                current = value
            body += [word, value]
        elif word.startswith("-x"):
            given = None if word == "-xnone" else word[2:]
            current = word[2:]
            body.append(word)
        elif word.startswith("-") and word != "-":
            body.append(word)
        else:
            has_input = True
            language = given or ("hip" if word.endswith(HIP_SOURCES) else "none")
            is_hip |= language == "hip"
            if language != current:
                body += ["-x", language]
                current = language
            body.append(word)

    links = has_input and not NO_LINK.intersection(words)
    command = [os.path.join(LLVM, "clang++")]
    if has_input:
        # As system headers: HIP's in /usr/include, of an older package, must not win.
        command += ["-D__HIP_PLATFORM_AMD__", "-isystem", os.path.join(PREFIX, "include")]
    if is_hip:
        command += ["-isystem", resource_folder(), f"--rocm-path={PREFIX}"]
        if not any(word.startswith("-O") for word in words):
            command.append("-O3")
    command += body
    if links:
        library = os.path.join(PREFIX, "lib")
        command += [f"-L{library}", "-lamdhip64"]
        if "-fgpu-rdc" in words:
            command += ["--hip-link", f"--rocm-path={PREFIX}"]
        if not os.environ.get("HIPCC_NO_RPATH"):
            command.append(f"-Wl,-rpath,{library}")
        command += variable("HIPCC_LINK_FLAGS_APPEND")
    if os.environ.get("HIPCC_VERBOSE", "0") not in ("", "0"):
        print("hipcc-cmd:", shlex.join(command), file=sys.stderr)
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(f"hipcc: cannot run {command[0]}: {error.strerror}; install the toolchain again")


if __name__ == "__main__":
    main()
