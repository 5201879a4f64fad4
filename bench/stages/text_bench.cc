// The way from text to Engram rows under the released vocabulary: loading it, encoding, decoding, the
// compressed vocabulary, hashing.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stages/engram/hash.h"
#include "stages/text/tokenizer.h"

namespace {

constexpr const char* kVocabulary = DSV41_SOURCE_DIR "/tests/golden/tokenizer/tokenizer.json";

std::shared_ptr<const dsv::Tokenizer> tokenizer() {
  static const auto loaded = *dsv::Tokenizer::load(kVocabulary);
  return loaded;
}

/// Sentences of several scripts with running numbers, at least `bytes` long.
std::string mixed_text(std::size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) {
    text += "The " + std::to_string(i) + "th sentence isn't like the others, is it?\n";
    text += "Сегодня идёт снег. 今天天气晴朗。 🙂 if (x[" + std::to_string(i) +
            "] != 0) return;\n\n";
  }
  return text;
}

void BM_LoadVocabulary(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(dsv::Tokenizer::load(kVocabulary).ok());
}
BENCHMARK(BM_LoadVocabulary)->Unit(benchmark::kMillisecond);

void BM_Encode(benchmark::State& state) {
  const std::string text = mixed_text(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer()->encode(text)->size());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(BM_Encode)->Arg(100)->Arg(10'000)->Arg(1'000'000);

void BM_Decode(benchmark::State& state) {
  const std::vector<std::int32_t> ids = *tokenizer()->encode(mixed_text(100'000));
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer()->decode(ids, false).size());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(ids.size()));
}
BENCHMARK(BM_Decode);

void BM_TokenMap(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(dsv::build_token_map(*tokenizer())->classes);
}
BENCHMARK(BM_TokenMap)->Unit(benchmark::kMillisecond);

void BM_EngramHash(benchmark::State& state) {
  const auto map = std::make_shared<dsv::TokenMap>(*dsv::build_token_map(*tokenizer()));
  const auto layout = std::make_shared<dsv::EngramLayout>(
      *dsv::EngramLayout::derive({{1, 14}, 4, 8, 16'000'000, map->classes, 2, {}}));
  const dsv::EngramHasher hasher = *dsv::EngramHasher::make(layout, map);
  const std::vector<std::int32_t> ids = *tokenizer()->encode(mixed_text(10'000));
  for (auto _ : state) {
    dsv::EngramLookback lookback;
    benchmark::DoNotOptimize(hasher.hash(ids, {}, lookback)->size());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(ids.size()));
}
BENCHMARK(BM_EngramHash);

}  // namespace

BENCHMARK_MAIN();
