// Lookup, order, priorities, filters, merging, JSON, and tables that must be refused.
#include <thread>

#include "check.hpp"
#include "mock.hpp"

using namespace ckdisp;
using namespace mock;

namespace {

std::vector<std::string> names(const std::vector<Kernel>& kernels) {
  std::vector<std::string> out;
  for (const Kernel kernel : kernels) out.emplace_back(kernel.name());
  return out;
}
using Names = std::vector<std::string>;

void finds_by_name_and_key() {
  GemmKey key = default_key();
  key.tile[0] = 96;
  const Registry kernels = registry({kernel<0>("alpha"), kernel<0>("beta", key)});
  CHECK(kernels.size() == 2);
  CHECK(kernels.find("alpha")->name() == std::string("alpha"));
  CHECK(!kernels.find("gamma"));
  CHECK(kernels.find(key)->name() == std::string("beta"));
  key.tile[0] = 97;
  CHECK(!kernels.find(key));
  CHECK(kernels.find("beta")->field("tile") == "96x0x0");
  CHECK(kernels.find("beta")->field("pad_m") == "false");
  CHECK(!kernels.find("beta")->field("colour"));
}

void orders_by_priority_then_name() {
  Registry kernels("mocks");
  kernels.add(library({kernel<0>("b"), kernel<0>("d")}));
  kernels.add(library({kernel<0>("a"), kernel<0>("e")}), Priority::low);
  kernels.add(library({kernel<0>("c")}), Priority::high);
  CHECK(names(kernels.kernels()) == (Names{"c", "b", "d", "a", "e"}));
  CHECK(kernels.priority("a") == Priority::low);
}

void duplicates_keep_the_higher_priority() {
  const Library first = library({kernel<0>("x")}), second = library({kernel<1>("x")});
  Registry kernels;
  kernels.add(first);
  const std::uint64_t before = kernels.generation();
  kernels.add(second);
  CHECK(*kernels.find("x") == first.kernels()[0]);
  CHECK(kernels.generation() == before);
  kernels.add(second, Priority::high);
  CHECK(*kernels.find("x") == second.kernels()[0]);
  CHECK(kernels.size() == 1 && kernels.generation() > before);
  kernels.add(first, Priority::low);
  CHECK(*kernels.find("x") == second.kernels()[0]);
}

void merges_and_removes() {
  Registry one = registry({kernel<0>("a")}), two("two");
  two.add(library({kernel<0>("b")}), Priority::high);
  one.merge(two);
  CHECK(names(one.kernels()) == (Names{"b", "a"}));
  CHECK(one.priority("b") == Priority::high);
  const std::uint64_t before = one.generation();
  one.merge(one);
  CHECK(one.size() == 2 && one.generation() == before);
  CHECK(one.remove("b") && !one.remove("b"));
  CHECK(two.size() == 1);
  one.clear();
  CHECK(one.size() == 0 && one.kernels().empty());
}

void filters() {
  GemmKey fp16 = default_key();
  fp16.dtype_a = Dtype::fp16;
  const Registry kernels = registry({kernel<0>("a"), kernel<0>("b", fp16)});
  CHECK(names(kernels.kernels(Filter().where("dtype_a", "fp16"))) == Names{"b"});
  CHECK(names(kernels.kernels(Filter().where("dtype_a", "fp16").where("layout", "ccr"))).empty());
  const auto accept = [](Kernel k) { return k.name() == std::string("a"); };
  const Registry only = kernels.filter(Filter().op(Op::gemm).accept(accept));
  CHECK(names(only.kernels()) == Names{"a"} && kernels.size() == 2);
  CHECK_THROWS(Filter().where("dtype_e", "fp16"), InvalidKey, "did you mean 'dtype_");
}

void exports_json() {
  const std::string text = registry({kernel<0>("a")}).to_json();
  CHECK(text.find("\"name\": \"mocks\", ") != std::string::npos);
  CHECK(text.find("\"layout\": {\"rcr\": 1}") != std::string::npos);
  CHECK(text.find("\"tile\": [0, 0, 0]") != std::string::npos);
}

void refuses_bad_tables() {
  const auto broken = [](auto change) {
    ckdisp_library* bad = table({kernel<0>("a")});
    change(*bad);
    return bad;
  };
  CHECK_THROWS(Library::linked(nullptr), LibraryError, "no kernel table");
  CHECK_THROWS(Library::linked(broken([](auto& t) { t.magic = 7; })), LibraryError, "magic 0x7");
  const std::string versions = "binary interface " + std::to_string(kAbiVersion + 1) +
                               ", this ckdisp has " + std::to_string(kAbiVersion);
  CHECK_THROWS(Library::linked(broken([](auto& t) { ++t.abi_version; })), LibraryError,
               versions.c_str());
  CHECK_THROWS(Library::linked(broken([](auto& t) { ++t.schema_hash; })), LibraryError, "schema");
  CHECK_THROWS(Library::linked(broken([](auto& t) { t.size = 8; })), LibraryError, "damaged");
  CHECK_THROWS(Library::linked(broken([](auto& t) { t.kernels = nullptr; })), LibraryError,
               "damaged");
  auto* half = new ckdisp_kernel(*kernel<0>("a"));
  half->run = nullptr;
  CHECK_THROWS(Library::linked(table({half})), LibraryError, "kernel 0");
  half = new ckdisp_kernel(*kernel<0>("a"));
  half->prepare = nullptr;  // but needs_prepare is there
  CHECK_THROWS(Library::linked(table({half})), LibraryError, "kernel 0");
}

// Readers see whole states while a writer adds and removes.
void survives_threads() {
  Registry kernels = registry({kernel<0>("stays")});
  const Library other = library({kernel<0>("comes"), kernel<0>("goes")});
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const std::size_t size = kernels.kernels().size();
        CHECK(size >= 1 && size <= 3);
        CHECK(kernels.find("stays"));
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    kernels.add(other);
    kernels.remove("comes");
    kernels.remove("goes");
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace

int main() {
  finds_by_name_and_key();
  orders_by_priority_then_name();
  duplicates_keep_the_higher_priority();
  merges_and_removes();
  filters();
  exports_json();
  refuses_bad_tables();
  survives_threads();
  std::puts("ok");
}
