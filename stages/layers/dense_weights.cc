#include "stages/model/dense_stream.h"
#include "stages/model/packets.h"

namespace dsv {

/// Lets a pass into a layer when the layer's dense weights are in memory, and has those of the next layer
/// read meanwhile. What the pass has left is taken out of memory. For a Model with `dense: streamed`.
///
/// Ports: stream -> stream, unchanged. `layer` is the layer that comes; the number of layers after the last.
/// Runs on the I/O executor, for it waits.
///
///     - {name: weights, stage: DenseWeights, in: {stream: $stream}, options: {layer: "${layer}"}}
class DenseWeights final : public flow::Stage {
 public:
  static constexpr flow::In<ResidualStream> kStream{"stream", "residual stream"};
  static constexpr flow::Out<ResidualStream> kOut{"stream", "the same, when the weights are there"};
  struct Options {
    int layer = 0;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Waits for the streamed weights of a layer and has the next layer's read.");
    spec.input(kStream).output(kOut).uses(kModel).uses(kDense).executor(flow::Executor::io);
    spec.option("layer", &Options::layer, "layer that comes; the number of layers at the end")
        .range(0)
        .required();
  }
  explicit DenseWeights(Options options) : options_(options) {}

  flow::Status open(const flow::Opening& opening) override {
    stream_ = opening.service(kDense);
    const std::shared_ptr<Model> model = opening.service(kModel);
    layers_ = model->config().n_layers;
    return model->claim(options_.layer);
  }

  flow::Status process(flow::Context& context) override {
    if (options_.layer < layers_) {
      FLOW_TRY(stream_->enter(options_.layer));
      stream_->prepare((options_.layer + 1) % layers_);
    }
    if (options_.layer > 0) stream_->leave(options_.layer - 1);
    context.emit(kOut, context.share(kStream));
    return {};
  }

 private:
  Options options_;
  std::shared_ptr<DenseStream> stream_;
  int layers_ = 0;
};
FLOW_REGISTER_STAGE(DenseWeights);

}  // namespace dsv
