// Guest data: see guest_data.h.
#include "core/backend/vm/guest_data.h"

#include <string>

#include "core/archive/pack.h"
#include "core/archive/unpack.h"
#include "core/backend/vm/control.h"
#include "core/backend/vm/data_stream.h"
#include "core/base/fs.h"
#include "core/base/text.h"

namespace sbx::vm {

Result<backend::InputMount> take_input(int port, const ipc::Fields& request, std::size_t index) {
  const std::string name = request.text("name");
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    return Error(Errc::kUsage, "no name of an input");
  }
  const std::string dir = text::cat(control::kInputsDir, "/", index);
  SBX_TRY(fs::mkdirs(dir, 0755));
  SBX_TRY(receive_work(port, [&](int in) {
    archive::raise_descriptor_limit();
    archive::UnpackRequest wanted;
    wanted.path = dir;
    wanted.root_name = name;
    archive::TransferReport report;
    return archive::unpack(wanted, in, report);
  }));
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
