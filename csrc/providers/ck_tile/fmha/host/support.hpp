// Which attention problems a kernel takes. CK's attention kernels have no check of their own.
#pragma once

#include <initializer_list>

#include "../../host/parts.hpp"
#include "signature.hpp"

namespace ckdisp::tile {

template <FmhaUnit Key>
struct Support<Key> {
  static constexpr const FmhaKey& key = Key::key;
  static constexpr Family family = key.family;
  using Types = FmhaTypesOf<key.dtype>;
  static constexpr bool is_group = key.mode == FmhaMode::group;
  // Asynchronous copies to LDS take whole vectors even where they pad.
  static constexpr bool is_async =
      key.pipeline == FmhaPipeline::qr_async || key.pipeline == FmhaPipeline::qr_async_trload;
  static constexpr bool uses_q = family != Family::fmha_splitkv_combine &&
                                 family != Family::fmha_bwd_dot_do_o,
                        uses_v = family != Family::fmha_bwd_convert_dq;
  static constexpr std::int64_t most = 0x7fffffff;
  static constexpr std::int64_t vector = 16 / sizeof(typename Types::In);

  // Elements that a head dimension is a multiple of; 1 is any.
  static constexpr std::int64_t unit_of(int padding, std::int64_t hdim) {
    return padding == 0 ? hdim : padding == 8 || is_async ? vector : 1;
  }
  static constexpr std::int64_t unit_q = unit_of(key.padding[2], key.hdim_q),
                                unit_v = unit_of(key.padding[3], key.hdim_v);
  // Widths of the accesses to rows.
  static constexpr std::int64_t vector_q = unit_q == 1 ? 1 : vector,
                                vector_v = unit_v == 1 ? 1 : vector;

  static bool supports(const FmhaProblemData& p, Refusal* refusal) {
    return FmhaSignature<Key>::fits(p, refusal) && heads_fit(p, refusal) && sizes_fit(p, refusal) &&
           lengths_fit(p, refusal) && splits_fit(p, refusal) && pages_fit(p, refusal) &&
           alibi_fits(p, refusal) && window_fits(p, refusal) && batches_fit(p, refusal) &&
           strides_fit(p, refusal);
  }

  // Where sequences have lengths of their own, only the kernel knows where each of them ends.
  static bool alibi_of_many_lengths(const FmhaProblemData& p, Refusal* refusal) {
    const Window window = Window::of(p);
    return window.bottom_right || (window.left < 0 && window.right < 0) ||
           refuse(refusal, Reason::bias,
                  "mask %s starts at the top left and the distances of ALiBi at the bottom right: "
                  "CK Tile has both only where all sequences have one length",
                  name_of(p.mask));
  }

 private:
  static long long number(std::int64_t value) { return value; }

  static bool head_fits(const char* name, std::int64_t unit, std::int64_t largest,
                        std::int64_t size, Refusal* refusal) {
    if (size > 0 && size <= largest && size % unit == 0) return true;
    return refuse(refusal, Reason::head_dim,
                  "%s is %lld, the kernel takes multiples of %lld up to %lld", name, number(size),
                  number(unit), number(largest));
  }

  static bool heads_fit(const FmhaProblemData& p, Refusal* refusal) {
    if (p.nhead_k <= 0 || p.nhead_q % p.nhead_k != 0) {
      return refuse(refusal, Reason::shape, "%lld heads of K do not divide %lld heads of Q",
                    number(p.nhead_k), number(p.nhead_q));
    }
    if (family == Family::fmha_bwd_dq_dk_dv && p.nhead_q != p.nhead_k) {
      return refuse(refusal, Reason::feature,
                    "%lld heads of Q share %lld heads of K: CK Tile writes dK and dV for each head "
                    "of Q and sums none",
                    number(p.nhead_q), number(p.nhead_k));
    }
    return (!uses_q || head_fits("hdim_q", unit_q, key.hdim_q, p.hdim_q, refusal)) &&
           (!uses_v || head_fits("hdim_v", unit_v, key.hdim_v, p.hdim_v, refusal));
  }

  static bool size_fits(const char* name, std::int64_t size, std::int64_t largest,
                        Refusal* refusal) {
    if (size >= 0 && size <= largest) return true;
    return refuse(refusal, Reason::shape, "%s is %lld, the kernel takes 0 to %lld", name,
                  number(size), number(largest));
  }

  static bool sizes_fit(const FmhaProblemData& p, Refusal* refusal) {
    constexpr std::int64_t layers = 65535;  // blocks in the second and third dimension of a grid
    constexpr std::int64_t rows = most / 1024;  // rounding up to a tile stays in range
    return size_fits("the batch", p.batch, layers, refusal) &&
           size_fits("the number of heads of Q", p.nhead_q, layers, refusal) &&
           size_fits("seqlen_q", p.seqlen_q, rows, refusal) &&
           size_fits("seqlen_k", p.seqlen_k, rows, refusal) &&
           size_fits("the rows of Q in all", p.total_q, most, refusal) &&
           size_fits("the rows of K in all", p.total_k, most, refusal) &&
           size_fits("the number of pages", p.num_pages, most, refusal) &&
           size_fits("seqlen_new", p.seqlen_new, rows, refusal);
  }

  static bool length_fits(const char* name, int padding, std::int64_t tile, std::int64_t length,
                          Refusal* refusal) {
    if (padding != 0 || (!is_group && length % tile == 0)) return true;
    return refuse(refusal, Reason::pad,
                  "%s is %lld%s, the kernel takes multiples of %lld and does not pad", name,
                  number(length), is_group ? ", or less in some sequence" : "", number(tile));
  }

  static bool lengths_fit(const FmhaProblemData& p, Refusal* refusal) {
    if constexpr (family == Family::fmha_bwd_dq_dk_dv) {
      constexpr int longest = key.max_seq_len_q;
      return longest == 0 || p.seqlen_q <= longest ||
             refuse(refusal, Reason::shape, "seqlen_q is %lld, the kernel takes up to %d",
                    number(p.seqlen_q), longest);
    } else if constexpr (family == Family::fmha_splitkv_combine) {
      return true;  // it checks rows itself
    } else if constexpr (is_backward(family)) {
      return length_fits("seqlen_q", key.padding[0], key.tile[0], p.seqlen_q, refusal);
    } else if constexpr (family == Family::fmha_appendkv) {
      return length_fits("seqlen_q", key.padding[0], key.tile[0], p.seqlen_q, refusal) &&
             length_fits("seqlen_new", key.padding[1], key.tile[1], p.seqlen_new, refusal);
    } else {
      // A tile of keys with none in it must be masked, which only a kernel that pads does.
      return length_fits("seqlen_q", key.padding[0], key.tile[0], p.seqlen_q, refusal) &&
             (p.seqlen_k > 0 || key.padding[1] != 0 ||
              refuse(refusal, Reason::pad, "seqlen_k is 0, and the kernel does not pad")) &&
             length_fits("seqlen_k", key.padding[1], key.tile[1], p.seqlen_k, refusal);
    }
  }

  static bool splits_fit(const FmhaProblemData& p, Refusal* refusal) {
    std::int64_t largest = most;
    if constexpr (family == Family::fmha_splitkv) {
      largest = 1024;
    } else if constexpr (family == Family::fmha_splitkv_combine) {
      largest = FmhaOf<Key>::most_splits;
    } else {
      return true;
    }
    return (p.num_splits >= 1 && p.num_splits <= largest) ||
           refuse(refusal, Reason::splits,
                  "the keys are to be split into %lld parts, the kernel takes 1 to %lld",
                  number(p.num_splits), number(largest));
  }

  static bool pages_fit(const FmhaProblemData& p, Refusal* refusal) {
    if constexpr (!key.paged_kv) {
      return true;
    } else {
      if (key.page_size != 0 && p.page_size != key.page_size) {
        return refuse(refusal, Reason::pages, "a page has %lld rows, the kernel takes %d",
                      number(p.page_size), static_cast<int>(key.page_size));
      }
      // A tile of keys lies in one page.
      constexpr std::int64_t rows = family == Family::fmha_batch_prefill ? 1 : key.tile[1];
      return (p.page_size > 0 && p.page_size % rows == 0) ||
             refuse(refusal, Reason::pages,
                    "a page has %lld rows, the kernel takes multiples of its tile's %lld",
                    number(p.page_size), number(rows));
    }
  }

  // The distances of ALiBi end at the bottom right, and so must the window: see window_of().
  static bool alibi_fits(const FmhaProblemData& p, Refusal* refusal) {
    if (key.bias != FmhaBias::alibi) return true;
    // CK subtracts places as numbers of 16 bits, but for parts of the keys.
    constexpr std::int64_t longest = family == Family::fmha_splitkv ? most : 65536;
    if (p.seqlen_q > longest || p.seqlen_k > longest) {
      return refuse(refusal, Reason::bias,
                    "seqlen_q is %lld and seqlen_k %lld, the kernel computes the distances of "
                    "ALiBi up to %lld",
                    number(p.seqlen_q), number(p.seqlen_k), number(longest));
    }
    if (is_group || p.paged_kv) return alibi_of_many_lengths(p, refusal);
    const Window window = Window::of(p);
    return !window.is_before(p) ||
           refuse(refusal, Reason::bias,
                  "a side of the window ends before the diagonal of the distances of ALiBi, which "
                  "is %lld keys to the right of that of mask %s: CK Tile has no such windows",
                  number(p.seqlen_k - p.seqlen_q), name_of(p.mask));
  }

  // Batch prefill looks up pages from the first key on, wherever its window starts.
  static bool window_fits(const FmhaProblemData& p, Refusal* refusal) {
    if (family != Family::fmha_batch_prefill) return true;
    const Window window = Window::of(p);
    const std::int64_t last = (window.bottom_right ? p.seqlen_k : p.seqlen_q) - 1;
    return window.left < 0 || window.left >= last ||
           refuse(refusal, Reason::mask,
                  "the window starts %lld keys before the diagonal, and the kernel reads keys from "
                  "the first on",
                  number(window.left));
  }

  static bool batches_fit(const FmhaProblemData& p, Refusal* refusal) {
    return family != Family::fmha_fwd || p.cache_batches == 0 ||
           refuse(refusal, Reason::feature,
                  "cache_batch_idx chooses among %lld batches of K, and the kernel reads those "
                  "that Q has",
                  number(p.cache_batches));
  }

  // A tensor as far as offsets reach: rows of one head.
  struct Rows {
    const char* name;
    const FmhaStrides& strides;
    std::int64_t count, width, size;
  };

  static bool rows_fit(const Rows& t, Refusal* refusal) {
    for (const std::int64_t stride : {t.strides.batch, t.strides.head, t.strides.row}) {
      if (stride < 0 || stride > most) {
        return refuse(refusal, Reason::shape, "a stride of %s is %lld, the kernel takes 0 to %lld",
                      t.name, number(stride), number(most));
      }
      if (stride % t.width != 0) {
        return refuse(refusal, Reason::alignment,
                      "a stride of %s is %lld, not a multiple of %lld, the width of the kernel's "
                      "accesses",
                      t.name, number(stride), number(t.width));
      }
    }
    // Offsets within a head are of 32 bits, and so are those of the row behind the last.
    if (t.strides.row > 0 && t.count + 1 > most / t.size / t.strides.row) {
      return refuse(refusal, Reason::shape,
                    "%lld rows of %s at a distance of %lld elements span more than the 2 GiB that "
                    "the kernel's offsets reach",
                    number(t.count), t.name, number(t.strides.row));
    }
    return true;
  }

  static bool strides_fit(const FmhaProblemData& p, Refusal* refusal) {
    constexpr std::int64_t in = sizeof(typename Types::In), out = sizeof(typename Types::Out);
    const std::int64_t keys = key.paged_kv ? p.page_size : p.seqlen_k;
    const bool columns = key.vlayout == Order::c && !is_backward(family);
    const Rows v{"V", p.v, columns ? p.hdim_v : keys, columns ? 1 : vector_v, in};
    if constexpr (family == Family::fmha_splitkv_combine) {
      return handed_on_fits(p, p.hdim_v, refusal) &&
             rows_fit({"O", p.o, p.seqlen_q, 1, out}, refusal);
    } else if constexpr (family == Family::fmha_appendkv) {
      return rows_fit({"Q", p.q, p.seqlen_q, vector_q, in}, refusal) &&
             rows_fit({"K", p.k, keys, vector_q, in}, refusal) && rows_fit(v, refusal) &&
             rows_fit({"the new K", p.k_new, p.seqlen_new, vector_q, in}, refusal) &&
             rows_fit({"the new V", p.v_new, columns ? p.hdim_v : p.seqlen_new, v.width, in},
                      refusal);
    } else if constexpr (family == Family::fmha_bwd_dot_do_o) {
      return rows_fit({"O", p.o, p.seqlen_q, vector_v, in}, refusal) &&
             rows_fit({"dO", p.d_o, p.seqlen_q, vector_v, in}, refusal);
    } else if constexpr (family == Family::fmha_bwd_convert_dq) {
      return handed_on_fits(p, p.hdim_q, refusal) &&
             rows_fit({"dQ", p.dq, p.seqlen_q, vector_q, in}, refusal);
    } else {
      if (!rows_fit({"Q", p.q, p.seqlen_q, vector_q, in}, refusal) ||
          !rows_fit({"K", p.k, keys, vector_q, in}, refusal) || !rows_fit(v, refusal)) {
        return false;
      }
      if (key.bias == FmhaBias::bias &&
          !rows_fit({"the bias", p.bias, p.seqlen_q, 1, sizeof(typename Types::Bias)}, refusal)) {
        return false;
      }
      if constexpr (family == Family::fmha_splitkv) {
        return handed_on_fits(p, p.hdim_v, refusal);
      } else if constexpr (family == Family::fmha_bwd_dq_dk_dv) {
        return handed_on_fits(p, p.hdim_q, refusal) &&
               rows_fit({"dO", p.d_o, p.seqlen_q, vector_v, in}, refusal) &&
               rows_fit({"dK", p.dk, p.seqlen_k, vector_q, in}, refusal) &&
               rows_fit({"dV", p.dv, p.seqlen_k, vector_v, in}, refusal);
      } else {
        return rows_fit({"O", p.o, p.seqlen_q, vector_v, out}, refusal);
      }
    }
  }

  // What stages hand on: CK's distances between parts are of 32 bits.
  static bool handed_on_fits(const FmhaProblemData& p, std::int64_t hdim, Refusal* refusal) {
    const CkRows rows(p);
    return rows.split <= most / hdim ||
           refuse(refusal, Reason::shape,
                  "%lld rows of %lld numbers in a part are more than the 2 Gi numbers that the "
                  "kernel's offsets reach",
                  number(rows.split), number(hdim));
  }
};

}  // namespace ckdisp::tile
