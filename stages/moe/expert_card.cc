#include "stages/moe/expert_card.h"

#include <algorithm>
#include <cstring>

#include "framework/core/parallel.h"
#include "framework/core/units.h"
#include "stages/moe/host_experts.h"

namespace dsv {
using flow::Status;

namespace {

constexpr std::size_t kCardAlignment = 256;

std::size_t align_card(std::size_t bytes) {
  return (bytes + kCardAlignment - 1) / kCardAlignment * kCardAlignment;
}

std::size_t count(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

}  // namespace

CardLayout::CardLayout(const ExpertShape& shape) {
  const std::size_t elements = count(std::int64_t{shape.dim} * shape.inter);
  for (std::size_t i = 0; i < kParts; ++i) {
    offsets_[i + 1] = offsets_[i] + align_card(elements / (i % 2 == 0 ? 2 : 32));
  }
}

void CardLayout::pack(const ExpertPage& page, std::byte* to) const {
  constexpr std::int64_t kPiece = 1 << 20;
  const Fp4Matrix* const matrices[] = {&page.w1, &page.w2, &page.w3};
  for (std::size_t i = 0; i < kParts; ++i) {
    const Fp4Matrix& w = *matrices[i / 2];
    const std::uint8_t* from = i % 2 == 0 ? w.codes : w.scales;
    flow::parallel_for(w.rows * w.cols / (i % 2 == 0 ? 2 : 32), kPiece, [&](Range bytes) {
      std::memcpy(to + offsets_[i] + bytes.begin, from + bytes.begin, count(bytes.size()));
    });
  }
}

cuda::ExpertRows CardLayout::rows(const std::byte* expert) const {
  const auto weight = [&](std::size_t part) {
    return cuda::Fp4Weight{reinterpret_cast<const std::uint8_t*>(expert + offsets_[part]),
                           reinterpret_cast<const std::uint8_t*>(expert + offsets_[part + 1])};
  };
  return {weight(0), weight(2), weight(4)};
}

flow::Result<std::size_t> ExpertCard::slots(const CardLayout& layout, std::uint64_t vram,
                                            std::size_t experts) {
  const std::size_t slots = std::min<std::size_t>(vram / layout.bytes(), std::max<std::size_t>(experts, 2));
  if (slots >= 2) return slots;
  return flow::errorf("too little memory: {} for experts, but two of them take {}", flow::bytes_text(vram),
                      flow::bytes_text(2 * layout.bytes()));
}

flow::Result<std::unique_ptr<ExpertCard>> ExpertCard::open(std::unique_ptr<cuda::Device> device,
                                                           const ExpertShape& shape, std::uint64_t vram,
                                                           std::size_t experts) {
  std::unique_ptr<ExpertCard> card(new ExpertCard(std::move(device), shape));
  FLOW_ASSIGN(const std::size_t slots, slots(card->layout_, vram, experts));
  FLOW_TRY(card->allocate(slots));
  return card;
}

ExpertCard::ExpertCard(std::unique_ptr<cuda::Device> device, const ExpertShape& shape)
    : shape_(shape), layout_(shape), device_(std::move(device)) {}

Status ExpertCard::allocate(std::size_t slots) {
  FLOW_ASSIGN(experts_, device_->allocate(slots * layout_.bytes()));
  for (std::size_t i = 0; i < slots; ++i) {
    FLOW_ASSIGN(const cuda::Event computed, device_->make_event());
    slots_.push_back({-1, -1, experts_.get() + i * layout_.bytes(), computed});
  }
  for (Staging& staging : staging_) {
    FLOW_ASSIGN(staging.memory, device_->allocate_pinned(layout_.bytes()));
    FLOW_ASSIGN(staging.copied, device_->make_event());
  }
  FLOW_ASSIGN(done_, device_->make_event());
  return {};
}

Status ExpertCard::compute(const CardPass& pass, Result& result) {
  plan(pass);
  if (shares_.empty()) return {};
  FLOW_TRY(reserve(tokens_, pairs_));
  // Reading begins before anything else.
  const NextPage next = missing_.empty() ? NextPage() : pass.request(missing_);
  FLOW_TRY(send_inputs(pass));
  FLOW_TRY(compute_resident());
  if (next) FLOW_TRY(compute_missing(pass, next, result));
  return fetch_outputs(pass, result);
}

/// Sorts the rank's experts into those on the card and the others, and numbers their rows.
void ExpertCard::plan(const CardPass& pass) {
  shares_.clear();
  missing_.clear();
  pairs_ = 0;
  tokens_ = pass.x.rows();
  ExpertPairs all = pairs_by_expert(pass.routes);
  for (auto& [expert, pairs] : all) {
    if (!pass.owns(expert)) continue;
    if (Slot* slot = find(pass.layer, expert))
      shares_.push_back({expert, 0, std::move(pairs), slot});
    else
      missing_.push_back(expert);
  }
  resident_ = shares_.size();
  for (const std::int32_t expert : missing_) shares_.push_back({expert, 0, std::move(all[expert]), nullptr});
  for (Share& share : shares_) {
    share.first = static_cast<int>(pairs_);
    pairs_ += static_cast<std::int64_t>(share.pairs.size());
  }
  counts_.hits += resident_;
  counts_.misses += missing_.size();
}

Status ExpertCard::grow(Buffer& buffer, std::size_t bytes, bool pinned) {
  if (bytes <= buffer.size) return {};
  buffer = {};
  FLOW_ASSIGN(buffer.memory, pinned ? device_->allocate_pinned(bytes) : device_->allocate(bytes));
  buffer.size = bytes;
  return {};
}

Status ExpertCard::reserve(std::int64_t tokens, std::int64_t pairs) {
  const std::size_t dim = count(shape_.dim), inter = count(shape_.inter), t = count(tokens), p = count(pairs);
  const std::size_t inputs = t * dim * sizeof(bf16) + p * (sizeof(std::int32_t) + sizeof(float));
  FLOW_TRY(grow(inputs_, inputs, false));
  FLOW_TRY(grow(pinned_inputs_, inputs, true));
  FLOW_TRY(grow(digits_, t * dim / cuda::kBlock * sizeof(cuda::Digits), false));
  FLOW_TRY(grow(hidden_, p * inter * sizeof(bf16), false));
  FLOW_TRY(grow(hidden_digits_, p * inter / cuda::kBlock * sizeof(cuda::Digits), false));
  FLOW_TRY(grow(outputs_, p * dim * sizeof(bf16), false));
  return grow(pinned_outputs_, p * dim * sizeof(bf16), true);
}

Status ExpertCard::send_inputs(const CardPass& pass) {
  const std::size_t x_bytes = pass.x.bytes().size(), k = count(pass.routes.experts.cols());
  std::memcpy(pinned_inputs_.memory.get(), pass.x.data(), x_bytes);
  auto* token = pinned_inputs_.as<std::int32_t>(x_bytes);
  auto* weight = pinned_inputs_.as<float>(x_bytes + count(pairs_) * sizeof(std::int32_t));
  for (const Share& share : shares_) {
    for (const std::int64_t pair : share.pairs) {
      *token++ = static_cast<std::int32_t>(count(pair) / k);
      *weight++ = pass.routes.weights.data()[pair];
    }
  }
  const std::size_t bytes = x_bytes + count(pairs_) * (sizeof(std::int32_t) + sizeof(float));
  FLOW_TRY(device_->upload(cuda::Stream::compute, inputs_.memory.get(), pinned_inputs_.memory.get(), bytes));
  counts_.sent_bytes += bytes;
  const auto blocks = static_cast<int>(tokens_ * shape_.dim / cuda::kBlock);
  return device_->launch(cuda::Quantize{inputs_.as<bf16>(), digits_.as<cuda::Digits>(), blocks});
}

Status ExpertCard::compute_resident() {
  constexpr std::size_t kMost = cuda::ExpertGroup::kCapacity;
  for (std::size_t i = 0; i < resident_; i += kMost) {
    FLOW_TRY(launch(std::span(shares_).subspan(i, std::min(kMost, resident_ - i))));
  }
  return {};
}

Status ExpertCard::compute_missing(const CardPass& pass, const NextPage& next, Result& result) {
  while (!pass.cancelled()) {
    const auto ready = next();
    if (!ready.ok()) result.pages = ready.status();
    if (!ready.ok() || !*ready) break;
    const auto share = std::find_if(shares_.begin(), shares_.end(),
                                    [&](const Share& s) { return s.expert == (*ready)->expert; });
    FLOW_TRY(stage(pass, *(*ready)->page, *share));
    FLOW_TRY(launch({&*share, 1}));
  }
  return {};
}

/// Copies a page to the card: the host writes a staging buffer while the other one is under way.
Status ExpertCard::stage(const CardPass& pass, const ExpertPage& page, Share& share) {
  Staging& staging = staging_[next_staging_++ % staging_.size()];
  Slot& slot = replace(pass.layer, share.expert);
  FLOW_TRY(device_->finish(staging.copied));
  layout_.pack(page, staging.memory.get());
  FLOW_TRY(device_->wait(cuda::Stream::copy, slot.computed));
  FLOW_TRY(device_->upload(cuda::Stream::copy, slot.memory, staging.memory.get(), layout_.bytes()));
  FLOW_TRY(device_->record(staging.copied, cuda::Stream::copy));
  FLOW_TRY(device_->wait(cuda::Stream::compute, staging.copied));
  counts_.expert_bytes += layout_.bytes();
  share.slot = &slot;
  return {};
}

/// Starts the experts of `shares`, whose rows follow each other and whose weights are on the card or on their
/// way.
Status ExpertCard::launch(std::span<Share> shares) {
  cuda::ExpertGroup group;
  std::int64_t rows = 0;
  for (const Share& share : shares) {
    cuda::ExpertRows& expert = group.experts[group.size++];
    expert = layout_.rows(share.slot->memory);
    expert.first = share.first;
    expert.count = static_cast<int>(share.pairs.size());
    rows += expert.count;
  }
  const std::size_t x_bytes = count(tokens_ * shape_.dim) * sizeof(bf16);
  const std::size_t weights = x_bytes + count(pairs_) * sizeof(std::int32_t);
  FLOW_TRY(device_->launch(cuda::GateUp{group, digits_.as<cuda::Digits>(), inputs_.as<std::int32_t>(x_bytes),
                                        inputs_.as<float>(weights), hidden_.as<bf16>(), shape_.dim,
                                        shape_.inter, shape_.limit}));
  const std::int64_t first = std::int64_t{shares.front().first} * shape_.inter;
  FLOW_TRY(device_->launch(cuda::Quantize{hidden_.as<bf16>() + first,
                                          hidden_digits_.as<cuda::Digits>() + first / cuda::kBlock,
                                          static_cast<int>(rows * shape_.inter / cuda::kBlock)}));
  FLOW_TRY(device_->launch(
      cuda::Down{group, hidden_digits_.as<cuda::Digits>(), outputs_.as<bf16>(), shape_.dim, shape_.inter}));
  for (const Share& share : shares) FLOW_TRY(device_->record(share.slot->computed, cuda::Stream::compute));
  return {};
}

/// Waits for the card, also after a pass that was given up: the buffers are free then.
Status ExpertCard::fetch_outputs(const CardPass& pass, Result& result) {
  const std::size_t bytes = count(pairs_ * shape_.dim) * sizeof(bf16);
  FLOW_TRY(
      device_->download(cuda::Stream::compute, pinned_outputs_.memory.get(), outputs_.memory.get(), bytes));
  FLOW_TRY(device_->record(done_, cuda::Stream::compute));
  FLOW_TRY(device_->finish(done_));
  counts_.returned_bytes += bytes;
  ExpertOutputs& out = result.outputs;
  out.y = Rows<bf16>(pairs_, shape_.dim);
  std::memcpy(static_cast<void*>(out.y.data()), pinned_outputs_.memory.get(), bytes);
  out.token.reserve(count(pairs_));
  out.expert.reserve(count(pairs_));
  for (const Share& share : shares_) {
    for (const std::int64_t pair : share.pairs) {
      out.token.push_back(static_cast<std::int32_t>(pair / pass.routes.experts.cols()));
      out.expert.push_back(share.expert);
    }
  }
  return {};
}

/// The slot of an expert that is on the card, now the most recently used one.
ExpertCard::Slot* ExpertCard::find(int layer, std::int32_t expert) {
  const auto found = index_.find({layer, expert});
  if (found == index_.end()) return nullptr;
  slots_.splice(slots_.begin(), slots_, found->second);
  return &*found->second;
}

/// Gives the least recently used slot to another expert.
ExpertCard::Slot& ExpertCard::replace(int layer, std::int32_t expert) {
  slots_.splice(slots_.begin(), slots_, std::prev(slots_.end()));
  Slot& slot = slots_.front();
  index_.erase({slot.layer, slot.expert});
  slot.layer = layer;
  slot.expert = expert;
  index_[{layer, expert}] = slots_.begin();
  return slot;
}

}  // namespace dsv
