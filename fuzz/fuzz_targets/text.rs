//! Any text as hex bytes and as assembly text with markers.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    mcad_assemble::fuzz_text(text);
});
