//! `mcad block` and `mcad eval` as a user runs them.

#![allow(clippy::unwrap_used)]

use std::io::Write;

use assert_cmd::Command;
use serde_json::Value;

fn mcad() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mcad"))
}

fn stdout(command: &mut Command) -> String {
    let output = command.assert().success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

fn file(content: &str, suffix: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(suffix).tempfile().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file
}

#[test]
fn hex_blocks_are_explained() {
    let text = stdout(mcad().args(["block", "--hex", "48 01 d8 480fafc3", "--cpu", "skl"]));
    for part in [
        "4.00*",
        "dependencies",
        "add rax, rbx",
        "imul rax, rbx",
        "p1",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let att = stdout(mcad().args(["block", "--hex", "4801d8", "--syntax", "att"]));
    assert!(att.contains("add %rbx, %rax"), "{att}");
}

#[test]
fn json_has_every_cpu_and_the_timeline() {
    let text = stdout(mcad().args([
        "block",
        "--hex",
        "488b004801c3",
        "--cpu",
        "skl",
        "--cpu",
        "GoldenCove",
        "--json",
        "-",
        "--timeline=2",
        "--mode",
        "loop",
    ]));
    let json: Value = serde_json::from_str(&text).unwrap();
    let cpus = json["blocks"][0]["cpus"].as_array().unwrap();
    assert_eq!(cpus.len(), 2);
    assert_eq!(
        (cpus[0]["cpu"].as_str(), cpus[0]["loop"].as_f64()),
        (Some("skl"), Some(4.0))
    );
    assert_eq!(
        (cpus[1]["cpu"].as_str(), cpus[1]["loop"].as_f64()),
        (Some("glc"), Some(5.0))
    );
    assert_eq!(cpus[0]["mode"], "loop");
    assert_eq!(cpus[0]["chain"]["steps"][0]["instruction"], 0);
    let timeline = cpus[0]["timeline"].as_array().unwrap();
    assert!(timeline.iter().any(|u| u["iteration"] == 1));
    assert!(timeline.iter().all(|u| u["iteration"].as_u64() < Some(2)));
}

#[test]
fn marked_regions_of_assembly_are_blocks_of_their_own() {
    let text = "# LLVM-MCA-BEGIN first\naddq %rbx, %rax\n# LLVM-MCA-END\nnop\n\
                # LLVM-MCA-BEGIN second\n1: imulq %rbx, %rax\ndecq %rcx\njnz 1b\n# LLVM-MCA-END\n";
    let input = file(text, ".s");
    let json = stdout(mcad().args(["block", "--json", "-"]).arg(input.path()));
    let json: Value = serde_json::from_str(&json).unwrap();
    let of = |n: usize| {
        let block = &json["blocks"][n];
        let cpu = &block["cpus"][0];
        (
            block["name"].as_str(),
            cpu["mode"].as_str(),
            cpu["cycles"].as_f64(),
        )
    };
    assert_eq!(of(0), (Some("first"), Some("unrolled"), Some(1.0)));
    assert_eq!(of(1), (Some("second"), Some("loop"), Some(3.0)));
    let intel = file("add rax, rbx\nadd rax, rbx\n", ".s");
    let text = stdout(
        mcad()
            .args(["block", "--syntax", "intel"])
            .arg(intel.path()),
    );
    assert!(text.contains("2.00*"), "{text}");
}

#[test]
fn batches_answer_every_line_in_order() {
    let text = stdout(
        mcad()
            .args(["block", "--batch", "-", "--cpu", "icl"])
            .write_stdin("4801d8,1.0\n\nxyz\n0f22d8\n480fafc3\n"),
    );
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!((lines[0], lines[4]), ("4801d8,1.0000", "480fafc3,3.0000"));
    for line in &lines[1..4] {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!((fields.len(), fields[1]), (3, "ERR"), "{line}");
    }
}

#[test]
fn a_full_simulation_goes_on_where_iterations_have_settled() {
    // It settles at a rate, which the window of all 500 cycles has another fraction for.
    let cycles = |options: &[&str]| -> f64 {
        let block = ["block", "--batch", "-", "--cpu", "skl", "--init", "stack"];
        let text = stdout(
            mcad()
                .args(block)
                .args(options)
                .write_stdin("0fb6038d50ad80fa6f"),
        );
        let (_, cycles) = text.trim_end().split_once(',').unwrap();
        cycles.parse().unwrap()
    };
    let (settled, full) = (cycles(&[]), cycles(&["--full"]));
    assert!(settled != full, "{settled}");
    assert!((settled / full - 1.0).abs() < 0.01, "{settled} {full}");
}

#[test]
fn a_batch_says_what_a_single_block_does() {
    // Blocks that recur, that settle in a period, that settle at a rate and that do none of these.
    for hex in [
        "4801d8",
        "498b7e08418b46104889ee41894628",
        "488b4fd080791050",
        "83e80183f805",
    ] {
        for cpu in ["skl", "icl", "glc"] {
            let options = ["--cpu", cpu, "--init", "stack"];
            let batch = stdout(
                mcad()
                    .args(["block", "--batch", "-"])
                    .args(options)
                    .write_stdin(hex),
            );
            let one = stdout(
                mcad()
                    .args(["block", "--json", "-", "--hex", hex])
                    .args(options),
            );
            let json: Value = serde_json::from_str(&one).unwrap();
            let cycles = json["blocks"][0]["cpus"][0]["cycles"].as_f64().unwrap();
            assert_eq!(batch, format!("{hex},{cycles:.4}\n"), "{cpu}");
        }
    }
}

#[test]
fn wrong_use_is_told() {
    let stderr = |args: &[&str]| {
        let output = mcad()
            .args(args)
            .assert()
            .code(2)
            .get_output()
            .stderr
            .clone();
        String::from_utf8(output).unwrap()
    };
    assert!(stderr(&["block"]).contains("--hex"));
    assert!(stderr(&["block", "--hex", "06"]).contains("no 64-bit instruction"));
    assert!(stderr(&["block", "--hex", "4801d8", "--cpu", "z80"]).contains("mcad cpus"));
    assert!(stderr(&["block", "/nowhere.s"]).contains("/nowhere.s"));
    assert!(stderr(&["eval", "/nowhere.csv"]).contains("--predict"));
}

#[test]
fn json_goes_to_a_file_beside_the_tables() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.json");
    let labels = file("4801d8,1.0\n480fafc3,4.0\n", ".csv");
    let labels = labels.path().to_str().unwrap();
    let commands: [&[&str]; 4] = [
        &["block", "--hex", "4801d8"],
        &["eval", "--predict", "skl", labels],
        &["eval", "--predict", "skl", "--ablations", labels],
        &["profile", "clock", "--samples", "2"],
    ];
    for command in commands {
        let tables = stdout(mcad().args(command).arg("--json").arg(&path));
        assert!(
            !tables.is_empty() && !tables.starts_with(['{', '[']),
            "{tables}"
        );
        let beside = std::fs::read_to_string(&path).unwrap();
        let instead = stdout(mcad().args(command).args(["--json", "-"]));
        for text in [&beside, &instead] {
            assert!(
                serde_json::from_str::<Value>(text).is_ok(),
                "{command:?} {text}"
            );
        }
        let nowhere = mcad()
            .args(command)
            .args(["--json", "/no/such/place"])
            .assert();
        let stderr = String::from_utf8(nowhere.failure().get_output().stderr.clone()).unwrap();
        assert!(stderr.contains("/no/such/place"), "{stderr}");
    }
    let both = mcad()
        .args(["block", "--hex", "4801d8", "--json", "-", "--html", "-"])
        .assert();
    let stderr = String::from_utf8(both.failure().get_output().stderr.clone()).unwrap();
    assert!(
        stderr.contains("stdout is given for two outputs"),
        "{stderr}"
    );
}

#[test]
fn figures_of_an_evaluation_are_right() {
    let labels = file("4801d8,1.0\n480fafc3,4.0\n90,0.25\n0f22d8,10\n", ".csv");
    let predictions = file(
        "4801d8,1.0\n480fafc3,3.0\n0f22d8,ERR,no figures\nc3,1\n",
        ".csv",
    );
    let json = stdout(
        mcad()
            .args(["eval", "--json", "-", "--worst", "1"])
            .args([predictions.path(), labels.path()]),
    );
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["all"]["blocks"], 4);
    assert_eq!(json["all"]["missing"], 2);
    assert_eq!(json["without_label"], 1);
    // 0, 1/4, and two missing.
    assert_eq!(json["all"]["mape"].as_f64(), Some(0.5625));
    assert_eq!(json["worst"][0]["error"].as_f64(), Some(1.0));

    let text = stdout(
        mcad()
            .args(["eval", "--predict", "skl", "--categories", "--instructions"])
            .arg(labels.path()),
    );
    // The move to a control register has no figures; the other errors are 0, 1/4 and 0.
    assert!(text.contains("31.25 %"), "{text}");
}

#[test]
fn a_function_with_branches_is_cut_into_its_blocks() {
    let text = ".globl f\n.type f, @function\nf: xor %eax, %eax\n1: add (%rdi), %rax\n\
                add $8, %rdi\ndec %rsi\njne 1b\nret\n.size f, .-f\n";
    let source = file(text, ".s");
    let run = mcad()
        .args(["block", "--json", "-", "--symbol", "f"])
        .arg(source.path())
        .assert()
        .success();
    let json: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    let said = String::from_utf8_lossy(&run.get_output().stderr);
    assert!(said.contains("3 blocks"), "{said}");
    let names: Vec<&str> = json["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["f", "f+0x2", "f+0xe"]);
    // The loop in the middle, not the whole function laid out in a row.
    assert_eq!(json["blocks"][1]["cpus"][0]["mode"], "loop");
    assert_eq!(
        json["blocks"][1]["cpus"][0]["instructions"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
}

#[test]
fn a_branch_inside_a_block_is_named() {
    let text = stdout(mcad().args(["block", "--hex", "48ffc975fb90"]));
    assert!(text.contains("counts as not taken"), "{text}");
    let text = stdout(mcad().args(["block", "--hex", "9048ffc975fa"]));
    assert!(!text.contains("counts as not taken"), "{text}");
}

#[test]
fn blocks_of_other_instruction_sets_are_explained() {
    // add x0, x1, x0, lsl #1; eor x2, x0, x2, ror #7; sub w3, w3, w2, lsl #16
    let hex = "2004008b021cc2ca6340024b";
    let text = stdout(mcad().args(["block", "--arch", "aarch64", "--hex", hex]));
    for part in ["Arm Neoverse N1", "add x0, x1, x0, lsl #1", "dependencies"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let in_order = stdout(mcad().args(["block", "--cpu", "cortex-a55", "--hex", hex]));
    assert!(
        in_order.contains("Arm Cortex-A55: 3.00 cycles"),
        "{in_order}"
    );
    // What llvm-mca 22 prints.
    let rules = ["block", "--rules", "llvm-mca", "--hex", hex];
    let rules = stdout(
        mcad()
            .args(rules)
            .args(["--cpu", "cortex-a55", "--cpu", "a64fx"]),
    );
    assert!(rules.contains("cortex-a55: 304 cycles"), "{rules}");
    assert!(rules.contains("a64fx: 405 cycles"), "{rules}");
}

#[test]
fn assembly_of_other_instruction_sets_is_assembled() {
    let source = "again: ld a5, 0(s0)\n add a5, a5, a3\n sd a5, 8(s0)\n addi s0, s0, 16\n \
                  bne s0, a4, again\n";
    let source = file(source, ".s");
    let path = source.path().to_str().unwrap();
    // `cargo xtask setup --tests` installs the cross assemblers.
    let text = stdout(mcad().args(["block", "--json", "-", "--arch", "riscv64", path]));
    for part in [
        "SiFive Performance P670",
        "c.sd a5, 8(s0)",
        "bne s0, a4, -8",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let wrong = mcad()
        .args(["block", "--arch", "riscv64", "--cpu", "skl", path])
        .assert()
        .failure();
    let message = String::from_utf8_lossy(&wrong.get_output().stderr).into_owned();
    assert!(message.contains("skl executes x86_64 code"), "{message}");
}

/// Two accumulators, a store that is loaded again, a division: all kinds of edges.
const TANGLED: &str = "1: movq (%rdi), %rcx\nimulq %rdx, %rcx\naddq %rcx, %rax\nmovq %rax, (%rsi)\n\
                       movq (%rsi), %rdx\nxorl %r8d, %r8d\naddq $8, %rdi\ncmpq %r9, %rdi\njne 1b\n";

#[test]
fn dependencies_are_drawn_up_and_the_longest_chain_is_marked() {
    let input = file(TANGLED, ".s");
    let mut command = mcad();
    command
        .args(["block", "--cpu", "skl", "--json", "-"])
        .arg(input.path());
    let json: Value = serde_json::from_str(&stdout(&mut command)).unwrap();
    let cpu = &json["blocks"][0]["cpus"][0];
    let edge = |e: &Value| {
        let through: Vec<&str> = e["through"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t.as_str().unwrap())
            .collect();
        let critical = if e["critical"] == true { "!" } else { "" };
        format!(
            "{}>{}+{} {}{critical}",
            e["from"],
            e["to"],
            e["carried"],
            through.join(",")
        )
    };
    let edges: Vec<String> = cpu["edges"].as_array().unwrap().iter().map(edge).collect();
    // `xor` depends on nothing, the fused jump on what the comparison does.
    assert_eq!(
        edges,
        [
            "6>0+1 rdi",
            "0>1+0 rcx",
            "4>1+1 rdx!",
            "1>2+0 rcx!",
            "2>2+1 rax",
            "2>3+0 rax!",
            "3>4+0 memory!",
            "6>6+1 rdi",
            "6>7+0 rdi",
        ]
    );
    // Where stores are renamed to loads, the chain goes through them without a cycle.
    let mut command = mcad();
    command
        .args(["block", "--cpu", "glc", "--graph"])
        .arg(input.path());
    let text = stdout(&mut command);
    for part in [
        "rdx of 4! (1 before)",
        "memory of 3!",
        "rax of 2!",
        "rcx of 1!",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let mut command = mcad();
    command.args(["block", "--graph=dot"]).arg(input.path());
    let dot = stdout(&mut command);
    assert!(
        dot.starts_with("digraph") && dot.trim_end().ends_with('}'),
        "{dot}"
    );
    assert_eq!(dot.matches(" -> ").count(), 9, "{dot}");
    assert_eq!(dot.matches("color=red").count(), 4, "{dot}");
    // Of another instruction set, by its names.
    let mut command = mcad();
    command.args([
        "block",
        "--arch",
        "aarch64",
        "--hex",
        "2000028b 4100008b",
        "--graph",
    ]);
    let text = stdout(&mut command);
    assert!(
        text.contains("x0 of 0") && text.contains("x1 of 1! (1 before)"),
        "{text}"
    );
}

#[test]
fn a_block_is_predicted_at_every_address() {
    // A fused comparison and jump, across or at the end of 32 bytes, keeps its line out of Skylake's
    // µop cache (the JCC erratum).
    let align = |at: &str| {
        let mut command = mcad();
        command.args([
            "block", "--cpu", "skl", "--json", "-", "--mode", "loop", "--hex",
        ]);
        command.args([
            "4801d84801d94801da4801dd4801de4801df4901d84901d94839c875e3",
            "--align",
            at,
        ]);
        let json: Value = serde_json::from_str(&stdout(&mut command)).unwrap();
        json["blocks"][0]["cpus"][0].clone()
    };
    let all = align("all");
    let each: Vec<f64> = all["alignments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c.as_f64().unwrap())
        .collect();
    assert_eq!(each.len(), 64);
    for at in ["0", "5", "36", "63"] {
        let one = align(at);
        assert_eq!(one["cycles"], each[at.parse::<usize>().unwrap()], "{at}");
        assert_eq!(one["alignment"].to_string(), at);
    }
    // Comparison and jump are the bytes from 24 up to 29.
    let hurt = |at: usize| (at + 24) / 32 != (at + 29) / 32;
    for (at, cycles) in each.iter().enumerate() {
        assert_eq!(*cycles > each[0], hurt(at), "{at}: {cycles} {}", each[0]);
    }
    let said = mcad()
        .args(["block", "--hex", "4801d8", "--align", "64"])
        .assert()
        .code(2)
        .get_output()
        .stderr
        .clone();
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("from 0 to 63, or all"), "{said}");
}

#[test]
fn a_page_of_a_block_has_its_graph_and_timeline() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("block.html");
    let input = file(TANGLED, ".s");
    let mut command = mcad();
    command
        .args([
            "block", "--cpu", "skl", "--cpu", "zen5", "--align", "all", "--html",
        ])
        .args([&page, input.path()]);
    let text = stdout(&mut command);
    // The text is as without, and has no timeline that nobody asked for.
    assert!(
        text.contains("By the address modulo 64") && !text.contains("Timeline"),
        "{text}"
    );
    let page = std::fs::read_to_string(&page).unwrap();
    assert_eq!(page.matches("class=\"card\"").count(), 2);
    assert_eq!(page.matches("class=\"graph\"").count(), 2);
    assert_eq!(page.matches("class=\"timeline-data\"").count(), 2);
    assert!(page.contains("rdx of instruction 4 for 1, an iteration later"));
    // On stdout, it is alone there.
    let mut command = mcad();
    command.args(["block", "--hex", "4801d8", "--html", "-"]);
    let page = stdout(&mut command);
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
}

#[test]
fn the_other_syntax_and_the_right_symbol_are_proposed() {
    let failure = |command: &mut Command| {
        let output = command.assert().code(2).get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    };
    for text in [
        "add rax, rbx\n",
        "mov eax, dword ptr [rdi + 4*rsi]\n",
        "inc rax\n",
    ] {
        let input = file(text, ".s");
        let said = failure(mcad().arg("block").arg(input.path()));
        assert!(
            said.contains("in Intel syntax") && said.contains("--syntax intel"),
            "{said}"
        );
    }
    let neither = file("frobnicate rax\n", ".s");
    let said = failure(mcad().arg("block").arg(neither.path()));
    assert!(
        said.contains("does not assemble") && !said.contains("--syntax"),
        "{said}"
    );
    let object = tempfile::Builder::new().suffix(".o").tempfile().unwrap();
    let code = file(".globl distance\ndistance: add %rax, %rbx\nret\n", ".s");
    let mut assembler = Command::new("as");
    assembler
        .arg(code.path())
        .arg("-o")
        .arg(object.path())
        .assert()
        .success();
    let mut command = mcad();
    command
        .args(["block", "--symbol", "distence"])
        .arg(object.path());
    assert!(failure(&mut command).contains("it has distance"));
}
