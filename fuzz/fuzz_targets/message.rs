//! Any bytes as: one message.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    mcad_proto::fuzz::message(bytes);
});
