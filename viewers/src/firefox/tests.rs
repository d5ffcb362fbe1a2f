//! Profiles against the documented fields of the format: the types `Profile`, `ProfileMeta`,
//! `Thread` and its tables in `src/types/profile.js` of github.com/firefox-devtools/profiler as of
//! version 48 of the processed format (docs-developer/CHANGELOG-formats.md there).

use super::*;
use crate::sample::report;

/// What a field holds.
enum Is {
    Text,
    Number,
    Bool,
    List,
    Object,
    /// Null or what is said.
    Maybe(&'static Is),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A place in a list of this length.
    Place(usize),
    /// A place, or -1 for none.
    PlaceOrNot(usize),
}

fn fits(value: &Value, is: &Is) -> bool {
    match is {
        Is::Text => value.is_string(),
        Is::Number => value.is_number(),
        Is::Bool => value.is_boolean(),
        Is::List => value.is_array(),
        Is::Object => value.is_object(),
        Is::Maybe(is) => value.is_null() || fits(value, is),
        Is::OneOf(texts) => value.as_str().is_some_and(|text| texts.contains(&text)),
        Is::Place(length) => value
            .as_u64()
            .is_some_and(|place| (place as usize) < *length),
        Is::PlaceOrNot(length) => value.as_i64() == Some(-1) || fits(value, &Is::Place(*length)),
    }
}

/// Whether an object has these fields with these contents; others are allowed where the type has
/// optional ones, which are then among `optional`.
fn check(what: &str, object: &Value, fields: &[(&str, Is)], optional: &[(&str, Is)]) {
    for (name, is) in fields {
        let value = object
            .get(name)
            .unwrap_or_else(|| panic!("{what} lacks {name}"));
        assert!(fits(value, is), "{what}.{name}: {value}");
    }
    for (name, value) in object.as_object().unwrap() {
        let known = fields
            .iter()
            .chain(optional)
            .find(|(known, _)| known == name);
        let (_, is) = known.unwrap_or_else(|| panic!("{what} has no {name}"));
        assert!(fits(value, is), "{what}.{name}: {value}");
    }
}

/// The same of a table by columns: all as long as it says.
fn check_table(what: &str, table: &Value, columns: &[(&str, Is)]) {
    let length = table["length"].as_u64().unwrap() as usize;
    for (name, is) in columns {
        let column = table[name]
            .as_array()
            .unwrap_or_else(|| panic!("{what} lacks {name}"));
        assert_eq!(column.len(), length, "{what}.{name}");
        for value in column {
            assert!(fits(value, is), "{what}.{name}: {value}");
        }
    }
}

fn length(table: &Value) -> usize {
    table["length"].as_u64().unwrap() as usize
}

fn check_meta(meta: &Value) -> usize {
    check(
        "meta",
        meta,
        &[
            ("interval", Is::Number),
            ("startTime", Is::Number),
            ("processType", Is::Number),
            ("product", Is::Text),
            ("stackwalk", Is::Place(2)),
            ("version", Is::Number),
            ("preprocessedProfileVersion", Is::Number),
            ("markerSchema", Is::List),
            ("categories", Is::List),
        ],
        &[
            ("debug", Is::Bool),
            ("abi", Is::Text),
            ("misc", Is::Text),
            ("oscpu", Is::Text),
            ("platform", Is::Text),
            ("toolkit", Is::Text),
            ("appBuildID", Is::Text),
            ("sourceURL", Is::Text),
            ("symbolicated", Is::Bool),
            ("symbolicationNotSupported", Is::Bool),
            ("importedFrom", Is::Text),
            ("extensions", Is::Object),
            ("sampleUnits", Is::Object),
        ],
    );
    let categories = meta["categories"].as_array().unwrap();
    for category in categories {
        let fields = [
            ("name", Is::Text),
            ("color", Is::Text),
            ("subcategories", Is::List),
        ];
        check("category", category, &fields, &[]);
        assert_eq!(category["subcategories"][0], "Other");
    }
    // "Such a category is required to be present."
    assert!(
        categories
            .iter()
            .any(|category| category["color"] == "grey")
    );
    categories.len()
}

fn check_thread(thread: &Value, categories: usize) {
    const TIME: Is = Is::Number;
    let strings = thread["stringArray"].as_array().unwrap();
    assert!(strings.iter().all(Value::is_string));
    let text = || Is::Place(strings.len());
    let table = |name: &str| length(&thread[name]);
    for (name, is) in [
        ("processType", Is::Text),
        ("processStartupTime", TIME),
        ("processShutdownTime", Is::Maybe(&TIME)),
        ("registerTime", TIME),
        ("unregisterTime", Is::Maybe(&TIME)),
        ("pausedRanges", Is::List),
        ("name", Is::Text),
        ("processName", Is::Text),
        ("isMainThread", Is::Bool),
        // A text since version 47.
        ("pid", Is::Text),
        ("tid", Is::Number),
    ] {
        assert!(fits(&thread[name], &is), "thread.{name}: {}", thread[name]);
    }
    let samples = &thread["samples"];
    assert!(fits(
        &samples["weightType"],
        &Is::OneOf(&["samples", "tracing-ms", "bytes"])
    ));
    let columns = [
        ("stack", Is::Place(table("stackTable"))),
        ("time", TIME),
        ("weight", Is::Number),
    ];
    check_table("samples", samples, &columns);
    let stacks = &thread["stackTable"];
    let columns = [
        ("frame", Is::Place(table("frameTable"))),
        ("category", Is::Place(categories)),
        ("subcategory", Is::Place(1)),
    ];
    check_table("stackTable", stacks, &columns);
    // A prefix is there before what hangs under it, so there is no circle.
    for (place, prefix) in stacks["prefix"].as_array().unwrap().iter().enumerate() {
        assert!(prefix.is_null() || fits(prefix, &Is::Place(place)));
    }
    let columns = [
        ("address", Is::PlaceOrNot(usize::MAX)),
        ("inlineDepth", Is::Number),
        ("category", Is::Maybe(&Is::Number)),
        ("subcategory", Is::Maybe(&Is::Number)),
        ("func", Is::Place(table("funcTable"))),
        ("nativeSymbol", Is::Maybe(&Is::Number)),
        ("innerWindowID", Is::Maybe(&Is::Number)),
        ("implementation", Is::Maybe(&Is::Number)),
        ("line", Is::Maybe(&Is::Number)),
        ("column", Is::Maybe(&Is::Number)),
    ];
    check_table("frameTable", &thread["frameTable"], &columns);
    let columns = [
        ("name", text()),
        ("isJS", Is::Bool),
        ("relevantForJS", Is::Bool),
        ("resource", Is::PlaceOrNot(table("resourceTable"))),
        ("fileName", Is::Maybe(&Is::Number)),
        ("lineNumber", Is::Maybe(&Is::Number)),
        ("columnNumber", Is::Maybe(&Is::Number)),
    ];
    check_table("funcTable", &thread["funcTable"], &columns);
    let columns = [
        ("lib", Is::Maybe(&Is::Number)),
        ("name", text()),
        ("host", Is::Maybe(&Is::Number)),
        ("type", Is::Number),
    ];
    check_table("resourceTable", &thread["resourceTable"], &columns);
    let columns = [
        ("libIndex", Is::Number),
        ("address", Is::Number),
        ("name", text()),
        ("functionSize", Is::Maybe(&Is::Number)),
    ];
    check_table("nativeSymbols", &thread["nativeSymbols"], &columns);
    let columns = [
        ("data", Is::List),
        ("name", text()),
        ("startTime", Is::Maybe(&TIME)),
        ("endTime", Is::Maybe(&TIME)),
        ("phase", Is::Number),
        ("category", Is::Place(categories)),
    ];
    check_table("markers", &thread["markers"], &columns);
}

#[test]
fn profiles_have_the_documented_fields() {
    let profile = profile(&report());
    let categories = check_meta(&profile["meta"]);
    assert_eq!(profile["meta"]["preprocessedProfileVersion"], 48);
    assert!(fits(&profile["libs"], &Is::List));
    let threads = profile["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2);
    for thread in threads {
        check_thread(thread, categories);
    }
}

#[test]
fn weights_are_the_functions_cycles() {
    let report = report();
    let profile = profile(&report);
    let threads = profile["threads"].as_array().unwrap();
    assert_eq!(threads.len(), report.cpus.len());
    for (thread, cpu) in threads.iter().zip(&report.cpus) {
        let weights = thread["samples"]["weight"].as_array().unwrap();
        let weight: u64 = weights.iter().map(|w| w.as_u64().unwrap()).sum();
        assert_eq!(weight, cpu.functions.iter().map(|f| f.cycles).sum::<u64>());
        let strings = thread["stringArray"].as_array().unwrap();
        for (n, stack) in thread["samples"]["stack"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
        {
            let stack = stack.as_u64().unwrap() as usize;
            let name = thread["funcTable"]["name"][stack].as_u64().unwrap() as usize;
            assert_eq!(strings[name], escape(&cpu.functions[n].name).as_ref());
            let module = thread["stackTable"]["prefix"][stack].as_u64().unwrap() as usize;
            assert!(module < stack);
            let name = thread["funcTable"]["name"][module].as_u64().unwrap() as usize;
            assert_eq!(strings[name], cpu.functions[n].module);
        }
    }
}
