//! What views write again and again: numbers, and the texts of a code, which are made once.

use super::Code;

/// Texts by code.
#[derive(Default)]
pub(super) struct Labels {
    made: Vec<Option<Box<[u8]>>>,
}

impl Labels {
    /// The text of the code that an instruction has; `make` writes it the first time.
    #[inline]
    pub(super) fn get(
        &mut self,
        number: u32,
        code: Option<&Code>,
        make: impl FnOnce(&Code, &mut Vec<u8>),
    ) -> &[u8] {
        let place = number as usize;
        if self.made.len() <= place {
            self.made.resize(place + 1, None);
        }
        let Some(made) = self.made.get_mut(place) else {
            return &[];
        };
        made.get_or_insert_with(|| {
            let mut text = Vec::new();
            if let Some(code) = code {
                make(code, &mut text);
            }
            text.into()
        })
    }
}

/// Appends texts and numbers; faster than formatting.
pub(super) trait Append {
    fn text(&mut self, text: &str) -> &mut Self;
    fn number(&mut self, number: impl itoa::Integer) -> &mut Self;
}

impl Append for Vec<u8> {
    #[inline]
    fn text(&mut self, text: &str) -> &mut Self {
        self.extend_from_slice(text.as_bytes());
        self
    }

    #[inline]
    fn number(&mut self, number: impl itoa::Integer) -> &mut Self {
        self.text(itoa::Buffer::new().format(number))
    }
}
