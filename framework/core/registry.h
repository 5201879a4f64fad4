// The registry: every stage, service, value provider and tap format that is linked in or loaded as a plugin.
#pragma once

#include <boost/json.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/stage.h"

namespace flow {

/// Values that a graph reads while it is being loaded, before any service is opened, for example a model's
/// configuration: `values: {config: {type: ModelConfig, path: demo}}` makes ${config.n_layers} available.
struct ValueInfo : TypeInfo {
  std::function<Result<boost::json::object>(const void* options)> load;
};

/// Writes the packets of one tapped port to a file. A format registers under its file extension.
class TapWriter {
 public:
  virtual ~TapWriter() = default;
  /// Adds one packet's arrays. `prefix` (for example "3.") tells packets of one port apart.
  virtual Status add(const std::string& prefix, const std::vector<TensorRef>& tensors) = 0;
  /// Completes the file; nothing is left at the target path unless this succeeds (OutputFile does that).
  /// Errors name the file.
  virtual Status close() = 0;
};
struct TapFormat {
  std::string extension;  ///< with the dot: ".safetensors"
  std::function<Result<std::unique_ptr<TapWriter>>(const std::string& path)> open;
};

/// Process-wide tables. Filled by static registration and plugins; read-only while a graph is loaded or run.
class Registry {
 public:
  static Registry& instance();

  void add(StageInfo info);
  void add(ServiceInfo info);
  void add(ValueInfo info);
  void add(TapFormat format);

  const StageInfo* stage(std::string_view name) const;
  const ServiceInfo* service(std::string_view name) const;
  const ValueInfo* value(std::string_view name) const;
  const TapFormat* tap_format(std::string_view extension) const;
  std::vector<std::string> tap_extensions() const;
  /// All stages and services, sorted by name.
  std::vector<const StageInfo*> stages() const;
  std::vector<const ServiceInfo*> services() const;
  std::vector<const ValueInfo*> values() const;
  /// Names registered twice; a graph does not load while there are any.
  const std::vector<std::string>& conflicts() const { return conflicts_; }

 private:
  std::vector<std::unique_ptr<StageInfo>> stages_;
  std::vector<std::unique_ptr<ServiceInfo>> services_;
  std::vector<std::unique_ptr<ValueInfo>> values_;
  std::vector<TapFormat> taps_;
  std::vector<std::string> conflicts_;
};

template <class T>
StageInfo describe_stage(std::string name) {
  using Options = typename T::Options;
  StageInfo info;
  info.name = std::move(name);
  info.options.make = [] { return std::make_shared<Options>(); };
  info.make = [](const void* options) { return std::make_unique<T>(*static_cast<const Options*>(options)); };
  StageSpec<Options> spec(info);
  T::describe(spec);
  return info;
}

template <class T>
ServiceInfo describe_service(std::string name) {
  using Options = typename T::Options;
  ServiceInfo info;
  info.name = std::move(name);
  info.type = typeid(T);
  info.options.make = [] { return std::make_shared<Options>(); };
  info.make = [](const void* options) { return std::make_shared<T>(*static_cast<const Options*>(options)); };
  ServiceSpec<Options> spec(info);
  T::describe(spec);
  return info;
}

}  // namespace flow

/// Registers a stage or service class under its own name. Use inside its namespace, at the end of its .cc.
#define FLOW_REGISTER_STAGE(Class)                             \
  [[maybe_unused]] static const bool flow_registered_##Class = \
      (::flow::Registry::instance().add(::flow::describe_stage<Class>(#Class)), true)
#define FLOW_REGISTER_SERVICE(Class)                           \
  [[maybe_unused]] static const bool flow_registered_##Class = \
      (::flow::Registry::instance().add(::flow::describe_service<Class>(#Class)), true)
