// Requests of experts without prefetch, and repeated ones, for ablations and benchmarks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/moe/expert_cache.h"

namespace dsv::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A cache whose reads end when the test says so.
class OnDemand : public ::testing::Test {
 protected:
  std::shared_ptr<ExpertCache> cache(std::size_t slots) {
    return std::make_shared<ExpertCache>(
        slots, 16, cache_policy("lru"),
        [this](int expert, ExpertCache::Done done) -> ExpertPagePtr {
          started_.push_back(expert);
          if (at_once_) return std::make_shared<const ExpertPage>();
          done_.push_back(std::move(done));
          return nullptr;
        },
        cancelled_);
  }
  /// Takes all experts; reads end at once.
  std::vector<int> take_all(ExpertRequest& request) {
    std::vector<int> taken;
    while (true) {
      const auto ready = request.next();
      if (!ready.ok() || !*ready) return taken;
      taken.push_back((*ready)->expert);
    }
  }
  std::vector<int> started_;
  std::vector<ExpertCache::Done> done_;
  bool at_once_ = true;
  std::atomic<bool> cancelled_{false};
};

TEST_F(OnDemand, ReadsNothingBeforeItIsAsked) {
  const auto request = cache(8)->request({3, 5, 7}, Phase::decode, Reading::needed);
  EXPECT_THAT(started_, IsEmpty());
  ASSERT_TRUE(request->next().ok());
  EXPECT_THAT(started_, ElementsAre(3)) << "one expert for each question";
  EXPECT_THAT(take_all(*request), ElementsAre(5, 7));
  EXPECT_THAT(started_, ElementsAre(3, 5, 7));
}

TEST_F(OnDemand, ReadsAheadOtherwise) {
  at_once_ = false;
  const auto request = cache(8)->request({3, 5, 7});
  EXPECT_THAT(started_, ElementsAre(3, 5, 7));
}

TEST_F(OnDemand, WorksInOneSlotAndBesideOtherRequests) {
  const auto one = cache(1);
  const auto a = one->request({1, 2}, Phase::decode, Reading::needed);
  const auto b = one->request({3}, Phase::decode, Reading::needed);
  ASSERT_TRUE(a->next().ok());
  EXPECT_THAT(take_all(*b), ElementsAre(3)) << "takes the slot while the first is between two experts";
  EXPECT_THAT(take_all(*a), ElementsAre(2));
  EXPECT_THAT(started_, ElementsAre(1, 3, 2));
}

TEST_F(OnDemand, RestartedRequestsGiveTheirExpertsAgain) {
  for (const Reading reading : {Reading::ahead, Reading::needed}) {
    started_.clear();
    const auto request = cache(8)->request({3, 5}, Phase::decode, reading);
    EXPECT_THAT(take_all(*request), ElementsAre(3, 5));
    request->restart();
    EXPECT_THAT(take_all(*request), ElementsAre(3, 5));
    EXPECT_THAT(started_, ElementsAre(3, 5)) << "they are in memory the second time";
  }
}

}  // namespace
}  // namespace dsv::testing
