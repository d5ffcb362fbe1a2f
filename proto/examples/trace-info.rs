//! Prints what a trace file holds and how many bytes an instruction takes in it:
//! `cargo run --release -p mcad-proto --example trace-info -- FILE...`

#![allow(clippy::print_stdout)] // this is what it is for

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    if files.is_empty() {
        return Err("usage: trace-info FILE...".into());
    }
    for file in files {
        let info = mcad_proto::trace::info(&file)?;
        println!("{}: {}", file.display(), info.session.command.join(" "));
        println!(
            "  {} by {}, end: {:?}",
            info.session.producer, info.tool, info.end
        );
        println!(
            "  {} instructions, {} block executions, {} accesses, {} blocks, {} threads",
            info.instructions, info.block_executions, info.accesses, info.blocks, info.streams
        );
        let index = if info.indexed { "" } else { ", no index" };
        println!(
            "  {} bytes in {} chunks{index}, {} lost records",
            info.file_bytes,
            info.chunks.len(),
            info.lost
        );
        if let Some(bytes) = info.bytes_per_instruction() {
            let raw = info.words as f64 * 8.0 / info.instructions as f64;
            println!("  {bytes:.3} bytes per instruction (as record words: {raw:.2})");
        }
        for problem in info.problems {
            println!("  damage: {problem}");
        }
    }
    Ok(())
}
