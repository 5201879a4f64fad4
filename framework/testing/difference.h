// How the results of two runs differ: array by array, element by element.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/plan.h"
#include "framework/runtime/runner.h"

namespace flow {

/// Outputs whose packets are results (PacketTraits<T>::result), as "node.output", in the order of the graph.
std::vector<std::string> result_ports(const GraphPlan& plan);

/// Keeps the packets of some outputs of a run that hold data, in the order of their stamps. Thread-safe.
class PacketLog : public std::enable_shared_from_this<PacketLog> {
 public:
  /// For RunOptions. The log lives as long as they do.
  std::vector<Probe> probes(const std::vector<std::string>& ports);

  using Key = std::pair<std::uint64_t, std::string>;  ///< sequence, port
  std::map<Key, std::vector<Packet>> packets() const;

 private:
  Status add(const std::string& port, const Packet& packet);
  mutable std::mutex mutex_;
  std::map<Key, std::map<Stamp, std::vector<Packet>>> packets_;
};

/// Two elements that differ.
struct ElementDifference {
  Stamp stamp;             ///< of the packet, in run A
  std::size_t packet = 0;  ///< which one of the output's packets with data
  std::size_t element = 0;
  double a = 0, b = 0;
};

/// One array of one output over all packets that were compared.
struct ArrayDifference {
  std::string name;  ///< "node.output: array"
  bool integers = false;
  std::size_t packets = 0, different = 0;  ///< compared; not equal to the bit
  std::optional<ElementDifference> first;
  std::string mismatch;  ///< arrays of other shapes or types, which have no distance
  double max_abs = 0;    ///< largest |A - B|
  double relative = 0;   ///< norm of A - B over the norm of A
};

struct RunDifference {
  std::vector<ArrayDifference> arrays;
  /// Packets that were not compared, because an integer result before them differs: from there on the runs
  /// have other inputs. Or because only one run sent them.
  std::size_t skipped = 0;
  bool equal() const;
};

/// Compares the n-th packets of each sequence and output with each other.
RunDifference difference(const PacketLog& a, const PacketLog& b);

}  // namespace flow
