//! From bytes to static instructions: what one instruction is on one CPU, before it executes.
//!
//! [`build`] puts it together: [`facts`] says what an instruction is, [`operands`] what it reads
//! and writes, [`effect`] what it computes, `figures` what it costs, `fusion` what becomes of neighbours, [`encoding`] what
//! the front end needs; [`uops`] splits it into µops, and a [`Program`](crate::program::Program) is
//! filled. `known` keeps what was made, by the instruction's `pattern`.

pub mod build;
pub mod counted;
pub mod effect;
pub mod encoding;
pub mod facts;
mod figures;
mod fusion;
pub mod generic;
pub mod inorder;
mod known;
pub mod operands;
mod pattern;
pub mod uops;
