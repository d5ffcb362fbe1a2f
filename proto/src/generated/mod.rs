//! Code generated from `schema/mcad.capnp`; the test of `mcad-schema` keeps it current.

#[rustfmt::skip]
#[allow(missing_docs, clippy::all, unused_qualifications, rust_2018_idioms)]
#[allow(clippy::unwrap_used, clippy::panic)]
pub mod mcad_capnp;
