// Sealed: a stream of bytes kept on disk so that only this user's key opens it: the memory of
// machines that are put away.
//
// File: "SBXSEAL1", 32 random bytes, then pieces: u32 (little endian) length, of which the highest
// bit says that it is the last; so many bytes; a tag of 16. AES-256-GCM with a key that is made of
// the user's key, the random bytes and a label, and a count of the pieces as nonce: a piece cannot
// be changed, moved, left out or taken from another file, nor the file be cut or given another
// name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/process.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::vm {

using SealKey = std::array<std::byte, 32>;

/// Where the key of this user is: "/etc/sbx" for root, else host::config_dir(). Never in the state
/// directory, or one copy of that would have both. kNotFound without a home.
Result<std::string> seal_key_dir();
/// The key in "<dir>/images.key", made when it is not there (0600; `dir` 0700). kDenied when the
/// file is not ours alone, kProtocol when it is no key.
Result<SealKey> seal_key(const std::string& dir);

/// Reads `from` to its end and writes it sealed to `to`. `label` has to be the same for unseal().
/// Blocks; about 1 s for 1 GB.
Status seal(int from, int to, const SealKey& key, std::string_view label);
/// The reverse. What was written to `to` is genuine, but only success says that it is all.
/// kProtocol for anything that was not sealed so.
Status unseal(int from, int to, const SealKey& key, std::string_view label);

/// The same in a process of its own, with a pipe as the open end. It ends with its parent.
struct SealPipe {
  UniqueFd open_end;     ///< to be written to / read from; close it before finish()
  ChildProcess process;  ///< has the rest
  /// Waits for the end; whether all went well. Blocks until the other side has ended the stream.
  Status finish();
};
/// `to` and `from` stay the caller's.
Result<SealPipe> start_sealing(int to, const SealKey& key, std::string_view label);
Result<SealPipe> start_unsealing(int from, const SealKey& key, std::string_view label);

}  // namespace sbx::vm
