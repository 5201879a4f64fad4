#include "stages/moe/expert_store.h"

#include <algorithm>
#include <set>

#include "framework/core/units.h"

namespace dsv {
using flow::Result;
using flow::Status;
namespace {

constexpr int kDefaultCache = 16;
/// Passes that `recent` looks back on.
constexpr std::size_t kRecentPasses = 4;

const std::vector<std::string> kPredictors = {"none", "recent", "gate"};

}  // namespace

void ExpertStore::describe(flow::ServiceSpec<Options>& spec) {
  spec.doc(
      "Packed routed experts, read from the shards on demand and kept in a bounded cache for each layer and "
      "device.");
  spec.uses(kModel).uses(kIo);
  spec.option("cache", &Options::cache, "experts kept for each layer and device; 0 = as `memory` says, or 16")
      .range(0, 1 << 20);
  spec.option("memory", &Options::memory,
              "bytes of all expert pages, which set the size of the caches instead");
  spec.option("policy", &Options::policy, "what leaves a full cache: stages/moe/cache_policy.h")
      .choices(cache_policies());
  spec.option("predictor", &Options::predictor, "how ExpertPredict guesses").choices(kPredictors);
  spec.option("ahead", &Options::ahead, "most pages read on a guess; 0 = twice the experts of a token")
      .range(0, 1 << 20);
  spec.option("devices", &Options::devices, "devices that share the experts of a layer").range(1, 64);
}

Status ExpertStore::bind(const flow::Opening& opening) {
  model_ = opening.service(kModel);
  if (options_.devices > model_->config().n_routed_experts) {
    return flow::errorf("devices is {}, but a layer has only {} experts", options_.devices,
                        model_->config().n_routed_experts);
  }
  for (int layer = 0; layer < model_->config().n_layers; ++layer) {
    FLOW_ASSIGN(ExpertLayout layout, ExpertLayout::make(*model_, layer));
    layouts_.push_back(std::move(layout));
  }
  const auto name = std::find(kPredictors.begin(), kPredictors.end(), options_.predictor);
  predictor_ = static_cast<Predictor>(name - kPredictors.begin());
  return {};
}

/// Experts of the device that has most.
int ExpertStore::experts_each() const {
  return (model_->config().n_routed_experts + options_.devices - 1) / options_.devices;
}

Result<ExpertStore::Sizes> ExpertStore::sizes() const {
  if (options_.cache > 0 && options_.memory.count > 0)
    return Status::error("cache and memory are both set; the size of the caches follows from either");
  if (options_.ahead > 0 && predictor_ == Predictor::none)
    return Status::error("ahead is set, but the predictor is none");
  Sizes sizes;
  const auto caches = layouts_.size() * static_cast<std::size_t>(options_.devices);
  const int slots = std::min(options_.cache > 0 ? options_.cache : kDefaultCache, experts_each());
  sizes.slots.assign(caches, static_cast<std::size_t>(slots));
  if (predictor_ != Predictor::none) {
    sizes.ahead = static_cast<std::size_t>(options_.ahead > 0 ? options_.ahead
                                                              : 2 * model_->config().n_activated_experts);
  }
  return options_.memory.count > 0 ? within_memory(std::move(sizes)) : sizes;
}

/// Deals the pages that fit out evenly, what is left over to the first caches.
Result<ExpertStore::Sizes> ExpertStore::within_memory(Sizes sizes) const {
  const std::uint64_t page = layouts_.front().page_bytes(), caches = sizes.slots.size();
  const std::uint64_t pages = options_.memory.count / page;
  if (pages < caches + sizes.ahead) {
    return flow::errorf(
        "memory {} holds {} expert pages of {}, but {} are needed at least: one for each of {} caches and {} "
        "for guesses; give {} or more",
        flow::bytes_text(options_.memory.count), pages, flow::bytes_text(page), caches + sizes.ahead, caches,
        sizes.ahead, flow::bytes_text((caches + sizes.ahead) * page));
  }
  const std::uint64_t share = (pages - sizes.ahead) / caches, rest = (pages - sizes.ahead) % caches;
  for (std::size_t i = 0; i < caches; ++i) {
    const std::uint64_t slots = share + (i < rest ? 1 : 0);
    sizes.slots[i] = std::min<std::uint64_t>(slots, static_cast<std::uint64_t>(experts_each()));
  }
  return sizes;
}

Status ExpertStore::open(const flow::Opening& opening) {
  FLOW_TRY(bind(opening));
  FLOW_ASSIGN(const Sizes sizes, this->sizes());
  pool_ = std::make_shared<PagePool>(layouts_.front().page_bytes());
  telemetry_ = opening.telemetry();
  reader_ = std::make_unique<Reader>(opening.service(kIo));
  recent_.resize(layouts_.size());
  guesses_ = std::make_unique<ExpertGuesses>(
      sizes.ahead,
      [this](int layer, int expert, ExpertCache::Done done) {
        return read(layer, expert, Urgency::guessed, std::move(done));
      },
      [this](const ReadTicket& ticket) { reader_->hurry(ticket); },
      [this](const ReadTicket& ticket) { reader_->drop(ticket); });
  for (std::size_t i = 0; i < sizes.slots.size(); ++i) {
    auto load = [this, layer = static_cast<int>(i) / options_.devices](int expert, ExpertCache::Done done) {
      return this->load(layer, expert, done);
    };
    caches_.push_back(std::make_shared<ExpertCache>(
        sizes.slots[i], static_cast<std::size_t>(model_->config().n_routed_experts),
        cache_policy(options_.policy), load, opening.cancel_flag()));
  }
  return {};
}

Result<std::vector<flow::PlanLine>> ExpertStore::plan(const flow::Opening& opening) {
  FLOW_TRY(bind(opening));
  FLOW_ASSIGN(const Sizes sizes, this->sizes());
  const std::uint64_t page = layouts_.front().page_bytes();
  std::uint64_t slots = 0;
  for (const std::size_t each : sizes.slots) slots += each;
  const auto read = static_cast<std::uint64_t>(model_->config().n_activated_experts) * layouts_.size() * page;
  std::vector<flow::PlanLine> lines{{"expert cache", slots * page, 0, read}};
  if (sizes.ahead > 0) lines.push_back({"guessed experts", sizes.ahead * page, 0, 0});
  return lines;
}

int ExpertStore::device_of(int expert) const {
  return static_cast<int>(std::int64_t{expert} * options_.devices / model_->config().n_routed_experts);
}

ExpertCache& ExpertStore::cache(int layer, int device) const {
  return *caches_[static_cast<std::size_t>(layer * options_.devices + device)];
}

std::shared_ptr<ExpertRequest> ExpertStore::request(int layer, int device,
                                                    std::span<const std::int32_t> experts, Phase phase,
                                                    Reading reading) {
  const ExpertLayout& layout = layouts_[static_cast<std::size_t>(layer)];
  flow::StepVector<std::int32_t> ordered;  // distinct, in file order
  ordered.reserve(experts.size());
  std::copy_if(experts.begin(), experts.end(), std::back_inserter(ordered),
               [&](std::int32_t expert) { return device_of(expert) == device; });
  std::sort(ordered.begin(), ordered.end(), [&](std::int32_t a, std::int32_t b) {
    return std::pair(layout.position(a), a) < std::pair(layout.position(b), b);
  });
  ordered.erase(std::unique(ordered.begin(), ordered.end()), ordered.end());
  if (device == 0 && predictor_ != Predictor::none) remember(layer, experts);
  auto request = cache(layer, device).request(std::move(ordered), phase, reading);
  if (telemetry_) telemetry_.level("cache hits", static_cast<double>(counts().hits));
  return request;
}

ExpertCounts ExpertStore::counts() const {
  ExpertCounts total;
  for (const auto& cache : caches_) {
    const ExpertCounts counts = cache->counts();
    total.hits += counts.hits;
    total.misses += counts.misses;
  }
  return total;
}

/// The page from the guesses, or a read of it.
ExpertPagePtr ExpertStore::load(int layer, int expert, const ExpertCache::Done& done) {
  ExpertGuesses::Taken taken = guesses_->take(layer, expert, done);
  if (!taken.page && !taken.coming) read(layer, expert, Urgency::needed, done);
  return taken.page;
}

ReadTicket ExpertStore::read(int layer, int expert, Urgency urgency, ExpertCache::Done done) {
  ExpertLayout::Filling filling =
      layouts_[static_cast<std::size_t>(layer)].prepare(model_->checkpoint(), expert, pool_->take());
  return reader_->start(
      std::move(filling.reads), urgency,
      [layer, expert, page = std::move(filling.page), done = std::move(done)](Status status) mutable {
        // Handed over: the page's memory is free when its slot is.
        if (status.ok()) return done(ExpertPagePtr(std::move(page)));
        done(status.in(fmt::format("layers.{}.ffn.experts.{}", layer, expert)));
      });
}

Status ExpertStore::expect_guesses() {
  guessing_ = true;
  if (predictor_ != Predictor::none) return {};
  return Status::error("the graph guesses experts, but the predictor of the expert store is none");
}

Status ExpertStore::check_guesses() const {
  if (predictor_ == Predictor::none || guessing_) return {};
  return flow::errorf("the predictor is {}, but the graph has no stage ExpertPredict", options_.predictor);
}

void ExpertStore::guess(int layer, std::span<const std::int32_t> experts) {
  for (const std::int32_t expert : experts) {
    if (!cache(layer, device_of(expert)).holds(expert)) guesses_->guess(layer, expert);
  }
}

void ExpertStore::remember(int layer, std::span<const std::int32_t> experts) {
  guesses_->settle(layer, experts);
  const std::set<std::int32_t> distinct(experts.begin(), experts.end());
  const std::lock_guard lock(mutex_);
  auto& passes = recent_[static_cast<std::size_t>(layer)];
  passes.emplace_front(distinct.begin(), distinct.end());
  if (passes.size() > kRecentPasses) passes.pop_back();
}

std::vector<std::int32_t> ExpertStore::recent(int layer) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::int32_t> experts;
  for (const auto& pass : recent_[static_cast<std::size_t>(layer)]) {
    for (const std::int32_t expert : pass) {
      if (std::find(experts.begin(), experts.end(), expert) == experts.end()) experts.push_back(expert);
    }
  }
  return experts;
}

void ExpertStore::close(flow::RunReport& report) {
  const ExpertCounts total = counts();
  const GuessCounts guesses = guesses_ ? guesses_->counts() : GuessCounts();
  telemetry_.add("hits", static_cast<double>(total.hits));
  telemetry_.add("misses", static_cast<double>(total.misses));
  const std::uint64_t page = layouts_.empty() ? 0 : layouts_.front().page_bytes();
  boost::json::object section = {{"hits", total.hits},
                                 {"misses", total.misses},
                                 {"bytes_used", total.misses * page},
                                 {"bytes_read", (total.misses + guesses.started - guesses.used) * page},
                                 {"policy", options_.policy},
                                 {"predictor", options_.predictor}};
  if (predictor_ != Predictor::none) {
    const auto judged = static_cast<double>(guesses.used + guesses.wrong);
    section["guesses"] = {{"read", guesses.started},
                          {"used", guesses.used},
                          {"wrong", guesses.wrong},
                          {"hit_rate", judged > 0 ? static_cast<double>(guesses.used) / judged : 0.0}};
  }
  report.set("experts", std::move(section));
}

FLOW_REGISTER_SERVICE(ExpertStore);

}  // namespace dsv
