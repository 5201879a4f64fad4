// The routed experts as a service: one bounded cache for each layer and device, and the threads that fill it.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "framework/core/registry.h"
#include "stages/moe/expert_cache.h"

namespace dsv {

class ExpertStore final : public flow::Service {
 public:
  struct Options {
    int cache = 16;
    int readers = 2;
    int devices = 1;
  };
  static void describe(flow::ServiceSpec<Options>& spec);
  explicit ExpertStore(Options options) : options_(options) {}
  ~ExpertStore() override;

  flow::Status open(const flow::Opening& opening) override;
  flow::Result<std::vector<flow::PlanLine>> plan(const flow::Opening& opening) override;
  void close(flow::RunReport& report) override;

  /// Starts loading those of `experts` (any order, repeats allowed) that `device` computes in `layer`.
  std::shared_ptr<ExpertRequest> request(int layer, int device, std::span<const std::int32_t> experts);
  int devices() const { return options_.devices; }

 private:
  struct Job {
    int layer = 0, expert = 0;
    ExpertCache::Done done;
  };
  flow::Status make_layouts(const flow::Opening& opening);
  /// Device that computes an expert: experts are dealt out in contiguous ranges.
  int device_of(int expert) const;
  void read_loop(std::stop_token stop);

  Options options_;
  std::shared_ptr<Model> model_;
  std::vector<ExpertLayout> layouts_;
  std::map<std::pair<int, int>, std::shared_ptr<ExpertCache>> caches_;  // (layer, device)
  std::mutex mutex_;
  std::condition_variable_any work_;
  std::deque<Job> jobs_;
  std::vector<std::jthread> readers_;
};

inline constexpr flow::Uses<ExpertStore> kExperts{"experts", "routed experts in memory"};

}  // namespace dsv
