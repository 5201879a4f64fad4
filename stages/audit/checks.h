// Inside the audit: what a check sees and how it reports.
#pragma once

#include <fmt/format.h>

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stages/audit/audit.h"
#include "stages/engram/layout.h"
#include "stages/model/name_map.h"

namespace dsv {

/// Collects what one check finds.
class Finding {
 public:
  /// Evidence against the check; the first few are kept in words.
  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    if (failures_++ < kKept) evidence_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  /// Fails unless `holds`.
  template <class... Args>
  void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
    if (!holds) fail(format, std::forward<Args>(args)...);
  }
  /// Evidence that lies in shards which are not at hand.
  void wait(std::span<const std::string> shards) { waits_.insert(shards.begin(), shards.end()); }
  /// A figure to show with the check.
  void note(std::string text) { note_ = std::move(text); }

  AuditCheck result(std::string_view group, std::string_view title) &&;

 private:
  static constexpr std::size_t kKept = 3;
  std::size_t failures_ = 0;
  std::vector<std::string> evidence_;
  std::set<std::string_view> waits_;
  std::string note_;
};

/// Which check judges a tensor that the config does not call for.
enum class Owner : std::uint8_t {
  Inventory,
  Quantized,  ///< a scale beside a tensor that has none
  Engram,
  Roles,  ///< the four tensors by which CSA2 roles are told
  Experts,
  DraftExperts,
  Draft,
  Vision,
};

/// Everything that a check may look at.
struct AuditContext {
  const ModelConfig& config;
  const ShardSet& shards;
  std::vector<ShardSet::Named> tensors;      ///< ShardSet::tensors
  std::vector<ExpectedTensor> expected;      ///< empty while keys that it needs are missing
  std::vector<std::string_view> unexpected;  ///< names that the config does not call for
  NameViewMap<ExpectedTensor*> expected_by_name;
  std::optional<std::array<int, 2>> fp8_block;
  std::string fp8_block_origin;  ///< where the block was learned

  /// Fails when the tensor is nowhere; waits when that cannot be known yet.
  void expect_present(Finding& finding, std::string_view tensor) const;
  void expect_present(Finding& finding, const ExpectedTensor& tensor) const;
  /// Fails when the tensor is on a layer where it should not be; otherwise as expect_present.
  void expect_only_if(bool should_be_there, Finding& finding, std::string_view tensor,
                      std::string_view reason) const;
  /// The header's entry; waits when its shard is not at hand. That a tensor is absent is for the checks
  /// of presence to say.
  const TensorInfo* header(Finding& finding, const ExpectedTensor& tensor) const;
  const TensorInfo* header(Finding& finding, const std::string& tensor) const;
  /// Compares shape, and the type where asked, of a tensor whose header is at hand.
  void expect_header(Finding& finding, const ExpectedTensor& wanted, bool type_too) const;
  /// Fails for every unexpected tensor that `owner` judges.
  void expect_nothing_else(Finding& finding, Owner owner) const;
  Owner owner_of(std::string_view tensor) const;
  /// "name is BF16 [4] in file"
  std::string describe(const TensorInfo& tensor) const;
};

/// One line of the report.
struct CheckSpec {
  std::string_view group;
  std::string_view title;
  void (*run)(const AuditContext&, Finding&);
  bool needs_inventory = true;  ///< cannot run while keys of the config are missing
};

std::span<const CheckSpec> config_checks();
std::span<const CheckSpec> structure_checks();  ///< Engram, CSA2, Inventory
std::span<const CheckSpec> storage_checks();    ///< Packing, Experts, DSpark, Vision, Files
/// The check that only a checkpoint with an index has.
const CheckSpec& index_check();

/// Whether this is one of the tensors whose presence tells a layer's CSA2 role.
bool tells_role(std::string_view tensor);

}  // namespace dsv
