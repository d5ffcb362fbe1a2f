//! Messages to frames.

use capnp::message::{Builder, HeapAllocator};
use capnp::{serialize, text_list};

use crate::event::{Arch, EndReason, Event, ProcessEvent};
use crate::generated::mcad_capnp as schema;
use crate::wire::frame::{HEADER_BYTES, MAGIC};
use crate::wire::limits::MAX_STRINGS;
use crate::wire::message::{Hello, Message, Refusal, Role, Status};

/// Appends a message as a frame to `out`.
///
/// [`Message::Batch`] is passed on as it was received; new batches are made with
/// [`crate::wire::BatchBuilder`].
pub fn encode(message: &Message<'_>, out: &mut Vec<u8>) {
    if let Message::Batch(batch) = message {
        // Events that the reader refuses were refused by whoever holds the batch, too.
        let events: Vec<Event<'_>> = batch.events().map_while(Result::ok).collect();
        return self::batch(batch.sequence(), events.into_iter(), 0, out);
    }
    let mut builder = Builder::new_default();
    let mut root = builder.init_root::<schema::message::Builder<'_>>();
    match message {
        Message::Hello(hello) => write_hello(hello, root.init_hello()),
        Message::Accepted(accepted) => {
            let mut terms = root.init_hello_reply().init_accepted();
            terms.set_version(accepted.version);
            terms.set_session(accepted.session);
            terms.set_credit(accepted.credit);
            terms.set_max_frame(accepted.max_frame);
            terms.set_max_words(accepted.max_words);
            terms.set_features(accepted.features);
        }
        Message::Refused(refused) => {
            let mut reply = root.init_hello_reply().init_refused();
            reply.set_reason(match refused.reason {
                Refusal::Other => schema::Refusal::Other,
                Refusal::Version => schema::Refusal::Version,
                Refusal::Token => schema::Refusal::Token,
                Refusal::Arch => schema::Refusal::Arch,
                Refusal::Busy => schema::Refusal::Busy,
                Refusal::Options => schema::Refusal::Options,
                Refusal::ShuttingDown => schema::Refusal::ShuttingDown,
            });
            reply.set_message(&*refused.message);
            reply.set_min_version(super::message::OLDEST_VERSION);
            reply.set_max_version(super::message::VERSION);
        }
        Message::Batch(_) => {}
        Message::End { reason, batches } => {
            let mut coded = root.init_end();
            end(reason, coded.reborrow());
            coded.set_batches(*batches);
        }
        Message::Credit(credit) => root.set_credit(*credit),
        Message::Progress(progress) => {
            let mut coded = root.init_progress();
            coded.set_instructions(progress.instructions);
            coded.set_cycles(progress.cycles);
            coded.set_records(progress.records);
        }
        Message::ReportPart(part) => {
            let mut coded = root.init_report_part();
            coded.set_total(part.total);
            coded.set_offset(part.offset);
            coded.set_data(part.data);
        }
        Message::Failure(text) => root.set_failure(&**text),
        Message::Stop(text) => root.set_stop(&**text),
        Message::StatusRequest => root.set_status_request(()),
        Message::Status(status) => write_status(status, root.init_status()),
        Message::Shutdown { now } => root.set_shutdown(*now),
        Message::ShutdownReply { running } => root.set_shutdown_reply(*running),
    }
    frame(&builder, out);
}

/// `payload_bytes` is about how long the payload becomes; it only avoids reallocation.
pub(super) fn batch<'a>(
    sequence: u64,
    events: impl ExactSizeIterator<Item = Event<'a>>,
    payload_bytes: usize,
    out: &mut Vec<u8>,
) {
    let words = u32::try_from(payload_bytes / 8 + 16).unwrap_or(u32::MAX);
    let mut builder = Builder::new(HeapAllocator::new().first_segment_words(words));
    let mut coded = builder
        .init_root::<schema::message::Builder<'_>>()
        .init_batch();
    coded.set_sequence(sequence);
    let mut list = coded.init_events(events.len() as u32);
    for (i, event) in events.enumerate() {
        write_event(&event, list.reborrow().get(i as u32));
    }
    frame(&builder, out);
}

fn write_event(event: &Event<'_>, mut out: schema::event::Builder<'_>) {
    match event {
        // Not events of a batch: see BatchBuilder.
        Event::Session(_) | Event::End(_) => {}
        Event::Block(block) => {
            let mut coded = out.init_block();
            coded.set_id(block.id.0);
            coded.set_instructions(block.instructions);
            coded.set_address(block.address.0);
            coded.set_code(block.bytes);
        }
        Event::Module(module) => {
            let mut coded = out.init_module();
            coded.set_start(module.start.0);
            coded.set_end(module.end.0);
            coded.set_file_offset(module.file_offset);
            coded.set_path(&*module.path);
        }
        Event::Region(region) => {
            let mut coded = out.init_region();
            coded.set_start(region.start.0);
            coded.set_end(region.end.0);
            coded.set_name(&*region.name);
        }
        Event::StreamStart(stream) => out.set_stream_start(stream.0),
        Event::Records { stream, words } => {
            let mut coded = out.init_records();
            coded.set_stream(stream.0);
            let data = coded.init_words(words.len() as u32 * 8);
            for (to, word) in data.chunks_exact_mut(8).zip(*words) {
                to.copy_from_slice(&word.to_le_bytes());
            }
        }
        Event::StreamEnd(stream) => out.set_stream_end(stream.0),
        Event::Lost { count, reason } => {
            let mut coded = out.init_lost();
            coded.set_count(*count);
            coded.set_reason(&**reason);
        }
        Event::Notice(text) => out.set_notice(&**text),
        Event::Process { id, what } => {
            let mut coded = out.init_process();
            coded.set_id(id.0);
            match what {
                ProcessEvent::Forked { parent } => coded.set_forked(parent.0),
                ProcessEvent::Entered => coded.set_entered(()),
                ProcessEvent::Replaced { command } => {
                    let command = &command[..command.len().min(MAX_STRINGS)];
                    strings(command, coded.init_replaced(command.len() as u32));
                }
                ProcessEvent::Ended(reason) => end(reason, coded.init_ended()),
            }
        }
    }
}

fn write_hello(hello: &Hello, mut out: schema::hello::Builder<'_>) {
    out.set_min_version(hello.min_version);
    out.set_max_version(hello.max_version);
    out.set_role(match hello.role {
        Role::Trace => schema::Role::Trace,
        Role::Control => schema::Role::Control,
    });
    out.set_arch(hello.arch.map_or(schema::Arch::Unknown, arch));
    out.set_features(hello.features);
    out.set_token(&*hello.token);
    out.set_producer(&*hello.producer);
    strings(
        &hello.command,
        out.reborrow().init_command(hello.command.len() as u32),
    );
    let mut options = out.init_options(hello.options.len() as u32);
    for (i, (key, value)) in hello.options.iter().enumerate() {
        let mut option = options.reborrow().get(i as u32);
        option.set_key(&**key);
        option.set_value(&**value);
    }
}

fn write_status(status: &Status, mut out: schema::status::Builder<'_>) {
    out.set_version(&*status.version);
    out.set_uptime_seconds(status.uptime_seconds);
    out.set_max_sessions(status.max_sessions);
    out.set_finished_sessions(status.finished_sessions);
    out.set_failed_sessions(status.failed_sessions);
    out.set_resident_bytes(status.resident_bytes);
    let mut list = out.init_sessions(status.sessions.len() as u32);
    for (i, session) in status.sessions.iter().enumerate() {
        let mut coded = list.reborrow().get(i as u32);
        coded.set_id(session.id);
        coded.set_peer(&*session.peer);
        coded.set_command(&*session.command);
        coded.set_state(&*session.state);
        coded.set_seconds(session.seconds);
        coded.set_instructions(session.instructions);
        coded.set_records(session.records);
        coded.set_queued_bytes(session.queued_bytes);
    }
}

pub(crate) fn end(reason: &EndReason, mut out: schema::end::Builder<'_>) {
    match reason {
        EndReason::Exited(status) => out.set_exited(*status),
        EndReason::Signaled(signal) => out.set_signaled(*signal),
        EndReason::Exec(status) => out.set_exec(*status),
        EndReason::ProducerDied(text) => out.set_producer_died(&**text),
        EndReason::Truncated(text) => out.set_truncated(&**text),
        EndReason::Complete => out.set_complete(()),
    }
}

pub(crate) fn arch(arch: Arch) -> schema::Arch {
    match arch {
        Arch::X86_64 => schema::Arch::X8664,
        Arch::AArch64 => schema::Arch::Aarch64,
        Arch::RiscV64 => schema::Arch::Riscv64,
        Arch::RiscV32 => schema::Arch::Riscv32,
    }
}

pub(crate) fn strings(texts: &[String], mut out: text_list::Builder<'_>) {
    for (i, text) in texts.iter().enumerate() {
        out.set(i as u32, &**text);
    }
}

/// Appends `builder`'s message with a frame header.
fn frame(builder: &Builder<HeapAllocator>, out: &mut Vec<u8>) {
    let payload = serialize::compute_serialized_size_in_words(builder) * 8;
    out.reserve(HEADER_BYTES + payload);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&(payload as u32).to_le_bytes());
    out.extend_from_slice(&serialize::write_message_to_words(builder));
}
