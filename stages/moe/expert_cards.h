// The cards that compute routed experts, as a service: one for each rank, or none where the host does the
// work.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "cuda/emulated_device.h"
#include "framework/core/registry.h"
#include "stages/moe/expert_card.h"
#include "stages/moe/expert_store.h"

namespace dsv {

/// Opens a card for each device of the expert store (a rank). What keeps a rank from its card, at the start
/// or in the middle of a run, is one remark to the person watching, and the rank's experts are computed on
/// the host from then on: the same bits.
class ExpertCards final : public flow::Service {
 public:
  struct Options {
    std::string device = "host";
    flow::Bytes vram;
    bool oversubscribe = false;
    int emulated_cards = 0;
    flow::Bytes emulated_memory{std::uint64_t{1} << 30};
    std::string emulated_fault = "none";
    int emulated_fault_at = 1;
    int emulated_copy_delay = 0;
    int emulated_op_delay = 0;
  };
  static void describe(flow::ServiceSpec<Options>& spec);
  explicit ExpertCards(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening& opening) override;
  flow::Result<std::vector<flow::PlanLine>> plan(const flow::Opening& opening) override;
  void close(flow::RunReport& report) override;

  /// The rank's share of a pass, computed on its card; nothing when the host has to do it. An error means
  /// that pages could not be had.
  flow::Result<std::optional<ExpertOutputs>> compute(int rank, const CardPass& pass, flow::Console& console);

 private:
  struct Rank {
    std::mutex mutex;
    std::unique_ptr<ExpertCard> card;  // null: the host
    CardCounts lost;                   // what a lost card had done
  };
  /// Where a rank would run and with how many experts on its card.
  struct Place {
    std::unique_ptr<cuda::Device> device;
    std::uint64_t vram = 0;
    std::size_t experts = 0;  // of all layers
  };
  cuda::EmulatedMachine emulated_machine() const;
  flow::Result<std::unique_ptr<cuda::Runtime>> make_runtime() const;
  /// Cards that there are; an error when there are none.
  flow::Result<int> find_cards(const flow::Opening& opening);
  flow::Status check_ranks(int cards) const;
  flow::Status open_card(int rank, int cards);
  flow::Result<Place> place(int rank, int cards, const flow::Telemetry& telemetry);
  ExpertShape shape() const;

  Options options_;
  std::shared_ptr<Model> model_;
  std::shared_ptr<ExpertStore> store_;
  flow::Telemetry telemetry_;
  std::unique_ptr<cuda::Runtime> runtime_;
  std::map<int, std::uint64_t> free_;  // of each card, before experts took any
  std::vector<std::unique_ptr<Rank>> ranks_;
};

inline constexpr flow::Uses<ExpertCards> kCards{"cards", "cards that compute routed experts"};

}  // namespace dsv
