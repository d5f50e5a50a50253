// Multiplies two matrices with a kernel of the linked library and checks every element.
#include <cmath>
#include <cstdio>
#include <vector>

#include <ckdisp/ckdisp.hpp>

#include "consumer_kernels.hpp"

namespace {

constexpr int kM = 17, kN = 33, kK = 65;

bool product_is_right(const std::vector<float>& a, const std::vector<float>& b,
                      const std::vector<float>& c) {
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      double sum = 0;
      for (int l = 0; l < kK; ++l) sum += double{a[i * kK + l]} * b[l * kN + j];
      if (!(std::abs(sum - c[i * kN + j]) <= 1e-3)) return false;
    }
  }
  return true;
}

}  // namespace

int main() {
  std::vector<float> a(kM * kK), b(kK * kN), c(kM * kN, -1.0f);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3.0f;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) - 2.0f;

  ckdisp::Registry registry;
  registry.add(ckdisp::Library::linked(ckdisp_library_consumer_kernels()));
  const ckdisp::Dispatcher dispatcher(registry);
  const auto problem = ckdisp::GemmProblem(kM, kN, kK).layout(ckdisp::Layout::rrr);
  ckdisp::GemmArgs args{};
  args.a = a.data();
  args.b = b.data();
  args.c = c.data();
  args.scale = 1.0f;
  dispatcher.run(problem, args);

  const bool right = product_is_right(a, b, c);
  std::printf("%zu kernels, ran %s: %s\n", registry.size(), dispatcher.select(problem).name(),
              right ? "right" : "WRONG");
  return right ? 0 : 1;
}
