//! Comparisons of two versions of real programs: which function and which line changed, and which
//! function where nothing has a name.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::fs;
use std::path::{Path, PathBuf};

use mcad_tests::{Run, inputs, mcad, mcad_run, report};
use serde_json::Value;

/// A program; the marked line differs between the versions.
const SOURCE: &str = "\
static unsigned table[256];
__attribute__((noinline)) unsigned fill(unsigned seed) {
    for (unsigned i = 0; i < 256; i++)
        table[i] = seed = seed * 1664525 + 1013904223;
    return seed;
}
__attribute__((noinline)) unsigned sum(unsigned steps, unsigned size) {
    unsigned total = 0;
    for (unsigned i = 0; i < steps; i++) {
        total += table[i % 256];
        total = @;
    }
    return total;
}
int main(int count, char **words) {
    (void)words;
    fill(count);
    return sum(20000, 255 + count) == 1;
}
";

fn run(program: &Path, directory: &Path) -> PathBuf {
    let path = directory.join("report.json");
    mcad_run(["-q", "--cpu", "skl", "--json"])
        .args([&path, Path::new("--"), program])
        .run()
        .expect(0);
    path
}

fn delta(row: &Value) -> i64 {
    row["cycles"]["delta"].as_i64().unwrap()
}

/// The comparison on the only CPU; its deltas add up.
fn compare(before: &Path, after: &Path) -> Value {
    let diff = mcad(["diff", "--json", "-"]).args([before, after]).run();
    let diff: Value = serde_json::from_str(&diff.expect(0).text()).unwrap();
    let cpu = diff["overall"]["cpus"][0].clone();
    let functions = cpu["functions"].as_array().unwrap().iter();
    let sum: i64 = functions.map(delta).sum();
    assert_eq!(sum + delta_of_rest(&cpu), delta(&cpu));
    cpu
}

fn delta_of_rest(cpu: &Value) -> i64 {
    cpu["unattributed"]["delta"].as_i64().unwrap()
}

#[test]
fn other_options_are_told_from_other_programs() {
    let directory = tempfile::tempdir().unwrap();
    let model = |latency: u32| {
        let path = directory.path().join("mine.toml");
        let text = format!("base = \"zen4\"\nname = \"mine\"\n[cache.l2]\nlatency = {latency}\n");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let report = |name: &str, options: &[&str]| {
        let json = directory.path().join(name);
        mcad_run(["-q", "--json", json.to_str().unwrap()])
            .args(options)
            .args(["--", "true"])
            .run()
            .expect(0);
        json
    };
    let told = |a: &Path, b: &Path| {
        let diff = mcad(["diff", "--json", "-"]).args([a, b]).run().expect(0);
        let diff: Value = serde_json::from_str(&diff.text()).unwrap();
        let options = diff["overall"]["options"].as_array().cloned();
        let row = |delta: &Value| {
            let text = |key: &str| delta[key].to_string().replace('"', "");
            format!(
                "{} {} {} {}",
                text("what"),
                text("option"),
                text("before"),
                text("after")
            )
        };
        let rows: Vec<String> = options.iter().flatten().map(row).collect();
        assert_eq!(
            diff["warnings"].as_array().unwrap().is_empty(),
            rows.is_empty()
        );
        rows
    };
    let first = report("first.json", &["--cpu", &model(14)]);
    let again = report("again.json", &["--cpu", &model(14)]);
    assert_eq!(told(&first, &again), [""; 0]);
    for (options, expected) in [
        (&["--no-memory"][..], "memory --no-memory on off"),
        (&["--jobs", "2"], "interval --jobs uncut 1000000"),
    ] {
        let cpu = model(14);
        let other = report("other.json", &[&["--cpu", &cpu], options].concat());
        assert_eq!(told(&first, &other), [expected]);
    }
    let other = report("other.json", &["--cpu", &model(17)]);
    assert_eq!(told(&first, &other), ["cache.l2.latency --cpu 14 17"]);
    let share = report("share.json", &["--cpu", &model(14), "--last-level", "8192"]);
    assert!(told(&first, &share)[0].starts_with("cache.l3.kib --last-level "));
}

#[test]
fn the_function_and_the_line_that_changed_are_named() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let masked = SOURCE.replace('@', "total & (size - 1)");
    // Another checkout, with two more lines at the beginning.
    let divided = format!("/* The same,\n * but slower. */\n{SOURCE}").replace('@', "total % size");
    let before = inputs::compile(one.path(), "sum", &masked);
    let after = inputs::compile(two.path(), "sum", &divided);
    let (before, after) = (run(&before, one.path()), run(&after, two.path()));
    let cpu = compare(&before, &after);
    let total = delta(&cpu);
    let mostly = |part: i64| {
        assert!(
            part * 10 >= total * 8 && total > 50_000,
            "{part} of {total}"
        )
    };
    let function = &cpu["functions"][0];
    assert_eq!(function["name"], "sum");
    mostly(delta(function));
    let line = &cpu["lines"][0];
    let place = |name: &str| {
        line[name]
            .as_str()
            .unwrap()
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(place("line"), "sum.c:13");
    assert_eq!(place("previous_line"), "sum.c:11");
    mostly(delta(line));
    let cpu = compare(&before, &before);
    assert!(cpu["functions"].as_array().unwrap().is_empty());
    assert!(cpu["lines"].as_array().unwrap().is_empty());
    let equal = mcad(["diff", "--fail-above", "0%"]);
    let equal = equal.args([&after, &after]).run().expect(0).text();
    assert!(equal.contains("no difference"), "{equal}");
}

#[test]
fn programs_that_tell_nothing_of_their_functions_have_some() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("sum.c");
    fs::write(&source, SOURCE.replace('@', "total % size")).unwrap();
    let program = directory.path().join("sum");
    Run::of(Path::new("cc"))
        .args(["-O2", "-s", "-fno-asynchronous-unwind-tables", "-o"])
        .args([&program, &source])
        .run()
        .expect(0);
    let report = report::read(&run(&program, directory.path()));
    let cpu = &report.cpus[0];
    let own = cpu.functions.iter().filter(|f| f.module == "sum");
    let (unnamed, rest): (Vec<_>, Vec<_>) = own.partition(|f| f.is_unnamed());
    let cycles = |functions: &[_]| -> u64 {
        functions
            .iter()
            .map(|f: &&mcad_report::FunctionReport| f.cycles)
            .sum()
    };
    // Its two functions, apart, and what the compiler adds.
    assert!(unnamed.len() >= 2, "{unnamed:?}");
    assert!(cycles(&rest) * 100 < cycles(&unnamed), "{rest:?}");
    assert!(unnamed[0].cycles * 10 > cycles(&unnamed) * 8);
    assert!(!unnamed[0].fingerprint.is_empty());
}

#[test]
fn a_program_that_dies_costs_a_list_only_its_own_figure() {
    let directory = tempfile::tempdir().unwrap();
    let mut list = "package,version,program,command,user_cycles\n".to_owned();
    for (version, step) in [
        ("1", "total & 255"),
        ("2", "*(volatile int *)0"),
        ("3", "total % 256"),
    ] {
        let packages = directory.path().join(format!("sum-{version}"));
        fs::create_dir(&packages).unwrap();
        let _ = inputs::compile(&packages, "sum", &SOURCE.replace('@', step));
        list.push_str(&format!("sum,{version},sum,sum,100000\n"));
    }
    let path = directory.path().join("list.csv");
    fs::write(&path, list).unwrap();
    let json = directory.path().join("all.json");
    let run = mcad(["eval", "--programs", "--predict", "skl", "--json"]).args([&json, &path]);
    let run = run.run().expect(1);
    assert!(
        run.stderr.contains("1 of 3 programs have no figure"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr
            .contains("sum 2: the program did not run to its end: signal"),
        "{}",
        run.stderr
    );
    let all: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let programs = all[0]["programs"].as_array().unwrap().iter();
    let versions: Vec<_> = programs.map(|p| p["version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["1", "3"]);
    assert!(run.text().starts_with("sum\n"), "{}", run.text());
}
