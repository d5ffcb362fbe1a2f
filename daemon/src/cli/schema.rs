//! `mcad schema`: what is in a JSON report, as a JSON Schema.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;

/// Options of `mcad schema`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

fn text() -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(&mcad_report::schema::report())? + "\n")
}

/// Prints it.
pub(super) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    let text = text().context("cannot write the schema")?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_documented_schema_is_todays() {
        let documented = include_str!("../../../docs/report.schema.json");
        let today = super::text().unwrap();
        assert_eq!(
            documented, today,
            "write it anew: mcad schema > docs/report.schema.json"
        );
    }
}
