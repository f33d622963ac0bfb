// Guest bridge: see guest_bridge.h.
#include "core/backend/vm/guest_bridge.h"

#include <utility>

#if __has_include("core/backend/vm/bridge.h")
#include "core/backend/vm/bridge.h"

namespace sbx::vm {

namespace {

class Bridged final : public GuestBridge {
 public:
  Bridged(Loop& loop, UniqueFd port, backend::Sandbox& sandbox)
      : bridge_(
            loop,
            ipc::Side::kAgent,
            std::move(port),
            sandbox.agent(),
            [&sandbox](const Status& ended) {
              if (!ended.ok()) (void)sandbox.kill();
            },
            options(sandbox)) {}
  void quiesce(std::function<void(std::uint64_t written)> then) override {
    bridge_.quiesce(std::move(then));
  }
  void drain_wire(std::uint64_t total, std::function<void(Status)> then) override {
    bridge_.drain_wire(total, std::move(then));
  }
  void resume(std::uint32_t epoch) override { bridge_.resume(epoch); }

 private:
  static BridgeOptions options(backend::Sandbox& sandbox) {
    BridgeOptions out;
    out.stream_owner = [&sandbox](const std::optional<backend::User>& user) {
      return sandbox.stream_owner(user);
    };
    return out;
  }
  Bridge bridge_;
};

}  // namespace

std::unique_ptr<GuestBridge> start_guest_bridge(Loop& loop,
                                                UniqueFd port,
                                                backend::Sandbox& sandbox) {
  return std::make_unique<Bridged>(loop, std::move(port), sandbox);
}

}  // namespace sbx::vm

#else

namespace sbx::vm {

std::unique_ptr<GuestBridge> start_guest_bridge(Loop& /*loop*/,
                                                UniqueFd /*port*/,
                                                backend::Sandbox& /*sandbox*/) {
  return nullptr;
}

}  // namespace sbx::vm

#endif
