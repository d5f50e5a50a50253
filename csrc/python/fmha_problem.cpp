#include <ckdisp/fmha_problem.hpp>

#include <nanobind/stl/string.h>

#include <ckdisp/names.hpp>

#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "bindings.hpp"
#include "fmha_call.hpp"
#include "fmha_resolver.hpp"

namespace ckdisp::python {
namespace {

using Problem = FmhaProblemData;
using Pair = std::pair<std::int64_t, std::int64_t>;

// One number for both, or two.
Pair both(const FmhaOptions& options, const char* name) {
  const nb::handle value = options[name];
  if (PyLong_Check(value.ptr()) != 0) {
    const std::int64_t number = options.integer(name, 0);
    return {number, number};
  }
  if (const auto pair = options.pair(name)) return *pair;
  options.refuse(name, "one integer or two");
}

void set_pages(FmhaProblem& builder, const FmhaOptions& options) {
  const nb::handle pages = options["pages"];
  if (pages.is_none()) return;
  if (PySequence_Check(pages.ptr()) == 0 || nb::len(pages) != 3) {
    options.refuse("pages", "(page size, number of pages, pages of a sequence)");
  }
  builder.pages(integer_from(nb::object(pages[0]), "pages"),
                integer_from(nb::object(pages[1]), "pages"),
                integer_from(nb::object(pages[2]), "pages"));
}

void make_problem(Problem* self, const std::string& family, const nb::kwargs& given) {
  constexpr const char* kKnown[] = {"batch",         "heads",
                                    "head_dim",      "lengths",
                                    "totals",        "dtype",
                                    "layout",        "vlayout",
                                    "mask",          "window",
                                    "sink",          "bias",
                                    "lse",           "dropout",
                                    "store_randval", "soft_cap",
                                    "qscale",        "skip_min_seqlen_q",
                                    "pages",         "kv_memory_layout",
                                    "kv_lookup",     "splits",
                                    "append",        "rope",
                                    "rotary_dim",    "deterministic",
                                    "dbias",         "cache_batches"};
  for (const auto& [name, value] : given) {
    detail::parse_name(nb::cast<std::string>(name), kKnown, std::size(kKnown), "argument");
  }
  const FmhaOptions options{nb::dict(given)};
  constexpr const char* kLayouts[] = {"bhsd", "bshd"};
  FmhaProblem builder(fmha_family_from(family));
  const auto [heads_q, heads_k] = both(options, "heads");
  const auto [d, dv] = both(options, "head_dim");
  const auto [rows, keys] = both(options, "lengths");
  builder.batch(options.integer("batch", 1)).heads(heads_q, heads_k).head_dim(d, dv);
  builder.lengths(rows, keys).dtype(options.choice("dtype", FmhaDtype::fp32));
  if (const auto totals = options.pair("totals")) builder.group(totals->first, totals->second);
  builder.layout(one_of(options, "layout", kLayouts, FmhaLayout::bhsd));
  set_mask(builder, options);
  set_pages(builder, options);
  builder.vlayout(options.choice("vlayout", Order::r))
      .bias(options.choice("bias", FmhaBias::no))
      .lse(options.flag("lse"))
      .dropout(options.flag("dropout"), options.flag("store_randval"))
      .soft_cap(options.flag("soft_cap"))
      .qscale(options.choice("qscale", FmhaQscale::no))
      .skip_min_seqlen_q(options.flag("skip_min_seqlen_q"))
      .kv_cache(options.choice("kv_memory_layout", FmhaKvLayout::none),
                options.choice("kv_lookup", FmhaKvLookup::none))
      .splits(options.integer("splits", 0))
      .append(options.integer("append", 0))
      .rope(options.choice("rope", FmhaRope::none), options.integer("rotary_dim", 0))
      .deterministic(options.flag("deterministic"))
      .dbias(options.flag("dbias"))
      .cache_batches(options.integer("cache_batches", 0));
  const Problem data = builder.data();
  validate(data);
  new (self) Problem(data);
}

nb::dict to_dict(const Problem& p) {
  nb::dict out;
  out["family"] = to_name(p.family);
  out["batch"] = p.batch;
  out["heads"] = nb::make_tuple(p.nhead_q, p.nhead_k);
  out["head_dim"] = nb::make_tuple(p.hdim_q, p.hdim_v);
  out["lengths"] = nb::make_tuple(p.seqlen_q, p.seqlen_k);
  out["mode"] = to_name(p.mode);
  out["totals"] = nb::make_tuple(p.total_q, p.total_k);
  out["dtype"] = to_name(p.dtype);
  out["vlayout"] = to_name(p.vlayout);
  out["mask"] = to_name(p.mask);
  out["window"] = nb::make_tuple(p.window_left, p.window_right);
  out["sink"] = p.sink;
  out["bias"] = to_name(p.bias_kind);
  out["lse"] = p.lse_out;
  out["dropout"] = p.dropout;
  out["store_randval"] = p.store_randval;
  out["soft_cap"] = p.logits;
  out["qscale"] = to_name(p.qscale);
  out["skip_min_seqlen_q"] = p.skip_min_seqlen_q;
  out["pages"] = nb::make_tuple(p.page_size, p.num_pages, p.pages_per_seq);
  out["kv_memory_layout"] = to_name(p.kv_memory_layout);
  out["kv_lookup"] = to_name(p.kv_lookup_table);
  out["cache_batches"] = p.cache_batches;
  out["splits"] = p.num_splits;
  out["append"] = p.seqlen_new;
  out["rope"] = to_name(p.rope);
  out["rotary_dim"] = p.rotary_dim;
  out["deterministic"] = p.deterministic;
  out["dbias"] = p.dbias_out;
  return out;
}

}  // namespace

void bind_fmha_problem(nb::module_& module) {
  nb::class_<Problem> type(module, "FmhaProblem", "What one attention computes, without data.");
  type.def("__init__", &make_problem,
           nb::sig("def __init__(self, family: str, **options: object) -> None"))
      .def_prop_ro("family", [](const Problem& p) { return to_name(p.family); })
      .def_prop_ro(
          "flops", [](const Problem& p) { return flops(p); },
          "Of the GEMMs, and of the pairs of query and key that the mask leaves.")
      .def_prop_ro(
          "bytes", [](const Problem& p) { return bytes(p); },
          "Of the tensors that are read and written, each once.")
      .def("to_dict", &to_dict, nb::sig("def to_dict(self) -> dict[str, object]"))
      .def("__repr__", [](const Problem& p) { return "<FmhaProblem " + to_string(p) + ">"; });
  bind_bytewise(type);
}

}  // namespace ckdisp::python
