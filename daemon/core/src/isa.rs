//! From bytes to static instructions: what one instruction is on one CPU, before it executes.
//!
//! [`build`] puts it together: [`regs`] names what is renamed, [`operands`] finds what an instruction reads and writes,
//! [`uops`] splits it into µops, [`encoding`] reads off what the front end needs, and [`program`]
//! holds all of it in flat arrays that the pipeline indexes.

pub mod build;
pub mod encoding;
pub mod generic;
pub mod operands;
pub mod program;
pub mod regs;
pub mod uops;
