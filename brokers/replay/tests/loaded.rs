//! The shared library as a host loads it.

use std::path::PathBuf;

use mcad_broker_abi::{BrokerLibrary, Config};

#[test]
fn the_library_loads_and_refuses_in_words() {
    let exe = std::env::current_exe().unwrap();
    let mut path = PathBuf::from(exe.parent().unwrap());
    path.push("libmcad_broker_replay.so");
    let library = BrokerLibrary::load(&path).unwrap();
    assert_eq!(library.name(), "replay");
    let mut config = Config::new();
    config.push("fiel", "x").unwrap();
    assert_eq!(
        library.open(&config).unwrap_err().to_string(),
        "replay broker: unknown configuration key \"fiel\"; known: file"
    );
}
