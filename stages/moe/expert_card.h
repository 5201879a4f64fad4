// One rank's experts on one card: a cache of packed experts, staging, and the passes that use them.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cuda/device.h"
#include "stages/model/packets.h"
#include "stages/moe/expert_cache.h"

namespace dsv {

/// Shapes of a routed expert: w1, w3 [inter, dim], w2 [dim, inter]; both multiples of 32.
struct ExpertShape {
  int dim = 0, inter = 0;
  float limit = 0;  ///< swiglu_limit
};

/// An expert as it lies on the card and in staging: six parts, each 256-byte aligned.
class CardLayout {
 public:
  explicit CardLayout(const ExpertShape& shape);
  std::size_t bytes() const { return offsets_.back(); }
  /// Copies a page's parts to `to`, on the compute workers.
  void pack(const ExpertPage& page, std::byte* to) const;
  cuda::ExpertRows rows(const std::byte* expert) const;

 private:
  static constexpr std::size_t kParts = 6;  // w1, w2, w3: codes and scales each
  std::array<std::size_t, kParts + 1> offsets_{};
};

using NextPage = std::function<flow::Result<std::optional<ExpertRequest::Ready>>()>;

/// The share of one pass that a rank computes.
struct CardPass {
  int layer = 0;
  const Rows<bf16>& x;  ///< [tokens, dim]
  const Routes& routes;
  std::function<bool(std::int32_t)> owns;  ///< whether the rank computes this expert
  /// Requests the experts that are not on the card; the result is ExpertRequest::next.
  std::function<NextPage(const std::vector<std::int32_t>&)> request;
  std::function<bool()> cancelled;
};

/// What a card did.
struct CardCounts {
  std::uint64_t hits = 0, misses = 0;  ///< experts found on the card, and copied to it
  std::uint64_t expert_bytes = 0, sent_bytes = 0, returned_bytes = 0;  ///< over the link
};

/// Experts that are on the card start at once; the others are copied through two staging buffers on the copy
/// stream while those before them compute. Only output rows come back. The host waits for events alone, and a
/// pass that is no larger than one before it allocates nothing on the card. Not thread-safe.
class ExpertCard {
 public:
  /// Takes up to `vram` bytes of the card for experts, at most `experts` of them.
  static flow::Result<std::unique_ptr<ExpertCard>> open(std::unique_ptr<cuda::Device> device,
                                                        const ExpertShape& shape, std::uint64_t vram,
                                                        std::size_t experts);
  /// Experts that `vram` bytes hold; an error when these are fewer than the two that copying beside computing
  /// needs.
  static flow::Result<std::size_t> slots(const CardLayout& layout, std::uint64_t vram, std::size_t experts);

  struct Result {
    ExpertOutputs outputs;  ///< one row for each pair; incomplete when the run is cancelled
    flow::Status pages;     ///< why pages could not be had
  };
  /// An error means that the card cannot be used any more.
  flow::Status compute(const CardPass& pass, Result& result);
  const CardCounts& counts() const { return counts_; }

 private:
  /// Memory that grows.
  struct Buffer {
    cuda::Memory memory;
    std::size_t size = 0;
    template <class T>
    T* as(std::size_t offset = 0) const {
      return reinterpret_cast<T*>(memory.get() + offset);
    }
  };
  struct Slot {
    int layer = -1;
    std::int32_t expert = -1;
    std::byte* memory = nullptr;
    cuda::Event computed;  // the last launch that read it
  };
  using Slots = std::list<Slot>;
  struct Staging {
    cuda::Memory memory;
    cuda::Event copied;
  };
  /// One expert of a pass: `count` rows from `first` on, for these indices into the routes.
  struct Share {
    std::int32_t expert = 0;
    int first = 0;
    flow::StepVector<std::int64_t> pairs;
    Slot* slot = nullptr;  // null while it is not on the card
  };

  ExpertCard(std::unique_ptr<cuda::Device> device, const ExpertShape& shape);
  flow::Status allocate(std::size_t slots);
  flow::Status reserve(std::int64_t tokens, std::int64_t pairs);
  flow::Status grow(Buffer& buffer, std::size_t bytes, bool pinned);
  void plan(const CardPass& pass);
  flow::Status send_inputs(const CardPass& pass);
  flow::Status compute_resident();
  flow::Status compute_missing(const CardPass& pass, const NextPage& next, Result& result);
  flow::Status stage(const CardPass& pass, const ExpertPage& page, Share& share);
  flow::Status launch(std::span<Share> shares);
  flow::Status fetch_outputs(const CardPass& pass, Result& result);
  Slot* find(int layer, std::int32_t expert);
  Slot& replace(int layer, std::int32_t expert);

  const ExpertShape shape_;
  const CardLayout layout_;
  CardCounts counts_;
  cuda::Memory experts_;
  Slots slots_;  // most recently used first
  std::map<std::pair<int, std::int32_t>, Slots::iterator> index_;
  std::array<Staging, 2> staging_;
  std::size_t next_staging_ = 0;
  Buffer inputs_, pinned_inputs_;  // x [tokens, dim], token of each row, weight of each row
  Buffer digits_, hidden_, hidden_digits_, outputs_, pinned_outputs_;
  cuda::Event done_;

  // Of the pass: experts on the card, then the others, each ascending.
  std::vector<Share> shares_;
  std::size_t resident_ = 0;  // of shares_
  std::vector<std::int32_t> missing_;
  std::int64_t tokens_ = 0, pairs_ = 0;

  std::unique_ptr<cuda::Device> device_;  // last: its work ends before the memory goes
};

}  // namespace dsv
