// SPDX-License-Identifier: GPL-2.0-only
#include "host/service.hh"

#include <algorithm>

#include "host/stats_json.hh"

namespace drfq {
namespace {

using wire::Op;
using wire::Status;

/// Of a demand's arrays. The default memory, of 512 MiB, has room for 256 demands side by side.
constexpr std::uint64_t kArrayBytes = 512 << 10;

/// The bytes of a demand that reads and writes.
std::uint64_t demand_bytes(AgentOptions o) {
  o.write_percent = 1;
  return footprint(o);
}

}  // namespace

void Service::reply(Session *s, const wire::Header &request, Status status, std::uint64_t a,
                    std::uint64_t b, const void *payload, std::size_t bytes) {
  wire::Header h;
  h.length = static_cast<std::uint32_t>(wire::kHeaderBytes + bytes);
  h.op = static_cast<std::uint16_t>(request.op | wire::kReply);
  h.status = static_cast<std::uint16_t>(status);
  h.tag = request.tag;
  h.a = a;
  h.b = b;
  h.time_ps = now();
  const std::size_t at = s->out.size();
  s->out.resize(at + h.length);
  wire::encode(h, &s->out[at]);
  const auto *p = static_cast<const unsigned char *>(payload);
  std::copy(p, p + bytes, s->out.begin() + static_cast<std::ptrdiff_t>(at + wire::kHeaderBytes));
}

bool Service::handle(Session *s) {
  // No client waits for the rest of this one's advance. What it asked for behind it is still done.
  if (s->gone) s->advancing = false;
  std::size_t used = 0;
  wire::Header h;
  wire::Parse next = wire::Parse::need_more;
  const auto may = [&] {
    if (s->closing || s->advancing || s->congested()) return false;
    next = wire::find_frame(s->in.data() + used, s->in.size() - used, &h);
    return next != wire::Parse::need_more;
  };
  for (unsigned n = 0; n < Turn::kFrames && used < Turn::kBytes && may(); n++) {
    if (next == wire::Parse::malformed || h.status != 0 || h.time_ps != 0) {
      reply(s, wire::Header(), Status::malformed);
      s->closing = true;
      break;
    }
    dispatch(s, h, s->in.data() + used + wire::kHeaderBytes);
    used += h.length;
    if (s->gone) s->out.clear();
  }
  const bool more = may();
  s->in.erase(s->in.begin(), s->in.begin() + static_cast<std::ptrdiff_t>(used));
  // A frame that is not whole now never will be.
  if (s->ended && !more && !s->advancing && !s->congested()) s->closing = true;
  if (s->closing) s->in.clear();
  return more && !s->closing;
}

void Service::forget(Session *s) {
  if (writer_ == s)
    leave_writer();
  else if (s->greeted)
    readers_--;
  s->greeted = s->writer = s->advancing = false;
}

/// Gives a session a role.
void Service::greet(Session *s, bool writer) {
  if (writer_ == s && !writer) leave_writer();
  if (s->greeted && !s->writer) readers_--;
  readers_ += !writer;
  if (writer) writer_ = s;
  s->writer = writer;
  s->greeted = true;
}

void Service::leave_writer() {
  // The order of an agent that was killed would hold until there is another. A register that was
  // never written stays unknown.
  RegisterFile &regs = host_.registers();
  for (std::uint32_t core = 0; core < regs.cores(); core++) {
    if (regs.pid_core(core) != 0) regs.write(mmio::kPidCore + 8 * core, 0);
    if (regs.vtime_core(core) != 0) regs.write(mmio::kVtimeCore + 8 * core, 0);
  }
  writer_ = nullptr;
  inherited_ = !demands_.empty();
}

void Service::dispatch(Session *s, const wire::Header &h, const unsigned char *payload) {
  const std::size_t bytes = h.length - wire::kHeaderBytes;
  const Op op = static_cast<Op>(h.op);
  if (h.op < 1 || h.op > static_cast<std::uint16_t>(Op::subscribe))
    return reply(s, h, Status::bad_op);
  if (bytes != 0 && op != Op::batch && op != Op::demand) return reply(s, h, Status::bad_value);
  if (op == Op::hello) return hello(s, h);
  if (!s->greeted) return reply(s, h, Status::not_greeted);
  switch (op) {
    case Op::read:
    case Op::peek:
    case Op::write: {
      std::uint64_t value = h.b;
      const Status status = access(s->writer, h.op, h.a, &value);
      return reply(s, h, status, h.a, value);
    }
    case Op::batch:
      return batch(s, h, payload, bytes);
    case Op::advance:
      return begin_advance(s, h);
    case Op::demand: {
      const Status status = s->writer ? demand(payload, bytes) : Status::not_writer;
      return reply(s, h, status, demands_.size());
    }
    case Op::stats: {
      const std::string json = stats_json(host_.stats(), now());
      return reply(s, h, Status::ok, s->dropped, 0, json.data(), json.size());
    }
    default:
      return subscribe(s, h);
  }
}

void Service::hello(Session *s, const wire::Header &h) {
  if (h.a != wire::kVersion) return reply(s, h, Status::bad_version, wire::kVersion);
  const auto role = static_cast<wire::Role>(h.b);
  if (role != wire::Role::reader && role != wire::Role::writer)
    return reply(s, h, Status::bad_value);
  const bool writer = role == wire::Role::writer;
  if (writer && writer_ != nullptr && writer_ != s) return reply(s, h, Status::writer_taken);
  const bool reads = s->greeted && !s->writer;
  if (!writer && !reads && readers_ + 1 == kGreetedMax) return reply(s, h, Status::full);
  greet(s, writer);
  const auto feature = [](wire::Feature f, bool on) {
    return std::uint64_t{on} << static_cast<unsigned>(f);
  };
  reply(s, h, Status::ok, wire::kVersion,
        feature(wire::Feature::lock_step, mode_ == Mode::lock_step) |
            feature(wire::Feature::frfcfs, host_.policy() == Policy::frfcfs));
}

Status Service::access(bool writer, std::uint16_t op, std::uint64_t offset, std::uint64_t *value) {
  RegisterFile &regs = host_.registers();
  if (op == static_cast<std::uint16_t>(Op::peek))
    return static_cast<Status>(regs.peek(offset, value));
  // A read clears a traffic register, so only the writer may read.
  if (!writer) return Status::not_writer;
  if (op == static_cast<std::uint16_t>(Op::read))
    return static_cast<Status>(regs.read(offset, value));
  if (op == static_cast<std::uint16_t>(Op::write))
    return static_cast<Status>(regs.write(offset, *value));
  return Status::bad_op;
}

void Service::batch(Session *s, const wire::Header &h, const unsigned char *payload,
                    std::size_t bytes) {
  if (bytes % wire::kBatchRecordBytes != 0) return reply(s, h, Status::bad_value);
  std::vector<unsigned char> out(payload, payload + bytes);
  std::uint64_t failed = 0;
  wire::each_record<wire::BatchRecord>(payload, bytes, [&](wire::BatchRecord r, std::size_t at) {
    const bool strict = r.status == 0 && r.zero == 0;
    const Status status = strict ? access(s->writer, r.op, r.offset, &r.value) : Status::malformed;
    r.status = static_cast<std::uint16_t>(status);
    r.zero = 0;
    failed += status != Status::ok;
    wire::encode(r, &out[at]);
  });
  reply(s, h, Status::ok, bytes / wire::kBatchRecordBytes, failed, out.data(), out.size());
}

Status Service::demand(const unsigned char *payload, std::size_t bytes) {
  if (bytes % wire::kDemandRecordBytes != 0) return Status::bad_value;
  const std::uint32_t cores = host_.registers().cores();
  // All or nothing: look at every record before the first is applied.
  std::map<std::pair<std::uint32_t, std::uint32_t>, wire::DemandRecord> wanted;
  bool good = true;
  wire::each_record<wire::DemandRecord>(payload, bytes, [&](const wire::DemandRecord &r, auto) {
    const bool known = r.substream != 0 ? r.substream < kPids : r.core < cores;
    good = good && known && r.outstanding_lines >= 1 &&
           r.outstanding_lines <= wire::kDemandOutstandingLinesMax &&
           r.write_percent <= wire::kDemandWritePercentMax &&
           r.bytes_per_s <= wire::kDemandBytesPerSMax;
    wanted[{r.substream, r.substream != 0 ? 0 : r.core}] = r;
  });
  // The first demands of a new writer replace those of the last one, which it cannot know.
  if (inherited_)
    for (const auto &d : demands_) wanted.insert({d.first, wire::DemandRecord()});
  std::size_t after = demands_.size();
  for (const auto &[key, r] : wanted) after = after + (r.bytes_per_s != 0) - demands_.count(key);
  if (!good || after > host_.agents_max()) return Status::bad_value;
  inherited_ = false;
  // First those that end, because the others may need their places.
  for (const bool ends : {true, false})
    for (const auto &[key, r] : wanted)
      if ((r.bytes_per_s == 0) == ends) apply(key, r);
  return Status::ok;
}

/// Starts, changes or ends the demand of one core or substream.
void Service::apply(const std::pair<std::uint32_t, std::uint32_t> &key,
                    const wire::DemandRecord &r) {
  const auto known = demands_.find(key);
  AgentOptions o;
  o.enabled = r.bytes_per_s != 0;
  if (!o.enabled) {
    if (known == demands_.end()) return;
    // The agent's packets that are under way proceed; its place is for the next demand.
    host_.replace(known->second, o);
    free_agents_.push_back(known->second);
    demands_.erase(known);
    return;
  }
  o.kind = Kind::stream;
  o.array_bytes = kArrayBytes;
  o.label = key.first != 0 ? Label::of_substream(key.first) : Label::of_core(key.second);
  o.outstanding_lines = r.outstanding_lines;
  o.write_percent = r.write_percent;
  o.bytes_per_s = r.bytes_per_s;
  o.seed = r.seed;
  o.start = now();
  const bool reused = known == demands_.end() && !free_agents_.empty();
  const std::size_t agent = known != demands_.end() ? known->second
                            : reused                ? free_agents_.back()
                                                    : demands_.size() + free_agents_.size();
  if (reused) free_agents_.pop_back();
  // Each has other rows, or one would open those of another.
  o.base = agent * demand_bytes(o);
  if (known == demands_.end() && !reused)
    demands_[key] = host_.add(o);
  else
    host_.replace(demands_[key] = agent, o);
}

void Service::begin_advance(Session *s, const wire::Header &h) {
  if (mode_ != Mode::lock_step) return reply(s, h, Status::wrong_mode);
  if (!s->writer) return reply(s, h, Status::not_writer);
  if (h.a > wire::kAdvancePsMax || h.a > left()) return reply(s, h, Status::bad_value);
  s->advancing = true;
  s->advance_tag = h.tag;
  target_ = now() + h.a;
}

bool Service::work(Ps slice, const std::vector<Session *> &sessions) {
  if (writer_ == nullptr || !writer_->advancing) return false;
  advance(std::min(target_, now() + slice), sessions);
  if (now() < target_) return true;
  writer_->advancing = false;
  wire::Header h;
  h.op = static_cast<std::uint16_t>(Op::advance);
  h.tag = writer_->advance_tag;
  reply(writer_, h, Status::ok, now());
  return true;
}

void Service::advance(Ps to, const std::vector<Session *> &sessions) {
  while (now() < to) {
    Ps stop = to;
    for (const Session *s : sessions)
      if (s->every != 0) stop = std::min(stop, s->due);
    host_.run_until(stop);
    std::string json;  // the same for all
    for (Session *s : sessions)
      if (s->every != 0 && s->due <= now()) push(s, &json);
  }
}

void Service::subscribe(Session *s, const wire::Header &h) {
  if (h.a != 0 && (h.a < wire::kSubscribePsMin || h.a > wire::kSubscribePsMax))
    return reply(s, h, Status::bad_value);
  s->every = h.a;
  s->due = now() + h.a;
  s->subscribe_tag = h.tag;
  reply(s, h, Status::ok, h.a);
}

void Service::push(Session *s, std::string *json) {
  s->due += s->every;
  if (s->congested()) {
    s->dropped++;
    return;
  }
  wire::Header h;
  h.op = static_cast<std::uint16_t>(static_cast<std::uint16_t>(Op::stats) | wire::kEvent);
  h.tag = s->subscribe_tag;
  if (json->empty()) *json = stats_json(host_.stats(), now());
  reply(s, h, Status::ok, s->dropped, 0, json->data(), json->size());
}

}  // namespace drfq
