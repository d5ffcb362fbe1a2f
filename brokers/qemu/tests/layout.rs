//! The Rust mirror of `qemu-plugin/mcad_ring.h` against the header itself.

mod support;

use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use mcad_broker_qemu::ring::layout::{self, Desc, Header, message};
use support::Programs;

macro_rules! fields {
    ($rust:ty, $c:literal, $($field:ident)*) => {
        vec![$((
            format!("offsetof(struct {}, {})", $c, stringify!($field)),
            offset_of!($rust, $field) as u64,
        )),*]
    };
}

#[test]
fn layout_matches_the_header() {
    let mut expected = fields!(Header, "mcad_ring_header",
        magic version header_bytes total_bytes chunk_count chunk_bytes descs_offset ready_offset
        free_offset chunks_offset reader_pid options slot slot_count slots_offset slot_bytes plugin_sources most_threads attached producer_pid api_min api_current
        api_used first_control arch program claim ended exec_state silenced exit_status children
        released deaf exec_sets_id
        ready_tail ready_head reader_waiting doorbell
        free_tail free_head writers_waiting stalls control_chunk control_used
        control_seq next_stream next_block exec_path ring_path);
    expected.extend(fields!(Desc, "mcad_chunk_desc",
        state kind stream flags seq used next program));
    let of = |text: &str, value: u64| (text.to_owned(), value);
    expected.extend([
        of(
            "sizeof(struct mcad_ring_header)",
            size_of::<Header>() as u64,
        ),
        of("sizeof(struct mcad_chunk_desc)", size_of::<Desc>() as u64),
        of("MCAD_RING_MAGIC", layout::MAGIC),
        of("MCAD_RING_VERSION", layout::VERSION.into()),
        of("MCAD_RING_HEADER_BYTES", layout::HEADER_BYTES as u64),
        of("MCAD_RING_PATH_BYTES", layout::PATH_BYTES as u64),
        of("MCAD_RING_MEMORY", layout::OPTION_MEMORY.into()),
        of("MCAD_ATTACHED", layout::ATTACHED.into()),
        of("MCAD_RING_FOLLOW", layout::OPTION_FOLLOW.into()),
        of("MCAD_HANDOVER", layout::HANDOVER.into()),
        of("MCAD_SLOT_FREE", layout::SLOT_FREE.into()),
        of("MCAD_SLOT_CLAIMED", layout::SLOT_CLAIMED.into()),
        of("MCAD_SLOT_FAILED", layout::SLOT_FAILED.into()),
        of("MCAD_MESSAGE_COMMAND", layout::MESSAGE_COMMAND.into()),
        of("MCAD_MESSAGE_FORK", layout::MESSAGE_FORK.into()),
        of("MCAD_MESSAGE_WAITED", layout::MESSAGE_WAITED.into()),
        of(
            "sizeof(struct mcad_message_command)",
            message::COMMAND as u64,
        ),
        of("offsetof(struct mcad_message_command, text_bytes)", 8),
        of("sizeof(struct mcad_message_fork)", message::FORK as u64),
        of("offsetof(struct mcad_message_fork, slot)", 8),
        of("offsetof(struct mcad_message_fork, blocks)", 12),
        of("sizeof(struct mcad_message_waited)", message::WAITED as u64),
        of("offsetof(struct mcad_message_waited, pid)", 8),
        of("offsetof(struct mcad_message_waited, status)", 12),
        of("MCAD_EXEC_TRIED", layout::EXEC_TRIED.into()),
        of("MCAD_CHUNK_FREE", layout::FREE.into()),
        of("MCAD_CHUNK_OPEN", layout::OPEN.into()),
        of("MCAD_CHUNK_FULL", layout::FULL.into()),
        of("MCAD_CHUNK_DATA", layout::DATA.into()),
        of("MCAD_CHUNK_CONTROL", layout::CONTROL.into()),
        of("MCAD_CHUNK_LAST", layout::LAST.into()),
        of("MCAD_MESSAGE_BLOCK", layout::MESSAGE_BLOCK.into()),
        of("MCAD_MESSAGE_MODULE", layout::MESSAGE_MODULE.into()),
        of("MCAD_MESSAGE_NOTICE", layout::MESSAGE_NOTICE.into()),
        of("sizeof(struct mcad_message)", message::HEAD as u64),
        of("sizeof(struct mcad_message_block)", message::BLOCK as u64),
        of("offsetof(struct mcad_message_block, address)", 8),
        of("offsetof(struct mcad_message_block, id)", 16),
        of("offsetof(struct mcad_message_block, instructions)", 20),
        of("offsetof(struct mcad_message_block, code_bytes)", 24),
        of("offsetof(struct mcad_message_block, last_bytes)", 28),
        of("sizeof(struct mcad_message_module)", message::MODULE as u64),
        of("offsetof(struct mcad_message_module, start)", 8),
        of("offsetof(struct mcad_message_module, end)", 16),
        of("offsetof(struct mcad_message_module, file_offset)", 24),
        of("offsetof(struct mcad_message_module, path_bytes)", 32),
        of("sizeof(struct mcad_message_notice)", message::NOTICE as u64),
        of("offsetof(struct mcad_message_notice, text_bytes)", 8),
    ]);
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../qemu-plugin/mcad_ring.h");
    let mut source = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"{}\"\nint main(void) {{\n",
        header.display()
    );
    for (expression, _) in &expected {
        source += &format!("printf(\"%llu\\n\", (unsigned long long)({expression}));\n");
    }
    source += "return 0; }\n";
    let programs = Programs::new();
    let output = Command::new(programs.c("layout", &["-Wall", "-Wextra"], &source))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let values: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(values.len(), expected.len());
    for ((expression, rust), c) in expected.iter().zip(values) {
        assert_eq!(*rust, c, "{expression}");
    }
}
