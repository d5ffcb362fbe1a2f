//! What benchmarks of recorded programs have in common.

#![allow(clippy::print_stdout)] // programs, whose output this is

pub type Failure = Box<dyn std::error::Error>;

/// Calls `run` with the trace and each CPU that the command line names: skl and glc if it names none.
pub fn each_cpu(
    name: &str,
    mut run: impl FnMut(&str, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut names = arguments.iter().filter(|a| !a.starts_with("--"));
    let Some(trace) = names.next() else {
        println!("usage: cargo bench -p mcad-core --bench {name} -- TRACE [CPU...]");
        return Ok(());
    };
    let cpus: Vec<&str> = names.map(String::as_str).collect();
    let cpus = if cpus.is_empty() {
        vec!["skl", "glc"]
    } else {
        cpus
    };
    cpus.into_iter().try_for_each(|cpu| run(trace, cpu))
}
