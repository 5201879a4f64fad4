#include "framework/testing/difference.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

namespace flow {
namespace {

template <class T>
double element(const std::byte* bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

double bf16_element(const std::byte* bytes, std::size_t index) {
  std::uint16_t high = 0;
  std::memcpy(&high, bytes + index * 2, 2);
  const std::uint32_t bits = std::uint32_t{high} << 16;
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// How the elements of an array are read.
struct ElementType {
  std::string_view dtype;
  std::size_t size;
  bool integer;
  double (*read)(const std::byte* bytes, std::size_t index);
};

constexpr ElementType kTypes[] = {
    {"BF16", 2, false, bf16_element},         {"F32", 4, false, element<float>},
    {"F64", 8, false, element<double>},       {"I8", 1, true, element<std::int8_t>},
    {"I16", 2, true, element<std::int16_t>},  {"I32", 4, true, element<std::int32_t>},
    {"I64", 8, true, element<std::int64_t>},  {"U8", 1, true, element<std::uint8_t>},
    {"U16", 2, true, element<std::uint16_t>}, {"U32", 4, true, element<std::uint32_t>},
};
/// Any other array is compared as bytes.
constexpr ElementType kBytes{"", 1, false, element<std::uint8_t>};

const ElementType& element_type(std::string_view dtype) {
  const auto found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const ElementType& type) { return type.dtype == dtype; });
  return found == std::end(kTypes) ? kBytes : *found;
}

std::string shape_text(const TensorRef& array) {
  return fmt::format("{} [{}]", array.dtype, fmt::join(array.shape, ", "));
}

bool has_data(const Packet& packet) {
  const auto arrays = packet.type().tensors(packet.data());
  return std::any_of(arrays.begin(), arrays.end(), [](const TensorRef& t) { return !t.bytes.empty(); });
}

/// One array over all packets.
class ArrayComparison {
 public:
  explicit ArrayComparison(std::string name) { out_.name = std::move(name); }

  /// False when the arrays are integers and differ, or cannot be compared.
  bool add(const TensorRef& a, const TensorRef& b, Stamp stamp, std::size_t packet) {
    ++out_.packets;
    const ElementType& type = element_type(a.dtype);
    out_.integers = type.integer;
    if (a.dtype != b.dtype || a.shape != b.shape) {
      ++out_.different;
      if (out_.mismatch.empty()) out_.mismatch = fmt::format("{} and {}", shape_text(a), shape_text(b));
      return false;
    }
    const bool same = std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
    if (!same) ++out_.different;
    for (std::size_t i = 0; i < a.bytes.size() / type.size; ++i) {
      measure(type.read(a.bytes.data(), i), type.read(b.bytes.data(), i), {stamp, packet, i, 0, 0});
    }
    return same || !type.integer;
  }

  ArrayDifference finish() {
    out_.relative = norm_ > 0 ? std::sqrt(distance_ / norm_) : distance_ > 0 ? kInfinity : 0;
    return std::move(out_);
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  void measure(double a, double b, ElementDifference here) {
    norm_ += a * a;
    if (a == b || (std::isnan(a) && std::isnan(b))) return;
    const double apart = std::isnan(a - b) ? kInfinity : std::fabs(a - b);
    distance_ += apart * apart;
    out_.max_abs = std::max(out_.max_abs, apart);
    if (out_.first) return;
    here.a = a;
    here.b = b;
    out_.first = here;
  }

  ArrayDifference out_;
  double distance_ = 0, norm_ = 0;
};

/// The logs of two runs, compared sequence by sequence.
class LogComparison {
 public:
  LogComparison(const PacketLog& a, const PacketLog& b) : a_(a.packets()), b_(b.packets()) {
    for (const auto* log : {&a_, &b_}) {
      for (const auto& [key, packets] : *log) keys_[key.first].insert(key.second);
    }
  }

  RunDifference run() {
    for (const auto& [sequence, ports] : keys_) compare_sequence(sequence, ports);
    for (ArrayComparison& array : arrays_) out_.arrays.push_back(array.finish());
    return std::move(out_);
  }

 private:
  static const std::vector<Packet>& of(const std::map<PacketLog::Key, std::vector<Packet>>& log,
                                       const PacketLog::Key& key) {
    static const std::vector<Packet> none;
    const auto found = log.find(key);
    return found == log.end() ? none : found->second;
  }

  void compare_sequence(std::uint64_t sequence, const std::set<std::string>& ports) {
    std::size_t most = 0, compared = 0;
    for (const std::string& port : ports) {
      most = std::max({most, of(a_, {sequence, port}).size(), of(b_, {sequence, port}).size()});
    }
    bool together = true;
    for (; together && compared < most; ++compared) {
      for (const std::string& port : ports) {
        const PacketLog::Key key(sequence, port);
        const auto &a = of(a_, key), &b = of(b_, key);
        if (compared < a.size() && compared < b.size()) {
          together &= compare_packets(port, a[compared], b[compared], compared);
        } else if (compared < std::max(a.size(), b.size())) {
          ++out_.skipped;
        }
      }
    }
    for (const std::string& port : ports) {
      const std::size_t all = std::max(of(a_, {sequence, port}).size(), of(b_, {sequence, port}).size());
      out_.skipped += all - std::min(all, compared);
    }
  }

  bool compare_packets(const std::string& port, const Packet& a, const Packet& b, std::size_t number) {
    const auto left = a.type().tensors(a.data()), right = b.type().tensors(b.data());
    bool together = true;
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      together &= array(port + ": " + left[i].name).add(left[i], right[i], a.stamp(), number);
    }
    return together;
  }

  ArrayComparison& array(const std::string& name) {
    const auto [found, added] = index_.try_emplace(name, arrays_.size());
    if (added) arrays_.emplace_back(name);
    return arrays_[found->second];
  }

  const std::map<PacketLog::Key, std::vector<Packet>> a_, b_;
  std::map<std::uint64_t, std::set<std::string>> keys_;  // ports of each sequence
  std::map<std::string, std::size_t> index_;
  std::vector<ArrayComparison> arrays_;
  RunDifference out_;
};

}  // namespace

std::vector<std::string> result_ports(const GraphPlan& plan) {
  std::vector<std::string> ports;
  for (const NodePlan& node : plan.nodes) {
    for (const PortInfo& port : node.stage->outputs) {
      if (port.type->result) ports.push_back(node.name + "." + port.name);
    }
  }
  return ports;
}

std::vector<Probe> PacketLog::probes(const std::vector<std::string>& ports) {
  std::vector<Probe> probes;
  for (const std::string& port : ports) {
    probes.push_back(
        {port, [self = shared_from_this(), port](const Packet& packet) { return self->add(port, packet); }});
  }
  return probes;
}

Status PacketLog::add(const std::string& port, const Packet& packet) {
  if (!packet.type().tensors) {
    return errorf("output '{}': packets of type {} have no arrays to compare", port, packet.type().name);
  }
  if (!has_data(packet)) return {};
  const std::lock_guard lock(mutex_);
  packets_[{packet.stamp().sequence, port}][packet.stamp()].push_back(packet);
  return {};
}

std::map<PacketLog::Key, std::vector<Packet>> PacketLog::packets() const {
  const std::lock_guard lock(mutex_);
  std::map<Key, std::vector<Packet>> result;
  for (const auto& [key, stamps] : packets_) {
    for (const auto& [stamp, list] : stamps) result[key].insert(result[key].end(), list.begin(), list.end());
  }
  return result;
}

bool RunDifference::equal() const {
  return skipped == 0 && std::all_of(arrays.begin(), arrays.end(),
                                     [](const ArrayDifference& array) { return array.different == 0; });
}

RunDifference difference(const PacketLog& a, const PacketLog& b) {
  return LogComparison(a, b).run();
}

}  // namespace flow
