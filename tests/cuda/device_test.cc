// The emulated card behaves as a card: asynchronous streams, events, memory, faults.
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/emulated_device.h"

namespace dsv::cuda {
namespace {

using std::chrono::milliseconds;

std::unique_ptr<Device> opened(EmulatedRuntime& runtime, int ordinal = 0) {
  auto device = runtime.open(ordinal, {});
  EXPECT_TRUE(device.ok()) << device.status().message();
  return *std::move(device);
}

/// Pinned host bytes and bytes of the card.
struct Buffers {
  explicit Buffers(Device& device)
      : pinned(*device.allocate_pinned(4)), card(*device.allocate(4)), back(*device.allocate_pinned(4)) {}
  Memory pinned, card, back;
};

TEST(EmulatedCard, MakesTheOtherStreamAndTheHostWaitForAnEvent) {
  EmulatedRuntime runtime({.faults = {.copy_delay = milliseconds(3)}});
  const auto device = opened(runtime);
  const Buffers b(*device);
  const Event uploaded = *device->make_event(), downloaded = *device->make_event();
  for (int turn = 1; turn <= 3; ++turn) {
    std::memcpy(b.pinned.get(), &turn, sizeof turn);
    ASSERT_TRUE(device->upload(Stream::copy, b.card.get(), b.pinned.get(), 4).ok());
    ASSERT_TRUE(device->record(uploaded, Stream::copy).ok());
    ASSERT_TRUE(device->wait(Stream::compute, uploaded).ok());
    ASSERT_TRUE(device->download(Stream::compute, b.back.get(), b.card.get(), 4).ok());
    ASSERT_TRUE(device->record(downloaded, Stream::compute).ok());
    ASSERT_TRUE(device->finish(downloaded).ok());
    int seen = 0;
    std::memcpy(&seen, b.back.get(), sizeof seen);
    EXPECT_EQ(seen, turn);
  }
}

TEST(EmulatedCard, DoesNotHoldUpTheHostWhileItWorks) {
  EmulatedRuntime runtime({.faults = {.copy_delay = milliseconds(50)}});
  const auto device = opened(runtime);
  const Buffers b(*device);
  const Event never = *device->make_event(), uploaded = *device->make_event();
  ASSERT_TRUE(device->upload(Stream::copy, b.card.get(), b.pinned.get(), 4).ok());
  EXPECT_TRUE(device->finish(never).ok()) << "an event that was never recorded has passed";
  EXPECT_EQ(runtime.counts().copies, 1u);
  ASSERT_TRUE(device->record(uploaded, Stream::copy).ok());
  EXPECT_TRUE(device->finish(uploaded).ok()) << "the memory must outlive the copy";
}

TEST(EmulatedCard, HasAsMuchMemoryAsItIsGivenAndUsersShareIt) {
  EmulatedRuntime runtime({.devices = 2, .memory = 1000});
  const auto one = opened(runtime), other = opened(runtime), second_card = opened(runtime, 1);
  {
    const Memory taken = *one->allocate(600);
    EXPECT_EQ(*other->free_memory(), 400u);
    const auto too_much = other->allocate(500);
    ASSERT_FALSE(too_much.ok());
    EXPECT_EQ(too_much.status().message(), "out of memory: 500 bytes wanted, 400 free");
    EXPECT_TRUE(second_card->allocate(1000).ok());
  }
  EXPECT_EQ(*one->free_memory(), 1000u);
}

TEST(EmulatedCard, RefusesTheLaunchThatIsToFail) {
  EmulatedRuntime runtime({.faults = {.fail_launch = 2}});
  const auto device = opened(runtime);
  EXPECT_TRUE(device->launch(Quantize{}).ok());
  EXPECT_EQ(device->launch(Quantize{}).message(), "launch of quantize failed: injected");
}

TEST(EmulatedCard, ThatIsLostFailsEveryCallAndHangsNobody) {
  EmulatedRuntime runtime({.faults = {.lose_device = 2}});
  const auto device = opened(runtime);
  const Buffers b(*device);
  const Event done = *device->make_event();
  ASSERT_TRUE(device->upload(Stream::copy, b.card.get(), b.pinned.get(), 4).ok());
  ASSERT_TRUE(device->record(done, Stream::copy).ok());
  ASSERT_TRUE(device->finish(done).ok());
  ASSERT_TRUE(device->upload(Stream::copy, b.card.get(), b.pinned.get(), 4).ok());
  const flow::Status recorded = device->record(done, Stream::copy);  // may be before or after the loss
  EXPECT_EQ(recorded.ok() ? device->finish(done).message() : recorded.message(),
            "emulated card 0 is lost: injected");
  EXPECT_FALSE(device->launch(Quantize{}).ok());
  EXPECT_FALSE(device->allocate(1).ok());
}

TEST(EmulatedMachines, WithoutADriverOrACardSayWhy) {
  EmulatedRuntime no_driver({.faults = {.no_driver = "no driver here"}}), no_card({.devices = 0});
  EXPECT_EQ(no_driver.devices().status().message(), "no driver here");
  EXPECT_EQ(no_card.devices().status().message(), "there is no card");
  EXPECT_FALSE(no_card.open(0, {}).ok());
}

}  // namespace
}  // namespace dsv::cuda
