// `--tap PORT=FILE.safetensors`: every packet of a port, its arrays named SEQUENCE.STEP.NAME.
#include "framework/core/registry.h"
#include "stages/model/safetensors.h"

namespace dsv {
namespace {

/// Keeps copies until the run has succeeded: the file's header needs all of them.
class SafetensorsTap final : public flow::TapWriter {
 public:
  explicit SafetensorsTap(std::string path) : path_(std::move(path)) {}

  flow::Status add(const std::string& prefix, const std::vector<flow::TensorRef>& tensors) override {
    for (const flow::TensorRef& tensor : tensors) {
      tensors_.push_back({prefix + tensor.name, dtype_from_name(tensor.dtype), tensor.shape,
                          {tensor.bytes.begin(), tensor.bytes.end()}});
    }
    return {};
  }
  flow::Status close() override { return write_safetensors(path_, tensors_); }

 private:
  std::string path_;
  std::vector<TensorData> tensors_;
};

[[maybe_unused]] const bool registered =
    (flow::Registry::instance().add(flow::TapFormat{
         ".safetensors",
         [](const std::string& path) -> flow::Result<std::unique_ptr<flow::TapWriter>> {
           return std::unique_ptr<flow::TapWriter>(std::make_unique<SafetensorsTap>(path));
         }}),
     true);

}  // namespace
}  // namespace dsv
