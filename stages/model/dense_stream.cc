#include "stages/model/dense_stream.h"

#include <algorithm>

namespace dsv {
using flow::Result;
using flow::Status;

void DenseStream::describe(flow::ServiceSpec<Options>& spec) {
  spec.doc("Reads the dense weights that the model leaves out, a layer ahead of their use.");
  spec.uses(kModel).uses(kIo);
}

Status DenseStream::open(const flow::Opening& opening) {
  model_ = opening.service(kModel);
  cancelled_ = &opening.cancel_flag();
  reader_ = std::make_unique<Reader>(opening.service(kIo));
  layers_.resize(model_->streamed().size());
  return {};
}

Result<std::vector<flow::PlanLine>> DenseStream::plan(const flow::Opening& opening) {
  std::vector<std::uint64_t> sizes;
  std::uint64_t all = 0;
  for (const StreamedLayer& layer : opening.service(kModel)->streamed())
    all += sizes.emplace_back(layer.bytes);
  if (all == 0) return std::vector<flow::PlanLine>{};
  // A pass that enters a layer still has the one before, and has asked for the next.
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::uint64_t some = 0;
    for (std::size_t k = i; k < std::min(i + 3, i + sizes.size()); ++k) some += sizes[k % sizes.size()];
    most = std::max(most, some);
  }
  return std::vector<flow::PlanLine>{{"streamed weights", most, 0, all}};
}

void DenseStream::prepare(int layer) {
  const auto index = static_cast<std::size_t>(layer);
  Reads reads;
  {
    const std::lock_guard lock(mutex_);
    Layer& state = layers_[index];
    if (state.coming || state.there) return;
    state.coming = true;
    state.failure = {};
    ++loads_;
    bytes_ += model_->streamed()[index].bytes;
  }
  for (const auto& [tensor, memory] : model_->streamed()[index].tensors)
    reads.push_back({&model_->checkpoint().file_of(*tensor), tensor->begin, {memory, tensor->bytes()}});
  if (reads.empty()) return arrived(layer, {});
  const ReadTicket ticket = reader_->start(std::move(reads), Urgency::guessed,
                                           [this, layer](Status status) { arrived(layer, status); });
  const std::lock_guard lock(mutex_);
  if (layers_[index].coming) layers_[index].ticket = ticket;
}

void DenseStream::arrived(int layer, Status status) {
  const std::lock_guard lock(mutex_);
  Layer& state = layers_[static_cast<std::size_t>(layer)];
  state.coming = false;
  state.ticket = nullptr;
  state.there = status.ok();
  state.failure = status.in(fmt::format("layers.{}", layer));
  arrival_.notify_all();
}

Status DenseStream::enter(int layer) {
  std::unique_lock lock(mutex_);
  Layer& state = layers_[static_cast<std::size_t>(layer)];
  ++state.users;  // from now on it stays
  lock.unlock();
  prepare(layer);
  lock.lock();
  if (const ReadTicket ticket = state.ticket) {
    lock.unlock();
    reader_->hurry(ticket);
    lock.lock();
  }
  while (!arrival_.wait_for(lock, kGlance, [&] { return !state.coming; })) {
    if (*cancelled_) return Status::error("the run was cancelled");
  }
  return state.failure;
}

void DenseStream::leave(int layer) {
  const std::lock_guard lock(mutex_);
  Layer& state = layers_[static_cast<std::size_t>(layer)];
  if (--state.users > 0 || !state.there) return;
  state.there = false;
  model_->streamed()[static_cast<std::size_t>(layer)].memory.discard();
}

void DenseStream::close(flow::RunReport& report) {
  if (!layers_.empty()) report.set("dense", {{"layers_read", loads_}, {"bytes_read", bytes_}});
}

FLOW_REGISTER_SERVICE(DenseStream);

}  // namespace dsv
