//! Any bytes as: record words through a trace file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    mcad_proto::fuzz::words(bytes);
});
