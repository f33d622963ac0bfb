// Guest data: see guest_data.h.
#include "core/backend/vm/guest_data.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "core/archive/pack.h"
#include "core/archive/unpack.h"
#include "core/backend/vm/control.h"
#include "core/backend/vm/data_stream.h"
#include "core/base/fs.h"
#include "core/base/text.h"

namespace sbx::vm {

namespace {

/// Whoever the program is inside, it is the only one that can see them.
Status open_to_all(const std::string& dir) {
  namespace stdfs = std::filesystem;
  using stdfs::perms;
  std::error_code failed;
  for (auto at = stdfs::recursive_directory_iterator(dir, failed);
       !failed && at != stdfs::recursive_directory_iterator();
       at.increment(failed)) {
    const stdfs::file_status is = at->symlink_status(failed);
    if (failed || stdfs::is_symlink(is)) continue;
    const bool is_program = (is.permissions() & perms::owner_exec) != perms::none;
    perms more = perms::owner_read | perms::group_read | perms::others_read;
    if (is_program || stdfs::is_directory(is)) {
      more |= perms::owner_exec | perms::group_exec | perms::others_exec;
    }
    stdfs::permissions(at->path(), more, stdfs::perm_options::add, failed);
  }
  if (failed) return sys_error(text::cat("open the modes below ", dir), failed.value());
  return {};
}

}  // namespace

Result<backend::InputMount> take_input(int port, const ipc::Fields& request, std::size_t index) {
  const std::string name = request.text("name");
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    return Error(Errc::kUsage, "no name of an input");
  }
  const std::string dir = text::cat(control::kInputsDir, "/", index);
  SBX_TRY(fs::mkdirs(dir, 0755));
  const Status received = receive_work(port, [&](int in) -> Status {
    archive::raise_descriptor_limit();
    archive::UnpackRequest wanted;
    wanted.path = dir;
    wanted.root_name = name;
    archive::TransferReport report;
    SBX_TRY(archive::unpack(wanted, in, report));
    return open_to_all(dir);
  });
  if (!received.ok()) return received.error();
  return backend::InputMount{text::cat(dir, "/", name), name, request.flag("is_dir")};
}

Status give_work(int port, int dir) {
  return send_work(port, [dir](int out) {
    archive::raise_descriptor_limit();
    archive::PackRequest wanted;
    wanted.path = text::cat("/proc/self/fd/", dir);
    wanted.is_following = true;
    archive::TransferReport report;
    return archive::pack(wanted, out, report);
  });
}

}  // namespace sbx::vm
