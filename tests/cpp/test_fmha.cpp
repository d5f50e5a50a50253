// Attention in the runtime: the builder, what is refused, and which kernels are for which problems.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "check.hpp"
#include "mock.hpp"

using namespace ckdisp;

namespace {

FmhaProblem example(Family family = Family::fmha_fwd) {
  return FmhaProblem(family).batch(2).heads(4, 2).head_dim(128).lengths(96, 160).dtype(
      FmhaDtype::fp16);
}

void fills_in_defaults() {
  const FmhaProblemData p = example().mask(FmhaMask::bottom_right).lse().data();
  validate(p);
  CHECK(p.total_q == 2 * 96 && p.total_k == 2 * 160 && p.mode == FmhaMode::batch);
  CHECK(p.q.batch == 4 * 96 * 128 && p.q.head == 96 * 128 && p.q.row == 128);
  CHECK(p.k.batch == 2 * 160 * 128 && p.lse.batch == 4 * 96 && p.lse.head == 96 && p.lse.row == 1);
  CHECK(p.bias.batch == 0 && p.randval.head == 0 && p.dq.row == 0);
  CHECK(to_string(p) ==
        "fmha.fwd batch 2 heads 4:2 lengths 96:160 head_dim 128:128 fp16 bottom_right lse");
  // Row i sees 65 + i keys.
  CHECK(flops(p) == 2.0 * 2 * 4 * (96 * 65 + 96 * 95 / 2) * 256);
  CHECK(bytes(p) == 2.0 * 2 * 128 * (2 * 4 * 96 + 2 * 2 * 160) + 4.0 * 2 * 4 * 96);
  const FmhaProblemData other = example().layout(FmhaLayout::bshd).data();
  CHECK(other.q.batch == 96 * 4 * 128 && other.q.head == 128 && other.q.row == 4 * 128);
  const FmhaProblemData group = example().group(150, 300).bias(FmhaBias::bias).data();
  CHECK(group.q.batch == 0 && group.q.head == 150 * 128 && group.bias.head == 150 * 160);
  const FmhaProblemData pages =
      example(Family::fmha_pagedkv).layout(FmhaLayout::bshd).pages(16, 40, 10).data();
  CHECK(pages.k.batch == 16 * 2 * 128 && pages.k.head == 128 && pages.k.row == 256);
  const FmhaProblemData vectors = example(Family::fmha_batch_prefill)
                                      .layout(FmhaLayout::bshd)
                                      .pages(16, 40, 10)
                                      .kv_cache(FmhaKvLayout::vectorized, FmhaKvLookup::vllm)
                                      .data();
  CHECK(vectors.k.batch == 2 * 16 * 128 && vectors.k.head == 16 * 128);
  CHECK(example().vlayout(Order::c).data().v.row == 160);
}

void windows_become_what_they_are() {
  const auto mask_of = [](std::int64_t left, std::int64_t right) {
    return example().window(left, right, FmhaMask::top_left).data().mask;
  };
  CHECK(mask_of(-1, -1) == FmhaMask::no && mask_of(-1, 0) == FmhaMask::top_left);
  CHECK(mask_of(0, -1) == FmhaMask::generic && mask_of(3, 4) == FmhaMask::generic);
  const FmhaProblemData p = example().window(3, 4).data();
  CHECK(p.window_left == 3 && p.window_right == 4 && p.window_bottom_right);
  CHECK(to_string(p).find("window 3:4 bottom_right") != std::string::npos);
  // A problem is the same however it was said.
  const FmhaProblemData a = example().window(-1, 0).data();
  const FmhaProblemData b = example().window(3, 4).mask(FmhaMask::bottom_right).data();
  CHECK(std::memcmp(&a, &b, sizeof a) == 0);
  CHECK_THROWS(example().window(1, 1, FmhaMask::no), InvalidArgument, "top_left or bottom_right");
}

void refuses_problems() {
  const auto refused = [](const FmhaProblem& problem, const char* words) {
    CHECK_THROWS(validate(problem.data()), InvalidArgument, words);
  };
  refused(example().heads(4, 3), "the 4 heads of q are no multiple of the 3 of k and v");
  refused(example().heads(4, 0), "the number of heads of k and v is 0");
  refused(example().batch(-1), "the batch is -1");
  refused(example().head_dim(0), "the head dimension of q and k is 0");
  refused(example().lengths(-1, 2), "the length of sequences of q is -1");
  refused(example().lengths(std::int64_t{1} << 40, std::int64_t{1} << 40), "overflow 63 bits");
  refused(example().window(-2, 3), "the window (-2, 3) is inverted");
  refused(example().soft_cap().alibi(), "a soft cap and a bias exclude each other: alibi");
  refused(example().soft_cap().bias(FmhaBias::bias), "a soft cap and a bias exclude each other");
  refused(example().sink(4), "there is no mask");
  refused(example().mask(FmhaMask::top_left).sink(-4), "the number of sink keys is -4");
  refused(example().dropout(false, true), "there is no dropout that draws them");
  refused(example().qscale(FmhaQscale::pertensor), "qscale is for 8-bit numbers, not fp16");
  refused(example().dtype(FmhaDtype::mxfp8), "mxfp8 needs a scale for each few numbers");
  refused(example().mask(FmhaMask::any), "'any' is for the keys of kernels");
  refused(example(Family::conv_fwd), "the family of an attention is conv.fwd");
  refused(example(Family::fmha_bwd_dq_dk_dv).dtype(FmhaDtype::fp8), "no backward pass in fp8");
  refused(example(Family::fmha_bwd_dq_dk_dv).dbias(), "there is no bias tensor");
  refused(example(Family::fmha_splitkv).dropout(), "has no dropout; leave that out");
  refused(example().deterministic(), "fmha.fwd, the forward pass, has no");
  refused(example(Family::fmha_pagedkv), "reads pages, and none are given");
  refused(example(Family::fmha_pagedkv).pages(16, 40, 9), "need more than the 9 pages of 16 keys");
  refused(example(Family::fmha_pagedkv).pages(0, 40, 9), "the page size is 0");
  refused(example(Family::fmha_batch_prefill).pages(16, 40, 10), "is of sequences of many lengths");
  refused(example(Family::fmha_batch_prefill).pages(16, 40, 10).group(96, 160),
          "says how pages lie");
  refused(example(Family::fmha_appendkv).append(161),
          "161 rows are appended to a cache that holds");
  refused(example(Family::fmha_appendkv).append(1).rope(FmhaRope::interleaved, 130),
          "rotary_dim is 130; pass an even number from 2");
  refused(example(Family::fmha_splitkv).splits(-1), "the number of splits is -1");
  refused(example().group(95, 400), "the longest sequence of q has 96 rows, more than the 95");
  FmhaProblemData loose = example().data();
  loose.o.row = 100;
  CHECK_THROWS(validate(loose), InvalidArgument, "its rows of 128 numbers are only 100 apart");
  loose = example().data();
  loose.q.row = 100;  // read twice, which harms nobody
  validate(loose);
  loose.k.head = -1;
  CHECK_THROWS(validate(loose), InvalidArgument, "k has a negative stride");
}

// Memory for one call of any family, each tensor its own part.
std::vector<char> memory(std::size_t{16} << 20);
std::int32_t starts_q[] = {0, 90, 186}, starts_k[] = {0, 160, 300}, lengths[] = {100, 160};

FmhaArgs arguments() {
  FmhaArgs args;
  const auto part = [](int i) { return &memory[static_cast<std::size_t>(i) << 20]; };
  args.q = part(0), args.k = part(1), args.v = part(2), args.o = part(3);
  args.lse = reinterpret_cast<float*>(part(4));
  args.d_o = part(5), args.dq = part(6), args.dk = part(7), args.dv = part(8);
  args.bias = part(9);
  args.seqstart_q = starts_q;
  args.seqstart_k = starts_k;
  args.scale = 0.125f;
  return args;
}

template <class Change>
void refused(const FmhaProblem& problem, const Change& change, const char* words) {
  FmhaArgs args = arguments();
  validate(problem.data(), args);
  change(args);
  CHECK_THROWS(validate(problem.data(), args), InvalidArgument, words);
}

void refuses_arguments() {
  const FmhaProblem plain = example().lse();
  refused(plain, [](FmhaArgs& a) { a.k = nullptr; }, "k is null but not empty");
  refused(plain, [](FmhaArgs& a) { a.o = const_cast<void*>(a.q); }, "o shares memory with q");
  refused(plain, [](FmhaArgs& a) { a.scale = std::nanf(""); }, "scale is nan");
  refused(plain, [](FmhaArgs& a) { a.lse = static_cast<float*>(a.o); }, "lse shares memory with o");
  FmhaArgs args = arguments();
  args.dropout_p = 1;
  validate(plain.data(), args);  // not read
  for (const float bad : {1.0f, -0.1f, std::nanf("")}) {
    CHECK_THROWS(validate(
                     example().dropout().data(), args =
                                                     [&] {
                                                       FmhaArgs with = arguments();
                                                       with.dropout_p = bad;
                                                       return with;
                                                     }()),
                 InvalidArgument, "dropout_p is ");
  }
  args = arguments();
  args.soft_cap = 0;
  CHECK_THROWS(validate(example().soft_cap().data(), args), InvalidArgument, "the soft cap is 0");
  CHECK_THROWS(validate(example().alibi().data(), args), InvalidArgument, "alibi_slopes is null");
  CHECK_THROWS(validate(example().skip_min_seqlen_q().data()), InvalidArgument,
               "in mode batch all have one length");
  args.min_seqlen_q = -1;
  CHECK_THROWS(validate(example().group(186, 300).skip_min_seqlen_q().data(), args),
               InvalidArgument, "min_seqlen_q is -1");
  const FmhaProblem backward = example(Family::fmha_bwd_dq_dk_dv);
  refused(
      backward, [](FmhaArgs& a) { a.lse = nullptr; }, "lse is missing: the backward pass reads");
  refused(backward, [](FmhaArgs& a) { a.dq = a.dk; }, "shares memory with");
}

void refuses_indices() {
  const FmhaProblem group = example().lengths(96, 160).group(186, 300);
  const auto with = [](std::int32_t* place, std::int32_t value, const FmhaProblem& problem,
                       const char* words) {
    const std::int32_t before = *place;
    *place = value;
    const FmhaArgs args = arguments();
    CHECK_THROWS(validate(problem.data(), args), InvalidArgument, words);
    validate(problem.data(), args, false);  // memory that is not the CPU's is not read
    *place = before;
  };
  validate(group.data(), arguments());
  with(&starts_q[0], 1, group, "the first rows of q begin with 1");
  with(&starts_q[1], 187, group,
       "the first rows of q hold 187 at [1], past the end of the 186 rows");
  with(&starts_q[2], 80, group, "the first rows of q hold 80 at [2] and 90 before it");
  with(&starts_q[1], 89, group, "sequence 1 has 97 rows, and the longest is said to have 96");
  with(&starts_k[2], 301, group, "the first rows of k hold 301 at [2], past the end");
  std::vector<std::int32_t> table(2 * 10, 39);
  FmhaArgs args = arguments();
  args.page_table = table.data();
  args.seqlen_k = lengths;
  args.seqstart_k = nullptr;
  const FmhaProblem paged = example(Family::fmha_pagedkv).pages(16, 40, 10);
  validate(paged.data(), args);
  table[9] = 40;  // sequence 0 uses only 7 of its pages
  validate(paged.data(), args);
  table[6] = -1;
  CHECK_THROWS(validate(paged.data(), args), InvalidArgument,
               "page_table[0, 6] is page -1, and there are 40 pages");
  lengths[1] = 161;
  CHECK_THROWS(validate(paged.data(), args), InvalidArgument,
               "the lengths of k hold 161 at [1], more than the 160");
  lengths[1] = 160;
  args = arguments();
  args.seqlen_k = lengths;
  validate(group.data(), args, false);
  CHECK_THROWS(validate(group.data(), args), InvalidArgument,
               "the lengths of k hold 160 at [1], more than the 140 rows there is room for");
}

void refuses_batches_of_a_cache() {
  std::int32_t chosen[] = {4, 2};
  FmhaArgs args = arguments();
  args.cache_batch_idx = chosen;
  const FmhaProblem cache = example().cache_batches(5);
  validate(cache.data(), args);
  CHECK(to_string(cache.data()).find(" cache_batches 5") != std::string::npos);
  CHECK_THROWS(validate(example().data(), args), InvalidArgument,
               "cache_batch_idx[0] is 4, and k and v have 2 batches");
  chosen[1] = 5;
  CHECK_THROWS(validate(cache.data(), args), InvalidArgument,
               "cache_batch_idx[1] is 5, and k and v have 5 batches");
  validate(cache.data(), args, false);
  chosen[1] = -1;
  CHECK_THROWS(validate(cache.data(), args), InvalidArgument, "cache_batch_idx[1] is -1");
  args.cache_batch_idx = nullptr;
  CHECK_THROWS(validate(cache.data(), args), InvalidArgument, "cache_batch_idx is null");
  // A result that lies in a batch of the cache that no batch of Q has the number of.
  args.cache_batch_idx = chosen;
  args.o = static_cast<char*>(const_cast<void*>(args.k)) + 3 * 2 * 160 * 128 * 2;
  CHECK_THROWS(validate(cache.data(), args), InvalidArgument, "o shares memory with k");
  CHECK_THROWS(validate(example().group(186, 300).cache_batches(5).data()), InvalidArgument,
               "there are none in mode group");
  CHECK_THROWS(validate(example().cache_batches(-1).data()), InvalidArgument,
               "the number of batches of the cache is -1");
  CHECK_THROWS(validate(example(Family::fmha_bwd_dq_dk_dv).cache_batches(1).data()),
               InvalidArgument, "fmha.bwd_dq_dk_dv has those of q");
  // Nor where only the pointer is set: nothing there says how many batches there are.
  args = arguments();
  args.cache_batch_idx = chosen;
  const FmhaProblem group = example().lengths(96, 160).group(186, 300);
  CHECK_THROWS(validate(group.data(), args), InvalidArgument, "there are none in mode group");
  CHECK_THROWS(validate(example(Family::fmha_bwd_dq_dk_dv).data(), args, false), InvalidArgument,
               "fmha.bwd_dq_dk_dv has those of q");
  CHECK_THROWS(validate(example(Family::fmha_splitkv).pages(16, 40, 10).data(), args, false),
               InvalidArgument, "there are none with pages");
  std::int32_t twice[] = {3, 3}, used[] = {9, 9};
  args = arguments();
  args.cache_batch_idx = twice, args.seqlen_k = used;
  args.k_new = args.d_o, args.v_new = args.bias;
  const FmhaProblem append = example(Family::fmha_appendkv).cache_batches(4).append(1);
  CHECK_THROWS(validate(append.data(), args), InvalidArgument,
               "cache_batch_idx[1] is 3 like one before it");
  twice[0] = 0;
  validate(append.data(), args);
}

// Q, K and V are often one tensor, (batch, row, which, head, number).
void interleaved_tensors_do_not_overlap() {
  FmhaProblemData p = example(Family::fmha_bwd_dq_dk_dv).heads(4).lengths(96, 96).data();
  FmhaArgs args = arguments();
  char* base = static_cast<char*>(args.dq);
  for (FmhaStrides* s : {&p.dq, &p.dk, &p.dv}) *s = {96 * 3 * 512, 128, 3 * 512};
  args.dk = base + 512 * 2;
  args.dv = base + 2 * 512 * 2;
  validate(p, args);
  args.dv = base + 2 * 512 * 2 - 2;
  CHECK_THROWS(validate(p, args), InvalidArgument, "dv shares memory with dk");
}

bool serves(const FmhaKey& key, const FmhaProblem& problem, Reason reason = Reason::none,
            const std::string& words = "") {
  DispatcherOptions options;
  options.arches = {to_name(key.arch)};
  const Dispatcher dispatcher(mock::registry({mock::kernel<0>("kernel", key)}), options);
  const Candidate found = dispatcher.explain(problem)[0];
  if (!found.supported && (found.reason != reason || found.text.find(words) == std::string::npos)) {
    std::fprintf(stderr, "[%s] %s\n", to_name(found.reason), found.text.c_str());
    std::exit(1);
  }
  return found.supported;
}

void cpu_kernels_serve_all_that_they_can() {
  FmhaKey key = mock::default_fmha_key();
  for (const FmhaMask mask : {FmhaMask::no, FmhaMask::top_left, FmhaMask::bottom_right}) {
    CHECK(serves(key, example().mask(mask)));
  }
  CHECK(serves(key, example().window(3, 4).sink(2).lse()));
  CHECK(serves(key, example().alibi().dropout(true, true)));
  CHECK(serves(key, example().group(150, 200).soft_cap().head_dim(40, 72)));
  CHECK(serves(key, example().vlayout(Order::c)));
  key.dropout = false;
  CHECK(serves(key, example()));
  CHECK(!serves(key, example().dropout(), Reason::feature, "is made without dropout"));
  CHECK(
      !serves(key, example().dtype(FmhaDtype::bf16), Reason::dtype, "computes in fp16, not bf16"));
  CHECK(!serves(key, example(Family::fmha_splitkv), Reason::family, "computes fmha.fwd, not"));
}

void gpu_kernels_do_exactly_what_they_say() {
  FmhaKey key = mock::default_fmha_key(Family::fmha_fwd, Arch::gfx942);
  CHECK(serves(key, example()));
  CHECK(!serves(key, example().lse(), Reason::feature, "is made without LSE"));
  CHECK(!serves(key, example().alibi(), Reason::bias, "has bias no, not alibi"));
  CHECK(!serves(key, example().group(100, 200), Reason::mode, "has mode batch, not group"));
  CHECK(
      !serves(key, example().mask(FmhaMask::top_left), Reason::mask, "has mask no, not top_left"));
  CHECK(!serves(key, example().vlayout(Order::c), Reason::layout, "has vlayout r, not c"));
  key.lse = key.dropout = true;
  CHECK(serves(key, example().lse().dropout()));
  CHECK(serves(key, example().lse().dropout(true, true)));  // stored if a call asks for it
  CHECK(!serves(key, example().lse(), Reason::feature, "is made for dropout, which the call does"));
}

void masks_of_gpu_kernels() {
  FmhaKey key = mock::default_fmha_key(Family::fmha_fwd, Arch::gfx942);
  const FmhaProblem triangles[] = {example().mask(FmhaMask::top_left),
                                   example().mask(FmhaMask::bottom_right)};
  const FmhaProblem window = example().window(3, 4);
  key.mask = FmhaMask::top_left;  // one form of triangle
  for (const FmhaProblem& problem : triangles) CHECK(serves(key, problem));
  CHECK(!serves(key, window, Reason::mask, "has mask top_left, not generic"));
  CHECK(!serves(key, example(), Reason::mask, "has mask top_left, not no"));
  key.mask = FmhaMask::generic;
  for (const bool simplified : {false, true}) {
    key.simplified_mask = simplified;
    CHECK(serves(key, window) && serves(key, triangles[0]) && serves(key, triangles[1]));
    CHECK(serves(key, example()));
  }
  key.mask = FmhaMask::no;
  CHECK(serves(key, example()));
  CHECK(!serves(key, window, Reason::mask, "has mask no, not generic"));
}

void head_dimensions_and_lengths() {
  FmhaKey key = mock::default_fmha_key(Family::fmha_fwd, Arch::gfx942);
  CHECK(serves(key, example().head_dim(120, 100)));
  CHECK(!serves(key, example().head_dim(256), Reason::head_dim, "takes hdim_q up to 128, not 256"));
  key.padding[2] = key.padding[3] = 0;
  CHECK(serves(key, example()));
  CHECK(!serves(key, example().head_dim(120, 128), Reason::head_dim, "takes hdim_q 128, not 120"));
  key.padding[0] = key.padding[1] = 0;
  CHECK(serves(key, example().lengths(64, 128)));
  CHECK(!serves(key, example().lengths(64, 100), Reason::pad, "lengths of k in multiples of 64"));
  key.mode = FmhaMode::group;
  CHECK(!serves(key, example().lengths(64, 64).group(128, 128), Reason::pad,
                "does not pad q, whose lengths vary in mode group"));
  FmhaKey backward = mock::default_fmha_key(Family::fmha_bwd_dq_dk_dv, Arch::gfx942);
  backward.padding[0] = backward.padding[1] = 0;  // it takes any lengths
  backward.padding[2] = backward.padding[3] = 8;
  const FmhaProblem gradients = example(Family::fmha_bwd_dq_dk_dv).lengths(3, 5);
  CHECK(serves(backward, FmhaProblem(gradients).head_dim(104, 128)));
  CHECK(!serves(backward, FmhaProblem(gradients).head_dim(100, 128), Reason::head_dim,
                "takes hdim_q in multiples of 8, not 100"));
  backward.max_seq_len_q = 2;
  CHECK(!serves(backward, gradients, Reason::shape, "takes sequences of q up to 2, not 3"));
}

void says_what_is_missing() {
  const Dispatcher dispatcher(
      mock::registry({mock::kernel<0>("fwd", mock::default_fmha_key()), mock::kernel<1>("gemm")}));
  CHECK(dispatcher.explain(example()).size() == 1);  // a GEMM is no candidate
  CHECK_THROWS(dispatcher.select(example().dtype(FmhaDtype::bf16)), KernelNotFound,
               "ckdisp generate fmha.fwd --arch");
  CHECK_THROWS(dispatcher.select(example(Family::fmha_splitkv)), KernelNotFound, "fmha.splitkv");
  DispatcherOptions options;
  options.arches = {"gfx942"};
  const Dispatcher planned(mock::registry({mock::kernel<0>(
                               "gpu", mock::default_fmha_key(Family::fmha_fwd, Arch::gfx942))}),
                           options);
  CHECK_THROWS(planned.select(example().lse()), KernelNotFound,
               "for these inputs it has one that is made without LSE. Build one: ckdisp generate "
               "fmha.fwd --arch gfx942 --where dtype=fp16 --where hdim_q=128 --where hdim_v=128 "
               "--where mode=batch --where mask=no --where bias=no --where lse=true");
  CHECK_THROWS(planned.select(example().head_dim(256)), UnsupportedProblem,
               "gpu: [head_dim] takes hdim_q up to 128, not 256");
  CHECK_THROWS(planned.run(example(), arguments()), DeviceError, "gpu");
}

void lists_attention_kernels() {
  FmhaKey key = mock::default_fmha_key();
  key.tile[2] = 0;
  const Registry registry = mock::registry({mock::kernel<0>("gemm"), mock::kernel<1>("fwd", key)});
  CHECK(registry.kernels(Filter().op(Op::fmha)).size() == 1);
  CHECK(registry.kernels(Filter().where("mask", "any")).size() == 1);
  CHECK(registry.find(key)->name() == std::string("fwd"));
  CHECK(registry.find("fwd")->field("tile") == "64x64");
  CHECK(registry.find("fwd")->field("wave") == "");
  CHECK(registry.find("fwd")->field("padding") == "1x1x1x1");
  CHECK(registry.to_json().find("\"tile\": [64, 64]") != std::string::npos);
}

}  // namespace

int main() {
  fills_in_defaults();
  windows_become_what_they_are();
  refuses_problems();
  refuses_arguments();
  refuses_indices();
  refuses_batches_of_a_cache();
  interleaved_tensors_do_not_overlap();
  cpu_kernels_serve_all_that_they_can();
  gpu_kernels_do_exactly_what_they_say();
  masks_of_gpu_kernels();
  head_dimensions_and_lengths();
  says_what_is_missing();
  lists_attention_kernels();
  std::puts("ok");
}
