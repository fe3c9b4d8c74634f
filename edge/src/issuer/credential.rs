//! Generation and verification of secrets.
//!
//! All secrets are generated here with 256 random bits, so a plain SHA-256 hash is enough to store them:
//! there is nothing to guess that a slow hash would protect.

use crate::Secret;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;

/// The system's random number generator failed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the system's random number generator failed")]
pub struct RandomError;

/// Returns `N` random bytes in URL-safe base64.
pub(super) fn random_base64<const N: usize>() -> Result<String, RandomError> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| RandomError)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Generates a secret.
pub(super) fn generate_secret() -> Result<Secret, RandomError> {
    random_base64::<32>().map(Secret::new)
}

/// Returns the stored form of a secret: its SHA-256 hash in URL-safe base64.
pub(super) fn hash(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, secret.as_bytes()))
}

/// Returns true if `stored` is the hash of `given`. Takes the same time when there is no stored hash, so
/// that the timing does not reveal which names exist.
pub(super) fn matches(given: &str, stored: Option<&str>) -> bool {
    let given = hash(given);
    // Same length as a real hash and equal to none, because `!` is not in the base64 alphabet.
    let placeholder = "!".repeat(given.len());
    let is_equal: bool = given
        .as_bytes()
        .ct_eq(stored.unwrap_or(&placeholder).as_bytes())
        .into();
    is_equal && stored.is_some()
}

#[cfg(test)]
mod tests {
    use super::{generate_secret, hash, matches};

    #[test]
    fn secret_is_random_and_matches_its_hash() {
        let (one, two) = (generate_secret().unwrap(), generate_secret().unwrap());
        assert_eq!(one.expose().len(), 43);
        assert_ne!(one.expose(), two.expose());
        let stored = hash(one.expose());
        assert!(!stored.contains(one.expose()));
        assert!(matches(one.expose(), Some(&stored)));
        assert!(!matches(two.expose(), Some(&stored)));
        assert!(!matches(one.expose(), None));
        assert!(!matches("", Some("")));
    }
}
