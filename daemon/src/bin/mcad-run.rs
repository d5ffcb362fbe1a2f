//! `mcad-run`: run a program under QEMU and predict its cycles.

fn main() {}
