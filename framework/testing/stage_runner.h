// StageRunner: one stage without a graph, for tests and benchmarks.
#pragma once

#include <atomic>
#include <boost/json.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/core/registry.h"

namespace flow {

/// Keeps what a stage says.
class CapturingConsole final : public Console {
 public:
  void out(std::string_view text) override;
  void note(std::string_view line) override;
  std::string text() const;   ///< everything given to out()
  std::string notes() const;  ///< everything given to note(), a line each

 private:
  mutable std::mutex mutex_;
  std::string text_, notes_;
};

/// Builds one stage from its registered type name and options, gives it services and packets, and hands
/// back what it emits. Single-threaded.
///
///     StageRunner runner("EngramHash", {{"max_ngram", 3}});
///     runner.service("engram_layout", layout);
///     runner.put(EngramHash::kTokens, TokenIds{...});
///     ASSERT_TRUE(runner.run().ok());
///     const RowIds& rows = *runner.get(EngramHash::kRows);
class StageRunner {
 public:
  /// Errors of the name or the options are returned by open() and run().
  explicit StageRunner(std::string_view stage, boost::json::object options = {});
  ~StageRunner();
  StageRunner(const StageRunner&) = delete;
  StageRunner& operator=(const StageRunner&) = delete;

  /// Binds a service object, which the caller has opened, to a use.
  StageRunner& service(std::string_view use, std::shared_ptr<Service> object);

  /// Sets an input of the following runs, until clear(). For a many-input each call adds an edge.
  template <template <class> class Port, class T>
  StageRunner& put(const Port<T>& port, std::type_identity_t<T> value) {
    return share(port, std::make_shared<const T>(std::move(value)));
  }
  /// The same for a value that is shared already.
  template <template <class> class Port, class T>
  StageRunner& share(const Port<T>& port, std::type_identity_t<std::shared_ptr<const T>> value) {
    inputs_[std::string(port.name)].push_back(Packet::of<T>(std::move(value), {}));
    return *this;
  }
  /// Forgets all inputs.
  void clear() { inputs_.clear(); }

  /// Opens the stage (run() does it when it was not done).
  Status open();
  /// One invocation. Its emissions replace those of the run before.
  Status run(Stamp stamp = {});
  Status close();

  /// What the last run emitted on `port`, in order.
  template <class T>
  std::vector<std::shared_ptr<const T>> all(const Out<T>& port) const {
    std::vector<std::shared_ptr<const T>> values;
    for (const Context::Emission& e : emissions_) {
      if (e.port == info_->output(port.name)) values.push_back(e.packet.template share<T>());
    }
    return values;
  }
  /// The last of these; null when there is none.
  template <class T>
  std::shared_ptr<const T> get(const Out<T>& port) const {
    const auto values = all(port);
    return values.empty() ? nullptr : values.back();
  }
  const StepVector<Context::Emission>& emissions() const { return emissions_; }
  /// Whether the last run called finish().
  bool finished() const { return finished_; }
  void cancel() { cancelled_ = true; }

  Stage& stage() { return *stage_; }
  CapturingConsole& console() { return console_; }
  RunReport& report() { return report_; }

 private:
  Status build(std::string_view stage, const boost::json::object& options);
  Result<Inputs> bound_inputs() const;

  const StageInfo* info_ = nullptr;
  Status built_;
  std::shared_ptr<void> options_;
  std::unique_ptr<Stage> stage_;
  std::map<std::string, std::shared_ptr<Service>, std::less<>> services_;
  std::map<std::string, StepVector<Packet>, std::less<>> inputs_;
  StepVector<Context::Emission> emissions_;
  CapturingConsole console_;
  RunReport report_;
  Telemetry telemetry_;
  std::atomic<bool> cancelled_{false};
  bool opened_ = false;
  bool finished_ = false;
};

}  // namespace flow
