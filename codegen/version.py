"""The version of ckdisp: read by packaging, written into manifests and libraries."""

VERSION = "0.1.0"
ABI_VERSION = 5  # kAbiVersion of ckdisp/abi.hpp; a test keeps the two equal
