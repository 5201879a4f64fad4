#include "stages/model/packets.h"

#include <type_traits>

namespace dsv {
namespace {

template <class T>
constexpr const char* dtype_of() {
  if constexpr (std::is_same_v<T, bf16>) return "BF16";
  if constexpr (std::is_same_v<T, float>) return "F32";
  if constexpr (std::is_same_v<T, double>) return "F64";
  if constexpr (std::is_same_v<T, std::int32_t>) return "I32";
  if constexpr (std::is_same_v<T, std::int64_t>) return "I64";
}

template <class T>
flow::TensorRef tensor(std::string name, const Rows<T>& rows) {
  return {std::move(name), dtype_of<T>(), {rows.rows(), rows.cols()}, rows.bytes()};
}

template <class T>
flow::TensorRef tensor(std::string name, const flow::StepVector<T>& list) {
  return {std::move(name),
          dtype_of<T>(),
          {static_cast<std::int64_t>(list.size())},
          std::as_bytes(std::span(list))};
}

}  // namespace
}  // namespace dsv

namespace flow {
using dsv::tensor;
using Tensors = std::vector<TensorRef>;

Tensors PacketTraits<dsv::TokenStep>::tensors(const dsv::TokenStep& v) {
  return {tensor("ids", v.step->ids)};
}
Tensors PacketTraits<dsv::ResidualStream>::tensors(const dsv::ResidualStream& v) {
  const std::int64_t copies = v.pre.cols();
  return {{"h", "BF16", {v.h.rows(), copies, v.h.cols() / copies}, v.h.bytes()}, tensor("pre", v.pre)};
}
Tensors PacketTraits<dsv::Activations>::tensors(const dsv::Activations& v) {
  return {tensor("x", v.x)};
}
Tensors PacketTraits<dsv::HyperMix>::tensors(const dsv::HyperMix& v) {
  return {tensor("pre", v.pre), tensor("post", v.post), tensor("comb", v.comb)};
}
Tensors PacketTraits<dsv::Selection>::tensors(const dsv::Selection& v) {
  return {tensor("positions", v.positions)};
}
Tensors PacketTraits<dsv::Routes>::tensors(const dsv::Routes& v) {
  return {tensor("experts", v.experts), tensor("weights", v.weights)};
}
Tensors PacketTraits<dsv::ExpertOutputs>::tensors(const dsv::ExpertOutputs& v) {
  return {tensor("token", v.token), tensor("expert", v.expert), tensor("y", v.y)};
}
Tensors PacketTraits<dsv::EngramIds>::tensors(const dsv::EngramIds& v) {
  Tensors all;
  for (std::size_t slot = 0; slot < v.rows.size(); ++slot)
    all.push_back(tensor("rows." + std::to_string(slot), v.rows[slot]));
  return all;
}
Tensors PacketTraits<dsv::EngramRows>::tensors(const dsv::EngramRows& v) {
  return {tensor("x", v.x)};
}
Tensors PacketTraits<dsv::Logits>::tensors(const dsv::Logits& v) {
  return {tensor("logits", v.rows)};
}
Tensors PacketTraits<dsv::SampledToken>::tensors(const dsv::SampledToken& v) {
  if (!v.id) return {};
  return {{"id", "I32", {1}, std::as_bytes(std::span(&*v.id, 1))},
          {"log_probability", "F64", {1}, std::as_bytes(std::span(&v.log_probability, 1))}};
}

}  // namespace flow
