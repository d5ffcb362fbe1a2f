//! This process's memory as Linux counts it, and that of one session ([`account`]).

pub mod account;

/// Peak resident memory in bytes (`VmHWM`), 0 where `/proc` does not tell.
#[must_use]
pub fn peak() -> u64 {
    status("VmHWM:")
}

/// Resident memory in bytes (`VmRSS`), 0 where `/proc` does not tell.
#[must_use]
pub fn resident() -> u64 {
    status("VmRSS:")
}

/// Memory of the whole machine in bytes, 0 where `/proc` does not tell.
#[must_use]
pub fn of_machine() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    parse(&text, "MemTotal:").unwrap_or(0)
}

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse(&status, field).unwrap_or(0)
}

/// Fields of `/proc/self/status` are in KiB.
fn parse(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_kib() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 10 kB\n";
        assert_eq!(parse(status, "VmHWM:"), Some(2 << 20));
        assert_eq!(parse(status, "VmSwap:"), None);
        assert!(peak() > 0 && resident() > 0 && of_machine() > 0);
    }
}
