//! Any bytes as: the control log of the plugin's ring.
#![no_main]

use mcad_broker_qemu::ring::control;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok((_, after)) = control::take(rest) {
        assert!(after.len() < rest.len());
        rest = after;
    }
});
