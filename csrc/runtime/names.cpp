#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

namespace ckdisp {
namespace {

// Insertions, deletions and substitutions that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string suggest(std::string_view text, const char* const* names, std::size_t count) {
  std::size_t best = text.size() / 2 + 1;
  std::string_view nearest;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t distance = edit_distance(text, names[i]);
    if (distance < best) {
      best = distance;
      nearest = names[i];
    }
  }
  return nearest.empty() ? "" : " (did you mean '" + std::string(nearest) + "'?)";
}

namespace detail {

std::size_t parse_name(std::string_view text, const char* const* names, std::size_t count,
                       const char* what) {
  for (std::size_t i = 0; i < count; ++i) {
    if (text == names[i]) return i;
  }
  std::string message = std::string("unknown ") + what + " '" + std::string(text) + "'" +
                        suggest(text, names, count) + "; known: ";
  for (std::size_t i = 0; i < count; ++i) message += (i != 0 ? ", " : "") + std::string(names[i]);
  throw InvalidKey(message);
}

}  // namespace detail
}  // namespace ckdisp
