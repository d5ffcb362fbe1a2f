//! Where the parts of an installation are: brokers lie in `../lib/mcad` beside the directory of
//! the program, or, in a build directory, next to it. `$MCAD_BROKERS` names another directory.

use std::path::{Path, PathBuf};

use mcad_broker_abi::BrokerLibrary;

/// Brokers that come with mcad: they are of the program's own build, or not taken.
pub const OWN: [&str; 3] = ["qemu", "asm", "replay"];

/// No broker of that name, or none that can be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The file is nowhere.
    #[error(
        "the {name} broker ({file}) is in none of: {}. Build everything (`cargo build --release \
         --workspace`), or name its directory in $MCAD_BROKERS",
        list(tried)
    )]
    Missing {
        /// Name of the broker.
        name: String,
        /// Its file name.
        file: String,
        /// Where it was looked for.
        tried: Vec<PathBuf>,
    },
    /// It belongs to another build of mcad, whose brokers may follow programs differently.
    #[error(
        "{}, a broker that comes with mcad, was built from other sources than this program. Build \
         everything (`cargo build --release --workspace`) or install it anew, or name the directory \
         of this build's brokers in $MCAD_BROKERS",
        _0.display()
    )]
    OtherBuild(PathBuf),
    /// It is there and unusable.
    #[error(transparent)]
    Broken(#[from] mcad_broker_abi::BrokerError),
}

fn list(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    shown.join(", ")
}

/// Finds and loads a broker by name.
///
/// # Errors
/// [`InstallError`].
pub fn broker(name: &str) -> Result<BrokerLibrary, InstallError> {
    let path = broker_path(name)?;
    let library = BrokerLibrary::load(&path)?;
    if OWN.contains(&name) && !library.is_of_this_build() {
        return Err(InstallError::OtherBuild(path));
    }
    Ok(library)
}

/// The file of a broker.
///
/// # Errors
/// [`InstallError::Missing`].
pub fn broker_path(name: &str) -> Result<PathBuf, InstallError> {
    let set = std::env::var_os("MCAD_BROKERS").filter(|value| !value.is_empty());
    let directories = match set {
        Some(directory) => vec![PathBuf::from(directory)],
        None => std::env::current_exe()
            .map(|exe| directories(&exe))
            .unwrap_or_default(),
    };
    let file = format!("libmcad_broker_{name}.so");
    let found = directories.iter().map(|directory| directory.join(&file));
    match found.into_iter().find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => Err(InstallError::Missing {
            name: name.to_owned(),
            file,
            tried: directories,
        }),
    }
}

fn directories(exe: &Path) -> Vec<PathBuf> {
    let Some(bin) = exe.parent() else {
        return Vec::new();
    };
    let library = bin.parent().map(|prefix| prefix.join("lib/mcad"));
    library.into_iter().chain([bin.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_brokers_come_before_built_ones() {
        assert_eq!(
            directories(Path::new("/usr/bin/mcad-run")),
            [PathBuf::from("/usr/lib/mcad"), PathBuf::from("/usr/bin")]
        );
    }

    #[test]
    fn a_missing_broker_is_named_with_the_way_out() {
        let message = broker_path("nonesuch").unwrap_err().to_string();
        assert!(message.contains("libmcad_broker_nonesuch.so"), "{message}");
        assert!(message.contains("MCAD_BROKERS"), "{message}");
    }
}
