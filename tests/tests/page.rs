//! The HTML page of real runs in a real browser: it paints, sorts, zooms, fits narrow screens,
//! follows the preference for dark, asks for nothing else, and obeys no name.
//!
//! `BLESS=1 cargo test -p mcad-tests --test page` takes the pictures of `docs/images` anew;
//! otherwise they go to `target/screenshots`.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.
#![allow(clippy::print_stdout)] // Figures for whoever looks.

use std::fs;
use std::path::{Path, PathBuf};

use mcad_browser::tables::{head, press_all_heads};
use mcad_browser::{Browser, Look, Page};
use mcad_tests::{inputs, mcad, mcad_run, programs};
use serde_json::json;

const WIDE: Look = Look {
    width: 1200,
    height: 820,
    dark: false,
};
const DARK: Look = Look { dark: true, ..WIDE };
const NARROW: Look = Look {
    width: 360,
    height: 740,
    dark: false,
};

/// Largest page, and largest picture in the documentation.
const MAX_PAGE: u64 = 5 << 20;
const MAX_PICTURE: usize = 200_000;

/// The page of a small program.
fn page_of_loops(directory: &Path) -> PathBuf {
    let source = include_str!("../programs/loops.c");
    let program = inputs::compile(directory, "loops", source);
    assert!(program.ends_with("loops"));
    let page = directory.join("loops.html");
    mcad_run(["-q", "--cpu", "skl", "--cpu", "glc", "--html"])
        .args([page.as_path(), Path::new("--"), Path::new("./loops")])
        .within(directory)
        .run()
        .expect(0);
    page
}

/// Fails the test if the page complained, or asked for anything but itself.
#[track_caller]
fn check_quiet(page: &mut Page<'_>, file: &Path) {
    assert_eq!(page.problems().unwrap(), [""; 0]);
    let foreign = page.requests().unwrap().iter();
    let own = format!("file://{}", fs::canonicalize(file).unwrap().display());
    let foreign = foreign.filter(|url| **url != own && !url.starts_with("data:"));
    assert_eq!(foreign.collect::<Vec<_>>(), [""; 0]);
}

/// Writes a picture of what is on the screen.
fn picture(page: &mut Page<'_>, name: &str) {
    let png = page.screenshot().unwrap();
    assert!(png.len() < MAX_PICTURE, "{name}: {} bytes", png.len());
    let blessed = std::env::var_os("BLESS").is_some_and(|value| value == "1");
    let documented = programs::root().join("docs/images").join(name);
    let file = if blessed {
        documented
    } else {
        assert!(documented.is_file(), "{} is missing", documented.display());
        let directory = programs().dir.parent().unwrap().join("screenshots");
        directory.join(name)
    };
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, png).unwrap();
}

fn scroll_to(page: &mut Page<'_>, element: &str, above: u32) {
    let script = format!(
        "scrollTo(0, document.querySelector('{element}').getBoundingClientRect().top + scrollY - {above})"
    );
    page.evaluate(&script).unwrap();
}

#[test]
fn the_page_of_a_program_works_in_a_browser() {
    let directory = tempfile::tempdir().unwrap();
    let file = page_of_loops(directory.path());
    let bytes = fs::metadata(&file).unwrap().len();
    assert!(bytes < MAX_PAGE, "{bytes} bytes");
    let mut browser = Browser::start().unwrap();
    let version = browser.version().unwrap();
    let mut page = browser.open(&file, WIDE).unwrap();
    let paint = page.first_paint().unwrap();
    println!("{version}: first content after {paint:.0} ms, {bytes} bytes");
    picture(&mut page, "page.png");
    scroll_to(&mut page, "details.block", 400);
    picture(&mut page, "blocks.png");
    timeline(&mut page);
    preferences(&mut page);
    sorting(&mut page);
    check_quiet(&mut page, &file);
}

/// First and last cycle that the timeline shows.
fn range(page: &mut Page<'_>) -> (f64, f64) {
    page.drawn().unwrap();
    let range = page
        .evaluate("(() => { const d = document.querySelector('.timeline').dataset; return [+d.from, +d.to]; })()")
        .unwrap();
    (range[0].as_f64().unwrap(), range[1].as_f64().unwrap())
}

fn timeline(page: &mut Page<'_>) {
    let chart = "document.querySelector('.timeline .chart')";
    scroll_to(page, "#timeline", 50);
    let (x, y) = page.middle(chart).unwrap();
    let length = |(from, to): (f64, f64)| to - from;
    // Without focus the wheel scrolls the page.
    let begin = range(page);
    assert!(length(begin) > 20.0, "{begin:?}");
    let wheel = |delta: i32| json!({"deltaX": 0, "deltaY": delta});
    page.mouse("mouseWheel", x, y, wheel(-240)).unwrap();
    assert_eq!(range(page), begin);
    page.click(chart).unwrap();
    let (x, y) = page.middle(chart).unwrap();
    page.mouse("mouseWheel", x, y, wheel(-240)).unwrap();
    let nearer = range(page);
    assert!(length(nearer) < length(begin) * 0.8, "{nearer:?}");
    page.mouse("mouseWheel", x, y, wheel(480)).unwrap();
    let farther = range(page);
    assert!(length(farther) > length(begin), "{farther:?}");
    // The whole window, and back to its middle.
    page.key("0").unwrap();
    let whole = range(page);
    assert!(whole.0 <= begin.0 && whole.1 >= begin.1, "{whole:?}");
    page.key("+").unwrap();
    assert!(length(range(page)) < length(whole) * 0.8);
    page.click("document.querySelector('[data-do=hot]')")
        .unwrap();
    assert_eq!(range(page), begin);
    // Dragging moves by what the mouse moves.
    let (x, y) = page.middle(chart).unwrap();
    page.mouse(
        "mousePressed",
        x,
        y,
        json!({"button": "left", "buttons": 1}),
    )
    .unwrap();
    page.mouse(
        "mouseMoved",
        x + 90.0,
        y,
        json!({"button": "left", "buttons": 1}),
    )
    .unwrap();
    page.mouse("mouseReleased", x + 90.0, y, json!({"button": "left"}))
        .unwrap();
    let moved = range(page);
    assert!(
        (moved.0 - begin.0 + 10.0).abs() <= 1.0,
        "{moved:?} from {begin:?}"
    );
    page.click("document.querySelector('[data-do=hot]')")
        .unwrap();
    // What is under the mouse.
    let (x, y) = page.middle(chart).unwrap();
    page.mouse("mouseMoved", x, y - 60.0, json!({})).unwrap();
    let tip = page
        .evaluate("(() => { const t = document.querySelector('.tip'); return t.hidden ? '' : t.innerText; })()")
        .unwrap();
    let tip = tip.as_str().unwrap();
    for part in ["hash, 0x", "port", "retired", "cycle"] {
        assert!(tip.contains(part), "no {part:?} in {tip:?}");
    }
    picture(page, "timeline.png");
}

/// The contrast of two colours that the page computes, after WCAG 2.
fn contrast(page: &mut Page<'_>, element: &str, behind: &str) -> f64 {
    let script = format!(
        "(() => {{ const l = (c) => {{ const [r, g, b] = c.match(/[\\d.]+/g).map(v => v / 255).map(v => \
         v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); \
         return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05; }}; \
         const a = l(getComputedStyle(document.querySelector('{element}')).color); \
         const b = l(getComputedStyle(document.querySelector('{behind}')).backgroundColor); \
         return Math.max(a, b) / Math.min(a, b); }})()"
    );
    page.evaluate(&script).unwrap().as_f64().unwrap()
}

fn preferences(page: &mut Page<'_>) {
    let brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((a, b) => a + +b, 0)";
    for (look, dark) in [(WIDE, false), (DARK, true)] {
        page.look(look).unwrap();
        page.drawn().unwrap();
        let sum = page.evaluate(brightness).unwrap().as_f64().unwrap();
        assert_eq!(sum < 200.0, dark, "{sum}");
        for (text, behind, least) in [
            ("body", "body", 7.0),
            (".facts", "body", 4.5),
            ("td", "section", 7.0),
            ("a", "section", 4.5),
            (".dim", "section", 4.5),
        ] {
            let contrast = contrast(page, text, behind);
            assert!(contrast >= least, "{text} on {behind}: {contrast}");
        }
    }
    scroll_to(page, "#timeline", 50);
    picture(page, "dark.png");
    page.look(NARROW).unwrap();
    page.evaluate("scrollTo(0, 0)").unwrap();
    page.drawn().unwrap();
    picture(page, "narrow.png");
    let widths = page
        .evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth]")
        .unwrap();
    assert_eq!(widths, json!([360, 360]));
    let scrolling = "[...document.querySelectorAll('.scroll')].filter(s => s.scrollWidth > s.clientWidth).length";
    assert!(page.evaluate(scrolling).unwrap().as_u64().unwrap() > 3);
    page.look(WIDE).unwrap();
    page.drawn().unwrap();
}

fn sorting(page: &mut Page<'_>) {
    let sorting = press_all_heads(page).unwrap();
    assert_eq!(sorting.failures, [""; 0]);
    assert!(sorting.tables > 15 && sorting.telling > 100, "{sorting:?}");
    // By keyboard.
    let head = head(0, 0);
    page.evaluate(&format!("{head}.firstChild.focus()"))
        .unwrap();
    let direction = format!("{head}.ariaSort");
    for (key, expected) in [("Enter", "ascending"), (" ", "descending")] {
        page.key(key).unwrap();
        assert_eq!(page.evaluate(&direction).unwrap(), expected);
    }
}

/// A program that brings markup wherever a program can bring text: its name, an argument, the name
/// of a function, of a source file, and the source itself.
#[test]
fn markup_in_names_stays_text() {
    let directory = tempfile::tempdir().unwrap();
    let code = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>";
    let source = format!(
        "static int g(int n) __asm__(\"\\\"{code}\\\"\");\n\
         int main(int n, char **v) {{ return g(n) == n ? 7 : v == 0; }}\n\
         __attribute__((noinline)) static int g(int n) {{\n\
         for (volatile int i = 0; i < 6000; i++) {{ n ^= i; /* {code} */ \n\
         # 1 \"{code}.c\"\n\
         n ^= i; }} return n; }}\n"
    );
    let program = inputs::compile(directory.path(), "hostile", &source);
    let name = "<img src=x onerror=window.hacked=1>\u{1b}[2J";
    fs::rename(program, directory.path().join(name)).unwrap();
    let file = directory.path().join("page.html");
    mcad_run(["-q", "--html"])
        .args([&file, Path::new("--")])
        .args([format!("./{name}"), code.to_owned()])
        .within(directory.path())
        .run()
        .expect(7);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains('\u{1b}'));
    // Each of the places has it: title, heading, function, file, comment, and the timeline's JSON.
    let escaped = text.matches("window.hacked=1").count();
    assert!(escaped > 10, "{escaped}");
    assert!(text.contains("\\u003c/script\\u003e"), "in the JSON");
    let mut browser = Browser::start().unwrap();
    let mut page = browser.open(&file, WIDE).unwrap();
    page.drawn().unwrap();
    let chart = "document.querySelector('.timeline .chart')";
    let (x, y) = page.middle(chart).unwrap();
    page.mouse("mouseMoved", x, y, json!({})).unwrap();
    let found = page
        .evaluate(
            "[typeof window.hacked, document.images.length, document.scripts.length, \
             document.querySelector('.tip').innerText, document.title, document.body.innerText]",
        )
        .unwrap();
    assert_eq!(found[0], "undefined");
    assert_eq!(found[1], 0, "images");
    assert_eq!(found[2], 3, "sorting, the timeline and its data");
    let shown = |n: usize| found[n].as_str().unwrap().contains(code);
    assert!(shown(3), "as text in the tooltip: {}", found[3]);
    assert!(shown(4) && shown(5), "as text in the page: {}", found[4]);
    check_quiet(&mut page, &file);
}

#[test]
fn pages_come_from_reports_and_traces_too() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let [trace, report, timeline] = ["t.mcad", "r.json", "t.timeline"].map(at);
    mcad(["record", "-o", trace.to_str().unwrap(), "--", "true"])
        .run()
        .expect(0);
    mcad(["replay", "-q", "--window", "hottest:400", "--json"])
        .args([&report, Path::new("--timeline"), &timeline, &trace])
        .run()
        .expect(0);
    let page = |arguments: &[&Path]| {
        let run = mcad(["view", "--format", "html"]).args(arguments).run();
        run.expect(0).text()
    };
    let plain = page(&[&report]);
    assert!(plain.contains("Hottest blocks") && !plain.contains("timeline-data"));
    let both = page(&[&report, Path::new("--timeline"), &timeline]);
    assert!(both.contains("timeline-data"));
    let replayed = page(&[&trace]);
    assert!(replayed.contains("timeline-data") && replayed.len() < 5 << 20);
    let from_stdin = mcad(["view", "--format", "html", "-"]).input(fs::read(&trace).unwrap());
    let from_stdin = from_stdin.run().expect(0).text();
    // The source's name stands in reports without a command only.
    assert_eq!(from_stdin.len(), replayed.len());
    // The other formats of a trace.
    let view = |format: &str| {
        let run = mcad(["view", "--format", format]).args([&trace]).run();
        run.expect(0).text()
    };
    assert!(view("text").contains("Hottest functions"));
    assert!(view("json").contains("\"schema_version\""));
    assert!(view("konata").starts_with("Kanata\t0004\n"));
    // A timeline of another run, and nonsense.
    let other = at("other.json");
    mcad_run([
        "-q",
        "--json",
        other.to_str().unwrap(),
        "--",
        "sort",
        "/dev/null",
    ])
    .run()
    .expect(0);
    mcad(["view", "--format", "html", "--timeline"])
        .args([&timeline, &other])
        .run()
        .expect(2)
        .says("of another run");
    mcad(["view", "--timeline"])
        .args([&timeline, &report])
        .run()
        .expect(2)
        .says("--format html");
}

#[test]
fn the_page_of_a_block_has_a_graph_and_a_timeline_of_each_cpu() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (source, file) = (at("block.s"), at("block.html"));
    let text = "1: movq (%rdi), %rcx\nimulq %rdx, %rcx\naddq %rcx, %rax\nmovq %rax, (%rsi)\n\
                movq (%rsi), %rdx\nvfmadd231pd (%rdi,%rax,8), %ymm1, %ymm0\n\
                vdivpd %ymm1, %ymm0, %ymm2\naddq $8, %rdi\ncmpq %r9, %rdi\njne 1b\n";
    fs::write(&source, text).unwrap();
    mcad([
        "block", "--cpu", "skl", "--cpu", "zen5", "--align", "all", "--html",
    ])
    .args([&file, &source])
    .run()
    .expect(0);
    let mut browser = Browser::start().unwrap();
    let mut page = browser.open(&file, WIDE).unwrap();
    page.drawn().unwrap();
    let ready = "[...document.querySelectorAll('.timeline')].map(t => t.dataset.ready)";
    assert_eq!(page.evaluate(ready).unwrap(), json!(["true", "true"]));
    // Every arrow of the longest chain ends where one begins: they are a circle.
    let circle = "[...document.querySelectorAll('#b0c0 .edge.critical title')].map(t => \
                  t.textContent.match(/instruction (\\d+) for (\\d+)/).slice(1).map(Number))";
    let arrows: Vec<[u64; 2]> = serde_json::from_value(page.evaluate(circle).unwrap()).unwrap();
    let sorted = |end: usize| {
        let mut ends: Vec<u64> = arrows.iter().map(|arrow| arrow[end]).collect();
        ends.sort_unstable();
        ends
    };
    assert!(arrows.len() >= 3, "{arrows:?}");
    assert_eq!(sorted(0), sorted(1));
    scroll_to(&mut page, ".graph", 60);
    picture(&mut page, "graph.png");
    let sorting = press_all_heads(&mut page).unwrap();
    assert_eq!(sorting.failures, [""; 0]);
    page.look(NARROW).unwrap();
    page.drawn().unwrap();
    let width = "document.documentElement.scrollWidth";
    assert_eq!(page.evaluate(width).unwrap(), 360);
    check_quiet(&mut page, &file);
}

/// What bounds it is seen without scrolling, with what it would gain.
#[test]
fn the_page_says_first_what_bounds_a_program() {
    let directory = tempfile::tempdir().unwrap();
    let source = include_str!("../programs/bounds.c");
    let program = inputs::compile(directory.path(), "bounds", source);
    assert!(program.ends_with("bounds"));
    let file = directory.path().join("page.html");
    mcad_run([
        "-q", "--cpu", "glc", "--ideal", "l1d", "--ideal", "branches", "--html",
    ])
    .args([
        file.as_path(),
        Path::new("--"),
        Path::new("./bounds"),
        Path::new("chase"),
    ])
    .within(directory.path())
    .run()
    .expect(0);
    let mut browser = Browser::start().unwrap();
    let mut page = browser.open(&file, WIDE).unwrap();
    let seen = "(() => { const b = document.querySelector('.card').innerText; return [b, \
                document.querySelector('#gains').getBoundingClientRect().bottom]; })()";
    let seen = page.evaluate(seen).unwrap();
    let card = seen[0].as_str().unwrap().replace('\u{a0}', " ");
    assert!(card.contains("bound by memory"), "{card}");
    assert!(seen[1].as_f64().unwrap() < f64::from(WIDE.height), "{seen}");
    picture(&mut page, "bounds.png");
    check_quiet(&mut page, &file);
}

/// Source as macros and generators write it, in lines of hundreds of characters.
#[test]
fn a_long_source_line_pushes_no_column_out() {
    let directory = tempfile::tempdir().unwrap();
    let sum = "n = n * 5 + i % 7; ".repeat(40);
    let source = format!(
        "int main(void) {{ volatile int n = 0; for (volatile int i = 0; i < 5000; i++) {{ {sum} }}\n\
         return 0; }}\n"
    );
    let program = inputs::compile(directory.path(), "long", &source);
    let file = directory.path().join("page.html");
    mcad_run(["-q", "--cpu", "skl", "--html"])
        .args([&file, Path::new("--"), &program])
        .run()
        .expect(0);
    let mut browser = Browser::start().unwrap();
    for width in [1200, 400] {
        let look = Look { width, ..WIDE };
        let mut page = browser.open(&file, look).unwrap();
        page.drawn().unwrap();
        let lines = "document.querySelector('#cpu0-lines').nextElementSibling";
        let found = page
            .evaluate(&format!(
                "(() => {{ const t = {lines}; const cell = t.querySelector('td.code'); \
                 return [document.documentElement.scrollWidth, t.scrollWidth, t.clientWidth, \
                 cell.offsetWidth, cell.textContent.length, getComputedStyle(t).overflowX]; }})()"
            ))
            .unwrap();
        let number = |n: usize| found[n].as_u64().unwrap();
        assert!(
            number(4) >= 200,
            "as much of the line as a report keeps: {found}"
        );
        assert_eq!(
            number(0),
            u64::from(width),
            "the page itself does not scroll"
        );
        assert_eq!(found[5], "auto");
        if width == 1200 {
            assert!(number(1) <= number(2) + 1, "all columns are seen: {found}");
        } else {
            // The figures are within three screens, not behind the whole line.
            assert!(number(1) <= 3 * number(2), "{found}");
            assert!(number(1) > number(2), "and the table scrolls: {found}");
        }
    }
}
