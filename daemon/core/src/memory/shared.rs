//! What the threads of a program share: the third level, and which pages were touched.
//!
//! It is lent to the thread whose records are simulated. Threads' records have an order in the
//! stream, so who finds whose lines is a function of the stream; their clocks have none, so lines
//! of another thread are there, whenever they came.

use mcad_isa::machine::hierarchy::LINE_BYTES;
use mcad_isa::machine::params::Core;

use super::pages::Pages;
use super::sets::Index;
use super::slices::Slices;

/// The shared part.
#[derive(Clone, Default)]
pub struct Shared {
    pub(super) l3: Option<Slices>,
    /// Pages of the program.
    pub pages: Pages,
}

impl Shared {
    /// Nothing in it.
    #[must_use]
    pub fn new(core: &Core) -> Box<Self> {
        let l3 = core.cache.as_ref().and_then(|caches| caches.l3);
        Box::new(Self {
            l3: l3.map(|p| {
                let lines = u64::from(p.kib) * 1024 / LINE_BYTES;
                Slices::new(lines, p.ways, Index::Frames, p.replacement)
            }),
            pages: Pages::default(),
        })
    }
}
