//! Any JSON that is a report, into every view.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    mcad_viewers::fuzz::report(bytes);
});
