//! `mcad`: the command-line front of the project.

fn main() {}
