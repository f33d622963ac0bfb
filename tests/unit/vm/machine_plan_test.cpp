// Machine plan tests: QEMU's arguments as text.
#include "core/backend/vm/machine_plan.h"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "core/backend/vm/tsc.h"

using namespace sbx;

namespace {

vm::MachineSpec simple(vm::Accel accel) {
  vm::MachineSpec spec;
  spec.id = "x";
  spec.state_dir = "/state";
  spec.accel = accel;
  spec.memory = Bytes{uint64_t{256} << 20};
  spec.kernel = "/k/vmlinux";
  spec.initramfs = "/k/initramfs";
  return spec;
}

std::string text_of(const vm::MachineSpec& spec) {
  std::string out;
  for (const std::string& word : vm::machine_argv(spec, "qemu", 2'000'000)) {
    out += word + "\n";
  }
  return out;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("machine plan: the whole list for an emulated machine") {
  CHECK(text_of(simple(vm::Accel::kTcg)) ==
        "qemu\n-nodefaults\n-no-user-config\n-display\nnone\n-no-reboot\n"
        "-sandbox\non,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny\n"
        "-M\nmicrovm,acpi=on,isa-serial=on\n"
        "-accel\ntcg,thread=single,tb-size=128\n-cpu\nmax,-la57\n-smp\n1\n-m\n256M\n"
        "-global\nvirtio-mmio.force-legacy=false\n"
        "-chardev\nsocket,id=qmp,fd=6\n-mon\nchardev=qmp,mode=control\n"
        "-chardev\nstdio,id=serial,signal=off\n-serial\nchardev:serial\n"
        "-kernel\n/work/kernel\n-initrd\n/work/initramfs\n"
        "-append\nconsole=ttyS0 panic=-1 quiet loglevel=3 no_timer_check tsc=reliable "
        "tsc_early_khz=2000000\n"
        "-device\nvirtio-serial-device,id=ports,max_ports=4\n"
        "-chardev\nsocket,id=agent,fd=3\n"
        "-device\nvirtserialport,bus=ports.0,nr=1,chardev=agent,name=sbx.agent\n"
        "-chardev\nsocket,id=control,fd=4\n"
        "-device\nvirtserialport,bus=ports.0,nr=2,chardev=control,name=sbx.control\n"
        "-chardev\nsocket,id=data,fd=5\n"
        "-device\nvirtserialport,bus=ports.0,nr=3,chardev=data,name=sbx.data\n"
        "-object\nrng-random,id=random,filename=/dev/urandom\n"
        "-device\nvirtio-rng-device,rng=random\n"
        "-device\nvirtio-balloon-device,id=balloon,free-page-reporting=on\n");
}

TEST_CASE("machine plan: with KVM the processor is the host's and the old clocks are off") {
  const std::string text = text_of(simple(vm::Accel::kKvm));
  CHECK(has(text, "-accel\nkvm\n-cpu\nhost\n"));
  CHECK(has(text, "-M\nmicrovm,acpi=on,isa-serial=on,rtc=off,pit=off,pic=off\n"));
  CHECK(has(text, " reboot=t\n"));
  CHECK_FALSE(has(text, "tsc"));
  CHECK_FALSE(has(text, "tcg"));
}

TEST_CASE("machine plan: memory and disks are descriptors, in order, and no path of the host's") {
  vm::MachineSpec spec = simple(vm::Accel::kTcg);
  spec.own_memory.emplace();
  spec.own_memory->image = "/secret/ram";
  spec.disks.resize(2);
  spec.disks[0].path = "/secret/a";
  spec.disks[0].is_read_only = true;
  spec.disks[1].path = "/secret/b";
  spec.disks[1].is_volatile = true;
  spec.append = "sbx.x=1";
  spec.is_incoming = true;
  const std::string text = text_of(spec);
  CHECK_FALSE(has(text, "secret"));
  CHECK(has(text, "share=on,size=268435456,mem-path=/proc/self/fd/7\n"));
  CHECK(has(text, ",memory-backend=ram\n"));
  CHECK(has(text, "-add-fd\nfd=8,set=0\n-blockdev\ndriver=raw,node-name=disk0,read-only=on,file."));
  CHECK(has(text, "-add-fd\nfd=9,set=1\n-blockdev\ndriver=raw,node-name=disk1,read-only=off,"));
  CHECK(
      has(text, "cache.no-flush=on,file.driver=file,file.locking=off,file.filename=/dev/fdset/1"));
  CHECK(has(text, " sbx.x=1\n"));
  CHECK(text.ends_with("-incoming\ndefer\n"));
  CHECK(vm::machine_fds(spec).count == 7);
}

TEST_CASE("machine plan: a path with a comma cannot become an option") {
  vm::MachineSpec spec = simple(vm::Accel::kTcg);
  spec.shares.push_back({vm::Share::From::kTree, "/usr,readonly=off", "t,x=y", true, {}});
  const std::string text = text_of(spec);
  CHECK(has(text, "path=/usr,,readonly=off,security_model=none"));
  CHECK(has(text, "mount_tag=t,,x=y\n"));
  CHECK(has(text, ",readonly=on\n"));
}

TEST_CASE(
    "machine plan: the shape changes with what a saved state depends on, and only with that") {
  const vm::MachineSpec spec = simple(vm::Accel::kTcg);
  const std::string shape = vm::machine_shape(spec);
  vm::MachineSpec same = spec;
  same.id = "other";
  same.is_incoming = true;
  same.state_dir = "/other";
  same.kernel = "/other/vmlinux";
  same.limits.cpu_millis = 1;
  CHECK(vm::machine_shape(same) == shape);
  vm::MachineSpec other = spec;
  other.cpus = 2;
  CHECK(vm::machine_shape(other) != shape);
  other = spec;
  other.own_memory.emplace();
  CHECK(vm::machine_shape(other) != shape);
  other = spec;
  other.shares.push_back({vm::Share::From::kTree, "/usr", "usr", true, {}});
  const std::string shared = vm::machine_shape(other);
  CHECK(shared != shape);
  other.shares[0].path = "/etc";
  CHECK(vm::machine_shape(other) == shared);
}

TEST_CASE("tsc: two measurements are the same within a thousandth") {
  const uint64_t first = vm::measure_tsc_khz();
  const uint64_t second = vm::measure_tsc_khz();
  CHECK(first > 100'000);
  const uint64_t difference = std::max(first, second) - std::min(first, second);
  CHECK(difference * 1000 < first);
}
