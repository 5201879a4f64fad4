// Tests that run once for each kernel variant; a variant that this machine cannot run is skipped by name.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "stages/kernels/kernels.h"

namespace dsv::testing {

/// A test of one kernel variant: TEST_P(Name, Sentence) with kernels().
class VariantTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  void SetUp() override {
    if (!can_run(kernels())) GTEST_SKIP() << "this machine cannot run " << kernels().name;
  }
  static const Kernels& kernels() { return *GetParam(); }
  static const Kernels& portable() { return *all_kernels().front(); }
};

}  // namespace dsv::testing

/// Runs the TEST_P cases of a VariantTest for every variant that is compiled in.
#define DSV_FOR_EVERY_VARIANT(Name)                                                                       \
  INSTANTIATE_TEST_SUITE_P(Kernels, Name,                                                                 \
                           ::testing::ValuesIn(::dsv::all_kernels().begin(), ::dsv::all_kernels().end()), \
                           [](const auto& variant) { return std::string(variant.param->name); })
