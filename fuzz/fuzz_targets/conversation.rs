//! Any bytes as: frames, handshake, batches, report parts.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    mcad_proto::fuzz::conversation(bytes);
});
