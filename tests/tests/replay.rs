//! Recorded traces: replay equals live, however the records are cut; damage is told and survived.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mcad_proto::event::Event;
use mcad_proto::trace::{TraceReader, TraceWriter};
use mcad_tests::{inputs, mcad, mcad_run, report};

/// A recording of gzip with the report of the same run.
struct Recording {
    _directory: tempfile::TempDir,
    trace: PathBuf,
    live: PathBuf,
}

fn recording() -> &'static Recording {
    static RECORDING: OnceLock<Recording> = OnceLock::new();
    RECORDING.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("gzip.mcad");
        let live = directory.path().join("live.json");
        mcad_run([
            "-q",
            "--cpu",
            "skl",
            "--cpu",
            "glc",
            "--record",
            trace.to_str().unwrap(),
        ])
        .args([
            "--region",
            "malloc",
            "--json",
            live.to_str().unwrap(),
            "--",
            "gzip",
            "-c",
        ])
        .input(inputs::text(15_000))
        .run()
        .expect(0);
        Recording {
            _directory: directory,
            trace,
            live,
        }
    })
}

/// Fails the test unless two reports say the same outside their `run` sections.
#[track_caller]
fn same(a: &Path, b: &Path) {
    let (a, b) = (report::stable(a), report::stable(b));
    let different = a.lines().zip(b.lines()).find(|(a, b)| a != b);
    assert!(a == b, "first difference: {different:?}");
}

/// Replays with the options of the recording.
fn replay(trace: &str, json: &Path) -> mcad_tests::Run {
    mcad([
        "replay", "-q", "--cpu", "skl", "--cpu", "glc", "--region", "malloc",
    ])
    .args(["--json", json.to_str().unwrap(), trace])
}

#[test]
fn replay_gives_the_live_report_and_twice_the_same_bytes() {
    let recording = recording();
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("replay.json");
    replay(recording.trace.to_str().unwrap(), &json)
        .run()
        .expect(0);
    same(&json, &recording.live);
    let report = report::read(&json);
    assert!(report.trace.instructions > 1_000_000);
    assert_eq!(report.cpus.len(), 2);
}

#[test]
fn one_job_is_one_thread_that_cuts_only_when_told_to() {
    let recording = recording();
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("one.json");
    let trace = recording.trace.to_str().unwrap();
    replay(trace, &json).args(["--jobs", "1"]).run().expect(0);
    same(&json, &recording.live);
    let cut = mcad(["replay", "-q", "--cpu", "skl", "--jobs", "1"]);
    cut.args([
        "--interval",
        "100000",
        "--json",
        json.to_str().unwrap(),
        trace,
    ])
    .run()
    .expect(0);
    let report = report::read(&json);
    let intervals = report.cpus[0].intervals.as_ref().unwrap();
    assert_eq!(intervals.length, 100_000);
    assert!(intervals.count > 1, "{intervals:?}");
    // Pieces do not know where they are in a region.
    for more in [["--jobs", "2"], ["--jobs", "4"]] {
        replay(trace, &json).args(more).run().expect(2);
    }
}

#[test]
fn stdin_is_as_good_as_a_file() {
    let recording = recording();
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("replay.json");
    let bytes = fs::read(&recording.trace).unwrap();
    replay("-", &json).input(bytes).run().expect(0);
    same(&json, &recording.live);
}

/// Writes the trace again, its records cut into pieces of `words`.
fn recut(from: &Path, to: &Path, words: usize) {
    let source = BufReader::new(File::open(from).unwrap());
    let mut reader = TraceReader::new(source, "test").unwrap();
    let session = reader.session().clone();
    let out = BufWriter::new(File::create(to).unwrap());
    let mut writer = TraceWriter::new(out, "test", &session)
        .unwrap()
        .chunk_words(words);
    while let Some(event) = reader.next().unwrap() {
        if let Event::Records { stream, words: all } = &event {
            for piece in all.chunks(words) {
                let piece = Event::Records {
                    stream: *stream,
                    words: piece,
                };
                writer.event(&piece).unwrap();
            }
        } else {
            writer.event(&event).unwrap();
        }
    }
    writer.finish().unwrap();
}

#[test]
fn the_cut_of_the_batches_changes_nothing() {
    let recording = recording();
    let directory = tempfile::tempdir().unwrap();
    let (cut, json) = (
        directory.path().join("cut.mcad"),
        directory.path().join("cut.json"),
    );
    for words in [997, 65_537] {
        recut(&recording.trace, &cut, words);
        replay(cut.to_str().unwrap(), &json).run().expect(0);
        same(&json, &recording.live);
    }
}

#[test]
fn a_truncated_trace_yields_what_it_has_and_says_what_is_missing() {
    let recording = recording();
    let directory = tempfile::tempdir().unwrap();
    let (cut, json) = (
        directory.path().join("cut.mcad"),
        directory.path().join("cut.json"),
    );
    // Many chunks, so that cutting leaves some.
    recut(&recording.trace, &cut, 20_000);
    let whole = fs::read(&cut).unwrap();
    let all = report::read(&recording.live).trace.instructions;
    let mut before = 0;
    for part in [3, 6, 9] {
        fs::write(&cut, &whole[..whole.len() * part / 10]).unwrap();
        let run = replay(cut.to_str().unwrap(), &json).run().expect(1);
        let lines = run.stderr.lines().count();
        // In a chunk's header nobody knows how much that is.
        let says = ["missing", "inside a chunk's header"];
        assert!(
            lines == 1 && says.iter().any(|what| run.stderr.contains(what)),
            "{}",
            run.stderr
        );
        let strict = replay(cut.to_str().unwrap(), &json).args(["--strict"]);
        strict.run().expect(2).says("--strict");
        let report = report::read(&json);
        assert!(!report.program.complete);
        let had = report.trace.instructions;
        assert!(before < had && had < all, "{before} {had} {all}");
        before = had;
    }
    for bytes in [0, 3, 20] {
        fs::write(&cut, &whole[..bytes]).unwrap();
        replay(cut.to_str().unwrap(), &json)
            .run()
            .expect(2)
            .says("cut.mcad");
    }
}

#[test]
fn what_follows_a_trace_is_told_and_changes_no_figure() {
    let recording = recording();
    let directory = tempfile::tempdir().unwrap();
    let (two, json) = (
        directory.path().join("two.mcad"),
        directory.path().join("two.json"),
    );
    let bytes = fs::read(&recording.trace).unwrap();
    fs::write(&two, [&bytes[..], &bytes].concat()).unwrap();
    replay(two.to_str().unwrap(), &json)
        .run()
        .expect(1)
        .says("another recording begins there");
    let (report, live) = (report::read(&json), report::read(&recording.live));
    assert!(!report.program.complete);
    assert_eq!(report.cpus, live.cpus);
}

#[test]
fn flipped_bits_cost_a_chunk_and_never_a_crash() {
    let recording = recording();
    let directory = tempfile::tempdir().unwrap();
    let (bad, json) = (
        directory.path().join("bad.mcad"),
        directory.path().join("bad.json"),
    );
    recut(&recording.trace, &bad, 50_000);
    let whole = fs::read(&bad).unwrap();
    for place in (0..12).map(|i| i * (whole.len() - 1) / 11) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x10;
        fs::write(&bad, bytes).unwrap();
        let run = replay(bad.to_str().unwrap(), &json).run();
        assert!(
            matches!(run.code(), 0..=2),
            "byte {place}: {} {}",
            run.code(),
            run.stderr
        );
        assert!(
            !run.stderr.contains("panicked"),
            "byte {place}: {}",
            run.stderr
        );
        if run.code() != 0 {
            assert!(!run.stderr.is_empty());
        } else {
            // The index behind the records is for those who look at a file without reading it.
            assert!(
                report::stable(&json) == report::stable(&recording.live),
                "byte {place}"
            );
        }
    }
}

#[test]
fn foreign_files_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("r.json");
    for (name, bytes) in [
        (
            "text",
            &b"This is no trace, it is a sentence of some length, longer than a header."[..],
        ),
        ("zeros", &[0; 4096]),
        ("elf", &fs::read("/bin/true").unwrap()),
    ] {
        let file = directory.path().join(name);
        fs::write(&file, bytes).unwrap();
        replay(file.to_str().unwrap(), &json)
            .run()
            .expect(2)
            .says(name);
    }
    replay("/", &json).run().expect(2).says("directory");
}

#[test]
fn a_recording_alone_is_as_good_as_one_beside_an_analysis() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("t.mcad");
    let run = mcad([
        "record",
        "-o",
        trace.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "echo x; exit 9",
    ])
    .run()
    .expect(9);
    assert_eq!((run.text().as_str(), run.stderr.as_str()), ("x\n", ""));
    let shown = mcad(["replay", trace.to_str().unwrap()]).run().expect(0);
    assert!(shown.stderr.contains("exited 9"), "{}", shown.stderr);
}

#[test]
fn a_trace_is_profiled_once_and_predicts_in_order_cores_from_then_on() {
    let recording = recording();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let trace = recording.trace.to_str().unwrap();
    let profile = path("profile");
    mcad(["model", "profile", trace, "-o", &profile])
        .run()
        .expect(0);
    let cycles = |options: &[&str]| -> f64 {
        let out = mcad(["model", "predict", &profile, "--json", "-"])
            .args(options)
            .run()
            .expect(0)
            .text();
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        let cycles = value["cycles"].as_f64().unwrap();
        assert_eq!(
            value["instructions"].as_u64().unwrap(),
            report::read(&recording.live).trace.instructions
        );
        cycles
    };
    let (chain, paths, literal) = (cycles(&[]), cycles(&["--paths"]), cycles(&["--literal"]));
    assert!((chain / paths - 1.0).abs() < 0.05, "{chain} {paths}");
    assert!((literal / paths - 1.0).abs() < 0.4, "{literal} {paths}");
    let space = path("space.toml");
    let page = path("page.html");
    fs::write(&space, "width = [1, 2, 4]\nload_latency = [1, 3]\n").unwrap();
    let sweep = mcad([
        "model", "sweep", &profile, "--space", &space, "--html", &page,
    ])
    .run()
    .expect(0)
    .text();
    assert_eq!(sweep.lines().count(), 1 + 6);
    assert_eq!(
        fs::read_to_string(&page)
            .unwrap()
            .matches("<circle")
            .count(),
        6
    );
    fs::write(&space, "wide = [1]\n").unwrap();
    mcad(["model", "sweep", &profile, "--space", &space])
        .run()
        .expect(2)
        .says("wide");
    mcad(["model", "predict", trace])
        .run()
        .expect(2)
        .says("not a profile");
}
