//! Resolves the executable of a command agent at startup.

use super::CommandOptions;
use std::path::{Path, PathBuf};

/// Search path if the program's environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Configuration errors of a command agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The command is empty.
    #[error("agent {agent:?} has an empty command; name a program and its arguments")]
    Empty {
        /// The agent.
        agent: String,
    },
    /// The program does not exist or is not executable.
    #[error("agent {agent:?}: executable {program:?} not found; install it, or give its full path")]
    NotFound {
        /// The agent.
        agent: String,
        /// The program.
        program: String,
    },
    /// The working directory does not exist.
    #[error(
        "agent {agent:?}: working directory {folder:?} does not exist; create it, or set another one"
    )]
    NoWorkingDirectory {
        /// The agent.
        agent: String,
        /// The directory.
        folder: PathBuf,
    },
}

/// Returns the absolute path of the program.
pub(super) fn resolve(options: &CommandOptions) -> Result<PathBuf, CommandError> {
    let agent = || options.id.to_string();
    if let Some(folder) = &options.cwd
        && !folder.is_dir()
    {
        return Err(CommandError::NoWorkingDirectory {
            agent: agent(),
            folder: folder.clone(),
        });
    }
    let named = options.command.first().filter(|name| !name.is_empty());
    let Some(name) = named else {
        return Err(CommandError::Empty { agent: agent() });
    };
    let candidates: Vec<PathBuf> = if name.contains('/') {
        let folder = options.cwd.clone().unwrap_or_default();
        vec![folder.join(name)]
    } else {
        let path = options.env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let folders = std::env::split_paths(path);
        folders.map(|folder| folder.join(name)).collect()
    };
    let found = candidates.into_iter().find(|path| is_executable(path));
    found
        .and_then(|path| std::path::absolute(path).ok())
        .ok_or_else(|| CommandError::NotFound {
            agent: agent(),
            program: name.clone(),
        })
}

#[cfg(unix)]
pub(super) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let is_executable_file = |metadata: std::fs::Metadata| {
        metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
    };
    std::fs::metadata(path).is_ok_and(is_executable_file)
}

#[cfg(not(unix))]
pub(super) fn is_executable(path: &Path) -> bool {
    path.is_file()
}
