//! Regions of assembly text and of the objects made from it.

#![allow(clippy::unwrap_used)] // helpers of tests may fail loudly

use std::process::Command;

use mcad_assemble::*;
use proptest::prelude::*;

const LOOP: &str = "\
    .globl f
    .type f, @function
f:
    mov $7, %ecx
    # LLVM-MCA-BEGIN body
1:  add %rax, %rbx
    dec %ecx
    jnz 1b
    # LLVM-MCA-END body
    ret
    .size f, .-f
    .globl g
g:  nop
";

const BODY: [u8; 7] = [0x48, 0x01, 0xc3, 0xff, 0xc9, 0x75, 0xf9];

fn regions(input: &str, options: &Options) -> Vec<Region> {
    assemble(input.as_bytes(), "test.s", options).unwrap()
}

#[test]
fn llvm_markers_select_their_region() {
    let found = regions(LOOP, &Options::default());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].name, "body");
    assert_eq!(found[0].bytes, BODY);
    assert_eq!(basic_blocks(&found[0]).unwrap().len(), 1);
}

#[test]
fn both_syntaxes_give_the_same_bytes() {
    let intel = Options {
        syntax: Syntax::Intel,
        ..Options::default()
    };
    assert_eq!(
        regions("add rbx, rax\n", &intel)[0].bytes,
        regions("add %rax, %rbx\n", &Options::default())[0].bytes
    );
}

#[test]
fn functions_and_sections_of_objects_and_libraries() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("x.s");
    let object = dir.path().join("x.o");
    let library = dir.path().join("x.so");
    std::fs::write(&source, LOOP).unwrap();
    let run = |program: &str, args: &[&std::path::Path], flags: &[&str]| {
        let status = Command::new(program).args(flags).args(args).status();
        let status = status.expect("this test needs binutils: apt-get install binutils");
        assert!(status.success());
    };
    run("as", &[&object, &source], &["--64", "-o"]);
    run("ld", &[&library, &object], &["-shared", "-o"]);

    let whole = assemble_file(&object, &Options::default()).unwrap();
    assert_eq!((whole.len(), &*whole[0].name), (1, ".text"));
    let symbol = |name: &str| Options {
        symbol: Some(name.into()),
        ..Options::default()
    };
    let f = assemble_file(&object, &symbol("f")).unwrap();
    assert_eq!(f[0].bytes.len(), 5 + BODY.len() + 1);
    assert!(!f[0].linked);
    // A symbol without a size ends with its section.
    let g = assemble_file(&object, &symbol("g")).unwrap();
    assert_eq!(g[0].bytes, [0x90]);
    let linked = assemble_file(&library, &symbol("f")).unwrap();
    assert_eq!(linked[0].bytes, f[0].bytes);
    assert!(linked[0].linked && linked[0].address > 0);
    let section = Options {
        section: Some(".text".into()),
        ..Options::default()
    };
    let section = assemble_file(&library, &section).unwrap();
    assert!(section[0].bytes.starts_with(&f[0].bytes));

    fn message(path: &std::path::Path, options: &Options) -> String {
        assemble_file(path, options).unwrap_err().to_string()
    }
    assert!(message(&library, &Options::default()).contains("choose a function (symbol=NAME"));
    assert!(
        message(&object, &symbol("h")).ends_with("it defines no symbol h; `nm` lists those it has")
    );
    assert!(message(&dir.path().join("none"), &symbol("f")).starts_with("cannot read "));
}

#[test]
fn iaca_markers_in_code_select_their_region() {
    let text = "\
        nop
        movl $111, %ebx
        .byte 0x64, 0x67, 0x90
        add %rax, %rbx
        movl $222, %ebx
        .byte 0x64, 0x67, 0x90
        nop
    ";
    let found = regions(text, &Options::default());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].bytes, [0x48, 0x01, 0xc3]);
}

#[test]
fn the_format_is_recognised_and_can_be_forced() {
    assert_eq!(
        regions("4801c3\n", &Options::default())[0].bytes,
        [0x48, 0x01, 0xc3]
    );
    // "add" alone is hexadecimal with an odd number of digits, so it is assembly, and wrong.
    let error = assemble(b"add\n", "t", &Options::default()).unwrap_err();
    assert!(matches!(error, AssembleError::Refused { .. }));
    let hex = Options {
        format: Format::Hex,
        ..Options::default()
    };
    assert!(matches!(
        assemble(b"nop", "t", &hex),
        Err(AssembleError::Hex { .. })
    ));
}

#[test]
fn the_assemblers_messages_name_the_users_file() {
    let error = assemble(b"nop\nfrobnicate %eax\n", "my file.s", &Options::default());
    let message = error.unwrap_err().to_string();
    assert!(message.contains("my file.s:2: Error: "), "{message}");
    assert!(!message.contains("/input.s"), "{message}");
}

#[test]
fn nothing_is_told() {
    let error = assemble(b"# only this\n", "t", &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "t: there are no instructions in it");
}

fn object_file() -> Vec<u8> {
    use std::sync::OnceLock;
    static OBJECT: OnceLock<Vec<u8>> = OnceLock::new();
    OBJECT
        .get_or_init(|| {
            let dir = tempfile::tempdir().unwrap();
            let (source, object) = (dir.path().join("x.s"), dir.path().join("x.o"));
            std::fs::write(&source, LOOP).unwrap();
            let status = Command::new("as")
                .arg("-o")
                .args([&object, &source])
                .status()
                .expect("this test needs binutils: apt-get install binutils");
            assert!(status.success());
            std::fs::read(object).unwrap()
        })
        .clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Damaged objects give regions or errors, never a panic, whatever is asked for.
    #[test]
    fn damaged_objects_do_no_harm(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let mut bytes = object_file();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        fuzz_elf(&bytes);
    }

    #[test]
    fn any_text_does_no_harm(
        text in "((# |//|/\\*)?LLVM-MCA-(BEGIN|END)( [ab])?(\\*/)?|0x|[0-9a-f]{2}|.|\n){0,40}",
    ) {
        fuzz_text(&text);
    }
}
