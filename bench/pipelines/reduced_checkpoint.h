// Synthetic checkpoints of a released geometry with fewer layers and experts.
#pragma once

#include <filesystem>
#include <memory>

#include "framework/core/status.h"

namespace dsv::bench {

/// A checkpoint on disk; removed with this object unless it is kept.
class ReducedCheckpoint {
 public:
  struct Size {
    int layers = 8;   ///< from 4
    int experts = 8;  ///< routed, of each layer
  };
  /// Writes random weights, with pipelines/synth.yaml, for the dims of the flat config `config` and the
  /// vocabulary of `tokenizer`. The layers keep the order of roles: window only, ratio 2, ratio 1, each with
  /// its sources; Engram tables are small. `folder` is made; empty: a temporary one, removed in the end.
  static flow::Result<std::unique_ptr<ReducedCheckpoint>> write(const std::filesystem::path& config,
                                                                const std::filesystem::path& tokenizer,
                                                                Size size, std::filesystem::path folder);
  ~ReducedCheckpoint();
  ReducedCheckpoint(const ReducedCheckpoint&) = delete;
  ReducedCheckpoint& operator=(const ReducedCheckpoint&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  ReducedCheckpoint(std::filesystem::path path, bool keep) : path_(std::move(path)), keep_(keep) {}
  std::filesystem::path path_;
  bool keep_;
};

}  // namespace dsv::bench
