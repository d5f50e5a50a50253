#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>
#include <ckdisp/registry.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "json.hpp"
#include "snapshot.hpp"
#include "target.hpp"

namespace ckdisp {
namespace detail {

struct RegistryState {
  explicit RegistryState(std::string text) : name(std::move(text)) {}

  const std::string name;
  std::atomic<std::uint64_t> generation{1};
  mutable std::mutex mutex;
  std::map<std::string_view, Entry> entries;
  std::shared_ptr<const Snapshot> snapshot;  // null until asked for after a change

  // The caller holds the lock.
  void changed() {
    snapshot.reset();
    generation.fetch_add(1, std::memory_order_release);
  }
  bool insert(Kernel kernel, Priority priority) {
    const auto [place, added] = entries.try_emplace(kernel.name(), Entry{kernel, priority});
    if (added) return true;
    if (priority <= place->second.priority) return false;
    // The name is stored in the kernel that owns it, so the key must move to the new kernel.
    entries.erase(place);
    entries.emplace(kernel.name(), Entry{kernel, priority});
    return true;
  }
};

Snapshot::Snapshot(std::vector<Entry> sorted, std::uint64_t made_for)
    : generation(made_for), entries(std::move(sorted)) {
  by_name.reserve(entries.size());
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    const Kernel kernel = entries[i].kernel;
    by_name.emplace(kernel.name(), i);
    const auto [signature, refused] = kernel.visit_key(
        [](const auto& key) { return std::pair(packed_signature(key), refused_choices(key)); });
    by_signature[signature].add({kernel.table()->supports, kernel.table()->cost, i, kernel.arch(),
                                 required_features(*kernel.table()) != nullptr, refused});
  }
  for (auto& [signature, candidates] : by_signature) candidates.sort();
}

void Candidates::sort() {
  std::stable_sort(all_.begin(), all_.end(),
                   [](const Indexed& a, const Indexed& b) { return a.arch < b.arch; });
  for (const Indexed& candidate : all_) ++begins_[static_cast<std::size_t>(candidate.arch) + 1];
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
}

const Entry* Snapshot::find(std::string_view name) const {
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : &entries[found->second];
}

}  // namespace detail

Filter& Filter::where(std::string field, std::string value) {
  std::vector<const char*> known;
  const auto add = [&](const char* name, const auto&) {
    const auto same = [&](const char* other) { return std::string_view(other) == name; };
    if (std::none_of(known.begin(), known.end(), same)) known.push_back(name);
  };
  visit_fields(GemmKey{}, add);
  visit_fields(ConvKey{}, add);
  visit_fields(FmhaKey{}, add);
  detail::parse_name(field, known.data(), known.size(), "key field");
  if (field == "family" && value == "fmha.bwd") {
    return accept([](Kernel kernel) {
      return kernel.op() == Op::fmha && is_backward(kernel.fmha_key().family);
    });
  }
  fields_.emplace_back(std::move(field), std::move(value));
  return *this;
}

Filter& Filter::op(Op op) {
  op_ = op;
  return *this;
}

Filter& Filter::accept(std::function<bool(Kernel)> predicate) {
  predicates_.push_back(std::move(predicate));
  return *this;
}

bool Filter::matches(Kernel kernel) const {
  if (op_ && kernel.op() != *op_) return false;
  for (const auto& [field, value] : fields_) {
    if (kernel.field(field) != value) return false;
  }
  return std::all_of(predicates_.begin(), predicates_.end(),
                     [&](const auto& predicate) { return predicate(kernel); });
}

Registry::Registry(std::string name)
    : state_(std::make_shared<detail::RegistryState>(std::move(name))) {}

void Registry::add(Kernel kernel, Priority priority) {
  const std::lock_guard lock(state_->mutex);
  if (state_->insert(kernel, priority)) state_->changed();
}

void Registry::add(const Library& library, Priority priority) {
  const std::lock_guard lock(state_->mutex);
  bool changed = false;
  for (const Kernel kernel : library.kernels()) changed |= state_->insert(kernel, priority);
  if (changed) state_->changed();
}

void Registry::merge(const Registry& other) {
  if (other.state_ == state_) return;
  const auto theirs = other.snapshot();  // first, so that two locks are never held
  const std::lock_guard lock(state_->mutex);
  bool changed = false;
  for (const detail::Entry& entry : theirs->entries) {
    changed |= state_->insert(entry.kernel, entry.priority);
  }
  if (changed) state_->changed();
}

bool Registry::remove(std::string_view kernel_name) {
  const std::lock_guard lock(state_->mutex);
  const bool removed = state_->entries.erase(kernel_name) != 0;
  if (removed) state_->changed();
  return removed;
}

void Registry::clear() {
  const std::lock_guard lock(state_->mutex);
  state_->entries.clear();
  state_->changed();
}

std::shared_ptr<const detail::Snapshot> Registry::snapshot() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->snapshot == nullptr) {
    std::vector<detail::Entry> sorted;
    sorted.reserve(state_->entries.size());
    for (const auto& [name, entry] : state_->entries) sorted.push_back(entry);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.priority > b.priority;  // the map has sorted by name
    });
    state_->snapshot = std::make_shared<const detail::Snapshot>(
        std::move(sorted), state_->generation.load(std::memory_order_relaxed));
  }
  return state_->snapshot;
}

const std::string& Registry::name() const { return state_->name; }

std::size_t Registry::size() const {
  const std::lock_guard lock(state_->mutex);
  return state_->entries.size();
}

std::uint64_t Registry::generation() const {
  return state_->generation.load(std::memory_order_acquire);
}

std::optional<Kernel> Registry::find(std::string_view kernel_name) const {
  const auto view = snapshot();
  const detail::Entry* entry = view->find(kernel_name);
  return entry != nullptr ? std::optional(entry->kernel) : std::nullopt;
}

namespace {

template <class Key>
std::optional<Kernel> find_key(const detail::Snapshot& view, Op op, const Key& key) {
  for (const detail::Entry& entry : view.entries) {
    const ckdisp_kernel& table = *entry.kernel.table();
    if (table.op == op && *static_cast<const Key*>(table.key) == key) return entry.kernel;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Kernel> Registry::find(const GemmKey& key) const {
  return find_key(*snapshot(), Op::gemm, key);
}

std::optional<Kernel> Registry::find(const ConvKey& key) const {
  return find_key(*snapshot(), Op::conv, key);
}

std::optional<Kernel> Registry::find(const FmhaKey& key) const {
  return find_key(*snapshot(), Op::fmha, key);
}

std::optional<Priority> Registry::priority(std::string_view kernel_name) const {
  const auto view = snapshot();
  const detail::Entry* entry = view->find(kernel_name);
  return entry != nullptr ? std::optional(entry->priority) : std::nullopt;
}

std::vector<Kernel> Registry::kernels(const Filter& filter) const {
  const auto view = snapshot();
  std::vector<Kernel> out;
  for (const detail::Entry& entry : view->entries) {
    if (filter.matches(entry.kernel)) out.push_back(entry.kernel);
  }
  return out;
}

Registry Registry::filter(const Filter& filter) const {
  const auto view = snapshot();
  Registry out(name());
  for (const detail::Entry& entry : view->entries) {
    if (filter.matches(entry.kernel)) out.add(entry.kernel, entry.priority);
  }
  return out;
}

std::string Registry::to_json() const {
  const auto view = snapshot();
  json::List kernels, libraries, statistics;
  std::set<std::string> seen;
  std::map<std::string, std::map<std::string, int>> counts;
  for (const detail::Entry& entry : view->entries) {
    const Kernel kernel = entry.kernel;
    const Library library = kernel.library();
    json::List item;
    item.add("name", json::quote(kernel.name()));
    item.add("library", json::quote(library.name()));
    item.add("priority", std::to_string(static_cast<int>(entry.priority)));
    item.add("key", kernel.key_json());
    kernels.add(item.object());
    if (seen.insert(library.name() + '\n' + library.path()).second) {
      json::List about;
      about.add("name", json::quote(library.name()));
      about.add("path", json::quote(library.path()));
      about.add("build_info", library.build_info());
      libraries.add(about.object());
    }
    for (const char* field :
         {"family", "provider", "arch", "dtype_a", "dtype_in", "dtype", "layout", "elementwise"}) {
      if (const auto value = kernel.field(field)) ++counts[field][*value];
    }
  }
  for (const auto& [field, values] : counts) {
    json::List histogram;
    for (const auto& [value, count] : values) histogram.add(value, std::to_string(count));
    statistics.add(field, histogram.object());
  }
  json::List document;
  document.add("name", json::quote(name()));
  document.add("schema_hash", json::quote(std::to_string(kSchemaHash)));
  document.add("size", std::to_string(view->entries.size()));
  document.add("libraries", libraries.array());
  document.add("statistics", statistics.object());
  document.add("kernels", kernels.array());
  return document.object();
}

}  // namespace ckdisp
