//! Packing of the files that are embedded in the program: bincode behind zstd.
//!
//! Made only by `cargo xtask tables` and `tables-llvm`; nothing that comes from a user or a peer is
//! ever decoded here.

use bincode::{Decode, Encode, config::standard};

/// Unpacks a file.
///
/// # Errors
/// A text that says what is wrong.
pub fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<T, String> {
    let plain = zstd::decode_all(bytes).map_err(|e| format!("decompressing: {e}"))?;
    let (file, used) = bincode::decode_from_slice::<T, _>(&plain, standard())
        .map_err(|e| format!("decoding: {e}"))?;
    match plain.len() - used {
        0 => Ok(file),
        rest => Err(format!("{rest} bytes follow the table")),
    }
}

/// Packs a file.
///
/// # Errors
/// A text that says what is wrong.
pub fn encode<T: Encode>(file: &T) -> Result<Vec<u8>, String> {
    let plain = bincode::encode_to_vec(file, standard()).map_err(|e| format!("encoding: {e}"))?;
    zstd::encode_all(plain.as_slice(), 19).map_err(|e| format!("compressing: {e}"))
}
