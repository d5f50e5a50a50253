// Calls attention kernels of CK Tile. The units under test give CKDISP_PROBES, the names of their
// tables of probes. A problem is that of the kernel's key with dense tensors (batch, head, row),
// but for what a command says: pairs of a name and a number, and a dot.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "ck_tile_calls.hpp"
#include "ck_tile_fmha_probe_table.hpp"

using namespace ckdisp;

#define DECLARE(name) extern "C" const Probe name[];
#define USE(name) name,
CKDISP_PROBES(DECLARE)
static const Probe* const kTables[] = {CKDISP_PROBES(USE)};

namespace {

struct Call {
  FmhaProblemData p{};
  FmhaArgs a;
  std::int64_t device = 0, at = 0x10000;
  std::int64_t lengths_of_k = 0;  // whether sequences of K have lengths of their own
  std::int64_t no_q = 0;          // whether there is no Q
};

struct Name {
  const char* text;
  std::int64_t FmhaProblemData::* size;
};
constexpr Name kSizes[] = {{"batch", &FmhaProblemData::batch},
                           {"nhead_q", &FmhaProblemData::nhead_q},
                           {"nhead_k", &FmhaProblemData::nhead_k},
                           {"hdim_q", &FmhaProblemData::hdim_q},
                           {"hdim_v", &FmhaProblemData::hdim_v},
                           {"seqlen_q", &FmhaProblemData::seqlen_q},
                           {"seqlen_k", &FmhaProblemData::seqlen_k},
                           {"window_left", &FmhaProblemData::window_left},
                           {"window_right", &FmhaProblemData::window_right},
                           {"sink", &FmhaProblemData::sink},
                           {"page_size", &FmhaProblemData::page_size},
                           {"num_pages", &FmhaProblemData::num_pages},
                           {"pages_per_seq", &FmhaProblemData::pages_per_seq},
                           {"cache_batches", &FmhaProblemData::cache_batches},
                           {"seqlen_new", &FmhaProblemData::seqlen_new},
                           {"num_splits", &FmhaProblemData::num_splits}};

FmhaStrides dense(const FmhaProblemData& p, std::int64_t heads, std::int64_t rows,
                  std::int64_t width) {
  const bool group = p.mode == FmhaMode::group;
  return {group ? 0 : heads * rows * width, rows * width, width};
}

void set_strides(FmhaProblemData* p) {
  const bool group = p->mode == FmhaMode::group;
  p->total_q = p->batch * p->seqlen_q;
  p->total_k = p->batch * p->seqlen_k;
  const std::int64_t rows_q = group ? p->total_q : p->seqlen_q,
                     rows_k = group ? p->total_k : p->seqlen_k;
  p->q = p->dq = dense(*p, p->nhead_q, rows_q, p->hdim_q);
  p->o = p->d_o = dense(*p, p->nhead_q, rows_q, p->hdim_v);
  p->k = p->dk = dense(*p, p->nhead_k, rows_k, p->hdim_q);
  p->v = p->dv = dense(*p, p->nhead_k, rows_k, p->hdim_v);
  p->k_new = dense(*p, p->nhead_k, p->seqlen_new, p->hdim_q);
  p->v_new = dense(*p, p->nhead_k, p->seqlen_new, p->hdim_v);
  if (p->paged_kv) {
    p->k = {p->nhead_k * p->page_size * p->hdim_q, p->page_size * p->hdim_q, p->hdim_q};
    p->v = {p->nhead_k * p->page_size * p->hdim_v, p->page_size * p->hdim_v, p->hdim_v};
  }
  p->bias = p->dbias = p->randval = dense(*p, p->nhead_q, rows_q, p->seqlen_k);
  p->lse = {group ? 0 : p->nhead_q * rows_q, rows_q, 1};
}

FmhaProblemData problem_of(const FmhaKey& key) {
  FmhaProblemData p{};
  p.batch = p.nhead_q = p.nhead_k = 1;
  p.hdim_q = key.hdim_q;
  p.hdim_v = key.hdim_v;
  p.seqlen_q = p.seqlen_k = 128;
  p.window_left = p.window_right = -1;
  p.num_splits = 1;
  p.family = key.family;
  p.dtype = key.dtype;
  p.mode = key.mode;
  p.vlayout = key.vlayout;
  p.mask = key.mask;
  p.bias_kind = key.bias;
  p.qscale = key.qscale;
  p.rope = key.rope;
  p.kv_memory_layout = key.kv_memory_layout;
  p.kv_lookup_table = key.kv_lookup_table;
  p.lse_out = key.lse;
  p.dropout = key.dropout;
  p.store_randval = key.store_randval;
  p.logits = key.logits;
  p.skip_min_seqlen_q = key.skip_min_seqlen_q;
  p.paged_kv = key.paged_kv;
  p.dbias_out = key.dbias;
  p.deterministic = key.deterministic;
  return p;
}

Call read_call(const FmhaKey& key) {
  Call call;
  FmhaProblemData& p = call.p = problem_of(key);
  std::int64_t stride_q = 0, stride_dk = 0;
  char name[32];
  std::int64_t value = 0;
  while (std::scanf("%31s", name) == 1 && std::strcmp(name, ".") != 0) {
    if (std::scanf("%" SCNd64, &value) != 1) std::exit(2);
    const auto is = [&](const char* text) { return std::strcmp(name, text) == 0; };
    bool known = true;
    if (is("mask")) {
      p.mask = static_cast<FmhaMask>(value);
    } else if (is("window_bottom_right")) {
      p.window_bottom_right = value != 0;
    } else if (is("dtype")) {
      p.dtype = static_cast<FmhaDtype>(value);
    } else if (is("mode")) {
      p.mode = static_cast<FmhaMode>(value);
    } else if (is("bias")) {
      p.bias_kind = static_cast<FmhaBias>(value);
    } else if (is("lse")) {
      p.lse_out = value != 0;
    } else if (is("dropout")) {
      p.dropout = value != 0;
    } else if (is("stride_q")) {
      stride_q = value;
    } else if (is("stride_dk")) {
      stride_dk = value;
    } else if (is("no_q")) {
      call.no_q = value;
    } else if (is("device")) {
      call.device = value;
    } else if (is("at")) {
      call.at = value;
    } else if (is("lengths_of_k")) {
      call.lengths_of_k = value;
    } else {
      known = false;
      for (const Name& size : kSizes) {
        if (is(size.text)) {
          p.*size.size = value;
          known = true;
        }
      }
    }
    if (!known) std::exit(5);
  }
  set_strides(&p);
  if (stride_q != 0) p.q.row = stride_q;
  if (stride_dk != 0) p.dk = {p.seqlen_k * stride_dk, p.hdim_q, stride_dk};
  return call;
}

// Tensors at known places, in the order of FmhaArgs; nobody reads or writes what is there.
void place(Call* call, void* memory) {
  std::int64_t next = call->at;
  const auto at = [&] {
    const auto place = reinterpret_cast<void*>(next);
    next += 0x1000;
    return place;
  };
  FmhaArgs& a = call->a;
  a.q = at();
  if (call->no_q != 0) a.q = nullptr;
  a.k = at();
  a.v = at();
  a.o = at();
  a.bias = at();
  a.lse = static_cast<float*>(at());
  a.randval = at();
  a.alibi_slopes = static_cast<const float*>(at());
  if (call->p.mode == FmhaMode::group) {
    a.seqstart_q = static_cast<const std::int32_t*>(at());
    a.seqstart_k = static_cast<const std::int32_t*>(at());
  }
  if (call->lengths_of_k != 0) a.seqlen_k = static_cast<const std::int32_t*>(at());
  if (call->p.cache_batches != 0) a.cache_batch_idx = static_cast<const std::int32_t*>(at());
  a.page_table = static_cast<const std::int32_t*>(at());
  a.page_indptr = static_cast<const std::int32_t*>(at());
  a.k_new = at();
  a.v_new = at();
  a.d_o = at();
  a.lse_acc = static_cast<float*>(at());
  a.o_acc = static_cast<float*>(at());
  a.delta = static_cast<float*>(at());
  // The emulated device zeroes these.
  a.dq_acc = static_cast<float*>(memory);
  a.dq = a.dk = a.dv = a.dbias = memory;
  a.scale = 0.5f;
  a.soft_cap = 30;
  a.dropout_p = 0.25f;
  a.seed = 7;
  a.offset = 11;
  a.min_seqlen_q = 77;
}

}  // namespace

int main() {
  constexpr std::size_t kMemory = std::size_t{1} << 26;
  void* const memory = std::aligned_alloc(64, kMemory);
  char command[32], name[300];
  while (std::scanf("%31s%299s", command, name) == 2) {
    const Probe* const probe = find_probe(kTables, name);
    if (probe == nullptr) return 3;
    const ckdisp_kernel& kernel = *probe->kernel;
    const auto is = [&](const char* text) { return std::strcmp(command, text) == 0; };
    Call call = read_call(*static_cast<const FmhaKey*>(kernel.key));
    Launch launch{};
    launch.device = static_cast<std::int32_t>(call.device);
    if (is("facts")) {
      std::printf("%d %s %s\n", probe->block_size, kernel.arch, kernel.provider);
    } else if (is("supports")) {
      std::printf("%s\n", supports(kernel, &call.p).c_str());
    } else if (is("cost")) {
      std::printf("%.9g\n", kernel.cost(&call.p, &launch));
    } else if (is("run")) {
      place(&call, memory);
      std::printf("%s\n", run_stages(kernel, &call.p, &call.a, memory, launch).c_str());
    } else {
      return 4;
    }
    std::fflush(stdout);
  }
  std::free(memory);
  return 0;
}
