#include "core/kernels/cpu/convolution_tiles.h"

#include <algorithm>

namespace weft::cpu {

namespace {

constexpr double kTileElements = 128 << 10;  // of both images together: half of a second-level cache
constexpr double kSumTileElements = 512 << 10;
constexpr int64_t kWantedTiles = 16;
constexpr double kLeastTileWork = 1 << 19;  // multiply-adds worth handing to another thread
constexpr int64_t kLeastRows = 4;

int64_t blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }
int64_t round_up_quotient(int64_t a, int64_t b) { return a >= 0 ? blocks(a, b) : -(-a / b); }

struct Cut { int64_t images, row_blocks; };

// How many images, or blocks of rows of one image, a tile has.
Cut cut_of(const ConvolutionShape& s, int64_t rows, double tile_elements, int64_t wanted) {
  const double elements = static_cast<double>(s.in_channels * s.in_volume() + s.out_channels * s.out_volume());
  const double work = s.work() / static_cast<double>(s.batch);
  const double fitting = tile_elements / elements;
  int64_t images = std::clamp<int64_t>(static_cast<int64_t>(fitting), 1, s.batch);
  if (images > 1) {
    const int64_t worthwhile = static_cast<int64_t>(kLeastTileWork / std::max(work, 1.0)) + 1;
    const int64_t spread = blocks(s.batch, wanted);
    images = std::min(images, std::max(worthwhile, spread));
    return {blocks(s.batch, blocks(s.batch, images)), 1};
  }
  int64_t row_blocks = 1;
  const int64_t most = std::max<int64_t>(1, rows / std::max(kLeastRows, 2 * s.extent(0)));
  const int64_t by_threads = std::min(blocks(wanted, s.batch), static_cast<int64_t>(work / (2 * kLeastTileWork)));
  const int64_t by_cache = static_cast<int64_t>(1.0 / (2 * fitting));
  row_blocks = std::clamp<int64_t>(std::max(by_threads, by_cache), 1, most);
  return {1, row_blocks};
}

Tile whole_images(const ConvolutionShape& s, int64_t image, int64_t images) {
  return {image, images, 0, s.in[0], 0, s.out[0], s.padding[0], padding_after(s, 0)};
}

// `make_rows(first, end, &tile)` fills in one block of rows; false where that cannot be one convolution.
template <class MakeRows>
std::vector<Tile> cut(const ConvolutionShape& s, int64_t rows, double tile_elements, int64_t wanted,
                      MakeRows make_rows) {
  const Cut how = cut_of(s, rows, tile_elements, wanted);
  std::vector<Tile> tiles;
  if (how.row_blocks > 1) {
    const int64_t step = blocks(rows, how.row_blocks);
    std::vector<Tile> of_image;
    bool possible = true;
    for (int64_t first = 0; possible && first < rows; first += step) {
      Tile tile{0, 1, 0, 0, 0, 0, 0, 0};
      possible = make_rows(first, std::min(rows, first + step), &tile);
      of_image.push_back(tile);
    }
    if (possible) {
      for (int64_t image = 0; image < s.batch; ++image) {
        for (Tile tile : of_image) {
          tile.image = image;
          tiles.push_back(tile);
        }
      }
      return tiles;
    }
  }
  for (int64_t image = 0; image < s.batch; image += how.images) {
    tiles.push_back(whole_images(s, image, std::min(how.images, s.batch - image)));
  }
  return tiles;
}

}  // namespace

int64_t padding_after(const ConvolutionShape& s, int d) {
  return (s.out[d] - 1) * s.stride[d] + s.extent(d) - s.in[d] - s.padding[d];
}

namespace {

std::vector<Tile> tiles_by_output(const ConvolutionShape& s, double tile_elements, int64_t wanted) {
  return cut(s, s.out[0], tile_elements, wanted, [&](int64_t first, int64_t end, Tile* tile) {
    const int64_t begin = first * s.stride[0] - s.padding[0];
    const int64_t stop = (end - 1) * s.stride[0] - s.padding[0] + s.extent(0);
    tile->in_first = std::max<int64_t>(begin, 0);
    tile->in_count = std::min(stop, s.in[0]) - tile->in_first;
    tile->out_first = first;
    tile->out_count = end - first;
    tile->pad_before = tile->in_first - begin;
    tile->pad_after = stop - tile->in_first - tile->in_count;
    return tile->in_count > 0;
  });
}

}  // namespace

std::vector<Tile> tiles_of_output(const ConvolutionShape& s) { return tiles_by_output(s, kTileElements, kWantedTiles); }
std::vector<Tile> tiles_of_sum(const ConvolutionShape& s) {
  return tiles_by_output(s, kSumTileElements, parts_of_sum(s, kWantedTiles));
}

int64_t parts_of_sum(const ConvolutionShape& s, int64_t tiles) {
  // A part's sum costs about as much as the products of 64 positions.
  constexpr int64_t kLeastPositions = 512, kLeastParts = 4, kMostParts = 16;
  constexpr int64_t kMostWeights = 8 << 20;  // of all parts
  const int64_t worthwhile = std::clamp(s.batch * s.out_volume() / kLeastPositions, kLeastParts, kMostParts);
  return std::min({tiles, worthwhile, std::max<int64_t>(2, kMostWeights / s.weights())});
}

std::vector<Tile> tiles_of_input(const ConvolutionShape& s) {
  return cut(s, s.in[0], kTileElements, kWantedTiles, [&](int64_t first, int64_t end, Tile* tile) {
    const int64_t reach = s.extent(0) - 1;
    const int64_t out_first = std::max<int64_t>(0, round_up_quotient(first + s.padding[0] - reach, s.stride[0]));
    const int64_t out_end = std::min(s.out[0], (end - 1 + s.padding[0]) / s.stride[0] + 1);
    tile->in_first = first;
    tile->in_count = end - first;
    tile->out_first = out_first;
    tile->out_count = out_end - out_first;
    tile->pad_before = first + s.padding[0] - out_first * s.stride[0];
    tile->pad_after = (tile->out_count - 1) * s.stride[0] + s.extent(0) - tile->in_count - tile->pad_before;
    return tile->out_count > 0 && tile->pad_before >= 0;
  });
}

}  // namespace weft::cpu
