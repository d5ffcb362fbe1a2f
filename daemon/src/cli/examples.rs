//! Examples for the help of every command, and of `mcad-run`: those that people start from.
//!
//! Each is tried by a test against the options that there are.

use clap::Command;

/// A command's words behind `mcad` (`mcad-run` is by itself), and its examples with what they do.
type Examples = (&'static str, &'static [(&'static str, &'static str)]);

const EXAMPLES: &[Examples] = &[
    (
        "mcad-run",
        &[
            ("mcad-run -- gzip -k FILE", "predict a run of gzip"),
            (
                "mcad-run --cpu skl --cpu glc -- ./prog",
                "on two CPUs at once",
            ),
            (
                "mcad-run --html page.html -- ./prog",
                "a page for the browser, too",
            ),
            (
                "mcad-run -q --json - -o /dev/null -- ./prog",
                "the report for scripts",
            ),
            ("mcad-run --region hash -- ./prog", "time each call of hash"),
            (
                "mcad-run --measure -- ./prog < FILE",
                "measure it here as well",
            ),
        ],
    ),
    (
        "run",
        &[("mcad run --cpu glc -- gzip -k FILE", "the same as mcad-run")],
    ),
    (
        "record",
        &[(
            "mcad record -o run.mcad -- ./prog",
            "then: mcad replay run.mcad",
        )],
    ),
    (
        "replay",
        &[
            (
                "mcad replay run.mcad --cpu zen5",
                "analyse a trace for another CPU",
            ),
            ("mcad replay --jobs 4 run.mcad", "on four threads"),
            ("mcad replay run.mcad --html page.html", "as a page"),
        ],
    ),
    (
        "view",
        &[
            ("mcad view report.json", "the summary again"),
            (
                "mcad view --format html report.json > page.html",
                "as a page",
            ),
            (
                "mcad view --format chrome run.timeline > trace.json",
                "for Perfetto",
            ),
        ],
    ),
    (
        "diff",
        &[
            ("mcad diff old.json new.json", "what changed"),
            ("mcad diff --fail-above 2 old.json new.json", "for a CI job"),
            (
                "mcad diff --cpu glc -- ./old -- ./new",
                "run both and compare",
            ),
        ],
    ),
    (
        "daemon",
        &[
            (
                "mcad daemon --listen unix:/tmp/mcad.sock",
                "for this machine's user",
            ),
            (
                "mcad daemon --listen tcp:127.0.0.1:7000 --reports DIR",
                "keep all reports",
            ),
        ],
    ),
    (
        "status",
        &[("mcad status --daemon unix:/tmp/mcad.sock", "its sessions")],
    ),
    (
        "stop",
        &[("mcad stop --daemon unix:/tmp/mcad.sock", "end it")],
    ),
    (
        "block",
        &[
            ("mcad block --hex 4801d8480fafc1", "two instructions"),
            (
                "mcad block --syntax intel loop.s",
                "assembly as Intel writes it",
            ),
            (
                "mcad block --symbol dot --cpu glc --timeline prog.o",
                "one function",
            ),
            (
                "mcad block --html block.html loop.s",
                "a page with its dependencies",
            ),
            (
                "mcad block --align all loop.s",
                "at every place in a cache line",
            ),
        ],
    ),
    (
        "eval",
        &[(
            "mcad eval --predict skl LABELS.csv",
            "errors of predictions",
        )],
    ),
    (
        "model profile",
        &[(
            "mcad model profile run.mcad -o prog.profile",
            "once for all cores",
        )],
    ),
    (
        "model predict",
        &[(
            "mcad model predict prog.profile",
            "cycles of in-order cores",
        )],
    ),
    (
        "model sweep",
        &[(
            "mcad model sweep --space space.toml prog.profile",
            "many designs at once",
        )],
    ),
    (
        "model units",
        &[("mcad model units prog.profile", "by functional units")],
    ),
    (
        "model figure",
        &[(
            "mcad model figure widths prog.mcad",
            "a published figure, beside the stepwise core",
        )],
    ),
    (
        "profile block",
        &[
            ("mcad profile block --hex 480fafc0", "measure a block here"),
            ("mcad profile block --batch blocks.csv", "a line each"),
        ],
    ),
    (
        "profile instruction",
        &[
            ("mcad profile instruction imul", "latencies and throughputs"),
            (
                "mcad profile instruction --conflicts",
                "which forms share ports",
            ),
        ],
    ),
    (
        "profile clock",
        &[("mcad profile clock", "how cycles are measured here")],
    ),
    (
        "profile core",
        &[(
            "mcad profile core --html probes.html",
            "all probes, as curves",
        )],
    ),
    (
        "profile program",
        &[
            (
                "mcad profile program -- gzip -kc FILE",
                "user cycles, with their interval",
            ),
            (
                "mcad profile program --stdin FILE --runs 30 -- sort",
                "a program that reads",
            ),
        ],
    ),
    (
        "profile programs",
        &[(
            "mcad profile programs --inputs DIR -o measured.csv LIST",
            "what eval --programs compares with",
        )],
    ),
    ("cpus", &[("mcad cpus", "models and their short names")]),
    (
        "schema",
        &[(
            "mcad schema > report.schema.json",
            "for who reads reports in other languages",
        )],
    ),
    (
        "doctor",
        &[("mcad doctor", "what is missing, and how to get it")],
    ),
    (
        "completions",
        &[(
            "mcad completions bash > ~/.local/share/bash-completion/completions/mcad",
            "",
        )],
    ),
    (
        "man",
        &[("mcad man ~/.local/share/man/man1", "for man mcad-block")],
    ),
];

/// Gives `command`, whose words behind `mcad` are these, and its own commands their examples.
pub(super) fn add(command: Command, words: &str) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    let mut command = command;
    for name in names {
        let below = match words {
            "" => name.clone(),
            words => format!("{words} {name}"),
        };
        command = command.mut_subcommand(name, |sub| add(sub, &below));
    }
    let Some((_, examples)) = EXAMPLES.iter().find(|(of, _)| *of == words) else {
        return command;
    };
    let widest = examples.iter().map(|(line, _)| line.len()).max();
    let mut text = "Examples:".to_owned();
    for (line, what) in *examples {
        let row = format!("\n  {line:<width$}  {what}", width = widest.unwrap_or(0));
        text.push_str(row.trim_end());
    }
    if let Some(more) = command.get_after_help() {
        text = format!("{more}\n\n{text}");
    }
    command.after_help(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{mcad_command, mcad_run_command};

    fn leaves<'c>(command: &'c Command, words: &str, found: &mut Vec<(String, &'c Command)>) {
        for sub in command
            .get_subcommands()
            .filter(|sub| sub.get_name() != "help")
        {
            let below = format!("{words} {}", sub.get_name());
            leaves(sub, &below, found);
        }
        if command.get_subcommands().next().is_none() {
            found.push((words.trim().to_owned(), command));
        }
    }

    #[test]
    fn every_command_has_examples_and_nothing_else_has() {
        let (mcad, run) = (mcad_command(), mcad_run_command());
        let mut commands = Vec::new();
        leaves(&mcad, "", &mut commands);
        commands.push(("mcad-run".to_owned(), &run));
        for (words, command) in &commands {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            assert!(help.contains("Examples:\n  mcad"), "{words}: {help}");
        }
        for (words, _) in EXAMPLES {
            assert!(commands.iter().any(|(known, _)| known == words), "{words}");
        }
    }

    #[test]
    fn examples_are_command_lines_that_are_taken() {
        for (of, examples) in EXAMPLES {
            for (line, _) in *examples {
                // The shell's part.
                let line = line.split(['<', '>']).next().unwrap();
                let words = line.split_whitespace();
                let command = match line.starts_with("mcad-run ") {
                    true => mcad_run_command(),
                    false => mcad_command(),
                };
                let taken = command.try_get_matches_from(words);
                assert!(taken.is_ok(), "{of}: {line}: {}", taken.unwrap_err());
            }
        }
    }
}
