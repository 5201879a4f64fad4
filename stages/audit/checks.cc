#include "stages/audit/checks.h"

#include <fmt/ranges.h>

namespace dsv {

AuditCheck Finding::result(std::string_view group, std::string_view title) && {
  AuditCheck check{std::string(group), std::string(title), Verdict::Pass, std::move(note_), {}};
  if (failures_ > 0) {
    check.verdict = Verdict::Fail;
    check.detail = fmt::format("{}", fmt::join(evidence_, "; "));
    if (failures_ > kKept) check.detail += fmt::format("; {} more", failures_ - kKept);
  } else if (!waits_.empty()) {
    check.verdict = Verdict::Undecided;
    check.waits_for.assign(waits_.begin(), waits_.end());
  }
  return check;
}

void AuditContext::expect_present(Finding& finding, std::string_view tensor) const {
  const Presence presence = shards.presence(tensor);
  if (presence == Presence::Unknown) finding.wait(shards.waiting_for(tensor));
  finding.expect(presence != Presence::Absent, "{} is missing", tensor);
}

void AuditContext::expect_only_if(bool should_be_there, Finding& finding, std::string_view tensor,
                                  std::string_view reason) const {
  if (should_be_there) return expect_present(finding, tensor);
  const Presence presence = shards.presence(tensor);
  if (presence == Presence::Unknown) finding.wait(shards.waiting_for(tensor));
  const bool is_there = presence == Presence::AtHand || presence == Presence::Pending;
  finding.expect(!is_there, "{} is on a layer {}", tensor, reason);
}

void AuditContext::expect_present(Finding& finding, const ExpectedTensor& tensor) const {
  if (tensor.header == nullptr) expect_present(finding, tensor.name);
}

const TensorInfo* AuditContext::header(Finding& finding, const ExpectedTensor& tensor) const {
  if (tensor.header == nullptr) finding.wait(shards.waiting_for(tensor.name));
  return tensor.header;
}

const TensorInfo* AuditContext::header(Finding& finding, const std::string& tensor) const {
  const TensorInfo* found = shards.find(tensor);
  if (found == nullptr) finding.wait(shards.waiting_for(tensor));
  return found;
}

void AuditContext::expect_header(Finding& finding, const ExpectedTensor& wanted, bool type_too) const {
  const TensorInfo* found = header(finding, wanted);
  if (found == nullptr) return;
  if (found->shape == wanted.shape && (!type_too || found->dtype == wanted.dtype)) return;
  finding.fail("{}, expected {} {}", describe(*found), dtype_name(wanted.dtype), shape_text(wanted.shape));
}

std::string AuditContext::describe(const TensorInfo& tensor) const {
  return fmt::format("{} is {} {} in {}", tensor.name, dtype_name(tensor.dtype), shape_text(tensor.shape),
                     shards.file_of(tensor).path.filename().string());
}

bool tells_role(std::string_view tensor) {
  if (!tensor.starts_with("layers.")) return false;
  for (const char* part : {".compressor.wkv.", ".compressor.wgate.", ".indexer.wk.", ".indexer.wq_b."})
    if (tensor.find(part) != tensor.npos) return true;
  return false;
}

Owner AuditContext::owner_of(std::string_view tensor) const {
  const bool draft = tensor.starts_with("mtp.");
  switch (category_of(tensor)) {
    case Category::RoutedExperts:
      return draft ? Owner::DraftExperts : Owner::Experts;
    case Category::Engram:
      return Owner::Engram;
    default:
      break;
  }
  if (tells_role(tensor)) return Owner::Roles;
  if (tensor.ends_with(".scale")) {
    const auto weight = expected_by_name.find(std::string(tensor.substr(0, tensor.rfind('.'))) + ".weight");
    if (weight != expected_by_name.end()) return Owner::Quantized;
  }
  if (draft) return Owner::Draft;
  return category_of(tensor) == Category::Vision ? Owner::Vision : Owner::Inventory;
}

void AuditContext::expect_nothing_else(Finding& finding, Owner owner) const {
  for (const std::string_view tensor : unexpected)
    if (owner_of(tensor) == owner) finding.fail("{} has no place in this config", tensor);
}

}  // namespace dsv
