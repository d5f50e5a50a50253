// Attention kernels of plain loops in double, for tests of everything around kernels: every family,
// in fp32 and in bf16, with the features that a call can have.
#include <ckdisp/abi.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

using namespace ckdisp;

namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

std::int64_t runs[9];  // of each family
FmhaProblemData last_problem;

struct Fp32 {
  static constexpr FmhaDtype dtype = FmhaDtype::fp32;
  static double get(const void* data, std::int64_t i) { return static_cast<const float*>(data)[i]; }
  static void set(void* data, std::int64_t i, double x) {
    static_cast<float*>(data)[i] = static_cast<float>(x);
  }
};
struct Bf16 {
  static constexpr FmhaDtype dtype = FmhaDtype::bf16;
  static double get(const void* data, std::int64_t i) {
    const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(data)[i]} << 16;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  static void set(void* data, std::int64_t i, double value) {
    const auto x = static_cast<float>(value);
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof x);
    bits += 0x7fff + (bits >> 16 & 1);
    static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(bits >> 16);
  }
};

// One sequence: where its rows are.
struct Sequence {
  std::int64_t b, first_q, first_k, rows, keys, batch_k;

  Sequence(const FmhaProblemData& p, const FmhaArgs& a, std::int64_t batch)
      : b(batch), first_q(0), first_k(0), rows(p.seqlen_q), keys(p.seqlen_k), batch_k(batch) {
    if (p.mode == FmhaMode::group) {
      first_q = a.seqstart_q[b];
      rows = a.seqstart_q[b + 1] - first_q;
      if (a.seqstart_k != nullptr) {
        first_k = p.paged_kv ? 0 : a.seqstart_k[b];
        keys = a.seqstart_k[b + 1] - a.seqstart_k[b];
      }
    }
    if (a.seqlen_k != nullptr) keys = a.seqlen_k[b];
    if (p.kv_lookup_table == FmhaKvLookup::sglang) {
      const std::int64_t pages = a.page_indptr[b + 1] - a.page_indptr[b];
      keys = pages == 0 ? 0 : (pages - 1) * p.page_size + a.last_page_len[b];
    }
    if (a.cache_batch_idx != nullptr) batch_k = a.cache_batch_idx[b];
  }
};

std::int64_t at(const FmhaStrides& s, std::int64_t b, std::int64_t h, std::int64_t row) {
  return b * s.batch + h * s.head + row * s.row;
}

template <class T>
struct Problem {
  const FmhaProblemData& p;
  const FmhaArgs& a;

  // Place of number c of key j, in K or in V.
  std::int64_t place(const FmhaStrides& s, const Sequence& q, std::int64_t head, std::int64_t j,
                     std::int64_t c, bool value) const {
    if (!p.paged_kv) {
      if (value && p.vlayout == Order::c) return at(s, q.batch_k, head, c) + q.first_k + j;
      return at(s, q.batch_k, head, q.first_k + j) + c;
    }
    const bool list = p.kv_lookup_table == FmhaKvLookup::sglang;
    const std::int64_t begin = list ? a.page_indptr[q.b] : q.b * p.pages_per_seq;
    const std::int64_t page = a.page_table[begin + j / p.page_size], row = j % p.page_size;
    if (p.kv_memory_layout != FmhaKvLayout::vectorized) return at(s, page, head, row) + c;
    constexpr std::int64_t x = T::dtype == FmhaDtype::fp32 ? 4 : 8;
    const std::int64_t size = value ? p.hdim_v : p.hdim_q;
    const std::int64_t base = page * s.batch + head * s.head;
    return value ? base + (row / x * size + c) * x + row % x
                 : base + (c / x * p.page_size + row) * x + c % x;
  }
  double k(const Sequence& q, std::int64_t h, std::int64_t j, std::int64_t c) const {
    return T::get(a.k, place(p.k, q, h / (p.nhead_q / p.nhead_k), j, c, false));
  }
  double v(const Sequence& q, std::int64_t h, std::int64_t j, std::int64_t c) const {
    return T::get(a.v, place(p.v, q, h / (p.nhead_q / p.nhead_k), j, c, true));
  }

  bool sees(const Sequence& q, std::int64_t i, std::int64_t j) const {
    if (p.mask == FmhaMask::no || j < p.sink) return true;
    const bool window = p.mask == FmhaMask::generic;
    const bool bottom = window ? p.window_bottom_right : p.mask == FmhaMask::bottom_right;
    const std::int64_t diagonal = i + (bottom ? q.keys - q.rows : 0);
    const std::int64_t left = window ? p.window_left : -1, right = window ? p.window_right : 0;
    return (left < 0 || j >= diagonal - left) && (right < 0 || j <= diagonal + right);
  }

  double score(const Sequence& q, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (!sees(q, i, j)) return kNothing;
    double sum = 0;
    for (std::int64_t c = 0; c < p.hdim_q; ++c) {
      sum += T::get(a.q, at(p.q, q.b, h, q.first_q + i) + c) * k(q, h, j, c);
    }
    sum *= a.scale;
    if (p.logits) sum = a.soft_cap * std::tanh(sum / a.soft_cap);
    if (p.bias_kind == FmhaBias::bias) {
      sum += T::get(a.bias, at(p.bias, q.b, h, q.first_q + i) + j);
    } else if (p.bias_kind == FmhaBias::alibi) {
      const double distance = static_cast<double>(i + q.keys - q.rows - j);
      sum -= a.alibi_slopes[q.b * p.alibi_batch + h] * std::fabs(distance);
    }
    return sum;
  }

  // The factor of a weight: 0 if it is dropped.
  double kept(const Sequence& q, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (!p.dropout) return 1;
    const auto byte = static_cast<std::uint8_t>(
        (a.seed * 31 + a.offset * 17 +
         static_cast<std::uint64_t>(q.b * 101 + h * 57 + i * 37 + j * 113)) *
            2654435761u >>
        13);
    if (p.store_randval && a.randval != nullptr) {
      static_cast<std::uint8_t*>(a.randval)[at(p.randval, q.b, h, q.first_q + i) + j] = byte;
    }
    return byte <= std::floor(255 * (1 - a.dropout_p)) ? 1 / (1 - double{a.dropout_p}) : 0;
  }

  // O and LSE of one row over the keys [begin, end).
  double row(const Sequence& q, std::int64_t h, std::int64_t i, std::int64_t begin,
             std::int64_t end, std::vector<double>& o) const {
    o.assign(static_cast<std::size_t>(p.hdim_v), 0);
    double most = kNothing, sum = 0;
    for (std::int64_t j = begin; j < end; ++j) most = std::fmax(most, score(q, h, i, j));
    for (std::int64_t j = begin; j < end; ++j) {
      const double keep = kept(q, h, i, j);
      const double weight = most == kNothing ? 0 : std::exp(score(q, h, i, j) - most);
      sum += weight;
      for (std::int64_t c = 0; c < p.hdim_v && weight > 0; ++c) {
        o[static_cast<std::size_t>(c)] += weight * keep * v(q, h, j, c);
      }
    }
    if (sum == 0) return kNothing;
    for (double& x : o) x /= sum;
    return most + std::log(sum);
  }

  template <class F>
  void each_row(const F& f) const {
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const Sequence q(p, a, b);
      for (std::int64_t h = 0; h < p.nhead_q; ++h) {
        for (std::int64_t i = 0; i < q.rows; ++i) f(q, h, i);
      }
    }
  }

  void store(const Sequence& q, std::int64_t h, std::int64_t i, const std::vector<double>& o,
             double lse) const {
    for (std::int64_t c = 0; c < p.hdim_v; ++c) {
      T::set(a.o, at(p.o, q.b, h, q.first_q + i) + c, o[static_cast<std::size_t>(c)]);
    }
    if (p.lse_out) a.lse[at(p.lse, q.b, h, q.first_q + i)] = static_cast<float>(lse);
  }

  void forward() const {
    std::vector<double> o;
    each_row([&](const Sequence& q, std::int64_t h, std::int64_t i) {
      const double lse = row(q, h, i, 0, q.keys, o);
      store(q, h, i, o, lse);
    });
  }

  std::int64_t part(std::int64_t s, const Sequence& q, std::int64_t h, std::int64_t i) const {
    return ((s * p.batch + q.b) * p.nhead_q + h) * p.seqlen_q + i;
  }

  void split() const {
    std::vector<double> o;
    each_row([&](const Sequence& q, std::int64_t h, std::int64_t i) {
      for (std::int64_t s = 0; s < p.num_splits; ++s) {
        const std::int64_t place = part(s, q, h, i);
        a.lse_acc[place] = static_cast<float>(
            row(q, h, i, q.keys * s / p.num_splits, q.keys * (s + 1) / p.num_splits, o));
        for (std::int64_t c = 0; c < p.hdim_v; ++c) {
          a.o_acc[place * p.hdim_v + c] = static_cast<float>(o[static_cast<std::size_t>(c)]);
        }
      }
    });
  }

  void combine() const {
    each_row([&](const Sequence& q, std::int64_t h, std::int64_t i) {
      std::vector<double> o(static_cast<std::size_t>(p.hdim_v), 0);
      double most = kNothing, sum = 0;
      for (std::int64_t s = 0; s < p.num_splits; ++s) {
        most = std::fmax(most, double{a.lse_acc[part(s, q, h, i)]});
      }
      for (std::int64_t s = 0; s < p.num_splits && most != kNothing; ++s) {
        const std::int64_t place = part(s, q, h, i);
        const double weight = std::exp(a.lse_acc[place] - most);
        sum += weight;
        for (std::int64_t c = 0; c < p.hdim_v; ++c) {
          o[static_cast<std::size_t>(c)] += weight * a.o_acc[place * p.hdim_v + c];
        }
      }
      for (double& x : o) x /= sum > 0 ? sum : 1;
      store(q, h, i, o, sum > 0 ? most + std::log(sum) : kNothing);
    });
  }

  void row_sums() const {
    each_row([&](const Sequence& q, std::int64_t h, std::int64_t i) {
      double sum = 0;
      for (std::int64_t c = 0; c < p.hdim_v; ++c) {
        sum += T::get(a.d_o, at(p.d_o, q.b, h, q.first_q + i) + c) *
               T::get(a.o, at(p.o, q.b, h, q.first_q + i) + c);
      }
      a.delta[at(p.lse, q.b, h, q.first_q + i)] = static_cast<float>(sum);
    });
  }

  void gradients() const {
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const Sequence q(p, a, b);
      for (std::int64_t head = 0; head < p.nhead_k; ++head) gradients_of(q, head);
    }
  }

  // Of one head of K, and of the heads of Q that it serves.
  void gradients_of(const Sequence& q, std::int64_t head) const {
    const auto size = [](std::int64_t a, std::int64_t b) {
      return static_cast<std::size_t>(a * b);
    };
    std::vector<double> dk(size(q.keys, p.hdim_q)), dv(size(q.keys, p.hdim_v));
    const std::int64_t each = p.nhead_q / p.nhead_k;
    for (std::int64_t h = head * each; h < (head + 1) * each; ++h) {
      for (std::int64_t i = 0; i < q.rows; ++i) {
        const std::int64_t at_row = q.first_q + i;
        std::vector<double> dq(size(1, p.hdim_q));
        const double lse = a.lse[at(p.lse, q.b, h, at_row)];
        const double delta = a.delta[at(p.lse, q.b, h, at_row)];
        for (std::int64_t j = 0; j < q.keys; ++j) {
          const double s = score(q, h, i, j), keep = kept(q, h, i, j);
          const double weight = s == kNothing ? 0 : std::exp(s - lse);
          double dp = 0;
          for (std::int64_t c = 0; c < p.hdim_v; ++c) {
            const double g = T::get(a.d_o, at(p.d_o, q.b, h, at_row) + c);
            dp += g * v(q, h, j, c);
            dv[size(j, p.hdim_v) + static_cast<std::size_t>(c)] += weight * keep * g;
          }
          double ds = weight * (keep * dp - delta);
          if (p.logits && weight > 0) ds *= 1 - s * s / (double{a.soft_cap} * a.soft_cap);
          if (p.dbias_out) T::set(a.dbias, at(p.dbias, q.b, h, at_row) + j, ds);
          for (std::int64_t c = 0; c < p.hdim_q; ++c) {
            dq[static_cast<std::size_t>(c)] += a.scale * ds * k(q, h, j, c);
            dk[size(j, p.hdim_q) + static_cast<std::size_t>(c)] +=
                a.scale * ds * T::get(a.q, at(p.q, q.b, h, at_row) + c);
          }
        }
        for (std::int64_t c = 0; c < p.hdim_q; ++c) {
          const double x = dq[static_cast<std::size_t>(c)];
          if (a.dq_acc != nullptr) {
            a.dq_acc[part(0, q, h, i) * p.hdim_q + c] = static_cast<float>(x);
          } else {
            T::set(a.dq, at(p.dq, q.b, h, at_row) + c, x);
          }
        }
      }
    }
    for (std::int64_t j = 0; j < q.keys; ++j) {
      for (std::int64_t c = 0; c < p.hdim_q; ++c) {
        T::set(a.dk, at(p.dk, q.b, head, q.first_k + j) + c,
               dk[size(j, p.hdim_q) + static_cast<std::size_t>(c)]);
      }
      for (std::int64_t c = 0; c < p.hdim_v; ++c) {
        T::set(a.dv, at(p.dv, q.b, head, q.first_k + j) + c,
               dv[size(j, p.hdim_v) + static_cast<std::size_t>(c)]);
      }
    }
  }

  void convert() const {
    each_row([&](const Sequence& q, std::int64_t h, std::int64_t i) {
      for (std::int64_t c = 0; c < p.hdim_q; ++c) {
        T::set(a.dq, at(p.dq, q.b, h, q.first_q + i) + c,
               a.dq_acc[part(0, q, h, i) * p.hdim_q + c]);
      }
    });
  }

  // The number c of a row at `position`, rotated.
  template <class Row>
  double rotated(const Row& x, std::int64_t c, std::int64_t position) const {
    const std::int64_t half = p.rotary_dim / 2;
    if (p.rope == FmhaRope::none || c >= p.rotary_dim) return x(c);
    const bool pairs = p.rope == FmhaRope::interleaved;
    const std::int64_t angle = pairs ? c / 2 : c % half;
    const bool second = pairs ? c % 2 != 0 : c >= half;
    const std::int64_t other = pairs ? (c ^ 1) : (second ? c - half : c + half);
    const double cos = T::get(a.rotary_cos, position * half + angle);
    const double sin = T::get(a.rotary_sin, position * half + angle);
    return x(c) * cos + x(other) * (second ? sin : -sin);
  }

  void append() const {
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const Sequence q(p, a, b);
      const std::int64_t used = a.seqlen_k != nullptr ? a.seqlen_k[b] : p.seqlen_k - p.seqlen_new;
      for (std::int64_t h = 0; h < p.nhead_k; ++h) {
        for (std::int64_t i = 0; i < p.seqlen_new; ++i) {
          const auto key = [&](std::int64_t c) {
            return T::get(a.k_new, at(p.k_new, b, h, i) + c);
          };
          for (std::int64_t c = 0; c < p.hdim_q; ++c) {
            T::set(const_cast<void*>(a.k), place(p.k, q, h, used + i, c, false),
                   rotated(key, c, used + i));
          }
          for (std::int64_t c = 0; c < p.hdim_v; ++c) {
            T::set(const_cast<void*>(a.v), place(p.v, q, h, used + i, c, true),
                   T::get(a.v_new, at(p.v_new, b, h, i) + c));
          }
        }
      }
      rotate_queries(b, used);
    }
  }

  void rotate_queries(std::int64_t b, std::int64_t used) const {
    if (p.rope == FmhaRope::none || a.q == nullptr) return;
    for (std::int64_t h = 0; h < p.nhead_q; ++h) {
      for (std::int64_t i = 0; i < p.seqlen_q; ++i) {
        std::vector<double> row;
        const std::int64_t place = at(p.q, b, h, i);
        const auto query = [&](std::int64_t c) { return T::get(a.q, place + c); };
        const std::int64_t position = used + (p.mask == FmhaMask::no ? 0 : i);
        for (std::int64_t c = 0; c < p.hdim_q; ++c) row.push_back(rotated(query, c, position));
        for (std::int64_t c = 0; c < p.hdim_q; ++c) {
          T::set(const_cast<void*>(a.q), place + c, row[static_cast<std::size_t>(c)]);
        }
      }
    }
  }
};

template <class T, Family F>
struct Naive {
  static constexpr FmhaKey make_key() {
    FmhaKey key{};
    key.family = F;
    key.arch = Arch::generic;
    key.dtype = T::dtype;
    key.mode = FmhaMode::any;
    key.mask = FmhaMask::any;
    key.bias = FmhaBias::any;
    key.rope = FmhaRope::any;
    key.lse = key.dropout = key.store_randval = key.logits = key.sink = true;
    key.skip_min_seqlen_q = key.paged_kv = key.dbias = key.deterministic = true;
    key.tile[0] = key.tile[1] = 1;
    for (int& padding : key.padding) padding = 1;
    key.pipeline = FmhaPipeline::online;
    key.num_wave_groups = 1;
    return key;
  }
  static constexpr FmhaKey key = make_key();

  static bool supports(const void* data, Refusal* refusal) {
    const auto& p = *static_cast<const FmhaProblemData*>(data);
    if (p.num_splits <= 128) return true;
    return refuse(refusal, Reason::splits, "sums at most 128 parts, not %lld",
                  static_cast<long long>(p.num_splits));
  }
  static double cost(const void*, const Launch*) { return 1; }
  static std::uint64_t workspace(const void*, const Launch*) { return 0; }

  static bool run(const void* data, const void* arguments, void*, const Launch*, Refusal*) {
    const Problem<T> problem{*static_cast<const FmhaProblemData*>(data),
                             *static_cast<const FmhaArgs*>(arguments)};
    ++runs[static_cast<int>(F) - static_cast<int>(Family::fmha_fwd)];
    last_problem = problem.p;
    switch (F) {
      case Family::fmha_splitkv:
        problem.split();
        break;
      case Family::fmha_splitkv_combine:
        problem.combine();
        break;
      case Family::fmha_appendkv:
        problem.append();
        break;
      case Family::fmha_bwd_dot_do_o:
        problem.row_sums();
        break;
      case Family::fmha_bwd_dq_dk_dv:
        problem.gradients();
        break;
      case Family::fmha_bwd_convert_dq:
        problem.convert();
        break;
      default:
        problem.forward();
    }
    return true;
  }
};

char names[18][64];
ckdisp_kernel kernels[18];
const ckdisp_kernel* pointers[18];
ckdisp_library library;

template <class T, Family F>
void add() {
  using K = Naive<T, F>;
  const auto i = library.kernel_count++;
  const char* family = EnumNames<Family>::values[static_cast<std::size_t>(F)];
  const char* dtype = EnumNames<FmhaDtype>::values[static_cast<std::size_t>(T::dtype)];
  std::snprintf(names[i], sizeof names[i], "naive_%s_%s", family, dtype);
  kernels[i] = {sizeof(ckdisp_kernel), Op::fmha,    names[i], "generic",    "cpu", &K::key,
                sizeof(FmhaKey),       K::supports, K::cost,  K::workspace, K::run};
  pointers[i] = &kernels[i];
}

template <class T>
void add_all() {
  add<T, Family::fmha_fwd>();
  add<T, Family::fmha_splitkv>();
#ifndef NAIVE_FMHA_WITHOUT_COMBINE
  add<T, Family::fmha_splitkv_combine>();
#endif
  add<T, Family::fmha_pagedkv>();
  add<T, Family::fmha_appendkv>();
  add<T, Family::fmha_batch_prefill>();
  add<T, Family::fmha_bwd_dot_do_o>();
  add<T, Family::fmha_bwd_dq_dk_dv>();
  add<T, Family::fmha_bwd_convert_dq>();
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const ckdisp_library* ckdisp_kernel_library() {
  if (library.magic == 0) {
    add_all<Fp32>();
    add_all<Bf16>();
    library.magic = kAbiMagic;
    library.abi_version = kAbiVersion;
    library.size = sizeof library;
    library.schema_hash = kSchemaHash;
    library.kernels = pointers;
    library.name = "naive_fmha";
    library.build_info = "{\"made\": \"by hand\"}";
  }
  return &library;
}

// How often each family ran, then the number of parts of the last call.
__attribute__((visibility("default"))) void naive_fmha_runs(std::int64_t* out) {
  std::memcpy(out, runs, sizeof runs);
  out[9] = last_problem.num_splits;
}

}  // extern "C"
