// SPDX-License-Identifier: GPL-2.0-only
// The part of QEMU's plugin interface, version 7, that this plugin uses. It is declared here
// because no distribution packages qemu-plugin.h.
#ifndef DRFQ_PLUGIN_QEMU_PLUGIN_API_HH
#define DRFQ_PLUGIN_QEMU_PLUGIN_API_HH

#include <cstddef>
#include <cstdint>

extern "C" {

// From glib, which QEMU links.
struct GArray {
  char *data;
  unsigned len;
};
struct GByteArray {
  std::uint8_t *data;
  unsigned len;
};
GByteArray *g_byte_array_new(void);
GByteArray *g_byte_array_set_size(GByteArray *, unsigned);
GByteArray *g_byte_array_append(GByteArray *, const std::uint8_t *, unsigned);
char *g_array_free(GArray *, int free_segment);

using qemu_plugin_id_t = std::uint64_t;
using qemu_plugin_meminfo_t = std::uint32_t;
struct qemu_info_t {
  const char *target_name;
  struct {
    int min, cur;
  } version;
  bool system_emulation;
  struct {
    int smp_vcpus, max_vcpus;
  } system;
};
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_register;
struct qemu_plugin_scoreboard;
struct qemu_plugin_hwaddr;
struct qemu_plugin_reg_descriptor {
  qemu_plugin_register *handle;
  const char *name;
  const char *feature;
  bool is_readonly;
};
struct qemu_plugin_u64 {
  qemu_plugin_scoreboard *score;
  std::size_t offset;
};
struct qemu_plugin_mem_value {
  int type;  // log2 of the bytes
  union {
    std::uint8_t u8;
    std::uint16_t u16;
    std::uint32_t u32;
    std::uint64_t u64;
    struct {
      std::uint64_t low, high;
    } u128;
  } data;
};

enum {
  QEMU_PLUGIN_CB_NO_REGS,
  QEMU_PLUGIN_CB_R_REGS,
  QEMU_PLUGIN_CB_RW_REGS,
  QEMU_PLUGIN_CB_RW_REGS_PC
};
enum { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W = 2 };
enum { QEMU_PLUGIN_COND_GE = 7 };
enum { QEMU_PLUGIN_INLINE_ADD_U64 = 0, QEMU_PLUGIN_INLINE_STORE_U64 = 1 };
enum { QEMU_PLUGIN_DISCON_EXCEPTION = 2 };

using qemu_plugin_udata_cb_t = void (*)(void *userdata);
using qemu_plugin_vcpu_udata_cb_t = void (*)(unsigned vcpu, void *userdata);
using qemu_plugin_vcpu_mem_cb_t = void (*)(unsigned vcpu, qemu_plugin_meminfo_t,
                                           std::uint64_t vaddr, void *userdata);
using qemu_plugin_vcpu_tb_trans_cb_t = void (*)(qemu_plugin_tb *, void *userdata);
using qemu_plugin_vcpu_discon_cb_t = void (*)(unsigned vcpu, int type, std::uint64_t from_pc,
                                              std::uint64_t to_pc, void *userdata);

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, qemu_plugin_vcpu_udata_cb_t, void *);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, qemu_plugin_vcpu_tb_trans_cb_t,
                                           void *);
void qemu_plugin_register_vcpu_discon_cb(qemu_plugin_id_t, int types, qemu_plugin_vcpu_discon_cb_t,
                                         void *);
void qemu_plugin_register_flush_cb(qemu_plugin_id_t, qemu_plugin_udata_cb_t, void *);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, qemu_plugin_udata_cb_t, void *);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(qemu_plugin_tb *, qemu_plugin_vcpu_udata_cb_t,
                                               int flags, int cond, qemu_plugin_u64,
                                               std::uint64_t imm, void *);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(qemu_plugin_tb *, int op, qemu_plugin_u64,
                                                       std::uint64_t imm);
void qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_insn *, qemu_plugin_vcpu_udata_cb_t,
                                            int flags, void *);
void qemu_plugin_register_vcpu_mem_cb(qemu_plugin_insn *, qemu_plugin_vcpu_mem_cb_t, int flags,
                                      int rw, void *);
std::size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb *);
std::uint64_t qemu_plugin_tb_vaddr(const qemu_plugin_tb *);
qemu_plugin_insn *qemu_plugin_tb_get_insn(const qemu_plugin_tb *, std::size_t);
std::size_t qemu_plugin_insn_data(const qemu_plugin_insn *, void *, std::size_t);
std::size_t qemu_plugin_insn_size(const qemu_plugin_insn *);
std::uint64_t qemu_plugin_insn_vaddr(const qemu_plugin_insn *);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
qemu_plugin_mem_value qemu_plugin_mem_get_value(qemu_plugin_meminfo_t);
qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t, std::uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const qemu_plugin_hwaddr *);
std::uint64_t qemu_plugin_hwaddr_phys_addr(const qemu_plugin_hwaddr *);
bool qemu_plugin_translate_vaddr(std::uint64_t vaddr, std::uint64_t *physical);
GArray *qemu_plugin_get_registers(void);
bool qemu_plugin_read_register(qemu_plugin_register *, GByteArray *);
bool qemu_plugin_write_register(qemu_plugin_register *, GByteArray *);
[[noreturn]] void qemu_plugin_set_pc(std::uint64_t);
void qemu_plugin_reset(qemu_plugin_id_t, qemu_plugin_udata_cb_t, void *);
int qemu_plugin_read_memory_hwaddr(std::uint64_t physical, GByteArray *, std::size_t bytes);
int qemu_plugin_write_memory_hwaddr(std::uint64_t physical, GByteArray *);
qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(std::size_t);
void *qemu_plugin_scoreboard_find(qemu_plugin_scoreboard *, unsigned vcpu);
}

#endif
