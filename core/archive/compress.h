// Compress: one stream of bytes through a compressor, with the digest of what comes out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/result.h"

namespace sbx::archive {

enum class Compression : std::uint8_t { kNone, kGzip, kZstd, kXz };

struct Compressed {
  std::uint64_t read = 0;     ///< bytes that came in
  std::uint64_t written = 0;  ///< bytes that went out
  std::string sha256;         ///< of those, 64 hex digits
};

/// Told how many bytes came in so far, now and then; an error ends it and is given back.
using OnRead = std::function<Status(std::uint64_t)>;

/// Reads `in` to its end and writes it to `out`, which both stay the caller's and are blocking.
/// The same bytes give the same result, with the same libraries. Blocks.
Result<Compressed> compress(int in, int out, Compression how, const OnRead& told = {});

}  // namespace sbx::archive
