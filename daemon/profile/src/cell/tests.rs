//! What a cell lets code do that nobody has looked at.

use super::*;

fn run(code: &[u8]) -> Stop {
    let mut cell = Cell::start(Sandbox::Required).unwrap();
    assert!(cell.filtered);
    cell.load(code).unwrap();
    match cell.run(CODE, CODE + code.len() as u64) {
        Err(RunError::Stop(stop)) => stop,
        other => panic!("{code:02x?}: {other:?}"),
    }
}

#[test]
fn system_calls_of_measured_code_end_it() {
    // mov eax, NUMBER; syscall; int3
    for number in [libc::SYS_getpid, libc::SYS_mmap, libc::SYS_exit_group] {
        let mut code = vec![0xb8];
        code.extend((number as u32).to_le_bytes());
        code.extend([0x0f, 0x05, 0xcc]);
        assert!(
            matches!(run(&code), Stop::Signal(libc::SIGSYS, _)),
            "{number}"
        );
    }
    // The 32-bit entry, where the kernel has it.
    let stop = run(&[0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xcc]);
    assert!(matches!(
        stop,
        Stop::Signal(_, _) | Stop::Unmappable(_) | Stop::NonCanonical
    ));
}

#[test]
fn code_can_neither_be_written_nor_left_nor_go_on_forever() {
    // mov byte [rip], 0x90
    let own = run(&[0xc6, 0x05, 0, 0, 0, 0, 0x90, 0xcc]);
    assert_eq!(own, Stop::Harness(CODE + 7));
    assert_eq!(run(&[0xeb, 0xfe, 0xcc]), Stop::Endless);
    // mov eax, 0x12345600; jmp rax: the page that is mapped there is not executable.
    let elsewhere = run(&[0xb8, 0x00, 0x56, 0x34, 0x12, 0xff, 0xe0, 0xcc]);
    assert_eq!(elsewhere, Stop::Unmappable(0x1234_5600));
}

#[test]
fn pages_are_one_physical_page_and_the_stack_another() {
    let mut cell = Cell::start(Sandbox::Required).unwrap();
    let (memory, stack) = ([1; PAGE as usize], [2; PAGE as usize]);
    cell.set_patterns(&memory, &stack).unwrap();
    // mov byte [0x12345678], 7; mov al, [0x23456678]; mov ah, [0x60000678];
    // mov rbx, RESULTS; mov [rbx], ax; int3
    let mut code = vec![0xc6, 0x04, 0x25, 0x78, 0x56, 0x34, 0x12, 7];
    code.extend([0x8a, 0x04, 0x25, 0x78, 0x66, 0x45, 0x23]);
    code.extend([0x8a, 0x24, 0x25, 0x78, 0x06, 0x00, 0x60]);
    code.extend([0x48, 0xbb]);
    code.extend((CONTROL + control::RESULTS).to_le_bytes());
    code.extend([0x66, 0x89, 0x03, 0xcc]);
    cell.load(&code).unwrap();
    cell.run(CODE, CODE + code.len() as u64).unwrap();
    // The two differ in their page only (0x678 is the offset of both).
    assert_eq!(cell.result(0) & 0xffff, 0x0207);
    assert_eq!(cell.mapped, 3);
    cell.forget_pages().unwrap();
    assert_eq!(cell.mapped, 0);
}
