//! On which CPU a thread runs.

use std::io;
use std::mem;

/// Number of a logical CPU as the system counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Cpu(pub u32);

/// A thread cannot be kept on one CPU.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep the process on {}: {cause}", what(*.cpu))]
pub struct AffinityError {
    /// The CPU asked for; none: the one it runs on.
    pub cpu: Option<Cpu>,
    /// What the system says.
    pub cause: io::Error,
}

fn what(cpu: Option<Cpu>) -> String {
    cpu.map_or_else(|| "its CPU".to_owned(), |cpu| format!("CPU {}", cpu.0))
}

/// Keeps the calling thread on `cpu`, or on the last CPU that it may use when none is named: the
/// first ones take most interrupts. Children inherit it.
///
/// # Errors
/// When the system forbids it, or the CPU is not among those that the process may use.
pub fn pin(cpu: Option<Cpu>) -> Result<Cpu, AffinityError> {
    let failed = |cause| AffinityError { cpu, cause };
    let allowed = affinity().map_err(failed)?;
    let cpus = 0..libc::CPU_SETSIZE as u32;
    let chosen = match cpu {
        Some(cpu) => cpu,
        None => cpus
            .rev()
            // SAFETY: the number is below CPU_SETSIZE.
            .find(|n| unsafe { libc::CPU_ISSET(*n as usize, &allowed) })
            .map(Cpu)
            .ok_or_else(|| failed(io::Error::other("no CPU is allowed")))?,
    };
    if chosen.0 >= libc::CPU_SETSIZE as u32 {
        return Err(failed(io::Error::from(io::ErrorKind::InvalidInput)));
    }
    // SAFETY: a zeroed set is an empty set, and the number is below CPU_SETSIZE.
    let only = unsafe {
        let mut only: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(chosen.0 as usize, &mut only);
        only
    };
    // SAFETY: the set is valid for the call; 0 is the calling thread.
    let result = unsafe { libc::sched_setaffinity(0, mem::size_of_val(&only), &raw const only) };
    if result != 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    Ok(chosen)
}

/// Runs `work` with the thread kept on a CPU as [`pin`] does, and lets it go afterwards.
///
/// # Errors
/// As [`pin`]; `work` has not run then.
pub fn pinned<T>(cpu: Option<Cpu>, work: impl FnOnce(Cpu) -> T) -> Result<T, AffinityError> {
    let before = affinity().map_err(|cause| AffinityError { cpu, cause })?;
    let chosen = pin(cpu)?;
    let result = work(chosen);
    // SAFETY: the set is valid for the call. It was allowed before, so a failure has no cause that
    // anything could be done about.
    unsafe { libc::sched_setaffinity(0, mem::size_of_val(&before), &raw const before) };
    Ok(result)
}

fn affinity() -> io::Result<libc::cpu_set_t> {
    // SAFETY: a zeroed set is an empty set, and the system fills it.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        match libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set) {
            0 => Ok(set),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_put_and_is_let_go() {
        let before = affinity().unwrap();
        let cpu = pinned(None, |cpu| {
            // SAFETY: no arguments.
            assert_eq!(unsafe { libc::sched_getcpu() }, cpu.0 as i32);
            cpu
        });
        assert!(cpu.is_ok());
        // SAFETY: both are valid sets.
        assert!(unsafe { libc::CPU_EQUAL(&before, &affinity().unwrap()) });
        let far = Some(Cpu(u32::MAX));
        assert!(pin(far).unwrap_err().to_string().contains("4294967295"));
    }
}
