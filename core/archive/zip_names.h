// Zip names: marks the UTF-8 names in a finished zip file as UTF-8.
//
// libarchive does that only under a UTF-8 locale, which sbx never has. Without the mark other
// programs read such names as code page 437.
#pragma once

#include "core/base/result.h"

namespace sbx::archive {

/// Sets general purpose bit 11 (APPNOTE.TXT 4.4.4) of every entry whose name is UTF-8 and not plain
/// ASCII, in place. `fd`: a zip file without a comment, open for reading and writing.
Status mark_utf8_names(int fd);

}  // namespace sbx::archive
