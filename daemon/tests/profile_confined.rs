//! `mcad profile` where a container or the system's administrator forbids things: without any
//! capability, and under filters of system calls. What it lacks is told, and what it can do is done.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// What Docker's default profile answers with `EPERM`, of what the profiler asks for: counters,
/// and fixed addresses (`personality` with other than a few values).
const DOCKER: [libc::c_long; 2] = [libc::SYS_perf_event_open, libc::SYS_personality];

/// Offset of the number in `struct seccomp_data`.
const NUMBER: u32 = 0;

/// `mcad profile` without capabilities, whoever runs the test, and with these system calls refused.
fn confined(refused: &[libc::c_long], arguments: &[&str]) -> Output {
    let refused = refused.to_vec();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcad"));
    command.arg("profile").args(arguments);
    let confine = move || {
        // What is beyond the last capability is an error, and none of ours.
        for capability in 0..64 {
            // SAFETY: no pointers.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        }
        refuse(&refused)
    };
    // SAFETY: it makes system calls and no allocation.
    unsafe { command.pre_exec(confine) };
    command.output().unwrap()
}

/// Lets these system calls, at most eight, fail with `EPERM` from now on.
fn refuse(refused: &[libc::c_long]) -> io::Result<()> {
    let statement = |code: u32, yes: u8, no: u8, operand: u32| libc::sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k: operand,
    };
    let allow = statement(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ALLOW);
    let mut program = [allow; 32];
    *program.first_mut().unwrap() =
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NUMBER);
    for (pair, number) in program.get_mut(1..).unwrap().chunks_mut(2).zip(refused) {
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let error = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        pair.copy_from_slice(&[
            statement(equal, 0, 1, *number as u32),
            statement(libc::BPF_RET, 0, 0, error),
        ]);
    }
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the program lives through the calls, and is as long as it says.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const filter,
            ),
        ]
    };
    if results.contains(&-1) {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_container_without_capabilities_measures_everything() {
    let clock = confined(&DOCKER, &["clock"]);
    let (said, _) = text(&clock);
    assert!(clock.status.success() && said.contains("filter"), "{said}");

    let block = confined(&DOCKER, &["block", "--hex", "4801d8"]);
    let (said, errors) = text(&block);
    assert!(
        said.contains("time-stamp counter over the core clock"),
        "{said}{errors}"
    );

    let forms = confined(
        &DOCKER,
        &["instruction", "--cpu", "skl", "ADD_01 (R64, R64)"],
    );
    let (said, errors) = text(&forms);
    assert!(said.contains("1 forms: "), "{said}{errors}");

    let run = ["program", "--max-drift", "1e6", "--runs", "2", "--", "true"];
    let program = confined(&DOCKER, &run);
    let (said, errors) = text(&program);
    assert!(program.status.success(), "{errors}");
    // Without CAP_SYS_NICE only a limit could allow it.
    assert!(
        said.contains("priority     ordinary: ") || said.contains("priority     ahead"),
        "{said}"
    );
    assert!(said.contains("a container's seccomp filter"), "{said}");
    let ordinary = [&run[..1], &["--no-priority"], &run[1..]].concat();
    let (said, errors) = text(&confined(&DOCKER, &ordinary));
    assert!(said.contains("priority     ordinary\n"), "{said}{errors}");
    let fixed = [&run[..1], &["--no-aslr"], &run[1..]].concat();
    let (_, errors) = text(&confined(&DOCKER, &fixed));
    assert!(
        errors.contains("cannot fix the command's addresses"),
        "{errors}"
    );
}

#[test]
fn what_is_forbidden_is_named_with_the_way_out() {
    let block = ["block", "--hex", "4801d8"];
    for (refused, message) in [
        (
            libc::SYS_ptrace,
            "a container's filter, or kernel.yama.ptrace_scope",
        ),
        (libc::SYS_memfd_create, "cannot create shared memory"),
        (libc::SYS_seccomp, "--no-seccomp measures without"),
    ] {
        let output = confined(&[refused], &block);
        let (_, errors) = text(&output);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(message), "{errors}");
    }
    let trusted = [&block[..], &["--no-seccomp"]].concat();
    let (said, errors) = text(&confined(&[libc::SYS_seccomp], &trusted));
    assert!(errors.contains("without a seccomp filter"), "{errors}");
    assert!(said.contains("cycles by"), "{said}{errors}");
    let (said, errors) = text(&confined(&[libc::SYS_sched_setaffinity], &block));
    assert!(errors.contains("measuring unpinned"), "{errors}");
    assert!(said.contains("cycles by"), "{said}{errors}");
}
