//! Trace files made to be hostile: chunks whose columns hold anything, with lengths and checksums
//! that fit, so that what reads columns is reached at all. For fuzzers and tests.

use super::chunk::{HEADER_BYTES, Header};
use super::index::{FILE_PREFIX, file_header, header_length};
use super::{CHUNK_WORDS, MAX_CHUNK_BYTES};
use crate::event::SessionInfo;

/// Columns of a chunk: recall, event, control, address, detail.
pub(crate) const COLUMNS: usize = 5;

/// A file of one chunk.
pub(crate) fn file(info: &SessionInfo, columns: &[Vec<u8>; COLUMNS], words: u32) -> Vec<u8> {
    let mut out = file_header(info);
    out.extend(chunk(columns, 0, words).unwrap_or_default());
    out
}

/// The file with its chunks' columns changed, as far as chunks follow one another.
pub(crate) fn resealed(
    file: &[u8],
    change: &mut dyn FnMut(&mut [Vec<u8>; COLUMNS], &mut u32),
) -> Option<Vec<u8>> {
    let mut at = FILE_PREFIX + header_length(file.get(..FILE_PREFIX)?, "forged").ok()?;
    let mut out = file.get(..at)?.to_vec();
    while let Some(header) = Header::decode(file.get(at..)?) {
        let packed = file.get(at + HEADER_BYTES..at + header.file_bytes())?;
        let plain = zstd::bulk::decompress(packed, MAX_CHUNK_BYTES).ok()?;
        let mut rest = plain.as_slice();
        let mut columns = header.columns.map(|length| {
            let (column, after) = rest
                .split_at_checked(length as usize)
                .unwrap_or((rest, &[]));
            rest = after;
            column.to_vec()
        });
        let mut words = header.words;
        change(&mut columns, &mut words);
        out.extend(chunk(&columns, header.first_word, words)?);
        at += header.file_bytes();
    }
    out.extend(file.get(at..)?);
    Some(out)
}

fn chunk(columns: &[Vec<u8>; COLUMNS], first_word: u64, words: u32) -> Option<Vec<u8>> {
    let plain = columns.concat();
    let mut compressor = super::writer::compressor().ok()?;
    let packed = compressor.compress(&plain).ok()?;
    let mut out = Vec::from(
        Header {
            compressed: u32::try_from(packed.len()).ok()?,
            columns: std::array::from_fn(|n| columns[n].len() as u32),
            first_word,
            words: words.min(CHUNK_WORDS as u32),
        }
        .encode(),
    );
    out.extend(packed);
    Some(out)
}
