// Stages and services: what a user of the framework writes.
//
// A stage declares its ports, options and services in a static `describe`, gets its checked options in
// the constructor, its services in `open`, and packets in `process`. It never sees the graph, the
// threads or the YAML.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/console.h"
#include "framework/core/executor.h"
#include "framework/core/options.h"
#include "framework/core/ports.h"
#include "framework/core/status.h"
#include "framework/core/telemetry.h"

namespace flow {

class Service;

/// What the framework knows of a stage or service type.
struct TypeInfo {
  std::string name;
  std::string doc;
  OptionSet options;
  std::vector<UseInfo> uses;
};

struct StageInfo;
struct ServiceInfo;

/// Passed to `open`: the node's name, its services and the run's console.
class Opening {
 public:
  Opening(std::string name, const std::vector<UseInfo>& uses, std::vector<std::shared_ptr<Service>> services,
          Console& console, const std::atomic<bool>& cancelled, Telemetry telemetry = {})
      : name_(std::move(name)),
        uses_(uses),
        services_(std::move(services)),
        console_(console),
        cancelled_(cancelled),
        telemetry_(std::move(telemetry)) {}
  const std::string& name() const { return name_; }
  /// The service bound to `use`; null when it was declared optional and is not bound.
  template <class T>
  std::shared_ptr<T> service(const Uses<T>& use) const {
    return std::static_pointer_cast<T>(find(use.name));
  }
  Console& console() const { return console_; }
  /// Long loads ask now and then, and return early with success.
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  /// The same for those who wait outside `open`; valid as long as the node or service.
  const std::atomic<bool>& cancel_flag() const { return cancelled_; }
  /// Counts for this node or service; a service keeps a copy.
  const Telemetry& telemetry() const { return telemetry_; }

 private:
  std::shared_ptr<Service> find(std::string_view use) const;
  std::string name_;
  const std::vector<UseInfo>& uses_;
  std::vector<std::shared_ptr<Service>> services_;
  Console& console_;
  const std::atomic<bool>& cancelled_;
  Telemetry telemetry_;
};

/// One line of the memory and I/O plan that `--dry-run` prints.
struct PlanLine {
  std::string what;
  std::uint64_t resident_bytes = 0;   ///< held for the whole run
  std::uint64_t read_bytes = 0;       ///< read once, while loading
  std::uint64_t step_read_bytes = 0;  ///< read at most in each step
};

/// Something that stages share: weights, tables, caches. Opened before any stage, in dependency order;
/// destroyed after all stages. Const methods must be thread-safe.
class Service {
 public:
  virtual ~Service() = default;
  virtual Status open(const Opening&) { return {}; }
  /// The memory and I/O this service needs, computed from headers without reading payload.
  /// Called instead of `open` in a dry run.
  virtual Result<std::vector<PlanLine>> plan(const Opening&) { return std::vector<PlanLine>{}; }
  /// Called once after the run; reports statistics.
  virtual void close(RunReport&) {}
};

/// One invocation of a stage: its inputs, its outputs, its identity.
class Context {
 public:
  struct Emission {
    int port;
    Packet packet;
  };

  Context(const StageInfo& info, Inputs inputs, Stamp stamp, Console& console,
          RunReport& report, const std::atomic<bool>& cancelled, const Telemetry& telemetry)
      : info_(info),
        inputs_(std::move(inputs)),
        stamp_(stamp),
        console_(console),
        report_(report),
        cancelled_(cancelled),
        telemetry_(telemetry) {
    emissions_.reserve(expected_emissions(info));
  }

  template <class T>
  const T& in(const In<T>& port) const {
    return packets(port.name)[0].template get<T>();
  }
  template <class T>
  std::shared_ptr<const T> share(const In<T>& port) const {
    return packets(port.name)[0].template share<T>();
  }
  template <class T>
  const T* in(const OptionalIn<T>& port) const {
    const auto& p = packets(port.name);
    return p.empty() || !p[0] ? nullptr : &p[0].template get<T>();
  }
  /// Under InputPolicy::any, null for the edges whose packet has not come.
  template <class T>
  StepVector<const T*> in(const ManyIn<T>& port) const {
    StepVector<const T*> values;
    values.reserve(packets(port.name).size());
    for (const Packet& p : packets(port.name)) values.push_back(static_cast<const T*>(p.data()));
    return values;
  }
  /// Whether this input has a packet now (always, under InputPolicy::all, for connected inputs).
  template <class P>
  bool has(const P& port) const {
    const auto& p = packets(port.name);
    return std::any_of(p.begin(), p.end(), [](const Packet& packet) { return static_cast<bool>(packet); });
  }
  /// The packets of an input by its name, in edge order, whatever their type.
  const StepVector<Packet>& packets(std::string_view port) const;

  /// Sends a value with this invocation's stamp, or with another one.
  template <class T>
  void emit(const Out<T>& port, T value) {
    emit(port, std::shared_ptr<const T>(make_recycled<T>(std::move(value))), stamp_);
  }
  template <class T>
  void emit(const Out<T>& port, std::shared_ptr<const T> value) {
    emit(port, std::move(value), stamp_);
  }
  template <class T>
  void emit(const Out<T>& port, std::shared_ptr<const T> value, Stamp stamp) {
    emissions_.push_back({output_index(port.name), Packet::of<T>(std::move(value), stamp)});
  }

  /// For a stage without inputs: this was the last invocation.
  void finish() { finished_ = true; }
  bool finished() const { return finished_; }

  Stamp stamp() const { return stamp_; }
  /// Long bodies ask now and then, and return early with success.
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  Console& console() const { return console_; }
  RunReport& report() const { return report_; }
  const Telemetry& telemetry() const { return telemetry_; }
  StepVector<Emission>& emissions() { return emissions_; }

 private:
  static std::size_t expected_emissions(const StageInfo& info);
  int output_index(std::string_view port) const;

  const StageInfo& info_;
  Inputs inputs_;
  Stamp stamp_;
  Console& console_;
  RunReport& report_;
  const std::atomic<bool>& cancelled_;
  const Telemetry& telemetry_;
  StepVector<Emission> emissions_;
  bool finished_ = false;
};

/// A node's body. One object for each node; `process` is never called concurrently unless the type
/// declares a concurrency above 1. State of a sequence belongs into packets, not here.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual Status open(const Opening&) { return {}; }
  virtual Result<std::vector<PlanLine>> plan(const Opening&) { return std::vector<PlanLine>{}; }
  virtual Status process(Context& context) = 0;
  /// For replays of one invocation: what puts the state outside this object that `process` changes (of a
  /// sequence, of a request) back to how it is now. Empty: process changes none.
  virtual std::function<void()> saved(const Context&) const { return {}; }
  /// Called once after the last `process`, also after an error or a cancellation.
  virtual Status close(Console&, RunReport&) { return {}; }
};

struct StageInfo : TypeInfo {
  std::vector<PortInfo> inputs, outputs;
  Executor executor = Executor::compute;
  InputPolicy policy = InputPolicy::all;
  int concurrency = 1;
  std::function<std::unique_ptr<Stage>(const void* options)> make;

  int input(std::string_view name) const;   ///< index, -1 when there is none
  int output(std::string_view name) const;  ///< index, -1 when there is none
};

struct ServiceInfo : TypeInfo {
  std::type_index type = typeid(void);
  std::function<std::shared_ptr<Service>(const void* options)> make;
};

namespace detail {
template <class T>
PortInfo port_info(std::string_view name, std::string_view doc, Arity arity) {
  return {std::string(name), std::string(doc), &packet_type<T>(), arity};
}
}  // namespace detail

/// Filled by a stage's `static void describe(StageSpec<Options>&)`.
template <class Options>
class StageSpec {
 public:
  explicit StageSpec(StageInfo& info) : info_(info) {}
  StageSpec& doc(std::string text) {
    info_.doc = std::move(text);
    return *this;
  }
  template <class T>
  StageSpec& input(const In<T>& p) {
    return add_input<T>(p, Arity::one);
  }
  template <class T>
  StageSpec& input(const OptionalIn<T>& p) {
    return add_input<T>(p, Arity::optional);
  }
  template <class T>
  StageSpec& input(const ManyIn<T>& p) {
    return add_input<T>(p, Arity::many);
  }
  template <class T>
  StageSpec& output(const Out<T>& p) {
    info_.outputs.push_back(detail::port_info<T>(p.name, p.doc, Arity::one));
    return *this;
  }
  template <class T>
  StageSpec& uses(const Uses<T>& use) {
    info_.uses.push_back({std::string(use.name), std::string(use.doc), typeid(T)});
    return *this;
  }
  template <class M>
  OptionBuilder option(std::string name, M Options::*member, std::string text) {
    return add_option(info_.options, std::move(name), member, std::move(text));
  }
  /// Default executor; the YAML may set another one.
  StageSpec& executor(Executor e) {
    info_.executor = e;
    return *this;
  }
  StageSpec& policy(InputPolicy p) {
    info_.policy = p;
    return *this;
  }
  /// How many invocations may run at once (default 1, in arrival order).
  StageSpec& concurrency(int n) {
    info_.concurrency = n;
    return *this;
  }

 private:
  template <class T, class P>
  StageSpec& add_input(const P& p, Arity arity) {
    info_.inputs.push_back(detail::port_info<T>(p.name, p.doc, arity));
    return *this;
  }
  StageInfo& info_;
};

/// Filled by a service's `static void describe(ServiceSpec<Options>&)`.
template <class Options>
class ServiceSpec {
 public:
  explicit ServiceSpec(ServiceInfo& info) : info_(info) {}
  ServiceSpec& doc(std::string text) {
    info_.doc = std::move(text);
    return *this;
  }
  template <class T>
  ServiceSpec& uses(const Uses<T>& use) {
    info_.uses.push_back({std::string(use.name), std::string(use.doc), typeid(T)});
    return *this;
  }
  template <class M>
  OptionBuilder option(std::string name, M Options::*member, std::string text) {
    return add_option(info_.options, std::move(name), member, std::move(text));
  }

 private:
  ServiceInfo& info_;
};

}  // namespace flow
