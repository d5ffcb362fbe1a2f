//! How text is laid out: width in columns, and whether colour may be used.

use std::fmt;

/// Width where there is no terminal to ask.
pub const DEFAULT_WIDTH: usize = 100;

/// Least width that the tables are laid out for; narrower terminals wrap.
pub const MIN_WIDTH: usize = 60;

/// Layout of a text view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns.
    pub width: usize,
    /// Whether to use ANSI colours.
    pub colour: bool,
    /// Functions that a summary lists.
    pub functions: usize,
}

/// Functions that a summary lists if nobody asks for more.
pub const FUNCTIONS: usize = 12;

impl Style {
    /// For files and pipes: no colour, a fixed width.
    #[must_use]
    pub const fn plain() -> Self {
        Self {
            width: DEFAULT_WIDTH,
            colour: false,
            functions: FUNCTIONS,
        }
    }

    /// With so many functions in a summary.
    #[must_use]
    pub const fn with_functions(mut self, functions: usize) -> Self {
        self.functions = functions;
        self
    }

    /// For a terminal of this width. Colour honours `NO_COLOR` (any value that is not empty) and
    /// `TERM=dumb`, both given here as the environment has them.
    #[must_use]
    pub fn terminal(width: usize, no_color: Option<&str>, term: Option<&str>) -> Self {
        let refused = no_color.is_some_and(|value| !value.is_empty()) || term == Some("dumb");
        Self {
            width: width.max(MIN_WIDTH),
            colour: !refused,
            functions: FUNCTIONS,
        }
    }

    /// Text in this paint, or plain where colour is off.
    pub fn paint<T: fmt::Display>(self, paint: Paint, text: T) -> Painted<T> {
        Painted {
            paint: self.colour.then_some(paint),
            text,
        }
    }
}

/// What a piece of text is; each has one ANSI rendition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Headings.
    Heading,
    /// Less important.
    Dim,
    /// Warnings.
    Warning,
    /// Issue slots that did work.
    Retiring,
    /// Slots lost to wrong predictions.
    BadSpeculation,
    /// Slots lost in the front end.
    Frontend,
    /// Slots lost to memory.
    Memory,
    /// Slots lost to ports and dependencies.
    Core,
    /// Slots lost otherwise.
    Other,
}

impl Paint {
    const fn code(self) -> &'static str {
        match self {
            Self::Heading => "1",
            Self::Dim | Self::Other => "2",
            Self::Warning => "33",
            Self::Retiring => "32",
            Self::BadSpeculation => "36",
            Self::Frontend => "35",
            Self::Memory => "31",
            Self::Core => "33",
        }
    }
}

/// Text with its paint; shows itself with or without escape codes.
pub struct Painted<T> {
    paint: Option<Paint>,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.paint {
            None => self.text.fmt(f),
            Some(paint) => {
                write!(f, "\x1b[{}m", paint.code())?;
                self.text.fmt(f)?;
                f.write_str("\x1b[0m")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_refused_by_no_color_and_dumb_terminals() {
        assert!(Style::terminal(80, None, Some("xterm")).colour);
        assert!(Style::terminal(80, Some(""), None).colour);
        assert!(!Style::terminal(80, Some("1"), Some("xterm")).colour);
        assert!(!Style::terminal(80, None, Some("dumb")).colour);
        assert_eq!(Style::terminal(3, None, None).width, MIN_WIDTH);
    }

    #[test]
    fn paint_costs_nothing_without_colour() {
        let plain = Style::plain().paint(Paint::Heading, "x").to_string();
        assert_eq!(plain, "x");
        let style = Style::terminal(80, None, None);
        assert_eq!(
            style.paint(Paint::Heading, "x").to_string(),
            "\x1b[1mx\x1b[0m"
        );
    }
}
