// Comparisons that name the worst element.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>

#include "stages/kernels/formats.h"

namespace dsv::testing {

/// Steps between two bf16 values on the number line (+0 and -0 are the same place).
inline int bf16_steps(bf16 a, bf16 b) {
  const auto place = [](bf16 x) { return (x.bits & 0x8000) ? -(x.bits & 0x7fff) : int{x.bits}; };
  return std::abs(place(a) - place(b));
}

/// At most `steps` bf16 steps apart, and different at all on at most `share` of the elements.
inline ::testing::AssertionResult near_bf16(std::span<const bf16> actual, std::span<const bf16> expected,
                                            int steps, double share) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure() << actual.size() << " elements instead of " << expected.size();
  }
  std::size_t worst = 0, differing = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const int distance = bf16_steps(actual[i], expected[i]);
    differing += distance != 0;
    if (distance > bf16_steps(actual[worst], expected[worst])) worst = i;
  }
  const int distance = bf16_steps(actual[worst], expected[worst]);
  if (distance <= steps && static_cast<double>(differing) <= share * static_cast<double>(actual.size())) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << differing << " of " << actual.size() << " differ; worst at "
                                       << worst << ": " << static_cast<float>(actual[worst]) << " instead of "
                                       << static_cast<float>(expected[worst]) << ", " << distance << " steps";
}

/// Largest |actual - expected| / (|expected| + floor) is at most `bound`.
inline ::testing::AssertionResult near_relative(std::span<const float> actual,
                                                std::span<const float> expected, double bound,
                                                double floor = 0) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure() << actual.size() << " elements instead of " << expected.size();
  }
  std::size_t worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::fabs(double{actual[i]} - expected[i]);
    const double error = difference == 0 ? 0 : difference / (std::fabs(double{expected[i]}) + floor);
    if (!(error <= largest)) worst = i, largest = error;
  }
  if (largest <= bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "worst at " << worst << ": " << actual[worst] << " instead of " << expected[worst]
         << ", relative error " << largest << " over " << bound;
}

}  // namespace dsv::testing
