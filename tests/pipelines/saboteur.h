// Stages of a plan that do something else first.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "framework/core/plan.h"

namespace dsv::testing {

/// Called before a stage's own process(); an error or an exception takes its place.
using Before = std::function<flow::Status(flow::Context&)>;

/// A stage with something before it.
class WrappedStage final : public flow::Stage {
 public:
  WrappedStage(std::unique_ptr<flow::Stage> inner, Before before)
      : inner_(std::move(inner)), before_(std::move(before)) {}
  flow::Status open(const flow::Opening& opening) override { return inner_->open(opening); }
  flow::Status process(flow::Context& context) override {
    FLOW_TRY(before_(context));
    return inner_->process(context);
  }
  flow::Status close(flow::Console& console, flow::RunReport& report) override {
    return inner_->close(console, report);
  }

 private:
  std::unique_ptr<flow::Stage> inner_;
  const Before before_;
};

/// Puts `before` in front of a node's stage.
inline void wrap(flow::NodePlan& node, Before before) {
  static std::mutex mutex;
  static std::deque<flow::StageInfo> types;  // for ever: a run that is left behind may still use them
  const std::lock_guard lock(mutex);
  flow::StageInfo& info = types.emplace_back(*node.stage);
  info.make = [make = node.stage->make, before = std::move(before)](const void* options) {
    return std::make_unique<WrappedStage>(make(options), before);
  };
  node.stage = &info;
}

}  // namespace dsv::testing
