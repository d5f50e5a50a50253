// C = relu(A x B + bias) with a kernel that this project declares and builds: see kernels.json.

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <vector>

#include <ckdisp/ckdisp.hpp>
#include <my_kernels.hpp>  // written by ckdisp_add_kernels()

int main() try {
  const std::size_t m = 5, n = 64, k = 96;
  std::vector<float> a(m * k), b(n * k), c(m * n), bias(n);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = 0.01f * static_cast<float>(i % 17) - 0.08f;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = 0.02f * static_cast<float>(i % 13) - 0.12f;
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = 0.1f * static_cast<float>(i % 3);

  ckdisp::Registry registry;
  registry.add(ckdisp::Library::linked(ckdisp_library_my_kernels()));
  const ckdisp::Dispatcher dispatcher(registry);

  // Layout rcr: A and C are row-major, B is column-major (a weight of n rows with k values each).
  const auto problem = ckdisp::GemmProblem(m, n, k)
                           .layout(ckdisp::Layout::rcr)
                           .elementwise(ckdisp::Elementwise::relu)
                           .d(1)
                           .d_leading_dimensions({0});  // one row, used for every row of C
  ckdisp::GemmArgs args;
  args.a = a.data();
  args.b = b.data();
  args.c = c.data();
  args.d[0] = bias.data();
  dispatcher.run(problem, args);

  double error = 0;
  for (std::size_t row = 0; row < m; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      double sum = bias[column];
      for (std::size_t i = 0; i < k; ++i) {
        sum += static_cast<double>(a[row * k + i]) * b[column * k + i];
      }
      error = std::fmax(error, std::fabs((sum > 0 ? sum : 0) - c[row * n + column]));
    }
  }
  std::printf("%zu kernels, chose %s, largest error %.1e\n", registry.size(),
              dispatcher.select(problem).name(), error);
  return error < 1e-5 ? 0 : 1;
} catch (const ckdisp::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
