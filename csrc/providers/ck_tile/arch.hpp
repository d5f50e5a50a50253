// Guards: a unit compiles only for the arch of its key, with that arch's flags.
#pragma once

#include <type_traits>

#include "ck.hpp"

namespace ckdisp::tile {

// Units by the op of their key.
template <class Unit, class Key>
inline constexpr bool has_key = std::is_same_v<std::remove_cvref_t<decltype(Unit::key)>, Key>;
template <class Unit>
concept GemmUnit = has_key<Unit, GemmKey>;
template <class Unit>
concept ConvUnit = has_key<Unit, ConvKey>;
template <class Unit>
concept FmhaUnit = has_key<Unit, FmhaKey>;

constexpr const ArchFacts& facts(Arch arch) { return kArches[static_cast<int>(arch)]; }

constexpr bool is_family(Arch arch, const char* family) {
  const char* name = facts(arch).family;
  while (*name != '\0' && *name == *family) ++name, ++family;
  return *name == *family;
}
constexpr bool is_rdna(Arch arch) { return is_family(arch, "rdna3") || is_family(arch, "rdna4"); }

// Threads of a block.
template <class Key>
constexpr int block_size_of(const Key& key) {
  return key.wave[0] * key.wave[1] * key.wave[2] * facts(key.arch).wave_size;
}

// The arch that a device pass compiles for.
#if defined(__HIP_DEVICE_COMPILE__)
inline constexpr Arch kDeviceArch =
#if defined(__gfx908__)
    Arch::gfx908;
#elif defined(__gfx90a__)
    Arch::gfx90a;
#elif defined(__gfx942__)
    Arch::gfx942;
#elif defined(__gfx950__)
    Arch::gfx950;
#elif defined(__gfx1100__)
    Arch::gfx1100;
#elif defined(__gfx1200__)
    Arch::gfx1200;
#elif defined(__gfx1201__)
    Arch::gfx1201;
#else
#error "ckdisp: the ck_tile provider does not know this --offload-arch"
#endif
#endif

// Whether this pass is for `arch`; a host pass serves any.
constexpr bool compiles_for([[maybe_unused]] Arch arch) {
#if defined(__HIP_DEVICE_COMPILE__)
  return arch == kDeviceArch;
#else
  return true;
#endif
}

template <class Key>
struct ArchGuard {
  static constexpr Arch arch = Key::key.arch;
  static_assert(Key::key.provider == Provider::ck_tile, "the key belongs to another provider");
  static_assert(compiles_for(arch),
                "the unit is compiled for another --offload-arch than the arch of its key");
  static_assert(CK_TILE_USE_WMMA == (is_rdna(arch) ? 1 : 0),
                "CK_TILE_USE_WMMA must be 1 on RDNA and 0 on CDNA, in both passes");
  static_assert(is_family(arch, "rdna3") ||
                    CK_TILE_USE_OCP_FP8 == (facts(arch).fp8 == Fp8::ocp ? 1 : 0),
                "CK_TILE_USE_OCP_FP8 must be 1 on gfx950 and RDNA 4, 0 on older CDNA, in both "
                "passes");
#if defined(CK_GFX950_SUPPORT)
  static_assert(arch == Arch::gfx950, "CK_GFX950_SUPPORT is for gfx950 only");
#else
  static_assert(arch != Arch::gfx950, "gfx950 needs -DCK_GFX950_SUPPORT");
#endif
  static constexpr bool checked = true;
};

}  // namespace ckdisp::tile
