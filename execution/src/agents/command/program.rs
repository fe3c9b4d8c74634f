//! Finding the program, before anybody relies on it.

use super::CommandOptions;
use std::path::{Path, PathBuf};

/// Where programs are looked for if the environment that they are given does not say.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Why a program cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No program is named.
    #[error("agent {agent:?} has an empty command; name a program and its arguments")]
    Empty {
        /// The agent.
        agent: String,
    },
    /// There is no such program.
    #[error(
        "agent {agent:?}: there is no program {program:?} that can be run; install it, or give its whole path"
    )]
    NotFound {
        /// The agent.
        agent: String,
        /// The program.
        program: String,
    },
    /// There is no such folder.
    #[error("agent {agent:?}: there is no folder {folder:?} to run in; make it, or name another")]
    NoFolder {
        /// The agent.
        agent: String,
        /// The folder.
        folder: PathBuf,
    },
}

/// The program's whole path.
pub(super) fn find(options: &CommandOptions) -> Result<PathBuf, CommandError> {
    let agent = || options.id.to_string();
    if let Some(folder) = &options.cwd
        && !folder.is_dir()
    {
        return Err(CommandError::NoFolder {
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
        let path = options.env.get("PATH").map_or(USUAL_PATH, String::as_str);
        let folders = std::env::split_paths(path);
        folders.map(|folder| folder.join(name)).collect()
    };
    let found = candidates.into_iter().find(|path| can_run(path));
    found
        .and_then(|path| std::path::absolute(path).ok())
        .ok_or_else(|| CommandError::NotFound {
            agent: agent(),
            program: name.clone(),
        })
}

#[cfg(unix)]
pub(super) fn can_run(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let runs =
        |about: std::fs::Metadata| about.is_file() && about.permissions().mode() & 0o111 != 0;
    std::fs::metadata(path).is_ok_and(runs)
}

#[cfg(not(unix))]
pub(super) fn can_run(path: &Path) -> bool {
    path.is_file()
}
