#include "call.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "copies.hpp"
#include "output.hpp"
#include "place.hpp"

namespace ckdisp::python {
namespace {

void check_matrix(const Tensor& t) {
  if (t.ndim == 2) return;
  throw InvalidArgument(std::string(t.name) + " has shape " + shape_text(t) +
                        "; pass a matrix (two dimensions)");
}

// The layouts that A and B fit, as bits by code; all of them for a matrix that must be copied.
struct Fit {
  Orders orders;
  bool copy;

  explicit Fit(const Tensor& t) : orders(orders_of(t)), copy(!orders.row && !orders.column) {}
  bool row() const { return orders.row || copy; }
  bool column() const { return orders.column || copy; }
};

struct LayoutOrders {
  Layout layout;
  bool a_row, b_row;
};
// In the order of preference where several fit.
constexpr LayoutOrders kLayouts[] = {{Layout::rrr, true, true},
                                     {Layout::rcr, true, false},
                                     {Layout::crr, false, true},
                                     {Layout::ccr, false, false}};

struct LayoutChoice {
  const LayoutOrders* layout;
  Order order_d;
};

// The D tensors of a call: one tensor or a sequence of them.
std::vector<Tensor> import_d(nb::handle d, const CallStream& stream) {
  std::vector<Tensor> out;
  if (d.is_none()) return out;
  static constexpr const char* kNames[] = {"d[0]", "d[1]", "d[2]", "d[3]"};
  if (!PyTuple_Check(d.ptr()) && !PyList_Check(d.ptr())) {
    out.push_back(import_tensor(d, "d", stream));
    return out;
  }
  const std::size_t count = nb::len(d);
  if (count > static_cast<std::size_t>(kMaxD)) {
    throw InvalidArgument("d holds " + std::to_string(count) + " tensors; at most " +
                          std::to_string(kMaxD) + " can be fused");
  }
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) out.push_back(import_tensor(d[i], kNames[i], stream));
  return out;
}

// How one D is described in each order, and whether that needs a copy.
struct DFit {
  bool row = false, column = false;
  std::int64_t ld_row = 0, ld_column = 0;
};

DFit fit_d(const Tensor& d, std::int64_t m, std::int64_t n) {
  if ((d.rows() != m && d.rows() != 1) || (d.columns() != n && d.columns() != 1) ||
      (d.ndim == 1 && d.columns() != n)) {
    throw InvalidArgument(std::string(d.name) + " has shape " + shape_text(d) +
                          ", which does not broadcast to the result (" + std::to_string(m) + ", " +
                          std::to_string(n) + "); pass (M, N), (N,), (1, N) or (M, 1)");
  }
  const Orders orders = orders_of(d);
  DFit fit;
  if (d.columns() == n && orders.row) {
    fit.row = true;
    fit.ld_row = d.rows() == 1 && m != 1 ? 0 : orders.ld_row;
  }
  if (d.rows() == m && orders.column) {
    fit.column = true;
    fit.ld_column = d.columns() == 1 && n != 1 ? 0 : orders.ld_column;
  }
  return fit;
}

class Resolver {
 public:
  Resolver(const Dispatcher* dispatcher, const GemmRequest& request)
      : dispatcher_(dispatcher), request_(request) {
    std::memset(&call_.problem, 0, sizeof call_.problem);
  }

  GemmProblemData problem() {
    describe();
    if (out_) use_output(*out_);
    validate(call_.problem);
    return call_.problem;
  }

  GemmCall call() {
    describe();
    if (out_) {
      check_writable(*out_);
      use_output(*out_);
      validate(call_.problem);  // before copies are made for a size that cannot be
      call_.output = nb::borrow(request_.out);
      call_.keep.push_back(std::move(*out_));
    } else {
      validate(call_.problem);  // before memory is taken for a size that cannot be
      Tensor out;
      call_.output = new_output(call_.a, nb::make_tuple(problem_.m, problem_.n), problem_.dtype_c,
                                place_.fnuz, request_.stream, kMatrix, &out);
      use_output(out);
      call_.keep.push_back(std::move(out));
    }
    point();
    return std::move(call_);
  }

 private:
  void describe() {
    call_.a = import_tensor(request_.a, "a", request_.stream);
    b_ = import_tensor(request_.b, "b", request_.stream);
    check_matrix(call_.a);
    check_matrix(b_);
    if (call_.a.shape[1] != b_.shape[0]) {
      throw InvalidArgument("a has shape " + shape_text(call_.a) + " and b " + shape_text(b_) +
                            ": the columns of a must equal the rows of b");
    }
    problem_.m = call_.a.shape[0];
    problem_.n = b_.shape[1];
    problem_.k = b_.shape[0];
    problem_.k_batch = request_.k_batch;
    problem_.ldc = problem_.n;
    problem_.elementwise = from_name<Elementwise>(request_.epilogue, "epilogue");
    describe_types();
    describe_d_count();
    describe_place();
    find_kernel();
    choose_layout();
    if (call_.launch.device >= 0) check_no_copies();
  }

  // Everything must lie in one place, which is where the kernel runs.
  void describe_place() {
    std::vector<const Tensor*> tensors{&call_.a, &b_};
    for (const Tensor& d : d_) tensors.push_back(&d);
    if (out_) tensors.push_back(&*out_);
    place_ = place_of(tensors, request_.stream, problem_.dtype_c);
    call_.launch = place_.launch;
  }

  // A kernel that reads a reordered B is asked for by name, with a B that was made for it.
  void find_kernel() {
    if (request_.kernel == nullptr || dispatcher_ == nullptr) return;
    kernel_ = dispatcher_->registry().find(request_.kernel);
    if (kernel_ && kernel_->gemm_key().family == Family::gemm_preshuffle) problem_.shuffled_b = 1;
  }

  // The bindings copy through the CPU's memory only.
  void check_no_copies() const {
    if (copy_a_) refuse_copy(call_.a);
    if (copy_b_) refuse_copy(b_);
    for (std::size_t i = 0; i < d_.size(); ++i) {
      if (copies_d(i)) refuse_copy(d_[i]);
    }
  }

  [[noreturn]] static void refuse_copy(const Tensor& t) {
    refuse_device_copy(
        t, t.name + std::string(".contiguous(), expanded to the size of the result if it is d"));
  }

  void describe_types() {
    problem_.dtype_a = call_.a.dtype;
    problem_.dtype_b = b_.dtype;
    problem_.dtype_acc = default_accumulator(problem_.dtype_a);
    if (!request_.out.is_none()) out_ = import_tensor(request_.out, "out", request_.stream);
    problem_.dtype_c = output_type(request_.out_dtype, out_, problem_.dtype_a);
    problem_.dtype_d = problem_.dtype_c;
  }

  void describe_d_count() {
    d_ = import_d(request_.d, request_.stream);
    problem_.num_d = static_cast<std::uint8_t>(d_.size());
    for (const Tensor& d : d_) {
      if (d.dtype != d_[0].dtype) {
        throw InvalidArgument(std::string("the D tensors have types ") + to_name(d_[0].dtype) +
                              " and " + to_name(d.dtype) + "; convert them to one type");
      }
      problem_.dtype_d = d.dtype;
      d_fit_.push_back(fit_d(d, problem_.m, problem_.n));
    }
  }

  bool fits(Order order) const {
    for (const DFit& fit : d_fit_) {
      if (order == Order::r ? !fit.row : !fit.column) return false;
    }
    return true;
  }

  // Takes the first combination of orders that the matrices fit and that has a kernel; the first
  // that they fit when none has, so that the error names it. Order r of D is always possible, by
  // copying the D tensors that do not fit it, and comes last when it needs that.
  void choose_layout() {
    const Fit a(call_.a), b(b_);
    copy_a_ = a.copy;
    copy_b_ = b.copy;
    LayoutChoice choices[2 * std::size(kLayouts)];
    int count = 0;
    for (const bool copy_d : {false, true}) {
      for (const LayoutOrders& option : kLayouts) {
        if (!(option.a_row ? a.row() : a.column()) || !(option.b_row ? b.row() : b.column())) {
          continue;
        }
        if (fits(Order::r) != copy_d) choices[count++] = {&option, Order::r};
        if (!copy_d && !d_.empty() && fits(Order::c)) choices[count++] = {&option, Order::c};
      }
    }
    if (count > 1 && dispatcher_ != nullptr) {
      for (int i = 0; i < count; ++i) {
        set_layout(*choices[i].layout, choices[i].order_d, a, b);
        if (has_kernel()) return;
      }
    }
    set_layout(*choices[0].layout, choices[0].order_d, a, b);
  }

  // Whether the orders chosen so far are those of the kernel asked for, or of any if none was.
  bool has_kernel() const {
    if (request_.kernel == nullptr) return dispatcher_->has_signature(problem_, call_.launch);
    if (!kernel_) return false;  // the dispatcher says so
    const GemmKey& key = kernel_->gemm_key();
    return key.layout == problem_.layout && (d_.empty() || key.layout_d == problem_.layout_d);
  }

  void set_layout(const LayoutOrders& option, Order order_d, const Fit& a, const Fit& b) {
    problem_.layout = option.layout;
    a_order_ = option.a_row ? Order::r : Order::c;
    b_order_ = option.b_row ? Order::r : Order::c;
    const auto dense = [](Order order, std::int64_t rows, std::int64_t columns) {
      return order == Order::r ? columns : rows;
    };
    problem_.lda = a.copy         ? dense(a_order_, problem_.m, problem_.k)
                   : option.a_row ? a.orders.ld_row
                                  : a.orders.ld_column;
    problem_.ldb = b.copy         ? dense(b_order_, problem_.k, problem_.n)
                   : option.b_row ? b.orders.ld_row
                                  : b.orders.ld_column;
    if (d_.empty()) return;
    problem_.layout_d = order_d;
    for (std::size_t i = 0; i < d_.size(); ++i) {
      const DFit& fit = d_fit_[i];
      if (order_d == Order::c) {
        problem_.ldd[i] = fit.ld_column;
      } else {
        problem_.ldd[i] = fit.row ? fit.ld_row : problem_.n;
      }
    }
  }

  void use_output(const Tensor& out) {
    if (out.ndim != 2 || out.shape[0] != problem_.m || out.shape[1] != problem_.n) {
      throw InvalidArgument("out has shape " + shape_text(out) + ", the result has (" +
                            std::to_string(problem_.m) + ", " + std::to_string(problem_.n) + ")");
    }
    check_type(out, problem_.dtype_c);
    const Orders orders = orders_of(out);
    if (!orders.row) {
      throw InvalidArgument("out has strides (" + joined(out.strides, 2) +
                            "), but results are row-major: pass an array whose rows are "
                            "contiguous and in order");
    }
    problem_.ldc = orders.ld_row;
    call_.args.c = out.data;
  }

  const void* input(Tensor& t, bool copy, Order order, std::int64_t rows, std::int64_t columns) {
    const void* data = t.data;
    if (copy) {
      call_.copies.push_back(dense_copy(t, rows, columns, order));
      data = call_.copies.back().get();
    }
    return data;
  }

  bool copies_d(std::size_t i) const { return problem_.layout_d == Order::r && !d_fit_[i].row; }

  // Sets the pointers, making the copies that the layouts cannot spare.
  void point() {
    GemmArgs& args = call_.args;
    args.a = input(call_.a, copy_a_, a_order_, problem_.m, problem_.k);
    args.b = input(b_, copy_b_, b_order_, problem_.k, problem_.n);
    for (std::size_t i = 0; i < d_.size(); ++i) {
      args.d[i] = input(d_[i], copies_d(i), Order::r, problem_.m, problem_.n);
      call_.keep.push_back(std::move(d_[i]));
    }
    call_.keep.push_back(std::move(b_));
    args.scale = static_cast<float>(request_.scale);
    set_clamp();
  }

  void set_clamp() {
    const bool wanted = problem_.elementwise == Elementwise::clamp;
    if (request_.clamp.is_none() == wanted) {
      throw InvalidArgument(wanted ? "epilogue 'clamp' needs its bounds: pass clamp=(min, max)"
                                   : "clamp bounds were given, but the epilogue is not 'clamp'");
    }
    if (!wanted) return;
    std::pair<double, double> bounds;
    if (!nb::try_cast(request_.clamp, bounds)) {
      throw InvalidArgument("clamp is " + nb::cast<std::string>(nb::repr(request_.clamp)) +
                            "; pass two numbers, (min, max)");
    }
    call_.args.clamp_min = static_cast<float>(bounds.first);
    call_.args.clamp_max = static_cast<float>(bounds.second);
  }

  const Dispatcher* dispatcher_;
  const GemmRequest& request_;
  GemmCall call_{};
  GemmProblemData& problem_ = call_.problem;
  Tensor b_{};
  std::optional<Tensor> out_;
  std::vector<Tensor> d_;
  std::vector<DFit> d_fit_;
  std::optional<Kernel> kernel_;  // the one asked for, if it is there
  Order a_order_ = Order::r, b_order_ = Order::r;
  bool copy_a_ = false, copy_b_ = false;
  Place place_;
};

}  // namespace

GemmCall resolve(const Dispatcher& dispatcher, const GemmRequest& request) {
  return Resolver(&dispatcher, request).call();
}

GemmProblemData resolve_problem(const Dispatcher* dispatcher, const GemmRequest& request) {
  return Resolver(dispatcher, request).problem();
}

}  // namespace ckdisp::python
