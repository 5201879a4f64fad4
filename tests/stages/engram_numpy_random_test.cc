// Random numbers equal numpy's bit for bit. The expected numbers were drawn with numpy 2.4.6.
#include <gmock/gmock.h>

#include <limits>

#include "stages/engram/numpy_random.h"

namespace dsv {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(NumpyRandom, SeedSequenceEqualsNumpys) {
  const struct {
    std::uint64_t entropy;
    std::vector<std::uint64_t> state;
  } cases[] = {
      {0,
       {15793235383387715774u, 12390638538380655177u, 2361836109651742017u, 3188717715514472916u,
        648184599915300350u}},
      {1,
       {7434755675892716031u, 10007452063617845036u, 5266248848659119178u, 15045448681910192573u,
        13413212884784156280u}},
      {10007,
       {8634291315755388167u, 11042498673593962405u, 15418481100450270793u, 9041516862649747678u,
        5886785074070217590u}},
      {140098,
       {15805499435905774270u, 12485762845600855621u, 5860821814761405108u, 11501711722205355141u,
        2228872973301684303u}},
      {(1ull << 40) + 7,
       {974592680304384533u, 11164224302760304993u, 11068753026110695683u, 4650291916314288918u,
        9184212462171371256u}},
  };
  for (const auto& item : cases) EXPECT_EQ(seed_sequence(item.entropy, 5), item.state) << item.entropy;
}

TEST(NumpyRandom, IntegersEqualNumpysForEveryKindOfRange) {
  const struct {
    const char* kind;
    std::uint64_t seed;
    std::int64_t low, high;
    std::vector<std::int64_t> values;
  } cases[] = {
      {"one value", 1, 0, 1, {0, 0, 0, 0, 0, 0, 0}},
      {"few values", 10007, 0, 10, {1, 8, 6, 0, 5, 3, 2}},
      {"half of the 32-bit draws rejected",
       10007,
       0,
       (1ll << 31) + 1,
       {322113305, 1768029216, 829649122, 643084705, 2048125812, 1624322899, 1230574706}},
      {"all 32-bit values",
       5,
       -3,
       (1ll << 32) - 3,
       {2881021349, 3457461227, 97294834, 3470079266, 2013703613, 2213306428, 2706834547}},
      {"one more than 32 bits",
       5,
       0,
       (1ll << 32) + 1,
       {3457461231, 3470079269, 2213306431, 1227507580, 231630603, 1646556805, 1754379058}},
      {"half of the 64-bit draws rejected",
       7,
       -(1ll << 62),
       (1ll << 62) + 1,
       {2542751686368525489, -1843140699770607454, 3445422402538640282, 2739981862156045487,
        -295747859301655408, -2043663013432940222, 41950284489161615}},
      {"multipliers of the released layout",
       10007,
       0,
       kMax / 99092 / 2,
       {38316048023122, 2419938046656, 17979836159674, 36993668729195, 19978571768672, 35201700093836,
        10352428609326}},
      {"all 64-bit values but one",
       3,
       kMin,
       kMax,
       {-7643423770429963529, -4854989227711015948, 5557532955606117429, 1515622051854288675,
        -7487005063440363763, -1233590218883651322, -386435341872477727}},
  };
  for (const auto& item : cases)
    EXPECT_THAT(NumpyGenerator(item.seed).integers(item.low, item.high, 7), ElementsAreArray(item.values))
        << item.kind;
}

TEST(NumpyRandom, AllSixtyFourBitValuesAreTheRawDraws) {
  NumpyGenerator generator(3);
  std::vector<std::int64_t> values;
  for (int i = 0; i < 3; ++i)
    values.push_back(
        static_cast<std::int64_t>(static_cast<std::uint64_t>(kMin) + generator.bounded(~std::uint64_t{0})));
  EXPECT_THAT(values, ElementsAre(-7643423770429963528, -4854989227711015947, 5557532955606117430));
}

TEST(NumpyRandom, KeepsTheOtherHalfOfADrawAcrossWiderDraws) {
  NumpyGenerator generator(11);
  EXPECT_THAT(generator.integers(0, 10, 1), ElementsAre(1));
  EXPECT_THAT(generator.integers(0, 1ll << 40, 1), ElementsAre(548961815244));
  EXPECT_THAT(generator.integers(0, 10, 1), ElementsAre(1));
  EXPECT_THAT(generator.integers(0, 1ll << 40, 1), ElementsAre(661354438295));
}

}  // namespace
}  // namespace dsv
