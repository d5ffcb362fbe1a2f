//! Any bytes as blocks, records, processes and regions, into a simulation.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    mcad_core::fuzz::events(bytes);
});
