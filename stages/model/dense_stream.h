// Dense weights that do not fit: read a layer ahead of the pass that needs them.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "framework/core/registry.h"
#include "stages/model/io/storage.h"
#include "stages/model/model.h"

namespace dsv {

/// Brings the weights that a Model with `dense: streamed` leaves out to the places where its stages look for
/// them, layer by layer, and takes them away again: about two layers are in memory at a time. The stage
/// DenseWeights calls it. Thread-safe.
class DenseStream final : public flow::Service {
 public:
  struct Options {};
  static void describe(flow::ServiceSpec<Options>& spec);
  explicit DenseStream(Options) {}

  flow::Status open(const flow::Opening& opening) override;
  flow::Result<std::vector<flow::PlanLine>> plan(const flow::Opening& opening) override;
  void close(flow::RunReport& report) override;

  /// Starts reading a layer, unless it is in memory or on its way.
  void prepare(int layer);
  /// Waits for a layer, which then stays until leave(). Errors of the read; the run is cancelled.
  flow::Status enter(int layer);
  void leave(int layer);

 private:
  struct Layer {
    bool coming = false, there = false;
    int users = 0;
    ReadTicket ticket;  // while it is coming
    flow::Status failure;
  };
  void arrived(int layer, flow::Status status);

  std::shared_ptr<Model> model_;
  const std::atomic<bool>* cancelled_ = nullptr;
  std::mutex mutex_;
  std::condition_variable arrival_;
  std::vector<Layer> layers_;
  std::uint64_t loads_ = 0, bytes_ = 0;
  std::unique_ptr<Reader> reader_;  // last: none of its reads outlives the others
};

inline constexpr flow::Uses<DenseStream> kDense{"dense", "dense weights that are read layer by layer"};

}  // namespace dsv
