// The routed experts as a service: a bounded cache for each layer and device, and the reads that fill it.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "framework/core/registry.h"
#include "stages/model/packets.h"
#include "stages/moe/expert_cache.h"
#include "stages/moe/expert_guesses.h"

namespace dsv {

/// What a pass is for the cache policies.
inline Phase phase_of(const Step& step) {
  return step.position < static_cast<std::int64_t>(step.sequence->prompt.size()) ? Phase::prefill
                                                                                 : Phase::decode;
}

/// How ExpertPredict guesses.
enum class Predictor : std::uint8_t { none, recent, gate };

class ExpertStore final : public flow::Service {
 public:
  struct Options {
    int cache = 0;
    flow::Bytes memory;
    std::string policy = "lru";
    std::string predictor = "none";
    int ahead = 0;
    int devices = 1;
  };
  static void describe(flow::ServiceSpec<Options>& spec);
  explicit ExpertStore(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening& opening) override;
  flow::Result<std::vector<flow::PlanLine>> plan(const flow::Opening& opening) override;
  void close(flow::RunReport& report) override;

  /// Starts loading those of `experts` (any order, repeats allowed) that `device` computes in `layer`.
  std::shared_ptr<ExpertRequest> request(int layer, int device, std::span<const std::int32_t> experts,
                                         Phase phase = Phase::decode, Reading reading = Reading::ahead);
  int devices() const { return options_.devices; }
  /// Device that computes an expert: experts are dealt out in contiguous ranges.
  int device_of(int expert) const;

  Predictor predictor() const { return predictor_; }
  /// Called by stages that will guess. Error: the store was not told to have any room for guesses.
  flow::Status expect_guesses();
  /// Error: the store was told of a predictor, but no stage guesses.
  flow::Status check_guesses() const;
  /// Reads ahead what is not in memory of `experts`, likely ones first, as far as there is room.
  void guess(int layer, std::span<const std::int32_t> experts);
  /// Experts of the last passes in `layer`, latest first.
  std::vector<std::int32_t> recent(int layer) const;

 private:
  /// What the options come to for this model.
  struct Sizes {
    std::vector<std::size_t> slots;  // of each cache, by layer and then device
    std::size_t ahead = 0;           // pages for guesses
  };
  flow::Status bind(const flow::Opening& opening);
  flow::Result<Sizes> sizes() const;
  flow::Result<Sizes> within_memory(Sizes sizes) const;
  int experts_each() const;
  ExpertCache& cache(int layer, int device) const;
  ExpertPagePtr load(int layer, int expert, const ExpertCache::Done& done);
  ReadTicket read(int layer, int expert, Urgency urgency, ExpertCache::Done done);
  void remember(int layer, std::span<const std::int32_t> experts);
  ExpertCounts counts() const;

  const Options options_;
  Predictor predictor_ = Predictor::none;
  flow::Telemetry telemetry_;
  std::shared_ptr<Model> model_;
  std::vector<ExpertLayout> layouts_;
  std::atomic<bool> guessing_{false};
  mutable std::mutex mutex_;
  std::vector<std::deque<std::vector<std::int32_t>>> recent_;  // by layer, latest pass first
  std::shared_ptr<PagePool> pool_;
  std::unique_ptr<ExpertGuesses> guesses_;
  std::vector<std::shared_ptr<ExpertCache>> caches_;  // by layer and then device
  std::unique_ptr<Reader> reader_;                    // last: none of its reads outlives the others
};

inline constexpr flow::Uses<ExpertStore> kExperts{"experts", "routed experts in memory"};

}  // namespace dsv
