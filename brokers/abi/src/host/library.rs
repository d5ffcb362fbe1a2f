//! A loaded broker.

use std::mem::{ManuallyDrop, MaybeUninit, offset_of};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::broker::{Broker, Features};
use crate::config::Config;
use crate::export;
use crate::ffi::{self, EntryFn, NextFn, OpenFn, SessionFn, mcad_broker};
use crate::host::check::text;
use crate::host::session::BrokerSession;
use crate::host::{BrokerError, MAX_TEXT_BYTES};

/// A broker's checked description. The library stays loaded until the process ends: a thread that
/// called into it may have destructors of the library's thread-local data left to run.
#[derive(Clone)]
pub struct BrokerLibrary {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub name: String,
    help: String,
    features: Features,
    sources: String,
    path: PathBuf,
    pub open: OpenFn,
    pub next: NextFn,
    pub stop: Option<SessionFn>,
    pub close: SessionFn,
}

impl BrokerLibrary {
    /// Loads a shared library and checks its description.
    ///
    /// Loading runs the library's own code; only load what you would also run as a program.
    ///
    /// # Errors
    /// [`BrokerError::Load`] and [`BrokerError::Incompatible`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, BrokerError> {
        let path = path.as_ref();
        // SAFETY: the caller chose to run this library, see above.
        let library = unsafe { libloading::Library::new(path) };
        let library = library.map_err(|source| BrokerError::Load {
            path: path.to_owned(),
            source,
        })?;
        // Never unloaded, see the type's description; this also keeps the pointers below valid.
        let library = ManuallyDrop::new(library);
        let entry = {
            // SAFETY: the header gives this symbol this type.
            let symbol = unsafe { library.get::<EntryFn>(ffi::ENTRY_SYMBOL) };
            *symbol.map_err(|_| BrokerError::Incompatible {
                path: path.to_owned(),
                what: "it does not export mcad_broker_entry".into(),
            })?
        };
        // SAFETY: a function of the loaded library without arguments.
        let description = unsafe { entry() };
        // SAFETY: null, or a description that lives as long as the library (header), so for ever.
        unsafe { Self::check(description, path) }
    }

    /// The same for a broker that is linked into this executable; used by tests and by tools that
    /// need no plug-in. Events take the same way through the C edge.
    ///
    /// # Errors
    /// As [`BrokerLibrary::load`].
    pub fn linked<B: Broker>() -> Result<Self, BrokerError> {
        // SAFETY: a static description.
        unsafe { Self::check(export::description::<B>(), Path::new(B::NAME)) }
    }

    /// The same for a description that did not come from a shared library.
    ///
    /// # Errors
    /// [`BrokerError::Incompatible`].
    ///
    /// # Safety
    /// `description` is null or leads to as many readable bytes as its first field says. Its
    /// functions and texts keep the header's rules and live as long as the result and its sessions.
    pub unsafe fn from_description(description: *const mcad_broker) -> Result<Self, BrokerError> {
        // SAFETY: the caller's promise.
        unsafe { Self::check(description, Path::new("the given description")) }
    }

    /// SAFETY: `description` is null or leads to as many readable bytes as its first field says.
    unsafe fn check(description: *const mcad_broker, path: &Path) -> Result<Self, BrokerError> {
        let bad = |what: String| BrokerError::Incompatible {
            path: path.to_owned(),
            what,
        };
        if description.is_null() {
            return Err(bad("mcad_broker_entry returned no description".into()));
        }
        if !description.is_aligned() {
            return Err(bad("its description is not aligned".into()));
        }
        // SAFETY: size, abi_version and reserved are there in every version.
        let (size, version) = unsafe {
            (
                (&raw const (*description).size).read(),
                (&raw const (*description).abi_version).read(),
            )
        };
        if !(ffi::OLDEST_ABI_VERSION..=ffi::MCAD_BROKER_ABI_VERSION).contains(&version) {
            return Err(bad(format!(
                "it speaks version {version} of the broker ABI, this program version {}; rebuild it \
                 with the mcad_broker.h of this program",
                ffi::MCAD_BROKER_ABI_VERSION
            )));
        }
        let needed = offset_of!(mcad_broker, sources);
        if size < needed {
            return Err(bad(format!(
                "its description has {size} bytes, version {version} needs {needed}"
            )));
        }
        let mut broker = MaybeUninit::<mcad_broker>::zeroed();
        // SAFETY: the size says how many bytes there are to read. Zeroes are no text, which is what
        // a description that ends before `sources` says of it.
        let broker = unsafe {
            let bytes = size.min(size_of::<mcad_broker>());
            broker
                .as_mut_ptr()
                .cast::<u8>()
                .copy_from_nonoverlapping(description.cast(), bytes);
            broker.assume_init()
        };
        let (Some(open), Some(next), Some(close)) = (broker.open, broker.next, broker.close) else {
            return Err(bad("open, next or close is null".into()));
        };
        // SAFETY: texts of a description live as long as the library.
        let name = unsafe { text(broker.name, MAX_TEXT_BYTES) };
        let name = name.map_err(|e| bad(format!("its name: {e}")))?;
        if name.is_empty() {
            return Err(bad("it has no name".into()));
        }
        // SAFETY: as above.
        let help = unsafe { text(broker.help, MAX_TEXT_BYTES) };
        let help = help.map_err(|e| bad(format!("its help text: {e}")))?;
        // SAFETY: as above.
        let sources = unsafe { text(broker.sources, MAX_TEXT_BYTES) };
        let sources = sources.map_err(|e| bad(format!("its sources: {e}")))?;
        Ok(Self {
            shared: Arc::new(Shared {
                name: name.to_owned(),
                help: help.to_owned(),
                features: Features(broker.features),
                sources: sources.to_owned(),
                path: path.to_owned(),
                open,
                next,
                stop: broker.stop,
                close,
            }),
        })
    }

    /// Name, for example `qemu`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// One line per configuration key.
    #[must_use]
    pub fn help(&self) -> &str {
        &self.shared.help
    }

    /// What its sessions may carry; bits that this version does not know may be set.
    #[must_use]
    pub fn features(&self) -> Features {
        self.shared.features
    }

    /// Whether it was built from the same sources as this program ([`crate::SOURCES`]), which holds
    /// of brokers of one build only.
    #[must_use]
    pub fn is_of_this_build(&self) -> bool {
        self.shared.sources == crate::SOURCES
    }

    /// The file it was loaded from, or its name when it is linked in.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Opens a session.
    ///
    /// # Errors
    /// [`BrokerError::Open`] with the broker's message.
    pub fn open(&self, config: &Config) -> Result<BrokerSession, BrokerError> {
        BrokerSession::open(Arc::clone(&self.shared), config)
    }
}

impl std::fmt::Debug for BrokerLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrokerLibrary")
            .field("name", &self.shared.name)
            .field("path", &self.shared.path)
            .finish_non_exhaustive()
    }
}
