// Looks at weights themselves, a few of each shard: what no header can show.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "stages/audit/shard_set.h"

namespace dsv {

struct PayloadOptions {
  std::int64_t tensors_per_shard = 4;  ///< drawn at random
  std::uint64_t seed = 1;              ///< of the draw
  /// Most bytes read of one tensor. Of a larger one, pieces spread evenly from its start to its end.
  std::uint64_t bytes_per_tensor = 256u << 20;
  /// Called after each piece.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
  /// Asked before each piece; true ends the reading early.
  std::function<bool()> cancelled = {};
};

/// What is odd about one tensor.
struct PayloadFinding {
  std::string tensor;
  std::string file;
  std::string message;
};

struct PayloadReport {
  std::int64_t shards = 0;
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;              ///< read
  std::vector<PayloadFinding> faults;   ///< NaN codes, nothing but zeros or NaN, bytes that are not there
  std::vector<PayloadFinding> remarks;  ///< may be meant: a vector of zeros, a long run of zeros at the end
};

/// Reads random tensors of every used shard in pieces of a few MiB; memory does not depend on their size.
PayloadReport sample_payload(const ShardSet& shards, const PayloadOptions& options = {});

/// The report for people.
std::string to_text(const PayloadReport& report);

/// The report as JSON.
boost::json::object to_json(const PayloadReport& report);

}  // namespace dsv
