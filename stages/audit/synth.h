// Writes checkpoints in the released format: any geometry, for tests, benchmarks and audits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"
#include "stages/model/config.h"
#include "stages/model/dtype.h"

namespace dsv {

/// What lies behind the headers.
enum class SynthPayload : std::uint8_t {
  None,    ///< nothing: files end after their header
  Sparse,  ///< holes, which read as zeros and take no disk space
  Random,  ///< random weights of the size that trained ones have
};

/// One way to break a checkpoint on purpose.
struct SynthFault {
  enum class Kind : std::uint8_t {
    Drop,       ///< the tensor is neither in a shard nor in the index
    Lose,       ///< the index names the tensor, but its shard lacks it
    Reshape,    ///< another shape, with the extent that it takes
    Retype,     ///< another type, with the extent that it takes
    Add,        ///< a further tensor in the last shard
    Copy,       ///< a second copy in the last shard
    Duplicate,  ///< described twice in its header
    Overlap,    ///< its extent starts one byte early
    Short,      ///< its extent ends one byte early
    Truncate,   ///< the file (target: its number, from 1) is one byte short
    Omit,       ///< the file (target: its number, from 1) is not written
  };
  Kind kind = Kind::Drop;
  std::string target;               ///< tensor, or number of a shard
  std::vector<std::int64_t> shape;  ///< Reshape, Add
  DType dtype = DType::Unknown;     ///< Retype, Add
};

/// Reads "drop NAME", "reshape NAME 4,5", "retype NAME BF16", "add NAME BF16 4,5", "truncate 3", ...
flow::Result<SynthFault> parse_synth_fault(std::string_view text);

struct SynthOptions {
  SynthPayload payload = SynthPayload::Sparse;
  std::uint64_t seed = 1;  ///< of random weights
  bool index = true;       ///< write model.safetensors.index.json
  std::vector<SynthFault> faults = {};
  /// Called after each shard with bytes of payload written and to write.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
};

struct SynthReport {
  std::int64_t shards = 0;
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;  ///< payload, holes included
};

/// Writes shards as the released model has them (vision, embedding, layers, head, draft layers, Engram
/// tables), both config layouts as far as `config` states them, the index, and the tokenizer files that
/// lie beside the config. Errors when the folder holds anything; after an error nothing of it is left. The
/// same config, seed and options give the same bytes.
flow::Result<SynthReport> synthesize(const ModelConfig& config, const std::filesystem::path& folder,
                                     const SynthOptions& options = {});

}  // namespace dsv
