// Graphs for tests of the runtime, made without YAML: stages are lambdas, packets are numbers.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/plan.h"
#include "framework/runtime/runner.h"

namespace flow_test {

struct Number {
  std::int64_t value = 0;
};

}  // namespace flow_test

template <>
struct flow::PacketTraits<flow_test::Number> {
  static constexpr std::string_view name = "Number";
  static std::vector<TensorRef> tensors(const flow_test::Number& n) {
    return {{"value", "I64", {1}, std::as_bytes(std::span(&n.value, 1))}};
  }
};

namespace flow_test {

using flow::Context;
using flow::Executor;
using flow::InputPolicy;
using flow::Stamp;
using flow::Status;

/// Ports by name, as the lambdas use them.
inline flow::In<Number> in(std::string_view name) {
  return {name, ""};
}
inline flow::OptionalIn<Number> optional_in(std::string_view name) {
  return {name, ""};
}
inline flow::ManyIn<Number> many_in(std::string_view name) {
  return {name, ""};
}
inline flow::Out<Number> out(std::string_view name = "out") {
  return {name, ""};
}
inline std::int64_t value(Context& context, std::string_view port = "in") {
  return context.in(in(port)).value;
}
inline void send(Context& context, std::int64_t value, std::string_view port = "out") {
  context.emit(out(port), Number{value});
}
inline void send_at(Context& context, std::int64_t value, Stamp stamp, std::string_view port = "out") {
  context.emit(out(port), std::make_shared<const Number>(Number{value}), stamp);
}

using Body = std::function<Status(Context&)>;

/// What a test stage does, and how it is declared.
struct Spec {
  Body process;
  std::vector<std::string> outputs = {"out"};
  InputPolicy policy = InputPolicy::all;
  Executor executor = Executor::compute;
  int concurrency = 1;
  std::function<Status(const flow::Opening&)> open = {};
  std::function<Status()> close = {};
  std::function<void()> construct = {}, destroy = {};
  std::vector<std::string> optional_inputs = {};  ///< declared although no edge leads to them
};

/// An edge: input port, "node.output", and whether it is a feedback edge.
struct Link {
  std::string input, from;
  bool feedback = false;
};

class LambdaStage final : public flow::Stage {
 public:
  explicit LambdaStage(const Spec& spec) : spec_(spec) {
    if (spec_.construct) spec_.construct();
  }
  ~LambdaStage() override {
    if (spec_.destroy) spec_.destroy();
  }
  Status open(const flow::Opening& opening) override { return spec_.open ? spec_.open(opening) : Status(); }
  Status process(Context& context) override { return spec_.process(context); }
  Status close(flow::Console&, flow::RunReport&) override { return spec_.close ? spec_.close() : Status(); }

 private:
  Spec spec_;
};

/// Builds a plan node by node; a link may name a node that is added later. Must outlive the runs.
class TestGraph {
 public:
  TestGraph& add(const std::string& name, Spec spec, std::vector<Link> links = {});
  /// A source that sends the numbers 0 to count - 1, one an invocation.
  TestGraph& add_counter(const std::string& name, int count, Executor executor = Executor::compute);
  /// Binds a service type that the next stages do not use; for lifecycle tests.
  TestGraph& add_service(const std::string& name, flow::ServiceInfo info);
  flow::RuntimePlan runtime{.threads = 2, .io_threads = 2, .max_in_flight = 4, .watchdog = 20};
  flow::GraphPlan plan() const;

 private:
  struct Entry {
    std::string name;
    std::vector<Link> links;
  };
  std::deque<flow::StageInfo> infos_;
  std::deque<flow::ServiceInfo> service_infos_;
  std::vector<std::string> service_names_;
  std::vector<Entry> entries_;
};

/// Runs the graph once, quietly.
Status run(const TestGraph& graph);

/// Values in the order they were added, from any thread.
template <class T>
class Log {
 public:
  void add(T item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
  }
  std::vector<T> items() const {
    const std::lock_guard lock(mutex_);
    return items_;
  }
  std::size_t size() const { return items().size(); }

 private:
  mutable std::mutex mutex_;
  std::vector<T> items_;
};

/// A stage that logs the value of its input "in".
Spec sink(Log<std::int64_t>& log);

/// Something that threads wait for. Waiting ends after 20 s in any case, so that a failing test ends.
class Latch {
 public:
  void open();
  bool wait() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool open_ = false;
};

}  // namespace flow_test
