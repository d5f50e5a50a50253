"""amdemu: runs AMD GPU code objects on the CPU. See README.md."""

from .codeobj import CodeObject
from .core import Emulator, MemoryFault, run
from .decode import Unsupported

__all__ = ["CodeObject", "Emulator", "MemoryFault", "Unsupported", "run"]
