// Three operators of a step of beam search, each in one pass over what it reads; their plain forms are CrossAttention,
// PagedMemory.weighted_sum and search.best_totals.

#include <ATen/Parallel.h>
#include <ATen/cpu/vec/vec.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

namespace {

using at::Tensor;
using Lanes = at::vec::Vectorized<float>;
constexpr int64_t LANES = Lanes::size();
constexpr float NEVER = -std::numeric_limits<float>::infinity();

float largest(Lanes lanes) {
  float values[LANES];
  lanes.store(values);
  return *std::max_element(values, values + LANES);
}

float total(Lanes lanes) {
  float values[LANES], sum = 0;
  lanes.store(values);
  for (float value : values) sum += value;
  return sum;
}

// The first `count` numbers; the other lanes never win.
inline Lanes first(const float* numbers, int64_t count) {
  return count == LANES ? Lanes::loadu(numbers) : Lanes::set(Lanes(NEVER), Lanes::loadu(numbers, count), count);
}

// K sums of a matrix's rows, which are `stride` apart, by weights; rows of weights are `apart`.
template <int K>
void weigh(const float* weights, int64_t apart, const float* rows, int64_t stride, int64_t steps, int64_t count,
           Lanes* sums) {
  for (int k = 0; k < K; k++) sums[k] = Lanes(0);
  for (int64_t n = 0; n < steps; n++) {
    const auto row = Lanes::loadu(rows + n * stride, count);
    for (int k = 0; k < K; k++) sums[k] = at::vec::fmadd(Lanes(weights[k * apart + n]), row, sums[k]);
  }
}

// K queries of one head to the S positions of their sentence: keys D x S, values S x D, mask S.
// Rows of queries and of what comes out are `channels` apart.
template <int K>
void attend(const float* queries, const float* keys, const float* values, const float* mask, float* out,
            int64_t channels, int64_t length, int64_t width, float* weights, int64_t room) {
  Lanes top[K];
  for (auto& each : top) each = Lanes(NEVER);
  for (int64_t s = 0; s < length; s += LANES) {
    const int64_t count = std::min(LANES, length - s);
    Lanes sums[K];
    weigh<K>(queries, channels, keys + s, length, width, count, sums);
    const auto added = first(mask + s, count);
    for (int k = 0; k < K; k++) {
      sums[k] = sums[k] + added;
      sums[k].store(weights + k * room + s);
      top[k] = at::vec::clamp_min(top[k], sums[k]);
    }
  }
  float shares[K];
  for (int k = 0; k < K; k++) {
    const Lanes highest(largest(top[k]));
    Lanes sum(0);
    for (int64_t s = 0; s < length; s += LANES) {
      const auto weight = (Lanes::loadu(weights + k * room + s) - highest).exp_u20();
      weight.store(weights + k * room + s);
      sum = sum + weight;
    }
    shares[k] = 1 / total(sum);
  }
  for (int64_t d = 0; d < width; d += LANES) {
    const int64_t count = std::min(LANES, width - d);
    Lanes sums[K];
    weigh<K>(weights, room, values + d, width, length, count, sums);
    for (int k = 0; k < K; k++) (sums[k] * Lanes(shares[k])).store(out + k * channels + d, count);
  }
}

Tensor cross_attention(const Tensor& queries, const Tensor& keys, const Tensor& values, const Tensor& mask) {
  const int64_t sentences = keys.size(0), heads = keys.size(1), width = keys.size(2), length = keys.size(3);
  const int64_t channels = heads * width, beams = queries.size(0) / sentences, room = (length + LANES - 1) / LANES * LANES;
  const auto q = queries.contiguous(), k = keys.contiguous(), v = values.contiguous(), m = mask.contiguous();
  auto found = at::empty({queries.size(0), channels}, queries.options());
  const float *query = q.const_data_ptr<float>(), *key = k.const_data_ptr<float>(), *value = v.const_data_ptr<float>();
  const float* barred = m.const_data_ptr<float>();
  float* out = found.mutable_data_ptr<float>();
  at::parallel_for(0, sentences * heads, 64, [&](int64_t start, int64_t end) {
    std::vector<float> weights(4 * room);
    for (int64_t each = start; each < end; each++) {
      const int64_t sentence = each / heads, head = each % heads, size = width * length;
      for (int64_t beam = 0; beam < beams; beam += 4) {
        const int64_t at = (sentence * beams + beam) * channels + head * width;
        const auto some = beams - beam >= 4 ? attend<4> : beams - beam == 3 ? attend<3> : beams - beam == 2 ? attend<2> : attend<1>;
        some(query + at, key + each * size, value + each * size, barred + each * length, out + at, channels, length,
             width, weights.data(), room);
      }
    }
  });
  return found;
}

Tensor weighted_sum(const Tensor& buffer, const Tensor& rows, const Tensor& weights) {
  const int64_t beams = rows.size(0), length = rows.size(1), channels = buffer.size(2), heads = weights.size(1);
  const int64_t width = channels / heads;
  const auto b = buffer.contiguous(), r = rows.contiguous(), w = weights.contiguous();
  auto found = at::empty({beams, channels}, buffer.options());
  const float *kept = b.const_data_ptr<float>(), *weight = w.const_data_ptr<float>();
  const int64_t* row = r.const_data_ptr<int64_t>();
  float* out = found.mutable_data_ptr<float>();
  constexpr int64_t TOGETHER = 8;  // registers that are summed side by side, each of one head
  const int64_t fast = width % LANES == 0 ? channels / (TOGETHER * LANES) * TOGETHER * LANES : 0;
  at::parallel_for(0, beams, 16, [&](int64_t start, int64_t end) {
    for (int64_t beam = start; beam < end; beam++) {
      const float* own = weight + beam * heads * length;
      const int64_t* places = row + beam * length;
      for (int64_t c = 0; c < fast; c += TOGETHER * LANES) {
        Lanes sums[TOGETHER];
        const float* weights[TOGETHER];
        for (int64_t n = 0; n < TOGETHER; n++) sums[n] = Lanes(0), weights[n] = own + (c + n * LANES) / width * length;
        for (int64_t t = 0; t < length; t++) {
          const float* values = kept + places[t] * channels + c;
          for (int64_t n = 0; n < TOGETHER; n++)
            sums[n] = at::vec::fmadd(Lanes(weights[n][t]), Lanes::loadu(values + n * LANES), sums[n]);
        }
        for (int64_t n = 0; n < TOGETHER; n++) sums[n].store(out + beam * channels + c + n * LANES);
      }
      for (int64_t c = fast; c < channels; c++) {
        const float* weights = own + c / width * length;
        float sum = 0;
        for (int64_t t = 0; t < length; t++) sum += weights[t] * kept[places[t] * channels + c];
        out[beam * channels + c] = sum;
      }
    }
  });
  return found;
}

// Of a row of scores the largest, the sum of their exponentials, and of each lane of a block of rows of registers the
// largest that is not barred: only what may be better than the best so far is then looked at one by one.
constexpr int64_t DEEP = 8, BLOCK = DEEP * LANES;

struct Row {
  float top, sum;
};

Row look_through(const float* scores, const float* barred, int64_t symbols, float* lane_tops) {
  Lanes top(NEVER), sum(0);
  for (int64_t start = 0; start < symbols; start += BLOCK, lane_tops += LANES) {
    Lanes allowed(NEVER);
    for (int64_t n = start; n < std::min(symbols, start + BLOCK); n += LANES) {
      const int64_t count = std::min(LANES, symbols - n);
      const auto each = first(scores + n, count);
      top = at::vec::clamp_min(top, each);
      allowed = at::vec::clamp_min(allowed, each + Lanes::loadu(barred + n, count));
    }
    allowed.store(lane_tops);
  }
  const float highest = largest(top);
  for (int64_t n = 0; n < symbols; n += LANES) {
    sum = sum + (first(scores + n, std::min(LANES, symbols - n)) - Lanes(highest)).exp_u20();
  }
  return {highest, total(sum)};
}

bool any_above(const float* numbers, float least) {
  int found = 0;
#pragma omp simd reduction(| : found)
  for (int64_t lane = 0; lane < LANES; lane++) found |= numbers[lane] > least;
  return found;
}

std::tuple<Tensor, Tensor, Tensor> best(const Tensor& logits, const Tensor& scores, const Tensor& barred, int64_t count,
                                        int64_t end) {
  const int64_t sentences = scores.size(0), beams = scores.size(1), symbols = logits.size(1);
  const auto l = logits.contiguous(), s = scores.contiguous(), b = barred.contiguous();
  auto totals = at::empty({sentences, count}, logits.options());
  auto places = at::empty({sentences, count}, logits.options().dtype(at::kLong));
  auto if_ended = at::empty({sentences, beams}, logits.options());
  const float *logit = l.const_data_ptr<float>(), *before = s.const_data_ptr<float>(), *bar = b.const_data_ptr<float>();
  float *best_totals = totals.mutable_data_ptr<float>(), *ended = if_ended.mutable_data_ptr<float>();
  int64_t* best_places = places.mutable_data_ptr<int64_t>();
  at::parallel_for(0, sentences, 4, [&](int64_t start, int64_t stop) {
    std::vector<float> lane_tops((symbols + BLOCK - 1) / BLOCK * LANES);
    for (int64_t sentence = start; sentence < stop; sentence++) {
      float *found = best_totals + sentence * count, &worst = found[count - 1];
      int64_t* where = best_places + sentence * count;
      std::fill(found, found + count, NEVER);
      for (int64_t n = 0; n < count; n++) where[n] = n;
      for (int64_t beam = 0; beam < beams; beam++) {
        const float* row = logit + (sentence * beams + beam) * symbols;
        const auto seen = look_through(row, bar, symbols, lane_tops.data());
        const float added = before[sentence * beams + beam] - seen.top - std::log(seen.sum);
        ended[sentence * beams + beam] = row[end] + added;
        for (int64_t block = 0; block * BLOCK < symbols; block++) {
          const float* tops = lane_tops.data() + block * LANES;
          if (!any_above(tops, worst - added)) continue;
          for (int64_t lane = 0; lane < LANES; lane++) {
            if (!(tops[lane] > worst - added)) continue;
            for (int64_t n = block * BLOCK + lane; n < std::min(symbols, (block + 1) * BLOCK); n += LANES) {
              const float score = row[n] + bar[n] + added;
              if (!(score > worst)) continue;
              int64_t at = count - 1;
              for (; at > 0 && score > found[at - 1]; at--) found[at] = found[at - 1], where[at] = where[at - 1];
              found[at] = score, where[at] = beam * symbols + n;
            }
          }
        }
      }
    }
  });
  return {totals, places, if_ended};
}

// A compiled graph that so many threads can run at a time. PyTorch's loader for Python keeps Python's lock while it runs.
struct CompiledGraph : torch::CustomClassHolder {
  torch::inductor::AOTIModelPackageLoader loader;

  CompiledGraph(const std::string& path, int64_t threads) : loader(path, "model", false, threads) {}

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) { return loader.run(inputs); }
};

}  // namespace

TORCH_LIBRARY(resmlp_mt, library) {
  library.def("cross_attention(Tensor queries, Tensor keys, Tensor values, Tensor mask) -> Tensor");
  library.def("weighted_sum(Tensor buffer, Tensor rows, Tensor weights) -> Tensor");
  library.def("best(Tensor logits, Tensor scores, Tensor barred, SymInt count, int end) -> (Tensor, Tensor, Tensor)");
  library.class_<CompiledGraph>("CompiledGraph")
      .def(torch::init<const std::string&, int64_t>())
      .def("run", &CompiledGraph::run);
}

TORCH_LIBRARY_IMPL(resmlp_mt, CPU, library) {
  library.impl("cross_attention", cross_attention);
  library.impl("weighted_sum", weighted_sum);
  library.impl("best", best);
}
