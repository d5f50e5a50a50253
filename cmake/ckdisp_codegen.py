"""Run the generator that lies in a folder: ``ckdisp_codegen.py FOLDER ARGUMENT...``.

CMake uses this in the source tree, below a Python package and below an install prefix alike. The
package is loaded under a private name, so whatever else is importable cannot get in the way.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

_NAME = "_ckdisp_codegen"


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0])
    sys.dont_write_bytecode = True  # the folder may be shared, read-only or under version control
    spec = importlib.util.spec_from_file_location(
        _NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None or not (folder / "__init__.py").is_file():
        print(f"error: {folder} holds no ckdisp generator; reinstall ckdisp", file=sys.stderr)
        return 2
    package = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = package
    spec.loader.exec_module(package)
    status: int = importlib.import_module(f"{_NAME}.__main__").main(arguments[1:])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
