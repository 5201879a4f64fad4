#include "stages/moe/expert_cards.h"

#include <algorithm>
#include <cstdlib>

#include "framework/core/units.h"

namespace dsv {
using flow::Result;
using flow::Status;

void ExpertCards::describe(flow::ServiceSpec<Options>& spec) {
  spec.doc(
      "Cards that compute routed experts, one for each device of the expert store; the host where there is "
      "none.");
  spec.uses(kModel).uses(kExperts);
  spec.option("device", &Options::device, "host, CUDA cards, or cards that the CPU emulates")
      .choices({"host", "cuda", "emulated"});
  spec.option("vram", &Options::vram,
              "memory of each card that experts may take; 0 = nine tenths of what is free");
  spec.option("oversubscribe", &Options::oversubscribe, "let several ranks share a card");
  spec.option("emulated_cards", &Options::emulated_cards,
              "emulated: cards of the machine; 0 = one for each rank")
      .range(0, 64);
  spec.option("emulated_memory", &Options::emulated_memory, "emulated: memory of each card");
  spec.option("emulated_fault", &Options::emulated_fault, "emulated: what goes wrong")
      .choices({"none", "no_driver", "no_card", "out_of_memory", "failed_launch", "lost_card"});
  spec.option("emulated_fault_at", &Options::emulated_fault_at,
              "emulated: which allocation, launch, or copy or launch it strikes")
      .range(1);
  spec.option("emulated_copy_delay", &Options::emulated_copy_delay,
              "emulated: microseconds that each copy takes longer")
      .range(0, 1e6);
  spec.option("emulated_op_delay", &Options::emulated_op_delay,
              "emulated: microseconds that each op takes longer")
      .range(0, 1e6);
}

cuda::EmulatedMachine ExpertCards::emulated_machine() const {
  const auto at = [&](std::string_view fault) {
    return options_.emulated_fault == fault ? options_.emulated_fault_at : 0;
  };
  cuda::EmulatedMachine machine;
  machine.devices = options_.emulated_cards > 0 ? options_.emulated_cards : store_->devices();
  if (options_.emulated_fault == "no_card") machine.devices = 0;
  machine.memory = options_.emulated_memory.count;
  if (options_.emulated_fault == "no_driver") machine.faults.no_driver = "there is no driver: injected";
  machine.faults.fail_allocation = at("out_of_memory");
  machine.faults.fail_launch = at("failed_launch");
  machine.faults.lose_device = at("lost_card");
  machine.faults.copy_delay = std::chrono::microseconds(options_.emulated_copy_delay);
  machine.faults.op_delay = std::chrono::microseconds(options_.emulated_op_delay);
  return machine;
}

Result<std::unique_ptr<cuda::Runtime>> ExpertCards::make_runtime() const {
  if (options_.device == "cuda") return cuda::cuda_runtime();
  return std::unique_ptr<cuda::Runtime>(std::make_unique<cuda::EmulatedRuntime>(emulated_machine()));
}

ExpertShape ExpertCards::shape() const {
  const ModelConfig& c = model_->config();
  return {c.dim, c.moe_inter_dim, static_cast<float>(c.swiglu_limit)};
}

Result<int> ExpertCards::find_cards(const flow::Opening& opening) {
  model_ = opening.service(kModel);
  store_ = opening.service(kExperts);
  FLOW_ASSIGN(runtime_, make_runtime());
  return runtime_->devices();
}

Status ExpertCards::check_ranks(int cards) const {
  if (store_->devices() <= cards || options_.oversubscribe) return {};
  const char* visible = options_.device == "cuda" ? std::getenv("CUDA_VISIBLE_DEVICES") : nullptr;
  return flow::errorf(
      "the experts are split over {} ranks, but there are {} cards{}; split over fewer, or let ranks share "
      "cards "
      "(oversubscribe)",
      store_->devices(), cards, visible ? fmt::format(" (CUDA_VISIBLE_DEVICES={})", visible) : "");
}

Result<ExpertCards::Place> ExpertCards::place(int rank, int cards, const flow::Telemetry& telemetry) {
  Place place;
  const int ordinal = rank % cards, sharing = (store_->devices() - ordinal + cards - 1) / cards;
  FLOW_ASSIGN(place.device, runtime_->open(ordinal, telemetry));
  if (!free_.contains(ordinal)) {
    FLOW_ASSIGN(free_[ordinal], place.device->free_memory());
  }
  const std::uint64_t free = free_.at(ordinal);
  const std::uint64_t wanted = options_.vram.count > 0 ? options_.vram.count : free / 10 * 9;
  if (wanted > free) {
    return flow::errorf("too little memory: {} wanted for experts, {} free", flow::bytes_text(wanted),
                        flow::bytes_text(free));
  }
  place.vram = wanted / static_cast<std::uint64_t>(sharing);
  const ModelConfig& c = model_->config();
  for (int e = 0; e < c.n_routed_experts; ++e) place.experts += store_->device_of(e) == rank ? 1 : 0;
  place.experts *= static_cast<std::size_t>(c.n_layers);
  return place;
}

Status ExpertCards::open(const flow::Opening& opening) {
  if (options_.device == "host") return {};
  telemetry_ = opening.telemetry();
  const auto cards = find_cards(opening);
  for (int rank = 0; rank < store_->devices(); ++rank) ranks_.push_back(std::make_unique<Rank>());
  if (!cards.ok()) {
    opening.console().note("experts: on the host: " + cards.status().message());
    return {};
  }
  FLOW_TRY(check_ranks(*cards));
  for (int rank = 0; rank < store_->devices(); ++rank) {
    const Status status = open_card(rank, *cards);
    if (!status.ok()) {
      opening.console().note(fmt::format("experts: rank {} on the host: {}", rank, status.message()));
    }
  }
  return {};
}

Status ExpertCards::open_card(int rank, int cards) {
  FLOW_ASSIGN(Place p, place(rank, cards, telemetry_));
  FLOW_ASSIGN(ranks_[static_cast<std::size_t>(rank)]->card,
              ExpertCard::open(std::move(p.device), shape(), p.vram, p.experts));
  return {};
}

Result<std::vector<flow::PlanLine>> ExpertCards::plan(const flow::Opening& opening) {
  if (options_.device == "host") return std::vector<flow::PlanLine>{};
  const auto cards = find_cards(opening);
  if (!cards.ok()) return std::vector<flow::PlanLine>{{"experts on the host: " + cards.status().message()}};
  FLOW_TRY(check_ranks(*cards));
  const CardLayout layout(shape());
  std::vector<flow::PlanLine> lines;
  for (int rank = 0; rank < store_->devices(); ++rank) {
    const auto placed = place(rank, *cards, {});
    const auto slots =
        placed.ok() ? ExpertCard::slots(layout, placed->vram, placed->experts) : placed.status();
    if (!slots.ok()) {
      lines.push_back({fmt::format("rank {} on the host: {}", rank, slots.status().message())});
      continue;
    }
    lines.push_back({fmt::format("rank {} on {}: {} of {} experts, {} of its memory", rank,
                                 placed->device->name(), std::min(*slots, placed->experts), placed->experts,
                                 flow::bytes_text(*slots * layout.bytes())),
                     2 * layout.bytes(), 0, 0});
  }
  return lines;
}

Result<std::optional<ExpertOutputs>> ExpertCards::compute(int rank, const CardPass& pass,
                                                          flow::Console& console) {
  if (ranks_.empty()) return std::optional<ExpertOutputs>();
  Rank& r = *ranks_[static_cast<std::size_t>(rank)];
  const std::lock_guard lock(r.mutex);
  if (!r.card) return std::optional<ExpertOutputs>();
  ExpertCard::Result result;
  const CardCounts before = r.card->counts();
  const Status status = r.card->compute(pass, result);
  const CardCounts after = r.card->counts();
  telemetry_.add("hits", static_cast<double>(after.hits - before.hits));
  telemetry_.add("misses", static_cast<double>(after.misses - before.misses));
  telemetry_.add("bytes", static_cast<double>(after.expert_bytes - before.expert_bytes));
  if (!status.ok()) {
    console.note(fmt::format("experts: rank {} continues on the host: {}", rank, status.message()));
    r.lost = after;
    r.card.reset();
    return std::optional<ExpertOutputs>();
  }
  FLOW_TRY(result.pages);
  return std::optional<ExpertOutputs>(std::move(result.outputs));
}

void ExpertCards::close(flow::RunReport& report) {
  boost::json::array ranks;
  for (const auto& rank : ranks_) {
    const CardCounts counts = rank->card ? rank->card->counts() : rank->lost;
    ranks.push_back({{"on_card", rank->card != nullptr},
                     {"hits", counts.hits},
                     {"misses", counts.misses},
                     {"expert_bytes", counts.expert_bytes},
                     {"sent_bytes", counts.sent_bytes},
                     {"returned_bytes", counts.returned_bytes}});
  }
  if (!ranks.empty()) report.set("cards", std::move(ranks));
}

FLOW_REGISTER_SERVICE(ExpertCards);

}  // namespace dsv
