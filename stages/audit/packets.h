// What the checking stages hand to each other.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/packet.h"
#include "stages/audit/shard_set.h"
#include "stages/model/config.h"

namespace dsv {

/// What one checker found.
struct CheckReport {
  std::string section;      ///< its member of the run's report
  std::string text;         ///< for people, whole lines
  boost::json::value data;  ///< the same for machines
  std::string failure;      ///< why the run has to fail; empty when nothing is wrong
};

/// The reports of a chain of checkers, in its order.
struct CheckReports {
  std::vector<CheckReport> reports;

  /// `before` (if any) and one more.
  static CheckReports join(const CheckReports* before, CheckReport report) {
    CheckReports joined = before != nullptr ? *before : CheckReports();
    joined.reports.push_back(std::move(report));
    return joined;
  }

  /// Why the run has to fail, of all reports; empty when nothing is wrong.
  std::string failures() const {
    std::string all;
    for (const CheckReport& report : reports) {
      if (!report.failure.empty()) all += (all.empty() ? "" : "; ") + report.failure;
    }
    return all;
  }
};

}  // namespace dsv

FLOW_PACKET_TYPE(dsv::ModelConfig, "ModelConfig");
FLOW_PACKET_TYPE(dsv::ShardSet, "ShardSet");
FLOW_PACKET_TYPE(dsv::CheckReports, "CheckReports");
