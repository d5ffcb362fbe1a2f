// Dumps what LLVM's machine-code layer knows of an instruction set, as JSON on stdout: encodings,
// register operands, and the costs of instructions on each CPU asked for.
//
//   dump TRIPLE FEATURES CPU...            the tables
//   dump TRIPLE FEATURES --labels          opcode of each word, in order, as u16
//   dump TRIPLE FEATURES --names           numbers and names of all opcodes
//
// Encodings are learned: every word is disassembled, and the words of an opcode give the bits that
// they all share. An opcode whose words are not all those with these bits is told apart from its
// neighbours by the order of rules (more fixed bits first) and, where that does not do, by splits.
// Linked against LLVM's library at development time only; nothing of LLVM is in the product.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/MCA/CustomBehaviour.h>
#include <llvm/Support/TargetSelect.h>

using namespace llvm;

namespace {

struct Machine {
    const Target *target;
    Triple triple;
    std::unique_ptr<MCRegisterInfo> registers;
    std::unique_ptr<MCAsmInfo> assembly;
    std::unique_ptr<MCInstrInfo> instructions;
    std::unique_ptr<MCSubtargetInfo> all;
    bool riscv;
};

struct Decoder {
    std::unique_ptr<MCContext> context;
    std::unique_ptr<MCDisassembler> disassembler;

    explicit Decoder(const Machine &m)
        : context(new MCContext(m.triple, m.assembly.get(), m.registers.get(), m.all.get())),
          disassembler(m.target->createMCDisassembler(*m.all, *context)) {}

    // Size in bytes, 0 when it is no instruction.
    unsigned decode(uint32_t word, MCInst &inst) const {
        uint8_t bytes[4];
        memcpy(bytes, &word, 4);
        uint64_t size = 0;
        inst.clear();
        auto status = disassembler->getInstruction(inst, size, bytes, 0x100000, nulls());
        return status == MCDisassembler::Success ? unsigned(size) : 0;
    }
};

constexpr size_t KEEP = 48;

struct Seen {
    uint32_t ones = ~0u, zeros = ~0u;
    uint64_t count = 0;
    unsigned size = 0;
    std::vector<uint32_t> words;
};

// The words to look at: all for A64; for RISC-V all of 32 bits with low bits 11, and all of 16.
template <typename F> void each_word(const Machine &m, unsigned part, unsigned parts, F f) {
    if (m.riscv) {
        for (uint64_t w = part; w < (1ull << 30); w += parts) {
            f(uint32_t(w << 2 | 3));
        }
        for (uint32_t w = part; w < (1u << 16); w += parts) {
            if ((w & 3) != 3) {
                f(w);
            }
        }
    } else {
        for (uint64_t w = part; w < (1ull << 32); w += parts) {
            f(uint32_t(w));
        }
    }
}

std::vector<Seen> survey(const Machine &m, unsigned threads) {
    unsigned opcodes = m.instructions->getNumOpcodes();
    std::vector<std::vector<Seen>> parts(threads, std::vector<Seen>(opcodes));
    std::vector<std::thread> running;
    for (unsigned t = 0; t < threads; t++) {
        running.emplace_back([&, t] {
            Decoder decoder(m);
            MCInst inst;
            uint64_t random = 0x9e3779b97f4a7c15ull * (t + 1);
            each_word(m, t, threads, [&](uint32_t word) {
                unsigned size = decoder.decode(word, inst);
                if (size == 0) {
                    return;
                }
                Seen &seen = parts[t][inst.getOpcode()];
                seen.ones &= word;
                seen.zeros &= ~word;
                seen.size = size;
                seen.count++;
                random = random * 6364136223846793005ull + 1442695040888963407ull;
                if (seen.words.size() < KEEP) {
                    seen.words.push_back(word);
                } else if ((random >> 33) % seen.count < KEEP) {
                    seen.words[(random >> 20) % KEEP] = word;
                }
            });
        });
    }
    for (auto &thread : running) {
        thread.join();
    }
    std::vector<Seen> all = std::move(parts[0]);
    for (unsigned t = 1; t < threads; t++) {
        for (unsigned i = 0; i < opcodes; i++) {
            Seen &to = all[i], &from = parts[t][i];
            to.ones &= from.ones;
            to.zeros &= from.zeros;
            to.count += from.count;
            to.size |= from.size;
            to.words.insert(to.words.end(), from.words.begin(), from.words.end());
        }
    }
    return all;
}

// The survey takes minutes: $SURVEY names a file that keeps it for the next run.
std::vector<Seen> survey_or_read(const Machine &m, unsigned threads) {
    const char *path = getenv("SURVEY");
    if (path == nullptr) {
        return survey(m, threads);
    }
    std::vector<Seen> seen(m.instructions->getNumOpcodes());
    if (FILE *file = fopen(path, "rb")) {
        for (Seen &s : seen) {
            uint32_t words = 0;
            if (fread(&s.ones, 4, 1, file) + fread(&s.zeros, 4, 1, file) +
                    fread(&s.count, 8, 1, file) + fread(&s.size, 4, 1, file) +
                    fread(&words, 4, 1, file) != 5) {
                fprintf(stderr, "%s is cut off\n", path);
                exit(1);
            }
            s.words.resize(words);
            if (fread(s.words.data(), 4, words, file) != words) {
                exit(1);
            }
        }
        fclose(file);
        return seen;
    }
    seen = survey(m, threads);
    if (FILE *file = fopen(path, "wb")) {
        for (const Seen &s : seen) {
            uint32_t words = uint32_t(s.words.size());
            fwrite(&s.ones, 4, 1, file), fwrite(&s.zeros, 4, 1, file);
            fwrite(&s.count, 8, 1, file), fwrite(&s.size, 4, 1, file), fwrite(&words, 4, 1, file);
            fwrite(s.words.data(), 4, words, file);
        }
        fclose(file);
    }
    return seen;
}

// "X19" -> bank x, 19; "Q0_Q1_Q2" -> v, 0, count 3; "V8M2" -> v, 8, count 2.
struct Register {
    std::string bank;
    int number = 0, count = 1;
    bool zero = false;
};

std::map<std::string, Register> named;

bool parse(const Machine &m, const std::string &name, Register &out) {
    auto found = named.find(name);
    if (found != named.end()) {
        out = found->second;
        return true;
    }
    if (m.riscv) {
        // X10, X10_W, X10_X11, F0_D, V8, V8M2, V8_V9, V8M2_V10M2
        char bank = name[0];
        if ((bank != 'X' && bank != 'F' && bank != 'V') || !isdigit(name[1])) {
            return false;
        }
        char *rest;
        out.bank = bank == 'X' ? "x" : bank == 'F' ? "f" : "v";
        out.number = int(strtol(name.c_str() + 1, &rest, 10));
        int length = 1;
        if (*rest == 'M') {
            length = int(strtol(rest + 1, &rest, 10));
        }
        out.count = length;
        for (; *rest == '_' && isdigit(rest[2]); ) {
            strtol(rest + 2, &rest, 10);
            if (*rest == 'M') {
                strtol(rest + 1, &rest, 10);
            }
            out.count += length;
        }
        out.zero = bank == 'X' && out.number == 0 && out.count == 1;
        return true;
    }
    static const std::map<std::string, Register> fixed = {
        {"SP", {"sp", 31, 1, false}},   {"WSP", {"sp", 31, 1, false}},
        {"XZR", {"x", 31, 1, true}},    {"WZR", {"x", 31, 1, true}},
        {"LR", {"x", 30, 1, false}},    {"FP", {"x", 29, 1, false}},
        {"NZCV", {"nzcv", 0, 1, false}}, {"FFR", {"ffr", 0, 1, false}},
        {"FPCR", {"fpcr", 0, 1, false}}, {"FPSR", {"fpsr", 0, 1, false}},
        {"FPMR", {"fpmr", 0, 1, false}}, {"VG", {"vg", 0, 1, false}},
        {"LR_XZR", {"x", 30, 2, false}}, {"W30_WZR", {"x", 30, 2, false}},
    };
    auto at = fixed.find(name);
    if (at != fixed.end()) {
        out = at->second;
        return true;
    }
    size_t digits = name.find_first_of("0123456789");
    if (digits == std::string::npos) {
        return false;
    }
    std::string letters = name.substr(0, digits);
    static const std::map<std::string, std::string> banks = {
        {"X", "x"}, {"W", "x"}, {"B", "v"}, {"H", "v"}, {"S", "v"},
        {"D", "v"}, {"Q", "v"}, {"Z", "v"}, {"P", "p"}, {"PN", "p"},
    };
    auto bank = banks.find(letters);
    if (bank == banks.end()) {
        return false;
    }
    out.bank = bank->second;
    out.number = atoi(name.c_str() + digits);
    out.count = 1;
    for (char c : name) {
        out.count += c == '_';
    }
    return true;
}

struct Operand {
    bool known = false, fixed = false, def = false;
    int pos = 0, len = 0, add = 0, stride = 1;
    Register reg;    // bank and count; for fixed ones the number
    std::string at31; // bank of register 31 where it differs: sp or zero
};

// The field that holds a register's number.
bool find_field(const std::vector<std::pair<uint32_t, Register>> &samples, Operand &out) {
    for (int stride : {1, 2, 4, 8}) {
        for (int len = 5; len >= 1; len--) {
            for (int pos = 0; pos + len <= 32; pos++) {
                auto field = [&](uint32_t w) { return int(w >> pos & ((1u << len) - 1)); };
                int add = samples[0].second.number - stride * field(samples[0].first);
                bool fits = true;
                for (auto &[word, reg] : samples) {
                    if (reg.number != stride * field(word) + add) {
                        fits = false;
                        break;
                    }
                }
                if (fits) {
                    out.pos = pos, out.len = len, out.add = add, out.stride = stride;
                    return true;
                }
            }
        }
    }
    return false;
}

// Words of an opcode: samples, and samples with fields set to zeros or ones.
std::vector<uint32_t> rich_samples(const Machine &m, const Decoder &decoder, unsigned opcode,
                                   const Seen &seen) {
    std::set<uint32_t> words(seen.words.begin(), seen.words.end());
    const std::pair<int, int> a64[] = {{0, 5}, {5, 5}, {10, 6}, {16, 5}, {21, 3}};
    const std::pair<int, int> rv[] = {{7, 5}, {15, 5}, {20, 5}, {25, 7}, {12, 3}};
    auto &fields = m.riscv ? rv : a64;
    MCInst inst;
    size_t bases = 0;
    for (uint32_t base : seen.words) {
        if (++bases > 12) {
            break;
        }
        for (unsigned choice = 0; choice < 243; choice++) {
            uint32_t word = base;
            unsigned rest = choice;
            for (auto [pos, len] : fields) {
                uint32_t mask = ((1u << len) - 1) << pos;
                mask &= ~(seen.ones | seen.zeros);
                if (rest % 3 == 1) {
                    word &= ~mask;
                } else if (rest % 3 == 2) {
                    word |= mask;
                }
                rest /= 3;
            }
            if (decoder.decode(word, inst) != 0 && inst.getOpcode() == opcode) {
                words.insert(word);
            }
        }
        for (int bit = 0; bit < 32; bit++) {
            uint32_t word = base ^ 1u << bit;
            if (decoder.decode(word, inst) != 0 && inst.getOpcode() == opcode) {
                words.insert(word);
            }
        }
    }
    return {words.begin(), words.end()};
}

// Words of an opcode whose class may depend on its operands: every shift with every amount (A64's
// bits 10 to 15 and 22 to 23, which also hold extensions), with registers of all zeros, all ones and
// others. Predicates of LLVM ask for amounts up to 4, or for none.
void add_shifts(const Decoder &decoder, unsigned opcode, const Seen &seen,
                std::vector<uint32_t> &words) {
    const uint32_t registers[] = {0x1f, 0x1f << 5, 0x1f << 16};
    uint32_t open = ~(seen.ones | seen.zeros);
    std::set<uint32_t> all(words.begin(), words.end());
    MCInst inst;
    for (size_t base = 0; base < seen.words.size() && base < 2; base++) {
        for (unsigned choice = 0; choice < 27; choice++) {
            uint32_t word = seen.words[base];
            unsigned rest = choice;
            for (uint32_t field : registers) {
                uint32_t mask = field & open;
                word = rest % 3 == 1 ? word & ~mask : rest % 3 == 2 ? word | mask : word;
                rest /= 3;
            }
            for (uint32_t shift = 0; shift < 256; shift++) {
                uint32_t bits = (shift & 63) << 10 | (shift >> 6) << 22;
                uint32_t mask = (63u << 10 | 3u << 22) & open;
                uint32_t other = (word & ~mask) | (bits & mask);
                if (decoder.decode(other, inst) != 0 && inst.getOpcode() == opcode) {
                    all.insert(other);
                }
            }
        }
    }
    // Immediates of one bit and of two, which are not 0: with no other bit set, and with registers of
    // all ones.
    for (uint32_t registers_set : {0u, 0x1fu << 5, 0x1fu | 0x1fu << 5}) {
        uint32_t word = seen.ones | (registers_set & open);
        for (int a = 0; a < 32; a++) {
            for (int b = a; b < 32; b++) {
                uint32_t other = word ^ (open & (1u << a | 1u << b));
                if (decoder.decode(other, inst) != 0 && inst.getOpcode() == opcode) {
                    all.insert(other);
                }
            }
        }
    }
    // Both sources in one register.
    std::vector<uint32_t> apart(all.begin(), all.end());
    for (size_t n = 0; n < apart.size(); n += 1 + apart.size() / 4096) {
        uint32_t other = (apart[n] & ~(0x1fu << 16)) | (apart[n] >> 5 & 0x1f) << 16;
        if (decoder.decode(other, inst) != 0 && inst.getOpcode() == opcode) {
            all.insert(other);
        }
    }
    words.assign(all.begin(), all.end());
}

bool same_sources(uint32_t word) {
    return (word >> 5 & 0x1f) == (word >> 16 & 0x1f);
}

using Label = std::vector<unsigned>;
struct Leaf {
    uint32_t mask, value;
    Label label;
    // Only where both sources are one register.
    bool same;
};

void split(std::vector<std::pair<uint32_t, Label>> samples, uint32_t mask, uint32_t value,
           std::vector<Leaf> &out, int depth) {
    std::map<Label, size_t> counts;
    for (auto &[word, label] : samples) {
        counts[label]++;
    }
    if (counts.size() <= 1 || depth > 24) {
        auto most = std::max_element(counts.begin(), counts.end(),
                                     [](auto &a, auto &b) { return a.second < b.second; });
        out.push_back({mask, value, most->first, false});
        return;
    }
    int best = -1;
    double least = 1e300;
    for (int bit = 0; bit < 32; bit++) {
        if (mask >> bit & 1) {
            continue;
        }
        std::map<Label, size_t> side[2];
        size_t total[2] = {0, 0};
        for (auto &[word, label] : samples) {
            side[word >> bit & 1][label]++;
            total[word >> bit & 1]++;
        }
        if (total[0] == 0 || total[1] == 0) {
            continue;
        }
        double entropy = 0;
        for (int s = 0; s < 2; s++) {
            for (auto &[label, n] : side[s]) {
                entropy -= double(n) * std::log(double(n) / double(total[s]));
            }
        }
        if (entropy < least) {
            least = entropy;
            best = bit;
        }
    }
    if (best < 0) {
        auto most = std::max_element(counts.begin(), counts.end(),
                                     [](auto &a, auto &b) { return a.second < b.second; });
        out.push_back({mask, value, most->first, false});
        return;
    }
    std::vector<std::pair<uint32_t, Label>> side[2];
    for (auto &sample : samples) {
        side[sample.first >> best & 1].push_back(sample);
    }
    samples.clear();
    for (uint32_t s = 0; s < 2; s++) {
        split(std::move(side[s]), mask | 1u << best, value | s << best, out, depth + 1);
    }
}

std::string quoted(const char *text) {
    return std::string("\"") + text + "\"";
}

void print_registers(const Machine &m, const char *key, ArrayRef<MCPhysReg> list) {
    printf(",\"%s\":[", key);
    bool first = true;
    for (MCPhysReg r : list) {
        Register reg;
        std::string name = m.registers->getName(r);
        if (parse(m, name, reg)) {
            printf("%s[\"%s\",%d]", first ? "" : ",", reg.bank.c_str(), reg.number);
        } else {
            printf("%s[\"%s\",0]", first ? "" : ",", name.c_str());
        }
        first = false;
    }
    printf("]");
}

void print_operands(const Machine &m, const Decoder &decoder, unsigned opcode,
                    const std::vector<uint32_t> &words) {
    const MCInstrDesc &desc = m.instructions->get(opcode);
    MCInst inst;
    printf(",\"operands\":[");
    bool first = true;
    for (unsigned n = 0; n < desc.getNumOperands(); n++) {
        std::vector<std::pair<uint32_t, Register>> samples;
        std::set<std::string> names;
        std::vector<std::pair<uint32_t, bool>> presence;
        bool registers = true, parsed = true, absent = false;
        Operand out;
        for (uint32_t word : words) {
            if (decoder.decode(word, inst) == 0 || n >= inst.getNumOperands() ||
                !inst.getOperand(n).isReg()) {
                registers = false;
                break;
            }
            MCRegister r = inst.getOperand(n).getReg();
            presence.push_back({word, bool(r)});
            if (!r) {
                absent = true; // RISC-V's unmasked vector operations
                continue;
            }
            Register reg;
            std::string name = m.registers->getName(r);
            if (!parse(m, name, reg)) {
                parsed = false;
                break;
            }
            if (reg.zero || reg.bank == "sp") {
                out.at31 = reg.zero ? "zero" : "sp";
                if (reg.bank == "sp") {
                    reg.bank = "x";
                }
            }
            names.insert(name);
            out.reg.bank = reg.bank;
            out.reg.count = std::max(out.reg.count, reg.count);
            samples.push_back({word, reg});
        }
        if (!registers || (samples.empty() && parsed)) {
            continue;
        }
        out.def = n < desc.getNumDefs();
        int tied = desc.getOperandConstraint(n, MCOI::TIED_TO);
        printf("%s{\"index\":%u,\"def\":%s,\"tied\":%d", first ? "" : ",", n,
               out.def ? "true" : "false", tied);
        first = false;
        int absent_bit = -1; // where this bit is set, the operand is not there
        for (int bit = 0; absent && bit < 32 && absent_bit < 0; bit++) {
            bool all = true;
            for (auto &[word, present] : presence) {
                all &= present != bool(word >> bit & 1);
            }
            absent_bit = all ? bit : -1;
        }
        bool always = !absent || absent_bit >= 0;
        if (parsed && always && names.size() == 1) {
            printf(",\"bank\":\"%s\",\"fixed\":%d,\"count\":%d,\"at31\":\"%s\",\"unless\":%d}",
                   out.reg.bank.c_str(), samples[0].second.number, out.reg.count, out.at31.c_str(),
                   absent_bit);
        } else if (parsed && always && find_field(samples, out)) {
            printf(",\"bank\":\"%s\",\"pos\":%d,\"len\":%d,\"add\":%d,\"stride\":%d,\"count\":%d,"
                   "\"at31\":\"%s\",\"unless\":%d}",
                   out.reg.bank.c_str(), out.pos, out.len, out.add, out.stride, out.reg.count,
                   out.at31.c_str(), absent_bit);
        } else {
            printf(",\"unknown\":\"%s\"}", names.empty() ? "" : names.begin()->c_str());
        }
    }
    printf("]");
}

// LMUL 1/8 to 8, SEW 8 to 64.
const char *lmuls[] = {"MF8", "MF4", "MF2", "M1", "M2", "M4", "M8"};
const char *sews[] = {"E8", "E16", "E32", "E64"};

} // namespace

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: dump TRIPLE FEATURES (CPU... | --labels)\n");
        return 2;
    }
    InitializeAllTargetInfos();
    InitializeAllTargetMCs();
    InitializeAllDisassemblers();
    InitializeAllTargetMCAs();
    Machine m;
    m.triple = Triple(argv[1]);
    m.riscv = m.triple.isRISCV();
    std::string error;
    m.target = TargetRegistry::lookupTarget(m.triple, error);
    if (m.target == nullptr) {
        fprintf(stderr, "%s\n", error.c_str());
        return 1;
    }
    MCTargetOptions options;
    m.registers.reset(m.target->createMCRegInfo(m.triple));
    m.assembly.reset(m.target->createMCAsmInfo(*m.registers, m.triple, options));
    m.instructions.reset(m.target->createMCInstrInfo());
    m.all.reset(m.target->createMCSubtargetInfo(m.triple, m.riscv ? "" : "generic", argv[2]));
    Decoder decoder(m);
    if (strcmp(argv[3], "--names") == 0) {
        printf("[");
        for (unsigned opcode = 1; opcode < m.instructions->getNumOpcodes(); opcode++) {
            printf("%s{\"opcode\":%u,\"name\":\"%s\"}", opcode > 1 ? "," : "", opcode,
                   m.instructions->getName(opcode).str().c_str());
        }
        printf("]\n");
        return 0;
    }
    if (strcmp(argv[3], "--labels") == 0) {
        // One u16 for each word in order: the opcode, 0 for no instruction.
        std::vector<uint16_t> out(1 << 20);
        size_t filled = 0;
        MCInst inst;
        each_word(m, 0, 1, [&](uint32_t word) {
            out[filled++] = decoder.decode(word, inst) != 0 ? uint16_t(inst.getOpcode()) : 0;
            if (filled == out.size()) {
                fwrite(out.data(), 2, filled, stdout);
                filled = 0;
            }
        });
        fwrite(out.data(), 2, filled, stdout);
        return 0;
    }
    const char *threads = getenv("THREADS");
    std::vector<Seen> seen = survey_or_read(m, threads ? unsigned(atoi(threads)) : 2);
    std::vector<std::unique_ptr<MCSubtargetInfo>> cpus;
    for (int i = 3; i < argc; i++) {
        cpus.emplace_back(m.target->createMCSubtargetInfo(m.triple, argv[i], argv[2]));
    }

    printf("{\"target\":\"%s\",\"llvm\":\"%s\",\"opcodes\":[", argv[1], LLVM_VERSION_STRING);
    bool first = true;
    std::set<unsigned> classes; // used by any opcode
    for (unsigned opcode = 0; opcode < seen.size(); opcode++) {
        const Seen &s = seen[opcode];
        if (s.count == 0) {
            continue;
        }
        const MCInstrDesc &desc = m.instructions->get(opcode);
        std::vector<uint32_t> words = rich_samples(m, decoder, opcode, s);
        printf("%s\n{\"opcode\":%u,\"name\":\"%s\",\"size\":%u,\"count\":%llu,\"ones\":%u,\"zeros\":%u,"
               "\"load\":%d,\"store\":%d,\"branch\":%d,\"call\":%d,\"return\":%d,\"conditional\":%d,"
               "\"indirect\":%d,\"unmodeled\":%d,\"explicit_defs\":%u,\"explicit_uses\":%u",
               first ? "" : ",", opcode, m.instructions->getName(opcode).str().c_str(), s.size,
               (unsigned long long)s.count, s.ones, s.zeros, desc.mayLoad(), desc.mayStore(),
               desc.isBranch(), desc.isCall(), desc.isReturn(), desc.isConditionalBranch(),
               desc.isIndirectBranch(), desc.hasUnmodeledSideEffects(), desc.getNumDefs(),
               desc.getNumOperands() - desc.getNumDefs());
        first = false;
        print_registers(m, "uses", desc.implicit_uses());
        print_registers(m, "defs", desc.implicit_defs());
        print_operands(m, decoder, opcode, words);
        // Words under the same bits that are not this opcode: the rule is not exact by itself.
        unsigned base = desc.getSchedClass();
        bool variant = false;
        for (auto &cpu : cpus) {
            variant |= cpu->getSchedModel().hasInstrSchedModel() &&
                       cpu->getSchedModel().getSchedClassDesc(base)->isVariant();
        }
        std::vector<Leaf> leaves;
        if (variant) {
            std::vector<std::pair<uint32_t, Label>> samples;
            MCInst inst;
            if (!m.riscv) {
                add_shifts(decoder, opcode, s, words);
            }
            for (uint32_t word : words) {
                decoder.decode(word, inst);
                Label label;
                for (auto &cpu : cpus) {
                    const MCSchedModel &model = cpu->getSchedModel();
                    unsigned id = base;
                    while (id != 0 && model.hasInstrSchedModel() &&
                           model.getSchedClassDesc(id)->isVariant()) {
                        id = cpu->resolveVariantSchedClass(id, &inst, m.instructions.get(),
                                                           model.getProcessorID());
                    }
                    label.push_back(id);
                }
                samples.push_back({word, label});
            }
            // Where the class depends on both sources being one register, that comes first.
            std::vector<std::pair<uint32_t, Label>> same, apart;
            for (auto &sample : samples) {
                (same_sources(sample.first) ? same : apart).push_back(sample);
            }
            std::vector<Leaf> of_apart;
            if (!m.riscv && !apart.empty()) {
                split(apart, s.ones | s.zeros, s.ones, of_apart, 0);
            }
            bool differs = false;
            for (auto &[word, label] : same) {
                for (const Leaf &leaf : of_apart) {
                    if ((word & leaf.mask) == leaf.value) {
                        differs |= leaf.label != label;
                        break;
                    }
                }
            }
            if (differs) {
                split(std::move(same), s.ones | s.zeros, s.ones, leaves, 0);
                for (Leaf &leaf : leaves) {
                    leaf.same = true;
                }
                leaves.insert(leaves.end(), of_apart.begin(), of_apart.end());
            } else {
                split(std::move(samples), s.ones | s.zeros, s.ones, leaves, 0);
            }
        }
        printf(",\"classes\":[");
        if (leaves.empty()) {
            printf("[%u,%u,[%u],false]", s.ones | s.zeros, s.ones, base);
            classes.insert(base);
        }
        for (size_t i = 0; i < leaves.size(); i++) {
            printf("%s[%u,%u,[", i ? "," : "", leaves[i].mask, leaves[i].value);
            for (size_t c = 0; c < leaves[i].label.size(); c++) {
                printf("%s%u", c ? "," : "", leaves[i].label[c]);
                classes.insert(leaves[i].label[c]);
            }
            printf("],%s]", leaves[i].same ? "true" : "false");
        }
        printf("]");
        if (m.riscv) {
            // Costs by LMUL and SEW, as llvm-mca's instruments choose them.
            std::unique_ptr<mca::InstrumentManager> manager(
                m.target->createInstrumentManager(*m.all, *m.instructions));
            MCInst inst;
            decoder.decode(words[0], inst);
            std::vector<unsigned> ids;
            bool differs = false;
            for (int l8 = 0; l8 < 7; l8++) {
                for (int e = 0; e < 4; e++) {
                    // Elements of 2^(e + 3) bits need a register group of as many; 2^(l8 - 3)
                    // registers of 64 bits at least.
                    if (e > l8) {
                        ids.push_back(base);
                        continue;
                    }
                    const char *lmul = lmuls[l8], *sew = sews[e];
                    SmallVector<mca::Instrument *> use;
                    auto l = manager->createInstrument("RISCV-LMUL", lmul);
                    auto s = manager->createInstrument("RISCV-SEW", sew);
                    use.push_back(l.get());
                    use.push_back(s.get());
                    unsigned id = manager->getSchedClassID(*m.instructions, inst, use);
                    differs |= id != base;
                    ids.push_back(id);
                }
            }
            if (differs) {
                printf(",\"vector\":[");
                for (size_t i = 0; i < ids.size(); i++) {
                    printf("%s%u", i ? "," : "", ids[i]);
                    classes.insert(ids[i]);
                }
                printf("]");
            }
        }
        printf("}");
    }
    printf("],\n\"cpus\":[");
    for (size_t c = 0; c < cpus.size(); c++) {
        const MCSubtargetInfo &cpu = *cpus[c];
        const MCSchedModel &model = cpu.getSchedModel();
        printf("%s\n{\"name\":%s,\"has_model\":%d,\"issue_width\":%u,\"buffer\":%d,\"load_latency\":%u,"
               "\"mispredict\":%u,\"loop_buffer\":%u",
               c ? "," : "", quoted(argv[3 + c]).c_str(), model.hasInstrSchedModel(), model.IssueWidth,
               model.MicroOpBufferSize, model.LoadLatency, model.MispredictPenalty,
               model.LoopMicroOpBufferSize);
        if (model.hasExtraProcessorInfo()) {
            const MCExtraProcessorInfo &extra = model.getExtraProcessorInfo();
            printf(",\"reorder_buffer\":%u,\"retire\":%u,\"load_queue\":%u,\"store_queue\":%u",
                   extra.ReorderBufferSize, extra.MaxRetirePerCycle, extra.LoadQueueID,
                   extra.StoreQueueID);
        }
        printf(",\"resources\":[");
        for (unsigned r = 0; r < model.getNumProcResourceKinds(); r++) {
            const MCProcResourceDesc &res = *model.getProcResource(r);
            printf("%s{\"name\":%s,\"units\":%u,\"super\":%u,\"buffer\":%d,\"subs\":[", r ? "," : "",
                   quoted(res.Name).c_str(), res.NumUnits, res.SuperIdx, res.BufferSize);
            for (unsigned u = 0; res.SubUnitsIdxBegin != nullptr && u < res.NumUnits; u++) {
                printf("%s%u", u ? "," : "", res.SubUnitsIdxBegin[u]);
            }
            printf("]}");
        }
        printf("],\"classes\":{");
        bool begun = false;
        for (unsigned id : classes) {
            if (!model.hasInstrSchedModel()) {
                break;
            }
            const MCSchedClassDesc &desc = *model.getSchedClassDesc(id);
            if (!desc.isValid() || desc.isVariant()) {
                continue;
            }
            printf("%s\"%u\":{\"uops\":%u,\"begin\":%d,\"end\":%d,\"ooo\":%d,\"resources\":[",
                   begun ? ",\n" : "", id, unsigned(desc.NumMicroOps), desc.BeginGroup, desc.EndGroup,
                   desc.RetireOOO);
            begun = true;
            auto *res = cpu.getWriteProcResBegin(&desc);
            for (; res != cpu.getWriteProcResEnd(&desc); res++) {
                printf("%s[%u,%u,%u]", res == cpu.getWriteProcResBegin(&desc) ? "" : ",",
                       res->ProcResourceIdx, res->ReleaseAtCycle, res->AcquireAtCycle);
            }
            printf("],\"latencies\":[");
            for (unsigned d = 0; d < desc.NumWriteLatencyEntries; d++) {
                auto *lat = cpu.getWriteLatencyEntry(&desc, d);
                printf("%s[%d,%u]", d ? "," : "", lat->Cycles, lat->WriteResourceID);
            }
            printf("],\"advances\":[");
            bool some = false;
            for (auto &advance : cpu.getReadAdvanceEntries(desc)) {
                printf("%s[%u,%u,%d]", some ? "," : "", advance.UseIdx, advance.WriteResourceID,
                       advance.Cycles);
                some = true;
            }
            printf("]}");
        }
        printf("}}");
    }
    printf("]}\n");
    return 0;
}
