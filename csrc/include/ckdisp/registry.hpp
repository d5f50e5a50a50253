// The kernels a program knows. C++17.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ckdisp/library.hpp>

namespace ckdisp {

enum class Priority : std::int8_t { low = -1, normal = 0, high = 1 };

// Which kernels to list: every condition must hold.
class Filter {
 public:
  // A key field has this value, as names write it: ("dtype_a", "fp16"), ("tile", "256x128x64").
  // The family "fmha.bwd" is that of any stage of the backward pass.
  // Throws InvalidKey for a field that no key has.
  Filter& where(std::string field, std::string value);
  Filter& op(Op op);
  Filter& accept(std::function<bool(Kernel)> predicate);
  bool matches(Kernel kernel) const;

 private:
  std::optional<Op> op_;
  std::vector<std::pair<std::string, std::string>> fields_;
  std::vector<std::function<bool(Kernel)>> predicates_;
};

namespace detail {
struct RegistryState;
struct Snapshot;
}  // namespace detail

// A set of kernels, unique by name. Copies share one state, like a shared pointer; every member
// may be called from any thread. The order is by priority, highest first, then by name.
//
// When a name is added twice, the higher priority wins and at equal priority the kernel that was
// there stays.
class Registry {
 public:
  explicit Registry(std::string name = "kernels");

  void add(Kernel kernel, Priority priority = Priority::normal);
  void add(const Library& library, Priority priority = Priority::normal);
  // Adds the kernels of `other` with their priorities; merging a registry into itself does nothing.
  void merge(const Registry& other);
  bool remove(std::string_view kernel_name);
  void clear();

  const std::string& name() const;
  std::size_t size() const;
  std::optional<Kernel> find(std::string_view kernel_name) const;
  std::optional<Kernel> find(const GemmKey& key) const;
  std::optional<Kernel> find(const ConvKey& key) const;
  std::optional<Kernel> find(const FmhaKey& key) const;
  std::optional<Priority> priority(std::string_view kernel_name) const;
  std::vector<Kernel> kernels(const Filter& filter = {}) const;
  // A new registry of the kernels that match, with their priorities.
  Registry filter(const Filter& filter) const;
  // Name, libraries, counts and every kernel with its key.
  std::string to_json() const;

  // Grows with every change; decisions made for one generation hold until the next.
  std::uint64_t generation() const;
  std::shared_ptr<const detail::Snapshot> snapshot() const;

 private:
  std::shared_ptr<detail::RegistryState> state_;
};

}  // namespace ckdisp
