//! Mechanistic model of superscalar in-order cores, after Breughe, Eyerman and Eeckhout (ACM TACO
//! 2014): a program is profiled once, and its cycles follow for any width, latencies and units.
//!
//! [`profile`] is what one pass over an execution ([`collect`]) yields: code, and how often each path of
//! blocks was taken. From that come the rows of H ([`rows`]: how far back the closest producer of
//! a value is, among which kinds), with which there are three models:
//!
//! * [`literal`]: the published formulas, which take every place in an issue group as equally likely;
//! * [`chain`]: the same rows, with the place in the group from a Markov chain over them (default);
//! * [`paths`]: each path stepped once as the stepwise core does ([`shapes`]), and what befalls a program on
//!   [`stretches`] of its execution.
//!
//! What misses in caches and predictors is counted for all of their sizes at once ([`distance`],
//! [`predictors`]) and costs what [`events`] says; [`uses`] says how far behind a load its value is read.
//!
//! [`machine`] is a point of the design space ([`space`]; [`built_in`] measures the points that the
//! CPUs' own models are, of which [`timing`] tells instructions apart), [`kind`] what instructions are told apart by, and [`stack`] where the
//! cycles go.

pub mod built_in;
pub mod chain;
pub mod collect;
pub mod distance;
pub mod events;
pub mod literal;
pub mod machine;
pub mod paths;
pub mod predictors;
pub mod profile;
pub mod rows;
pub mod shapes;
pub mod space;
pub mod stack;
pub mod step;
pub mod stretches;
pub mod timing;
pub mod uses;

pub use mcad_isa::kind;
