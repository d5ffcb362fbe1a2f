//! The Cap'n Proto schema of mcad, `mcad.capnp`.
//!
//! This package exists for its test, which compiles the schema and compares the result with the
//! committed `proto/src/generated/mcad_capnp.rs`. It is no part of `mcad-proto` because that one
//! may not compile while the two differ, and because building it must not need the compiler.
