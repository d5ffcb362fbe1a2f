//! Going ahead of everything else on a CPU: real-time scheduling by turns (sched(7), `SCHED_RR`),
//! under which threads that wait for each other by spinning still all get on.

use std::io;

/// Who goes before whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// The command, before whatever else is there.
    Command = 1,
    /// What watches it.
    Watch = 2,
}

/// Puts the calling thread, and what it starts, ahead.
///
/// # Errors
/// When the system forbids it: it takes `CAP_SYS_NICE` or a limit for real-time priorities.
pub(super) fn set(level: Level) -> io::Result<()> {
    // SAFETY: plain data, for which zeros are valid.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = level as libc::c_int;
    // SAFETY: the parameters live through the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether a command may go ahead: the system allows it, and there is another CPU for everything
/// else. Tried on a thread of its own.
///
/// # Errors
/// Why it may not.
pub(super) fn allowed() -> Result<(), String> {
    // SAFETY: no pointers.
    if unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) } < 2 {
        return Err("this machine has one CPU only".to_owned());
    }
    let tried = std::thread::spawn(|| set(Level::Watch)).join();
    let tried = tried.unwrap_or_else(|_| Err(io::Error::other("the thread panicked")));
    tried.map_err(|error| format!("{error}; it takes CAP_SYS_NICE or `ulimit -r 2`"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn whether_a_command_may_go_ahead_is_known() {
        if let Err(why) = super::allowed() {
            assert!(why.contains("CPU only") || why.contains("CAP_SYS_NICE"));
        }
    }
}
