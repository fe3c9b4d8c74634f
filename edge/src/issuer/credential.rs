//! Secrets that we make, and how they are recognised again.
//!
//! All of them have 256 random bits, so a plain hash is enough to keep them by: there is nothing to
//! guess that a slow hash would protect. Nobody chooses one.

use crate::secret::Secret;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;

/// The machine gives no random numbers.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the machine gives no random numbers")]
pub struct NoRandom;

/// `N` random bytes as text for URLs.
pub(super) fn random<const N: usize>() -> Result<String, NoRandom> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// A new secret.
pub(super) fn secret() -> Result<Secret, NoRandom> {
    random::<32>().map(Secret::new)
}

/// What is kept of a secret.
pub(super) fn hash(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, secret.as_bytes()))
}

/// True if `given` is the secret that `kept` is the hash of. Takes the same time when nothing is
/// kept, so that nobody can find out by it which names exist.
pub(super) fn matches(given: &str, kept: Option<&str>) -> bool {
    let given = hash(given);
    // As long as a real hash and equal to none: it has a character that they have not.
    let nothing = "!".repeat(given.len());
    let same: bool = given
        .as_bytes()
        .ct_eq(kept.unwrap_or(&nothing).as_bytes())
        .into();
    same && kept.is_some()
}

#[cfg(test)]
mod tests {
    use super::{hash, matches, secret};

    #[test]
    fn a_secret_is_long_new_each_time_and_known_by_its_hash() {
        let (one, two) = (secret().unwrap(), secret().unwrap());
        assert_eq!(one.expose().len(), 43);
        assert_ne!(one.expose(), two.expose());
        let kept = hash(one.expose());
        assert!(!kept.contains(one.expose()));
        assert!(matches(one.expose(), Some(&kept)));
        assert!(!matches(two.expose(), Some(&kept)));
        assert!(!matches(one.expose(), None));
        assert!(!matches("", Some("")));
    }
}
