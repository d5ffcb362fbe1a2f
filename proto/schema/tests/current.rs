//! The committed `proto/src/generated/mcad_capnp.rs` is what the schema compiles to today.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may fail loudly

use std::path::Path;

/// Set to rewrite the committed file instead of comparing.
const BLESS: &str = "MCAD_BLESS";

#[test]
fn generated_code_is_current() {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir().unwrap();
    let compiled = capnpc::CompilerCommand::new()
        .src_prefix(schema)
        .file(schema.join("mcad.capnp"))
        .output_path(out.path())
        .default_parent_module(vec!["generated".into()])
        .run();
    if let Err(error) = compiled {
        panic!("this test needs the Cap'n Proto compiler (apt-get install capnproto): {error}");
    }
    let fresh = std::fs::read_to_string(out.path().join("mcad_capnp.rs")).unwrap();
    let committed = schema.join("../src/generated/mcad_capnp.rs");
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&committed, &fresh).unwrap();
    }
    assert!(
        std::fs::read_to_string(&committed).ok().as_deref() == Some(&*fresh),
        "proto/src/generated/mcad_capnp.rs is not what proto/schema/mcad.capnp compiles to; \
         run: {BLESS}=1 cargo test -p mcad-schema"
    );
}
