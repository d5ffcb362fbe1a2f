//! The block dictionary and the module map.

mod support;

use mcad_proto::event::EndReason;
use support::{Programs, Run, Trace};

const EXITED: Option<EndReason> = Some(EndReason::Exited(0));

#[test]
fn modified_code_gets_new_ids() {
    let programs = Programs::new();
    let program = programs.c(
        "jit",
        &[],
        r#"
        #include <string.h>
        #include <sys/mman.h>
        int main(void) {
            unsigned char *p = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};   /* mov eax, imm32; ret */
            for (int turn = 0; turn < 2; turn++)
                for (int i = 0; i < 50; i++) {
                    memcpy(code + 1, &i, 4);
                    memcpy(p, code, sizeof code);
                    for (int n = 0; n < 10; n++)
                        if (((int (*)(void))p)() != i) return 1;
                }
            return 0;
        }"#,
    );
    let trace = Run::new().run(&[&program]);
    assert_eq!(trace.end, EXITED);
    let jitted: Vec<usize> = (0..trace.blocks.len())
        .filter(|&id| {
            let bytes = &trace.blocks[id].bytes;
            bytes.len() == 6 && bytes[0] == 0xb8 && bytes[5] == 0xc3 && bytes[1] < 50
        })
        .collect();
    // Other code may look the same; it is not on a page of its own.
    let page = |id: usize| trace.blocks[id].address >> 12;
    let jitted: Vec<usize> = jitted
        .iter()
        .copied()
        .filter(|&id| {
            matches!(
                module_of(&trace, page(id) << 12),
                None | Some("[anonymous]")
            )
        })
        .collect();
    assert_eq!(jitted.len(), 50, "one id for each code");
    for id in jitted {
        assert_eq!(trace.executions.get(&(id as u32)), Some(&20));
    }
}

/// The first clone throws all translations away; the same code must keep its ids.
#[test]
fn retranslation_keeps_ids() {
    let programs = Programs::new();
    let program = programs.c(
        "flush",
        &[],
        r#"
        #include <pthread.h>
        volatile long n;
        static void work(void) { for (int i = 0; i < 1000; i++) n += i; }
        static void *thread(void *arg) { work(); return 0; }
        int main(void) {
            work();
            pthread_t t; pthread_create(&t, 0, thread, 0); pthread_join(t, 0);
            work();
            return 0;
        }"#,
    );
    let trace = Run::new().run(&[&program]);
    assert_eq!(trace.end, EXITED);
    let mut seen = std::collections::HashSet::new();
    for block in &trace.blocks {
        let key = (block.address, block.instructions, block.bytes.clone());
        assert!(seen.insert(key), "defined twice: {block:x?}");
    }
}

fn module_of(trace: &Trace, address: u64) -> Option<&str> {
    trace
        .modules
        .iter()
        .rev()
        .find(|m| (m.start.0..m.end.0).contains(&address))
        .map(|m| m.path.as_str())
}

#[test]
fn code_is_found_in_its_files() {
    let programs = Programs::new();
    // A library that appears late.
    programs.c(
        "late.so",
        &["-shared", "-fPIC"],
        "int late(int x) { return x * 77 + 1; }",
    );
    let late = programs.path("late.so");
    let program = programs.c(
        "loader",
        &[],
        &format!(
            r#"
            #include <dlfcn.h>
            int main(void) {{
                void *h = dlopen("{late}", RTLD_NOW);
                int (*f)(int) = h ? (int (*)(int))dlsym(h, "late") : 0;
                return f && f(1) == 78 ? 0 : 1;
            }}"#
        ),
    );
    let trace = Run::new().run(&[&program]);
    assert_eq!(trace.end, EXITED);
    let mut unknown = 0;
    for (index, block) in trace.blocks.iter().enumerate() {
        match module_of(&trace, block.address) {
            None => unknown += 1,
            Some(path) => {
                // The file's bytes at the mapping's offset are the block's.
                let module = trace
                    .modules
                    .iter()
                    .find(|m| m.path == path && (m.start.0..m.end.0).contains(&block.address))
                    .unwrap();
                let file = std::fs::read(path).unwrap();
                let at = (block.address - module.start.0 + module.file_offset) as usize;
                assert_eq!(
                    file[at..at + block.bytes.len()],
                    block.bytes,
                    "block {index} in {path}"
                );
            }
        }
    }
    assert_eq!(unknown, 0, "all code comes from files");
    for part in ["loader", "late.so", "libc.so", "ld-linux"] {
        let found = trace.modules.iter().any(|m| m.path.contains(part));
        assert!(found, "{part} in {:?}", trace.modules);
    }
    let foreign = trace.modules.iter().find(|m| m.path.contains("qemu"));
    assert_eq!(foreign, None, "the emulator is no module of the guest");
}

/// Code that is generated where a library was must not pass for the library's.
#[test]
fn anonymous_code_replaces_an_unmapped_module() {
    let programs = Programs::new();
    programs.c(
        "gone.so",
        &["-shared", "-fPIC"],
        "int f(int x) { return x + 41; }",
    );
    let gone = programs.path("gone.so");
    let program = programs.c(
        "unload",
        &[],
        &format!(
            r#"
            #include <dlfcn.h>
            #include <string.h>
            #include <sys/mman.h>
            int main(void) {{
                void *h = dlopen("{gone}", RTLD_NOW);
                int (*f)(int) = (int (*)(int))dlsym(h, "f");
                if (f(1) != 42) return 1;
                dlclose(h);
                char *page = (char *)((unsigned long)f & ~4095ul);
                char *p = mmap(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
                static const char code[] = {{0x8d, 0x47, 77, 0xc3}}; /* lea eax, [rdi + 77] */
                memcpy(p + 64, code, sizeof code);
                return p == page && ((int (*)(int))(p + 64))(3) == 80 ? 0 : 2;
            }}"#
        ),
    );
    let trace = Run::new().run(&[&program]);
    assert_eq!(trace.end, EXITED);
    let made = trace
        .blocks
        .iter()
        .find(|block| block.bytes == [0x8d, 0x47, 77, 0xc3])
        .unwrap();
    assert_eq!(module_of(&trace, made.address), Some("[anonymous]"));
    assert!(trace.modules.iter().any(|m| m.path.ends_with("gone.so")));
}

#[test]
fn without_memory_there_are_only_blocks() {
    let trace = Run::new().with("memory", "0").run(&["true"]);
    assert_eq!(trace.end, EXITED);
    assert!(!trace.info.as_ref().unwrap().memory);
    assert_eq!(trace.access_words, 0);
    assert!(trace.block_words > 1000);
}

#[test]
fn the_session_names_its_producer() {
    let trace = Run::new().run(&["true"]);
    let info = trace.info.unwrap();
    assert_eq!(info.command, ["true"]);
    assert!(info.memory);
    assert!(
        info.producer.starts_with("qemu ") && info.producer.contains("plugin API "),
        "{}",
        info.producer
    );
}
