//! From bytes to static instructions: what one instruction is on one CPU, before it executes.
//!
//! [`build`] puts it together: [`operands`] finds what an instruction reads and writes,
//! [`uops`] splits it into µops, [`encoding`] reads off what the front end needs, and fills a
//! [`Program`](crate::program::Program).

pub mod build;
pub mod encoding;
pub mod generic;
pub mod inorder;
pub mod operands;
pub mod uops;
