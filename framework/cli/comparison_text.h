// What a comparison of two pipelines found, for people and as JSON.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "framework/testing/difference.h"
#include "framework/trace/recorder.h"

namespace flow::cli {

/// One of the two pipelines: its name and the traces of its runs.
struct ComparedSide {
  std::string name;
  std::vector<Trace> traces;
};

/// A row of the table: a group of stages, or a part of the whole run. Seconds of one run; the median of all
/// runs.
struct ComparedTime {
  std::string name;
  std::uint64_t calls_a = 0, calls_b = 0;  ///< of one run; 0 on the side that lacks the stage
  double a = 0, b = 0;
};

/// Groups of stages, most time first.
std::vector<ComparedTime> compared_stages(const ComparedSide& a, const ComparedSide& b);
/// The whole run; the time in which it computes, reads, and reads without computing.
std::vector<ComparedTime> compared_runs(const ComparedSide& a, const ComparedSide& b);

std::string comparison_text(const ComparedSide& a, const ComparedSide& b, const RunDifference& results);
boost::json::object comparison_json(const ComparedSide& a, const ComparedSide& b,
                                    const RunDifference& results);

}  // namespace flow::cli
