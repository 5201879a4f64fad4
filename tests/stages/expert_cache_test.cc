// What stays in an expert cache, and what guesses may and may not do to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "stages/moe/expert_guesses.h"

namespace dsv::test {
namespace {

using Experts = ExpertRequest::Experts;

/// A cache whose loads end at once, or when the test says so.
class CacheFixture {
 public:
  explicit CacheFixture(std::size_t slots, const std::string& policy = "lru", bool at_once = true)
      : cache(std::make_shared<ExpertCache>(
            slots, 64, cache_policy(policy),
            [this, at_once](int expert, ExpertCache::Done done) -> ExpertPagePtr {
              loads.push_back(expert);
              if (at_once) return std::make_shared<ExpertPage>();
              pending.emplace_back(expert, std::move(done));
              return nullptr;
            },
            cancelled)) {}

  /// One pass: takes all its experts, in the order of arrival.
  Experts pass(const Experts& experts, Phase phase = Phase::decode) {
    const auto request = cache->request(experts, phase);
    Experts order;
    while (true) {
      const auto ready = request->next();
      EXPECT_TRUE(ready.ok()) << ready.status().message();
      if (!ready.ok() || !*ready) return order;
      order.push_back((*ready)->expert);
    }
  }
  /// Loads that a pass causes.
  std::size_t cost(const Experts& experts, Phase phase = Phase::decode) {
    const std::size_t before = loads.size();
    pass(experts, phase);
    return loads.size() - before;
  }

  std::atomic<bool> cancelled{false};
  Experts loads;
  std::vector<std::pair<int, ExpertCache::Done>> pending;
  std::shared_ptr<ExpertCache> cache;
};

TEST(ExpertCache, LruDropsTheOneNotUsedForLongest) {
  CacheFixture f(3);
  f.pass({1, 2, 3});
  f.pass({1});
  f.pass({4});
  EXPECT_TRUE(f.cache->holds(1));
  EXPECT_FALSE(f.cache->holds(2));
  EXPECT_EQ(f.cost({1, 3, 4}), 0u);
}

TEST(ExpertCache, FrequencyKeepsWhatIsUsedOftenThroughAScan) {
  for (const auto& [policy, reloads] : {std::pair{"frequency", 0u}, {"lru", 2u}}) {
    CacheFixture f(3, policy);
    for (int i = 0; i < 10; ++i) f.pass({1, 2});
    for (std::int32_t expert = 10; expert < 20; ++expert) f.pass({expert});
    EXPECT_EQ(f.cost({1, 2}), reloads) << policy;
  }
}

TEST(ExpertCache, FrequencyForgetsWhatWasPopularLongAgo) {
  CacheFixture f(2, "frequency");
  for (int i = 0; i < 100; ++i) f.pass({1});
  for (int i = 0; i < 600; ++i) f.pass({2}), f.pass({3});
  EXPECT_EQ(f.cost({2, 3}), 0u);
}

TEST(ExpertCache, DecodeFirstKeepsWhatDecodingUsesThroughAPrompt) {
  for (const auto& [policy, reloads] : {std::pair{"decode_first", 1u}, {"lru", 4u}, {"frequency", 4u}}) {
    CacheFixture f(4, policy);
    f.pass({1, 2, 3, 4}, Phase::decode);
    for (int chunk = 0; chunk < 5; ++chunk) {
      for (std::int32_t expert = 10; expert < 30; ++expert) f.pass({expert}, Phase::prefill);
    }
    EXPECT_EQ(f.cost({1, 2, 3, 4}), reloads) << policy << ": a prompt takes one slot, not all";
  }
}

TEST(ExpertCache, OfOneSlotServesManyPassesAtOnceWithoutEverHoldingTwoPages) {
  for (const std::string& policy : cache_policies()) {
    std::atomic<int> alive{0}, most{0};
    std::atomic<bool> cancelled{false};
    struct Counted : ExpertPage {
      explicit Counted(std::atomic<int>& n) : alive(n) {}
      ~Counted() { --alive; }
      std::atomic<int>& alive;
    };
    std::vector<std::jthread> loaders;
    std::mutex mutex;
    const auto cache = std::make_shared<ExpertCache>(
        1, 8, cache_policy(policy),
        [&](int, ExpertCache::Done done) -> ExpertPagePtr {
          const std::lock_guard lock(mutex);
          loaders.emplace_back([&, done = std::move(done)] {
            const int now = ++alive;
            for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
            }
            done(ExpertPagePtr(std::make_shared<Counted>(alive)));
          });
          return nullptr;
        },
        cancelled);
    std::vector<std::jthread> passes;
    std::atomic<int> taken{0};
    for (unsigned t = 0; t < 4; ++t) {
      passes.emplace_back([&, t] {
        std::mt19937 random(t);
        for (int i = 0; i < 25; ++i) {
          Experts experts = {0, 1, 2, 3, 4, 5, 6, 7};
          std::shuffle(experts.begin(), experts.end(), random);
          experts.resize(1 + random() % 3);
          const auto request = cache->request(experts, t % 2 ? Phase::decode : Phase::prefill);
          for (std::size_t k = 0; k < experts.size(); ++k) {
            const auto ready = request->next();
            if (ready.ok() && *ready) ++taken;
          }
        }
      });
    }
    passes.clear();
    const std::lock_guard lock(mutex);
    loaders.clear();
    EXPECT_GE(taken, 100) << policy;
    EXPECT_EQ(most, 1) << policy;
  }
}

TEST(ExpertCache, EndsWaitingWhenTheRunIsCancelled) {
  CacheFixture f(2, "lru", false);
  const auto request = f.cache->request({1});
  f.cancelled = true;
  EXPECT_EQ(request->next().status().message(), "the run was cancelled");
  f.pending.at(0).second(ExpertPagePtr(std::make_shared<ExpertPage>()));
}

TEST(ExpertCache, PassesAFailedReadOnAndLoadsThePageAgainWhenAskedAgain) {
  CacheFixture f(2, "lru", false);
  {
    const auto request = f.cache->request({1});
    f.pending.at(0).second(flow::Status::error("bad disk"));
    EXPECT_EQ(request->next().status().message(), "bad disk");
  }
  const auto again = f.cache->request({1});
  ASSERT_EQ(f.pending.size(), 2u);
  f.pending.at(1).second(ExpertPagePtr(std::make_shared<ExpertPage>()));
  EXPECT_TRUE(again->next().ok());
}

/// Guesses whose reads end when the test says so.
class Guesses : public ::testing::Test {
 protected:
  void arrive(int layer, int expert, bool good = true) {
    auto done = std::exchange(reads_.at({layer, expert}), nullptr);
    if (good)
      done(ExpertPagePtr(std::make_shared<ExpertPage>()));
    else
      done(flow::Status::error("bad disk"));
  }
  ExpertGuesses make(std::size_t room) {
    return ExpertGuesses(
        room,
        [this](int layer, int expert, ExpertCache::Done done) {
          reads_[{layer, expert}] = std::move(done);
          return std::make_shared<ReadBatch>();
        },
        [this](const ReadTicket&) { ++hurried_; }, [this](const ReadTicket&) { ++dropped_; });
  }
  std::map<std::pair<int, int>, ExpertCache::Done> reads_;
  int hurried_ = 0, dropped_ = 0;
};

TEST_F(Guesses, MoveToThePassThatAsksForThem) {
  ExpertGuesses guesses = make(4);
  guesses.guess(1, 7);
  guesses.guess(1, 7);
  EXPECT_EQ(guesses.counts().started, 1u) << "once";
  arrive(1, 7);
  EXPECT_FALSE(guesses.take(0, 7, {}).page) << "another layer";
  EXPECT_TRUE(guesses.take(1, 7, {}).page);
  EXPECT_FALSE(guesses.take(1, 7, {}).page) << "it has moved";
  EXPECT_EQ(guesses.counts().used, 1u);
}

TEST_F(Guesses, ThatAreOnTheirWayAreHurriedAndReachThePass) {
  ExpertGuesses guesses = make(4);
  guesses.guess(1, 7);
  int called = 0;
  const auto taken =
      guesses.take(1, 7, [&](const flow::Result<ExpertPagePtr>& page) { called += page.ok(); });
  EXPECT_FALSE(taken.page);
  EXPECT_TRUE(taken.coming);
  EXPECT_EQ(hurried_, 1);
  arrive(1, 7);
  EXPECT_EQ(called, 1);
}

TEST_F(Guesses, TakeNoMoreThanTheirRoomEvenWhileDroppedOnesAreStillBeingRead) {
  ExpertGuesses guesses = make(2);
  guesses.guess(1, 0);
  guesses.guess(1, 1);
  guesses.guess(1, 2);
  EXPECT_EQ(guesses.counts().started, 2u);
  guesses.settle(1, Experts{1, 9});
  EXPECT_EQ(dropped_, 1);
  EXPECT_EQ(guesses.counts().wrong, 1u);
  guesses.guess(2, 5);
  EXPECT_EQ(guesses.counts().started, 2u) << "the dropped one has not given its memory back";
  arrive(1, 0);
  guesses.guess(2, 5);
  EXPECT_EQ(guesses.counts().started, 3u);
}

TEST_F(Guesses, ThatCannotBeReadAreNoErrorUntilAPassAsks) {
  ExpertGuesses guesses = make(4);
  guesses.guess(1, 7);
  arrive(1, 7, false);
  EXPECT_FALSE(guesses.take(1, 7, {}).coming) << "the pass reads it itself";
  guesses.guess(1, 8);
  std::string message;
  guesses.take(1, 8, [&](const flow::Result<ExpertPagePtr>& page) { message = page.status().message(); });
  arrive(1, 8, false);
  EXPECT_EQ(message, "bad disk");
}

}  // namespace
}  // namespace dsv::test
