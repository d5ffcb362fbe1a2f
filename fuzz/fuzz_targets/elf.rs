//! Any bytes as an ELF file of the asm broker.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    mcad_assemble::fuzz_elf(bytes);
});
