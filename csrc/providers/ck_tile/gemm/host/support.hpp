// Which problems a GEMM kernel takes. CK's own check has the last word, but it does not say why,
// and lets pass what its index arithmetic or its loops cannot do; so the reasons are found first.
#pragma once

#include "../../../signature.hpp"
#include "../../host/parts.hpp"
#include "ck_check.hpp"

namespace ckdisp::tile {

// The parts of a split K, as CK's kernels cut it: in steps of the warp tile, the last part is what
// is left.
template <class Key>
struct Parts {
  static constexpr const GemmKey& key = Key::key;
  std::int64_t whole, last;  // K of every part but the last, and of the last

  Parts(std::int64_t k, std::int64_t count) {
    whole = ceil_div(k, count * key.warp[2]) * key.warp[2];
    last = k - whole * (count - 1);
  }
  static index_t loops(std::int64_t k) { return static_cast<index_t>(ceil_div(k, key.tile[2])); }
  Variant variant(bool atomic) const { return Variants<Key>::for_loops(loops(whole), atomic); }
  bool share_a_variant() const {
    return Variants<Key>::for_loops(loops(last), true) == variant(true);
  }
};

template <GemmUnit Key>
struct Support<Key> {
  using Check = CkCheck<Key>;
  static constexpr const GemmKey& key = Key::key;
  static constexpr bool a_rows = a_is_row_major(key.layout);
  static constexpr bool b_rows = b_is_row_major(key.layout);
  static constexpr bool is_preshuffle = key.family == Family::gemm_preshuffle;
  static constexpr std::int64_t tile_m = key.tile[0], tile_n = key.tile[1], tile_k = key.tile[2];
  // CK's indices and byte offsets are of 32 bits.
  static constexpr std::int64_t largest = 0x7fffffff;

  static bool supports(const GemmProblemData& p, Refusal* refusal) {
    if (!has_types_of(key, p, refusal) || !has_operation_of(key, p, refusal) ||
        !sizes_fit(p, refusal)) {
      return false;
    }
    if (p.m == 0 || p.n == 0) return true;
    if (p.k == 0) {
      return refuse(refusal, Reason::shape, "K is 0, the kernel needs at least 1");
    }
    if (!lines_fit(p, refusal)) return false;
    const Sizes s = sizes_of(p);
    return splits(p, refusal) && pads(p, refusal) && aligned(s, refusal) && reachable(s, refusal) &&
           ck_accepts(s, refusal);
  }

  // Of a problem that passed sizes_fit() and lines_fit().
  static Sizes sizes_of(const GemmProblemData& p) {
    Sizes s{};
    s.m = static_cast<index_t>(p.m);
    s.n = static_cast<index_t>(p.n);
    s.k = static_cast<index_t>(p.k);
    s.k_batch = p.k_batch;
    s.lda = a_rows ? leading(p.lda, p.k, p.m, Check::vector_a)
                   : leading(p.lda, p.m, p.k, Check::vector_a);
    s.ldb = b_rows ? leading(p.ldb, p.n, p.k, Check::vector_b)
                   : leading(p.ldb, p.k, p.n, Check::vector_b);
    s.ldc = leading(p.ldc, p.n, p.m, Check::vector_c);
    for (int i = 0; i < key.num_d; ++i) s.ldd[i] = static_cast<index_t>(p.ldd[i]);
    return s;
  }

 private:
  static index_t leading(std::int64_t ld, std::int64_t line, std::int64_t lines, index_t vector) {
    return static_cast<index_t>(lines > 1 ? ld : round_up(line, vector));
  }

  static bool sizes_fit(const GemmProblemData& p, Refusal* refusal) {
    const struct {
      const char* name;
      std::int64_t size;
    } rows[] = {{"M", p.m}, {"N", p.n}, {"K", p.k}};
    // Rounding up to a tile must not leave the range either.
    constexpr std::int64_t most = largest - 4096;
    for (const auto& row : rows) {
      if (row.size < 0 || row.size > most) {
        return refuse(refusal, Reason::shape, "%s is %lld, it must be between 0 and %lld", row.name,
                      static_cast<long long>(row.size), static_cast<long long>(most));
      }
    }
    return true;
  }

  static bool lines_fit(const GemmProblemData& p, Refusal* refusal) {
    if (!line_fits("lda", p.lda, a_rows ? p.k : p.m, a_rows ? p.m : p.k, refusal) ||
        !ldb_fits(p, refusal) || !line_fits("ldc", p.ldc, p.n, p.m, refusal)) {
      return false;
    }
    for (int i = 0; i < key.num_d; ++i) {
      const char name[] = {'l', 'd', 'd', static_cast<char>('0' + i), '\0'};
      if (p.ldd[i] != 0 && !line_fits(name, p.ldd[i], p.n, p.m, refusal)) return false;
    }
    return true;
  }

  static bool ldb_fits(const GemmProblemData& p, Refusal* refusal) {
    if constexpr (is_preshuffle) {
      if (p.n > 1 && p.ldb != p.k) {
        return refuse(refusal, Reason::leading_dimension,
                      "ldb is %lld, the shuffled B is dense: ldb must be K, %lld",
                      static_cast<long long>(p.ldb), static_cast<long long>(p.k));
      }
      return true;
    } else {
      return line_fits("ldb", p.ldb, b_rows ? p.n : p.k, b_rows ? p.k : p.n, refusal);
    }
  }

  static bool line_fits(const char* name, std::int64_t ld, std::int64_t line, std::int64_t lines,
                        Refusal* refusal) {
    if (lines > 1 && ld < line) {
      return refuse(refusal, Reason::leading_dimension, "%s is %lld, it must be at least %lld",
                    name, static_cast<long long>(ld), static_cast<long long>(line));
    }
    if (lines > 1 && ld > largest) {
      return refuse(refusal, Reason::shape, "%s is %lld, the kernel's indices end at %lld", name,
                    static_cast<long long>(ld), static_cast<long long>(largest));
    }
    return true;
  }

  static bool splits(const GemmProblemData& p, Refusal* refusal) {
    const int count = p.k_batch;
    if (count == 1) return true;
    if (count < 1) {
      return refuse(refusal, Reason::split_k, "K is to be split into %d parts, at least 1 is",
                    count);
    }
    if (!key.split_k) {
      return refuse(refusal, Reason::split_k,
                    "K is to be split into %d parts, the kernel was built without split_k", count);
    }
    constexpr int most = 65535;  // blocks in the grid's third dimension
    if (count > most) {
      return refuse(refusal, Reason::split_k, "K is to be split into %d parts, at most %d are",
                    count, most);
    }
    const Parts<Key> parts(p.k, count);
    if (parts.last <= 0) {
      return refuse(refusal, Reason::split_k,
                    "K is %lld, in %d parts of %lld (multiples of the warp tile's %d) nothing is "
                    "left for the last one",
                    static_cast<long long>(p.k), count, static_cast<long long>(parts.whole),
                    static_cast<int>(key.warp[2]));
    }
    if (!parts.share_a_variant()) {
      return refuse(refusal, Reason::split_k,
                    "K is %lld, its parts of %lld and the last of %lld need different loop tails, "
                    "and one launch has only one",
                    static_cast<long long>(p.k), static_cast<long long>(parts.whole),
                    static_cast<long long>(parts.last));
    }
    return true;
  }

  static bool multiple(const char* name, std::int64_t size, std::int64_t tile, bool pads,
                       Refusal* refusal) {
    if (pads || size % tile == 0) return true;
    return refuse(refusal, Reason::pad,
                  "%s is %lld, not a multiple of %lld, and the kernel does not pad it", name,
                  static_cast<long long>(size), static_cast<long long>(tile));
  }

  static bool pads(const GemmProblemData& p, Refusal* refusal) {
    if constexpr (is_preshuffle) {  // blocks of the shuffled B are whole
      return multiple("K", p.k, tile_k, false, refusal) &&
             multiple("N", p.n, tile_n, false, refusal);
    }
    // Only the contiguous side of a matrix needs padding: what lies behind the last row or column
    // is outside the buffer, where loads give 0 and stores do nothing.
    const bool k_inside = a_rows || !b_rows;
    if (k_inside && !key.pad_k && !loops_end(p, refusal)) return false;
    return (!k_inside || multiple("K", p.k, tile_k * p.k_batch, key.pad_k, refusal)) &&
           (a_rows || multiple("M", p.m, tile_m, key.pad_m, refusal)) &&
           multiple("N", p.n, tile_n, key.pad_n, refusal);
  }

  // For these numbers of tiles along K, CK's loops multiply more tiles than there are: compv6 three
  // for one, compv4 and compasync five for three. The rest are zeros where K is padded, and else
  // whatever lies behind. CK's check does not ask.
  static constexpr index_t kOverrun = key.pipeline == Pipeline::compv6      ? 1
                                      : key.pipeline == Pipeline::compv4    ? 3
                                      : key.pipeline == Pipeline::compasync ? 3
                                                                            : 0;
  static bool loops_end(const GemmProblemData& p, Refusal* refusal) {
    const index_t loops = Parts<Key>::loops(Parts<Key>(p.k, p.k_batch).last);
    if (loops != kOverrun) return true;
    return refuse(refusal, Reason::pad,
                  "K is %lld in %d part(s), each of %d tile(s): for so many the loop of %s reads "
                  "beyond K, and the kernel does not pad it",
                  static_cast<long long>(p.k), static_cast<int>(p.k_batch), static_cast<int>(loops),
                  name_of(key.pipeline));
  }

  static bool whole_vectors(const char* what, std::int64_t size, index_t vector, const char* matrix,
                            Refusal* refusal) {
    if (size % vector == 0) return true;
    return refuse(refusal, Reason::alignment,
                  "%s is %lld, not a multiple of %d, the width of the kernel's accesses to %s",
                  what, static_cast<long long>(size), static_cast<int>(vector), matrix);
  }

  static bool aligned(const Sizes& s, Refusal* refusal) {
    constexpr index_t va = Check::vector_a, vb = Check::vector_b, vc = Check::vector_c;
    if (!whole_vectors(a_rows ? "K" : "M", a_rows ? s.k : s.m, va, "A", refusal) ||
        !whole_vectors("lda", s.lda, va, "A", refusal) ||
        !whole_vectors(b_rows ? "N" : "K", b_rows ? s.n : s.k, vb, "B", refusal) ||
        !whole_vectors("ldb", s.ldb, vb, "B", refusal) ||
        !whole_vectors("N", s.n, vc, "C", refusal) ||
        !whole_vectors("ldc", s.ldc, vc, "C", refusal)) {
      return false;
    }
    for (int i = 0; i < key.num_d; ++i) {
      const char name[] = {'l', 'd', 'd', static_cast<char>('0' + i), '\0'};
      if (!whole_vectors("N", s.n, Check::vector_d(), "D", refusal) ||
          !whole_vectors(name, s.ldd[i], Check::vector_d(), "D", refusal)) {
        return false;
      }
    }
    return true;
  }

  // Bytes from the start of a matrix to the end of its last tile, which may reach beyond it.
  static bool span_fits(const char* name, std::int64_t lines, std::int64_t ld, std::int64_t line,
                        std::size_t size, Refusal* refusal) {
    const std::int64_t last = (lines - 1) * ld;  // both below 2^31
    if (last > largest || (last + line) * static_cast<std::int64_t>(size) > largest) {
      return refuse(refusal, Reason::shape,
                    "%s spans %lld lines of %lld elements up to the end of its last tile, more "
                    "than the 2 GiB that the kernel's offsets reach",
                    name, static_cast<long long>(lines), static_cast<long long>(ld));
    }
    return true;
  }

  static bool reachable(const Sizes& s, Refusal* refusal) {
    const std::int64_t m = round_up(s.m, tile_m), n = round_up(s.n, tile_n);
    const std::int64_t k = round_up(s.k, tile_k) + tile_k * s.k_batch;
    constexpr std::size_t size_a = sizeof(Element<key.dtype_a>),
                          size_b = sizeof(Element<key.dtype_b>),
                          size_c = sizeof(Element<key.dtype_c>),
                          size_d = sizeof(Element<key.dtype_d>);
    if (!span_fits("A", a_rows ? m : k, s.lda, a_rows ? k : m, size_a, refusal) ||
        !span_fits("B", b_rows ? k : n, s.ldb, b_rows ? n : k, size_b, refusal) ||
        !span_fits("C", m, s.ldc, n, size_c, refusal)) {
      return false;
    }
    for (int i = 0; i < key.num_d; ++i) {
      if (!span_fits("D", m, s.ldd[i], n, size_d, refusal)) return false;
    }
    const std::int64_t tiles = m / tile_m * (n / tile_n);
    constexpr std::int64_t most = 0xffffffff / Kernel<Key>::block_size;  // threads in a dimension
    if (tiles * (key.persistent ? s.k_batch : 1) > std::min(most, largest)) {
      return refuse(refusal, Reason::shape, "C has %lld tiles, more than one launch can hold",
                    static_cast<long long>(tiles));
    }
    return true;
  }

  static bool ck_accepts(const Sizes& s, Refusal* refusal) {
    if (Check::accepts(s)) return true;
    return refuse(refusal, Reason::provider,
                  "CK Tile's own check of the arguments refuses M %d, N %d, K %d in %d part(s)",
                  static_cast<int>(s.m), static_cast<int>(s.n), static_cast<int>(s.k),
                  static_cast<int>(s.k_batch));
  }
};

}  // namespace ckdisp::tile
