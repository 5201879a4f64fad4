// The choice of a kernel variant.
#include <gmock/gmock.h>

#include <cstdlib>

#include "stages/kernels/kernels.h"

namespace dsv {
namespace {

using ::testing::HasSubstr;

/// Sets DSV41_KERNELS for one test.
class Forced {
 public:
  explicit Forced(const char* name) { setenv("DSV41_KERNELS", name, 1); }
  ~Forced() { unsetenv("DSV41_KERNELS"); }
};

TEST(KernelSelection, PortableComesFirstAndAlwaysRuns) {
  ASSERT_FALSE(all_kernels().empty());
  EXPECT_EQ(all_kernels().front()->name, "portable");
  EXPECT_TRUE(can_run(*all_kernels().front()));
}

TEST(KernelSelection, WithoutANameTheLastVariantThatRunsIsTaken) {
  const Kernels* best = nullptr;
  for (const Kernels* k : all_kernels()) best = can_run(*k) ? k : best;
  const auto selected = select_kernels("");
  ASSERT_TRUE(selected.ok());
  EXPECT_EQ(*selected, best);
}

TEST(KernelSelection, TheEnvironmentForcesAVariantUnlessOneIsNamed) {
  const Forced forced("portable");
  ASSERT_TRUE(select_kernels("").ok());
  EXPECT_EQ((*select_kernels(""))->name, "portable");
  EXPECT_THAT(select_kernels("avx9").status().message(), HasSubstr("no kernel variant 'avx9'"));
}

TEST(KernelSelection, AnUnknownNameIsAnErrorThatListsWhatCanRun) {
  const Forced forced("sse");
  const auto selected = select_kernels("");
  ASSERT_FALSE(selected.ok());
  EXPECT_THAT(selected.status().message(),
              HasSubstr("no kernel variant 'sse'; this machine can run: portable"));
}

TEST(KernelSelection, AVariantThatCannotRunHereIsRefused) {
  for (const Kernels* k : all_kernels()) {
    EXPECT_EQ(select_kernels(k->name).ok(), can_run(*k)) << k->name;
  }
}

}  // namespace
}  // namespace dsv
