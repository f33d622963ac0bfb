// Bridge rest: to stand still, what is left to a successor, and how that begins.
#include <array>
#include <utility>
#include <vector>

#include "core/backend/vm/bridge_impl.h"
#include "core/base/sys.h"

namespace sbx::vm {

namespace {

/// Ours and the supervisor's.
struct Ends {
  UniqueFd ours;
  UniqueFd outer;
};

/// None where there are no descriptors left: then the stream ends.
Ends make_ends(ipc::Flow flow) {
  if (flow == ipc::Flow::kBoth) {
    auto pair = sys::socketpair_stream();
    if (!pair.ok()) return {};
    return {std::move(pair.value().a), std::move(pair.value().b)};
  }
  auto pipe = sys::pipe();
  if (!pipe.ok()) return {};
  if (flow == ipc::Flow::kToGuest) return {std::move(pipe.value().r), std::move(pipe.value().w)};
  return {std::move(pipe.value().w), std::move(pipe.value().r)};
}

}  // namespace

void Bridge::Impl::set_paused(bool paused) {
  is_paused = paused;
  update_local();
  for (const auto& [number, stream] : streams) {
    // A guest goes on to deliver: what it has is part of it.
    if (is_host() || stream->sends()) stream->set_paused(paused);
  }
}

void Bridge::quiesce(std::function<void(std::uint64_t written)> then) {
  impl_->on_quiet = std::move(then);
  impl_->set_paused(true);
  impl_->wire.wake();
}

void Bridge::drain_wire(std::uint64_t total, std::function<void(Status)> then) {
  Impl& impl = *impl_;
  if (impl.wire.read_bytes() > total) {
    return impl.call_soon([then = std::move(then)] {
      then(Status(
          Error(Errc::kProtocol, "the other side of the wire has written more than it says")));
    });
  }
  impl.on_drained_wire = std::move(then);
  impl.wire.set_limit(total);
}

Result<std::string> Bridge::state() {
  Impl& impl = *impl_;
  const bool is_at_rest = impl.is_host() && impl.is_paused && !impl.on_quiet && impl.is_limit_met &&
                          !impl.on_drained_wire && !impl.is_over;
  if (!is_at_rest) return Error(Errc::kInternal, "the bridge is not at rest");
  BridgeState state;
  state.last_own = impl.last_own;
  state.last_peer = impl.last_peer;
  for (const auto& [id, exec] : impl.execs) {
    state.execs.push_back(exec);
  }
  for (const auto& [number, stream] : impl.streams) {
    if (!stream->is_over()) state.streams.push_back(stream->take_state(kFinalCredit));
  }
  for (const Impl::Hold& hold : impl.holds) {
    state.held.push_back(hold.message);
  }
  return encode_state(state);
}

void Bridge::resume(std::uint32_t epoch) {
  Impl& impl = *impl_;
  if (impl.is_over) return;
  impl.options.epoch = epoch;
  impl.is_hello_due = true;
  impl.has_greeted = false;
  impl.is_limit_met = false;
  impl.wire.restart();
  impl.set_paused(false);
  impl.check_soon();
}

// --- a guest that lived on ---

void Bridge::Impl::restore(const BridgeState& state) {
  last_own = state.last_own;
  last_peer = state.last_peer;
  for (const LiveExec& exec : state.execs) {
    execs[exec.id] = exec;
    restore_exec(exec, state.streams);
  }
  for (const ipc::Message& message : state.held) {
    if (std::holds_alternative<ipc::Exited>(message)) pass_exited(message);
  }
}

/// New local ends for what lives; a copy does not live on.
void Bridge::Impl::restore_exec(const LiveExec& exec, const std::vector<LiveStream>& all) {
  ipc::Running running;
  running.id = exec.id;
  running.pid = exec.pid;
  running.tty = exec.has_terminal;
  running.is_worker = exec.is_worker;
  running.has_exited = exec.has_exited;
  std::vector<UniqueFd> outer;
  std::vector<Stream*> made;
  for (const LiveStream& live : all) {
    if (live.exec != exec.id || streams.contains(live.number)) continue;
    auto& stream = streams[live.number];
    stream = std::make_unique<Stream>(loop, *this, side, live);
    made.push_back(stream.get());
    Ends ends;
    const bool is_open = !stream->is_delivering_over() || (stream->sends() && !live.is_source_over);
    if (is_open && !exec.is_worker) ends = make_ends(live.flow);
    if (ends.outer.valid()) {
      const std::array<bool*, 3> named{&running.has_in, &running.has_out, &running.has_err};
      if (!exec.has_terminal && live.index < named.size()) *named[live.index] = true;
      outer.push_back(std::move(ends.outer));
    }
    stream->attach({std::move(ends.ours), false});
  }
  give(running, std::move(outer));
  for (Stream* stream : made) {
    stream->activate();
  }
}

}  // namespace sbx::vm
