//! What of an instruction's accesses its µops are made with.

#[cfg(doc)]
use super::Uop;

/// What of a load's address decides whether a load of a pointer can follow it a cycle sooner, and how
/// it takes its data from a store.
#[derive(Clone, Copy, Debug)]
pub struct PointerLoad {
    /// Base register.
    pub base: u8,
    /// Index register.
    pub index: u8,
    /// 0 <= displacement < 2048.
    pub near: bool,
    /// See [`Uop::forwarded_later`].
    pub forwarded_later: u8,
    /// See [`Uop::vector_later`].
    pub vector_later: u8,
    /// See [`Uop::crossing_later`].
    pub crossing_later: u8,
    /// See [`Uop::absolute`].
    pub absolute: bool,
}

/// What of an instruction's stores decides how loads take data from them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored {
    /// See [`Uop::forwarded_later`].
    pub forwarded_later: u8,
    /// See [`Uop::vector_later`].
    pub vector_later: u8,
    /// See [`Uop::absolute`].
    pub absolute: bool,
}
