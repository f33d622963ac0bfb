// Log_follow: see log_follow.h.
#include "core/session/log_follow.h"

#include <utility>

#include "core/base/loop.h"
#include "core/session/log_watch.h"

namespace sbx::session {
namespace {

bool is_end(const LogRecord& record) {
  return record.kind == LogKind::kEnd;
}
bool is_end(const EventLine& /*event*/) {
  return false;
}

enum class Then { kMore, kEnd };

/// All that can be read now.
template <typename Reader, typename Take>
Result<Then> drain(Reader& reader, const Take& take, const Caught& caught) {
  Then then = Then::kMore;
  while (then == Then::kMore) {
    SBX_ASSIGN(const auto item, reader.next());
    if (!item) break;
    SBX_TRY(take(*item));
    if (is_end(*item)) then = Then::kEnd;
  }
  SBX_TRY(caught());
  return then;
}

template <typename Reader, typename Take>
Status read_all(
    Reader& reader, int dirfd, const IsOver& is_over, const Take& take, const Caught& caught) {
  Status result;
  // The question comes first: what was added before the answer is read after it.
  const auto is_done = [&] {
    const bool is_last = !is_over || is_over();
    const Result<Then> then = drain(reader, take, caught);
    if (!then.ok()) result = then.error();
    return is_last || !then.ok() || then.value() == Then::kEnd;
  };
  if (is_done()) return result;
  Loop loop;
  LogWatch watch(loop, dirfd, [&] {
    if (is_done()) return loop.stop();
    watch.watch_file(reader.fd());
  });
  watch.watch_file(reader.fd());
  // Something may have been added before the watch was set.
  const Watch at_once = loop.add_timer(Millis{0}, [&] {
    if (is_done()) loop.stop();
  });
  SBX_TRY(loop.run());
  return result;
}

}  // namespace

Status read_log(ExecLogReader& reader,
                int dirfd,
                const IsOver& is_over,
                const TakeRecord& take,
                const Caught& caught) {
  return read_all(reader, dirfd, is_over, take, caught);
}

Status read_events(EventLogReader& reader,
                   int dirfd,
                   const IsOver& is_over,
                   const TakeEvent& take,
                   const Caught& caught) {
  return read_all(reader, dirfd, is_over, take, caught);
}

}  // namespace sbx::session
