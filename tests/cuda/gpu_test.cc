// What only a real card can show: its kernels give the bytes of the emulation, and so of the host.
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/device.h"
#include "cuda/emulated_device.h"
#include "tests/kernels/samples.h"

namespace dsv::cuda {
namespace {

using dsv::testing::Samples;

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto runtime = cuda_runtime();
    if (!runtime.ok()) GTEST_SKIP() << runtime.status().message();
    runtime_ = *std::move(runtime);
    const auto devices = runtime_->devices();
    if (!devices.ok()) GTEST_SKIP() << devices.status().message();
    auto device = runtime_->open(0, {});
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = *std::move(device);
  }
  void TearDown() override { device_.reset(); }

  /// A copy of `values` on the card.
  template <class T>
  T* sent(const std::vector<T>& values) {
    T* card = room<T>(values.size());
    const std::size_t bytes = values.size() * sizeof(T);
    memory_.push_back(*device_->allocate_pinned(bytes));
    std::memcpy(memory_.back().get(), static_cast<const void*>(values.data()), bytes);
    EXPECT_TRUE(
        device_->upload(Stream::compute, reinterpret_cast<std::byte*>(card), memory_.back().get(), bytes)
            .ok());
    return card;
  }
  template <class T>
  T* room(std::size_t n) {
    auto memory = device_->allocate(n * sizeof(T));
    EXPECT_TRUE(memory.ok()) << memory.status().message();
    memory_.push_back(*std::move(memory));
    return reinterpret_cast<T*>(memory_.back().get());
  }
  template <class T>
  std::vector<T> fetched(const T* card, std::size_t n) {
    const Memory pinned = *device_->allocate_pinned(n * sizeof(T));
    const Event done = *device_->make_event();
    EXPECT_TRUE(
        device_
            ->download(Stream::compute, pinned.get(), reinterpret_cast<const std::byte*>(card), n * sizeof(T))
            .ok());
    EXPECT_TRUE(device_->record(done, Stream::compute).ok());
    const flow::Status status = device_->finish(done);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<T> values(n);
    std::memcpy(static_cast<void*>(values.data()), pinned.get(), n * sizeof(T));
    return values;
  }

  std::unique_ptr<Runtime> runtime_;
  std::vector<Memory> memory_;
  std::unique_ptr<Device> device_;  // last: its work ends before the memory goes
};

TEST_F(Gpu, ComputesExpertsToTheBitsOfTheEmulation) {
  struct Shape {
    int dim, inter, tokens;
  };
  for (const Shape s :
       {Shape{32, 32, 1}, {96, 64, 2}, {1088, 96, 3}, {160, 1056, 4}, {5120, 2304, 1}, {512, 256, 64}}) {
    Samples samples(static_cast<unsigned>(s.dim));
    const auto x = samples.bf16s(std::int64_t{s.tokens} * s.dim, 3);
    const auto weights = samples.floats(s.tokens);
    std::vector<std::int32_t> tokens;
    for (int t = 0; t < s.tokens; ++t) tokens.push_back(s.tokens - 1 - t);
    const std::int64_t elements = std::int64_t{s.dim} * s.inter;
    ExpertGroup host, card;
    std::vector<std::vector<PackedBlock>> codes;
    std::vector<std::vector<std::uint8_t>> scales;
    Fp4Weight on_host[3], on_card[3];
    for (int m = 0; m < 3; ++m) {
      const auto bytes = samples.bytes(elements / 2);
      codes.emplace_back(bytes.size() / sizeof(PackedBlock));
      std::memcpy(static_cast<void*>(codes.back().data()), bytes.data(), bytes.size());
      scales.push_back(samples.scales(elements / kBlock));
      on_host[m] = {reinterpret_cast<const std::uint8_t*>(codes.back().data()), scales.back().data()};
      on_card[m] = {sent(bytes), sent(scales.back())};
    }
    host.experts[0] = {on_host[0], on_host[1], on_host[2], 0, s.tokens};
    card.experts[0] = {on_card[0], on_card[1], on_card[2], 0, s.tokens};
    host.size = card.size = 1;
    const auto pairs = static_cast<std::size_t>(s.tokens), inter = static_cast<std::size_t>(s.inter),
               dim = static_cast<std::size_t>(s.dim);
    const auto blocks = static_cast<int>(x.size() / kBlock),
               hidden_blocks = static_cast<int>(pairs * inter / kBlock);

    std::vector<Digits> digits(x.size() / kBlock), hidden_digits(pairs * inter / kBlock);
    std::vector<bf16> hidden(pairs * inter), y(pairs * dim);
    emulate(Quantize{x.data(), digits.data(), blocks});
    emulate(GateUp{host, digits.data(), tokens.data(), weights.data(), hidden.data(), s.dim, s.inter, 7});
    emulate(Quantize{hidden.data(), hidden_digits.data(), hidden_blocks});
    emulate(Down{host, hidden_digits.data(), y.data(), s.dim, s.inter});

    auto* card_digits = room<Digits>(digits.size());
    auto* card_hidden_digits = room<Digits>(hidden_digits.size());
    auto* card_hidden = room<bf16>(hidden.size());
    auto* card_y = room<bf16>(y.size());
    const Op ops[] = {Quantize{sent(x), card_digits, blocks},
                      GateUp{card, card_digits, sent(tokens), sent(weights), card_hidden, s.dim, s.inter, 7},
                      Quantize{card_hidden, card_hidden_digits, hidden_blocks},
                      Down{card, card_hidden_digits, card_y, s.dim, s.inter}};
    for (const Op& op : ops) ASSERT_TRUE(device_->launch(op).ok());
    const auto same = [](const auto& a, const auto& b) {
      return std::memcmp(static_cast<const void*>(a.data()), static_cast<const void*>(b.data()),
                         a.size() * sizeof(a[0])) == 0;
    };
    EXPECT_TRUE(same(fetched(card_hidden, hidden.size()), hidden)) << s.dim << " x " << s.inter << ", hidden";
    EXPECT_TRUE(same(fetched(card_y, y.size()), y)) << s.dim << " x " << s.inter << ", y";
  }
}

TEST_F(Gpu, RefusesMoreMemoryThanItHasAndStaysUsable) {
  const auto free = device_->free_memory();
  ASSERT_TRUE(free.ok());
  EXPECT_FALSE(device_->allocate(*free * 4).ok());
  EXPECT_EQ(fetched(sent(std::vector<std::int32_t>{1, 2, 3}), 3), (std::vector<std::int32_t>{1, 2, 3}));
}

}  // namespace
}  // namespace dsv::cuda
