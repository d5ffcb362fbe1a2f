//! Events through the C edge and back, and hosts that meet brokers which break the rules.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may fail loudly

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mcad_broker_abi::ffi::{self, mcad_broker, mcad_event, mcad_session, mcad_str};
use mcad_broker_abi::{Broker, BrokerError, BrokerLibrary, Config, Features, StopFn, export};
use mcad_proto::event::*;
use mcad_proto::word::*;

const NOW: Duration = Duration::ZERO;

fn all_events() -> Vec<Event<'static>> {
    let mut events = vec![
        Event::Session(SessionInfo {
            arch: Arch::X86_64,
            producer: "test µ".into(),
            command: vec!["a".into(), String::new(), "b c\n".into()],
            memory: true,
        }),
        Event::StreamStart(StreamId(7)),
        Event::Block(BlockDef {
            id: BlockId(3),
            address: GuestAddr(u64::MAX),
            instructions: 512,
            bytes: &[0x90; 512],
        }),
        Event::Module(ModuleDef {
            path: "/lib/x".into(),
            start: GuestAddr(1),
            end: GuestAddr(2),
            file_offset: 3,
        }),
        Event::Region(RegionDef {
            name: "main".into(),
            start: GuestAddr(4),
            end: GuestAddr(5),
        }),
        Event::Records {
            stream: StreamId(7),
            words: const { &[block_word(BlockId(3)), 5, 6] },
        },
        Event::Records {
            stream: StreamId(7),
            words: &[],
        },
        Event::StreamEnd(StreamId(7)),
        Event::Lost {
            count: 12,
            reason: "why".into(),
        },
        Event::Notice("note".into()),
    ];
    let what = [
        ProcessEvent::Forked {
            parent: ProcessId::FIRST,
        },
        ProcessEvent::Entered,
        ProcessEvent::Replaced {
            command: vec!["sh".into(), String::new()],
        },
        ProcessEvent::Ended(EndReason::Signaled(9)),
        ProcessEvent::Ended(EndReason::ProducerDied("how".into())),
    ];
    let id = ProcessId(1);
    events.extend(what.map(|what| Event::Process { id, what }));
    events.push(Event::End(EndReason::Exited(-1)));
    events
}

struct Scripted {
    left: std::vec::IntoIter<Event<'static>>,
    stopped: Arc<AtomicBool>,
}

impl Broker for Scripted {
    const NAME: &'static str = "scripted";
    const HELP: &'static str = "mode: all | panic | fail";
    const FEATURES: Features = Features::MEMORY.and(Features::MODULES);

    fn open(config: &Config) -> Result<Self, String> {
        config.expect_keys(&["mode"])?;
        let events = match config.get("mode") {
            Some("all") => all_events(),
            Some("refuse") => return Err("no such mode\u{20ac}".repeat(2000)),
            Some("panic-open") => panic!("in open"),
            Some("forever" | "panic") => Vec::new(),
            other => return Err(format!("mode {other:?}")),
        };
        if config.get("mode") == Some("panic") {
            // A first event, then `next` below panics.
            return Ok(Self {
                left: vec![Event::Notice("panic".into())].into_iter(),
                stopped: Arc::default(),
            });
        }
        Ok(Self {
            left: events.into_iter(),
            stopped: Arc::default(),
        })
    }

    fn next(&mut self, _: Duration) -> Result<Option<Event<'_>>, String> {
        if self.stopped.load(Ordering::Relaxed) {
            return Ok(Some(Event::End(EndReason::Complete)));
        }
        match self.left.next() {
            Some(Event::Notice(text)) if text == "panic" => panic!("on purpose"),
            event => Ok(event),
        }
    }

    fn stopper(&self) -> Option<StopFn> {
        let stopped = Arc::clone(&self.stopped);
        Some(Arc::new(move || stopped.store(true, Ordering::Relaxed)))
    }
}

fn config(mode: &str) -> Config {
    let mut config = Config::new();
    config.push("mode", mode).unwrap();
    config
}

#[test]
fn events_cross_the_edge_unchanged() {
    let library = BrokerLibrary::linked::<Scripted>().unwrap();
    assert_eq!(library.name(), "scripted");
    assert!(library.features().has(Features::MODULES));
    let mut session = library.open(&config("all")).unwrap();
    for expected in all_events() {
        assert_eq!(session.next(NOW).unwrap(), Some(expected));
    }
    assert!(matches!(session.next(NOW), Err(BrokerError::Over { .. })));
}

#[test]
fn every_end_reason_crosses() {
    let reasons = [
        EndReason::Exited(3),
        EndReason::Signaled(9),
        EndReason::Exec(137),
        EndReason::ProducerDied("killed".into()),
        EndReason::Truncated("cut".into()),
        EndReason::Complete,
    ];
    struct Ends(EndReason);
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    static REASONS: std::sync::Mutex<Vec<EndReason>> = std::sync::Mutex::new(Vec::new());
    impl Broker for Ends {
        const NAME: &'static str = "ends";
        const HELP: &'static str = "";
        const FEATURES: Features = Features::NONE;
        fn open(_: &Config) -> Result<Self, String> {
            let index = NEXT.fetch_add(1, Ordering::Relaxed);
            Ok(Self(REASONS.lock().unwrap()[index].clone()))
        }
        fn next(&mut self, _: Duration) -> Result<Option<Event<'_>>, String> {
            Ok(Some(Event::End(self.0.clone())))
        }
    }
    *REASONS.lock().unwrap() = reasons.to_vec();
    let library = BrokerLibrary::linked::<Ends>().unwrap();
    for reason in reasons {
        let mut session = library.open(&Config::new()).unwrap();
        assert!(session.stop(), "the C edge always has a stop function");
        assert_eq!(session.next(NOW).unwrap(), Some(Event::End(reason)));
    }
}

#[test]
fn refusals_and_panics_become_messages() {
    let library = BrokerLibrary::linked::<Scripted>().unwrap();
    let long = library.open(&config("refuse")).unwrap_err().to_string();
    assert!(
        long.starts_with("scripted broker: no such mode\u{20ac}no"),
        "{long}"
    );
    assert!(long.len() < 8300 && !long.contains('\u{fffd}'));
    let message = library.open(&config("panic-open")).unwrap_err().to_string();
    assert_eq!(
        message,
        "scripted broker: internal error in the scripted broker: in open"
    );

    let mut session = library.open(&config("panic")).unwrap();
    assert_eq!(
        session.next(NOW).unwrap_err().to_string(),
        "scripted broker, after 0 events: internal error in the scripted broker: on purpose"
    );
    assert!(matches!(session.next(NOW), Err(BrokerError::Over { .. })));
}

#[test]
fn a_stopper_works_from_another_thread_and_after_the_session() {
    let library = BrokerLibrary::linked::<Scripted>().unwrap();
    let mut session = library.open(&config("forever")).unwrap();
    assert_eq!(session.next(NOW).unwrap(), None);
    let stopper = session.stopper();
    let other = stopper.clone();
    assert!(std::thread::spawn(move || other.stop()).join().unwrap());
    assert_eq!(
        session.next(NOW).unwrap(),
        Some(Event::End(EndReason::Complete))
    );
    drop(session);
    assert!(!stopper.stop());
}

/// Fills the event that a foreign broker of these tests hands out.
type Fill = fn(&mut mcad_event);

/// What `foreign_next` writes; the tests of this file that use it hold the lock.
static FOREIGN: std::sync::Mutex<Option<Fill>> = std::sync::Mutex::new(None);

unsafe extern "C" fn foreign_next(_: *mut mcad_session, _: u32, event: *mut mcad_event) -> c_int {
    if let Some(fill) = *FOREIGN.lock().unwrap() {
        fill(unsafe { &mut *event });
    }
    0
}

/// A broker that is right but for its events.
struct Foreign;
impl Broker for Foreign {
    const NAME: &'static str = "foreign";
    const HELP: &'static str = "";
    const FEATURES: Features = Features::NONE;
    fn open(_: &Config) -> Result<Self, String> {
        Ok(Self)
    }
    fn next(&mut self, _: Duration) -> Result<Option<Event<'_>>, String> {
        Ok(None)
    }
}

fn foreign(fill: Fill) -> String {
    static SERIAL: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _serial = SERIAL.lock().unwrap();
    *FOREIGN.lock().unwrap() = Some(fill);
    let mut description = *export::description::<Foreign>();
    description.next = Some(foreign_next);
    let library = unsafe { BrokerLibrary::from_description(&raw const description) }.unwrap();
    let mut session = library.open(&Config::new()).unwrap();
    let error = session.next(NOW).unwrap_err();
    assert!(matches!(error, BrokerError::BadEvent { event: 1, .. }));
    assert!(matches!(session.next(NOW), Err(BrokerError::Over { .. })));
    error.to_string()
}

#[test]
fn broken_events_are_refused() {
    let cases: &[(Fill, &str)] = &[
        (|e| e.kind = 99, "unknown kind 99"),
        (
            |e| e.kind = ffi::MCAD_EVENT_SESSION,
            "unknown instruction set 0",
        ),
        (
            |e| {
                e.kind = ffi::MCAD_EVENT_BLOCK;
                e.count = 513;
            },
            "513 instructions",
        ),
        (
            |e| {
                e.kind = ffi::MCAD_EVENT_BLOCK;
                e.count = 1;
                e.len = 9000;
            },
            "9000 code bytes",
        ),
        (
            |e| {
                e.kind = ffi::MCAD_EVENT_BLOCK;
                e.count = 1;
                e.len = 1;
            },
            "null pointer",
        ),
        (
            |e| {
                e.kind = ffi::MCAD_EVENT_RECORDS;
                e.len = usize::MAX;
            },
            "record words in one event",
        ),
        (
            |e| {
                e.kind = ffi::MCAD_EVENT_RECORDS;
                e.len = 1;
                e.data = std::ptr::without_provenance(0x1001);
            },
            "not aligned",
        ),
        (
            |e| {
                e.kind = ffi::MCAD_EVENT_NOTICE;
                e.text = mcad_str {
                    data: b"\xff".as_ptr().cast(),
                    len: 1,
                };
            },
            "not UTF-8",
        ),
        (
            |e| {
                e.kind = ffi::MCAD_EVENT_NOTICE;
                e.text.len = 1 << 40;
            },
            "a text of 1099511627776 bytes",
        ),
        (
            |e| {
                e.kind = ffi::MCAD_EVENT_SESSION;
                e.arch = 1;
                e.strings_len = usize::MAX;
            },
            "strings, at most",
        ),
        (
            |e| {
                e.kind = ffi::MCAD_EVENT_MODULE;
                e.address = 2;
                e.end = 1;
            },
            "before its start",
        ),
        (
            |e| {
                e.kind = ffi::MCAD_EVENT_END;
                e.reason = -1;
            },
            "unknown end reason -1",
        ),
    ];
    for (fill, expected) in cases {
        let message = foreign(*fill);
        assert!(message.contains(expected), "{message}");
        assert!(
            message.starts_with("foreign broker, event 1: "),
            "{message}"
        );
    }
}

#[test]
fn wrong_descriptions_are_refused() {
    type Spoil = fn(&mut mcad_broker);
    let cases: &[(Spoil, &str)] = &[
        (|b| b.abi_version = 3, "speaks version 3 of the broker ABI"),
        (|b| b.size = 8, "its description has 8 bytes"),
        (|b| b.next = None, "open, next or close is null"),
        (|b| b.name.len = 0, "it has no name"),
        (|b| b.help.len = usize::MAX, "its help text: a text of"),
    ];
    for (spoil, expected) in cases {
        let mut description = *export::description::<Foreign>();
        spoil(&mut description);
        let error = unsafe { BrokerLibrary::from_description(&raw const description) };
        let message = error.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let null = unsafe { BrokerLibrary::from_description(std::ptr::null()) };
    assert!(null.is_err());
}

#[test]
fn brokers_say_which_build_they_are_of() {
    let own = BrokerLibrary::linked::<Scripted>().unwrap();
    assert!(own.is_of_this_build());
    let spoils: [fn(&mut mcad_broker); 2] = [
        |b| b.sources = mcad_str::of("0123456789abcdef"),
        // As compiled before there was such a field; what is behind the end is not looked at.
        |b| b.size = std::mem::offset_of!(mcad_broker, sources),
    ];
    for spoil in spoils {
        let mut description = *export::description::<Scripted>();
        spoil(&mut description);
        let library = unsafe { BrokerLibrary::from_description(&raw const description) };
        let library = library.unwrap();
        assert_eq!(library.name(), "scripted");
        assert!(!library.is_of_this_build());
    }
}

#[test]
fn files_that_are_no_brokers_are_named() {
    let missing = BrokerLibrary::load("/nonexistent/libx.so").unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with("cannot load the broker /nonexistent/libx.so: "),
        "{missing}"
    );
    let other = BrokerLibrary::load("libm.so.6").unwrap_err();
    assert_eq!(
        other.to_string(),
        "libm.so.6 is no usable broker: it does not export mcad_broker_entry"
    );
}
