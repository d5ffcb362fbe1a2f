//! Writes the first inputs of fuzz/ into fuzz/corpus: fuzzing gets further from valid input.
//!
//!     cargo run -p mcad-proto --example fuzz_seeds

use std::path::Path;

#[path = "../tests/support/mod.rs"]
mod support;
#[path = "../tests/valid/mod.rs"]
mod valid;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let seeds = [
        ("trace", valid::trace()),
        ("conversation", valid::conversation()),
        ("message", valid::conversation().split_off(8)),
    ];
    for (target, bytes) in seeds {
        let directory = corpus.join(target);
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join("seed"), bytes)?;
    }
    Ok(())
}
