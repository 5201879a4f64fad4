#include "stages/moe/expert_store.h"

#include <algorithm>
#include <set>

namespace dsv {
using flow::Status;

void ExpertStore::describe(flow::ServiceSpec<Options>& spec) {
  spec.doc(
      "Packed routed experts, read from the shards on demand and kept in a bounded cache for each layer and "
      "device, "
      "least recently used out first.");
  spec.uses(kModel);
  spec.option("cache", &Options::cache, "experts kept for each layer and device").range(1, 1 << 20);
  spec.option("readers", &Options::readers, "reader threads").range(1, 64);
  spec.option("devices", &Options::devices, "devices that share the experts of a layer").range(1, 64);
}

Status ExpertStore::make_layouts(const flow::Opening& opening) {
  model_ = opening.service(kModel);
  if (options_.devices > model_->config().n_routed_experts) {
    return flow::errorf("devices is {}, but a layer has only {} experts", options_.devices,
                        model_->config().n_routed_experts);
  }
  for (int layer = 0; layer < model_->config().n_layers; ++layer) {
    FLOW_ASSIGN(ExpertLayout layout, ExpertLayout::make(*model_, layer));
    layouts_.push_back(std::move(layout));
  }
  return {};
}

Status ExpertStore::open(const flow::Opening& opening) {
  FLOW_TRY(make_layouts(opening));
  for (int layer = 0; layer < model_->config().n_layers; ++layer) {
    for (int device = 0; device < options_.devices; ++device) {
      auto load = [this, layer](int expert, ExpertCache::Done done) {
        const std::lock_guard lock(mutex_);
        jobs_.push_back({layer, expert, std::move(done)});
        work_.notify_one();
      };
      caches_[{layer, device}] =
          std::make_shared<ExpertCache>(static_cast<std::size_t>(options_.cache), load);
    }
  }
  for (int i = 0; i < options_.readers; ++i) {
    readers_.emplace_back([this](std::stop_token stop) { read_loop(std::move(stop)); });
  }
  return {};
}

flow::Result<std::vector<flow::PlanLine>> ExpertStore::plan(const flow::Opening& opening) {
  FLOW_TRY(make_layouts(opening));
  const ModelConfig& c = model_->config();
  const std::uint64_t page = layouts_.front().page_bytes(), layers = static_cast<std::uint64_t>(c.n_layers);
  const int each = (c.n_routed_experts + options_.devices - 1) / options_.devices;
  const auto slots = static_cast<std::uint64_t>(std::min(options_.cache, each) * options_.devices);
  return std::vector<flow::PlanLine>{{"expert cache", slots * layers * page, 0,
                                      static_cast<std::uint64_t>(c.n_activated_experts) * layers * page}};
}

ExpertStore::~ExpertStore() {
  for (std::jthread& reader : readers_) reader.request_stop();
  readers_.clear();
}

int ExpertStore::device_of(int expert) const {
  return static_cast<int>(std::int64_t{expert} * options_.devices / model_->config().n_routed_experts);
}

std::shared_ptr<ExpertRequest> ExpertStore::request(int layer, int device,
                                                    std::span<const std::int32_t> experts) {
  const ExpertLayout& layout = layouts_[static_cast<std::size_t>(layer)];
  std::set<std::pair<std::uint64_t, std::int32_t>> wanted;  // in file order
  for (const std::int32_t expert : experts) {
    if (device_of(expert) == device) wanted.emplace(layout.position(expert), expert);
  }
  std::vector<std::int32_t> ordered;
  for (const auto& [position, expert] : wanted) ordered.push_back(expert);
  return caches_.at({layer, device})->request(std::move(ordered));
}

void ExpertStore::read_loop(std::stop_token stop) {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      if (!work_.wait(lock, stop, [&] { return !jobs_.empty(); })) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job.done(layouts_[static_cast<std::size_t>(job.layer)].read(model_->checkpoint(), job.expert));
  }
}

void ExpertStore::close(flow::RunReport& report) {
  ExpertCounts total;
  for (const auto& [key, cache] : caches_) {
    const ExpertCounts counts = cache->counts();
    total.hits += counts.hits;
    total.misses += counts.misses;
  }
  const std::uint64_t bytes = layouts_.empty() ? 0 : total.misses * layouts_.front().page_bytes();
  report.set("experts", {{"hits", total.hits}, {"misses", total.misses}, {"bytes_read", bytes}});
}

FLOW_REGISTER_SERVICE(ExpertStore);

}  // namespace dsv
