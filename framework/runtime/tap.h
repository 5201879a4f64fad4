// Taps and probes: hidden stages that write an output's packets to a file, or show them to a function.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "framework/core/plan.h"
#include "framework/core/registry.h"
#include "framework/runtime/runner.h"

namespace flow {

/// One file that is being written. Thread-safe. Destroying it without commit() leaves nothing behind.
class Tap {
 public:
  /// `subject`: whom errors name.
  Tap(std::string subject, std::unique_ptr<TapWriter> writer)
      : subject_(std::move(subject)), writer_(std::move(writer)) {}
  /// Writes the arrays of a packet under "sequence.step.".
  Status add(const Packet& packet);
  /// Completes the file.
  Status commit();
  /// Gives the file up. Does nothing while a write is in progress.
  void discard();

 private:
  const std::string subject_;
  std::mutex mutex_;
  std::unique_ptr<TapWriter> writer_;
};

/// An output of a plan: indices of its node and port.
struct Output {
  int node = 0, port = 0;
};

/// The output "node.output". The error names the nearest that exists.
Result<Output> find_output(const GraphPlan& plan, const std::string& name);

/// Whether the packets of the output have arrays that can be recorded or compared.
Status check_recordable(const GraphPlan& plan, const std::string& name);

/// Checks ports, packet types, formats and paths of the requests; touches no file. Errors name the request;
/// an unknown port comes with the nearest that exists.
Status check_taps(const std::vector<TapRequest>& requests, const GraphPlan& plan);

/// The taps and probes of a run.
class Taps {
 public:
  /// Checks the requests, also that their files can be written, and adds a stage for each to `plan`. No file
  /// is made before all requests are checked.
  Status attach(const std::vector<TapRequest>& requests, const std::vector<Probe>& probes, GraphPlan& plan);
  Status commit();
  void discard();

 private:
  void add(const Probe& probe, Output output, GraphPlan& plan);

  std::deque<StageInfo> stages_;
  std::vector<std::shared_ptr<Tap>> taps_;
};

}  // namespace flow
