//! Any text as a broker's configuration; what is read is written and read again as the same.
#![no_main]

use mcad_broker_abi::Config;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(config) = Config::decode(text) {
        assert_eq!(Config::decode(&config.encode()), Ok(config));
    }
});
