// Bridge execs: which programs and copies there are, and the ends of them that wait for their
// output.
#include <sys/wait.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/backend/vm/bridge_impl.h"

namespace sbx::vm {

void Bridge::Impl::note_exec(const ipc::Message& message) {
  if (const auto* started = std::get_if<ipc::Started>(&message)) {
    const auto found = execs.find(started->id);
    if (found != execs.end() && found->second.pid == 0) found->second.pid = started->pid;
    return;
  }
  const auto* exec = std::get_if<ipc::Exec>(&message);
  const bool is_worker = std::holds_alternative<ipc::Files>(message);
  if (exec == nullptr && !is_worker) return;
  LiveExec live;
  live.id = id_of(message);
  live.has_terminal = exec != nullptr && exec->tty;
  live.is_worker = is_worker;
  execs[live.id] = live;
}

void Bridge::Impl::note_signal(const ipc::Message& message) {
  const auto* signal = std::get_if<ipc::Signal>(&message);
  if (signal == nullptr) return;
  for (auto& [id, exec] : execs) {
    if (signal->id == 0 || signal->id == id) exec.was_signalled = true;
  }
  if (!holds.empty()) check_soon();
}

/// On once its output has gone before it; see the header of the class.
void Bridge::Impl::pass_exited(ipc::Message message) {
  Hold hold;
  const auto& exited = std::get<ipc::Exited>(message);
  hold.exec = exited.id;
  const auto exec = execs.find(exited.id);
  if (exec != execs.end() && WIFSIGNALED(exited.wait_status)) exec->second.was_signalled = true;
  hold.message = std::move(message);
  for (const auto& [number, stream] : streams) {
    if (stream->exec() != hold.exec) continue;
    Target target{number, 0, stream->times_dry()};
    if (is_host()) {
      target.amount = stream->delivered() + stream->undelivered();
    } else if (stream->sends()) {
      target.amount = stream->sent() + stream->unsent();
      if (!stream->is_sending_over()) on_source(*stream);
    }
    if (!is_met(target)) hold.targets.push_back(target);
  }
  if (hold.targets.empty()) return release(std::move(hold));
  holds.push_back(std::move(hold));
  check_soon();
}

void Bridge::Impl::release(Hold hold) {
  const auto exec = execs.find(hold.exec);
  if (exec != execs.end()) exec->second.has_exited = true;
  if (is_host()) {
    give(std::move(hold.message), {});
  } else {
    queue(hold.message, {});
  }
  check_soon();
}

bool Bridge::Impl::is_met(const Target& target) const {
  const auto found = streams.find(target.stream);
  if (found == streams.end()) return true;
  const Stream& stream = *found->second;
  if (is_host()) return stream.is_delivering_over() || stream.delivered() >= target.amount;
  if (stream.is_sending_over()) return true;
  // What was written to a terminal may still be on its way to the master: reading it finds out.
  if (stream.is_terminal()) return stream.times_dry() > target.times_dry;
  return stream.sent() >= target.amount;
}

bool Bridge::Impl::is_stallable(const Hold& hold) const {
  if (is_local_over || has_peer_ending || is_wire_over) return true;
  const auto exec = execs.find(hold.exec);
  return exec == execs.end() || exec->second.was_signalled;
}

void Bridge::Impl::check_holds() {
  if (is_paused) return;
  bool is_ticking = false;
  std::vector<Hold> met;
  std::erase_if(holds, [&](Hold& hold) {
    std::erase_if(hold.targets, [this](const Target& target) { return is_met(target); });
    if (hold.targets.empty()) {
      met.push_back(std::move(hold));
      return true;
    }
    is_ticking = is_ticking || is_stallable(hold);
    return false;
  });
  for (Hold& hold : met) {
    release(std::move(hold));
  }
  constexpr int kTicks = 2;
  if (is_ticking && !tick_timer.active()) {
    tick_timer = loop.add_timer(Millis{kStallTime.v / kTicks}, [this] { tick(); });
  }
}

/// Gives up on those whose readers do not read.
void Bridge::Impl::tick() {
  std::vector<Hold> stalled;
  std::erase_if(holds, [&](Hold& hold) {
    if (!is_stallable(hold)) return false;
    std::uint64_t progress = 0;
    for (const Target& target : hold.targets) {
      const auto found = streams.find(target.stream);
      if (found == streams.end()) continue;
      progress += found->second->sent() + found->second->delivered();
    }
    hold.idle_ticks = progress == hold.progress ? hold.idle_ticks + 1 : 0;
    hold.progress = progress;
    if (hold.idle_ticks < 2) return false;
    stalled.push_back(std::move(hold));
    return true;
  });
  for (Hold& hold : stalled) {
    release(std::move(hold));
  }
  check_soon();
}

void Bridge::Impl::forget_over() {
  std::erase_if(streams, [](const auto& s) { return s.second->is_over(); });
  std::erase_if(execs, [this](const auto& e) {
    return e.second.has_exited && std::ranges::none_of(streams, [&](const auto& s) {
             return s.second->exec() == e.first;
           });
  });
}

}  // namespace sbx::vm
