//! Any bytes as the columns of a trace, with right checksums, into a simulation.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((choice, bytes)) = bytes.split_first() {
        mcad_core::fuzz::trace(*choice, &mcad_proto::fuzz::columns(bytes));
    }
});
