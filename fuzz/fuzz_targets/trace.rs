//! Any bytes as: trace files.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    mcad_proto::fuzz::trace(bytes);
});
