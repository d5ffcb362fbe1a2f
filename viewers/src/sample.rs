//! A report made by hand, for the tests of all views.

use mcad_report::branches::{BranchReport, CodeBranches};
use mcad_report::memory::{CodeMisses, LevelCounts, MemoryReport};
use mcad_report::{
    BlockBound, BlockReport, CpuReport, FunctionReport, InstructionReport, LineReport, PortUse,
    RegionReport, Report, RunInfo, SlotStack, SourceFile, ThreadReport, Tool, TopDown, TraceStats,
    TracedProgram, Unknown, UnknownForm,
};

/// Half retiring, an eighth each front end and dependencies, a quarter L1.
fn stack(cycles: u64) -> SlotStack {
    let (retiring, l1, frontend) = (cycles * 2, cycles, cycles / 2);
    SlotStack {
        retiring,
        l1,
        frontend,
        dependencies: cycles * 4 - retiring - l1 - frontend,
        ..SlotStack::default()
    }
}

fn memory(cycles: u64) -> MemoryReport {
    let levels = |all: u64| LevelCounts {
        l1: all,
        l2: all / 100,
        l3: all / 1000,
        dram: all / 10_000,
    };
    let missed = |name: &str, module: &str| CodeMisses {
        name: name.into(),
        module: module.into(),
        l1: cycles / 200,
        l2: cycles / 1000,
        l3: 0,
        walks: 7,
    };
    MemoryReport {
        loads: levels(cycles / 4),
        stores: levels(cycles / 8),
        fetches: levels(cycles / 10),
        functions: vec![missed("compress", "gzip")],
        lines: vec![missed("/src/deflate.c:42", "")],
        ..MemoryReport::default()
    }
}

fn branches(cycles: u64) -> BranchReport {
    let wrong = |name: &str, place: Option<&str>| CodeBranches {
        name: name.into(),
        place: place.map(str::to_owned),
        wrong: cycles / 1000,
        ..CodeBranches::default()
    };
    BranchReport {
        executed: cycles / 5,
        taken: cycles / 8,
        wrong_directions: cycles / 500,
        wrong_targets: cycles / 5000,
        functions: vec![wrong("compress", None)],
        lines: vec![wrong("/src/deflate.c:43", None)],
        branches: vec![wrong("0x4000001003", Some("compress+0x13"))],
        ..BranchReport::default()
    }
}

/// A core of two slots that issues in order and has no predictor: a fourth of its slots is lost for
/// loaded values, an eighth each for pairing and the order of writes.
pub(crate) fn in_order(cycles: u64) -> CpuReport {
    let slots = SlotStack {
        retiring: cycles,
        load_use: cycles / 2,
        pairing: cycles / 4,
        write_back: cycles * 2 - cycles - cycles / 2 - cycles / 4,
        ..SlotStack::default()
    };
    let all = cpu("atom", cycles);
    CpuReport {
        in_order: true,
        doubts: vec!["branches are not all predicted".into()],
        topdown: TopDown {
            slots: cycles * 2,
            retiring: slots.retiring,
            backend_memory: slots.load_use,
            backend_core: slots.pairing + slots.write_back,
            frontend: 0,
            other: 0,
            ..all.topdown
        },
        slots: Some(slots),
        ..all
    }
}

fn cpu(name: &str, cycles: u64) -> CpuReport {
    CpuReport {
        cpu: name.into(),
        name: format!("Model {name}"),
        analysis: "pipeline".into(),
        in_order: false,
        assumes: vec!["the kernel's work is left out".into()],
        doubts: Vec::new(),
        instructions: 1_500_000,
        uops: 1_700_000,
        cycles,
        ipc: 1_500_000.0 / cycles as f64,
        topdown: TopDown {
            slots: cycles * 4,
            retiring: cycles * 2,
            bad_speculation: 0,
            frontend: cycles / 2,
            backend_memory: cycles / 2,
            memory_levels: mcad_report::MemorySlots::default(),
            backend_core: cycles / 2,
            other: cycles / 2,
        },
        slots: Some(stack(cycles)),
        ports: vec![
            PortUse {
                port: "0".into(),
                uops: cycles / 2,
            },
            PortUse {
                port: "A".into(),
                uops: cycles / 4,
            },
        ],
        processes: Vec::new(),
        threads: vec![ThreadReport {
            process: 0,
            thread: 0,
            instructions: 1_500_000,
            cycles,
        }],
        intervals: None,
        functions: vec![
            FunctionReport {
                name: "compress\x1b[2J".into(),
                module: "gzip".into(),
                cycles: cycles / 2,
                instructions: 1_000_000,
                uops: 1_100_000,
                slots: Some(stack(cycles / 2)),
                near: None,
                fingerprint: Vec::new(),
            },
            FunctionReport {
                name: "std::vec<unsigned long, std::allocator<unsigned long>>::a_rather_long_name_of_a_member(unsigned long)".into(),
                module: "libstdc++.so.6".into(),
                cycles: cycles / 4,
                instructions: 400_000,
                uops: 500_000,
                slots: Some(SlotStack {
                    dram: cycles,
                    ..SlotStack::default()
                }),
                near: None,
                fingerprint: Vec::new(),
            },
        ],
        calls: Vec::new(),
        blocks: vec![BlockReport {
            address: "0x4000001000".into(),
            symbol: "compress+0x10".into(),
            module: "gzip".into(),
            line: Some("deflate.c:42".into()),
            executions: 100_000,
            instructions: 2,
            cycles: cycles / 2,
            slots: Some(stack(cycles / 2)),
            code: vec!["add rax, rbx".into(), "jne short 0000004000001000h".into()],
            listing: vec![
                InstructionReport {
                    address: "0x4000001000".into(),
                    line: Some("/src/deflate.c:42".into()),
                    cycles: cycles / 3,
                    uops: 1,
                    ports: "1*p0156".into(),
                    port_uops: vec![0.5, 0.5],
                },
                InstructionReport {
                    address: "0x4000001003".into(),
                    line: Some("/src/deflate.c:43".into()),
                    cycles: cycles / 2 - cycles / 3,
                    uops: 1,
                    ports: "1*p6".into(),
                    port_uops: vec![0.0, 1.0],
                },
            ],
            bound: Some(BlockBound {
                cycles: 1.0,
                parts: vec!["dependencies".into()],
                explained: true,
                evidence: vec!["chain of 1 cycle".into()],
                instructions: vec![0],
                next: 0.5,
            }),
        }],
        lines: vec![LineReport {
            line: "/src/deflate.c:42".into(),
            function: "compress".into(),
            cycles: cycles / 3,
        }],
        memory: Some(memory(cycles)),
        branches: Some(branches(cycles)),
        regions: vec![RegionReport {
            name: "longest_match".into(),
            count: 10,
            cycles: 1000,
            instructions: 2000,
            min: 90,
            median: 100,
            max: 130,
        }],
        unknown_instructions: Unknown::default(),
        table: None,
        parameters: serde_json::Value::Null,
    }
}

pub(crate) fn report() -> Report {
    Report {
        schema_version: 1,
        tool: Tool {
            name: "mcad".into(),
            version: "1.2.3".into(),
        },
        program: TracedProgram {
            command: vec!["gzip".into(), "-k".into(), "file\u{202e}".into()],
            arch: "x86_64".into(),
            end: "exited 0".into(),
            complete: true,
            modules: Vec::new(),
        },
        processes: Vec::new(),
        trace: TraceStats {
            instructions: 1_500_000,
            blocks_executed: 300_000,
            memory_accesses: 500_000,
            records: 800_000,
            distinct_blocks: 1200,
            threads: 1,
            ..TraceStats::default()
        },
        options: None,
        cpus: vec![cpu("skl", 1_000_000), cpu("glc", 600_000)],
        unknown_instructions: Unknown {
            count: 12,
            approximated: 3,
            forms: vec![UnknownForm {
                form: "vpdpbusd xmm, xmm, xmm".into(),
                treatment: "unknown".into(),
                cpu: "skl".into(),
                count: 12,
            }],
        },
        notes: vec!["region 'nowhere' was never found".into()],
        run: RunInfo {
            seconds: 0.5,
            instructions_per_second: 3e6,
            peak_memory_bytes: 64 << 20,
            source: "qemu".into(),
            sources: vec![SourceFile {
                path: "/src/deflate.c".into(),
                lines: [(42, "    sum += *p++;".into())].into(),
            }],
            measured: None,
        },
    }
}
