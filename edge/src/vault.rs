//! Encrypts stored secrets with AES-256-GCM (`aws-lc-rs`): tokens of installed apps, credentials of push
//! subscriptions. The record's name is authenticated, so that one ciphertext cannot be used in place of another.

use crate::Secret;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::fmt;

/// Format prefix of ciphertexts, for future format changes.
const FORMAT_PREFIX: &str = "v1.";
const KEY_LEN: usize = 32;

/// Encryption error. The message contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// The key is invalid.
    #[error(
        "the key of the vault must be 32 random bytes in base64 or hex: make one with `openssl rand -base64 32`"
    )]
    InvalidKey,
    /// Encrypted with another key or for another name, or modified.
    #[error(
        "the record of `{name}` cannot be decrypted: restore the key file with which it was stored, or store it again"
    )]
    CannotDecrypt {
        /// Name of the record.
        name: String,
    },
    /// Encryption failed.
    #[error("encryption failed on this machine: nothing was stored")]
    EncryptionFailed,
}

/// Encrypts and decrypts. `Debug` omits the key.
pub struct Vault(RandomizedNonceKey);

impl Vault {
    /// Creates a vault with a key of 32 bytes in base64 or hex; surrounding whitespace is ignored.
    ///
    /// # Errors
    /// The key is invalid.
    pub fn new(key: &Secret) -> Result<Self, VaultError> {
        let key = parse_key(key.expose().trim()).ok_or(VaultError::InvalidKey)?;
        let key =
            RandomizedNonceKey::new(&AES_256_GCM, &key).map_err(|_| VaultError::InvalidKey)?;
        Ok(Self(key))
    }

    /// Encrypts `text` for `name`, with a random nonce.
    ///
    /// # Errors
    /// No random bytes are available.
    pub fn seal(&self, name: &str, text: &str) -> Result<String, VaultError> {
        let mut sealed = text.as_bytes().to_vec();
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(name), &mut sealed);
        let nonce = nonce.map_err(|_| VaultError::EncryptionFailed)?;
        let mut output = nonce.as_ref().to_vec();
        output.extend_from_slice(&sealed);
        Ok(format!("{FORMAT_PREFIX}{}", URL_SAFE_NO_PAD.encode(output)))
    }

    /// Decrypts a value that was encrypted for `name`.
    ///
    /// # Errors
    /// It was encrypted with another key or for another name, or was modified.
    pub fn open(&self, name: &str, sealed: &str) -> Result<Secret, VaultError> {
        self.try_open(name, sealed)
            .ok_or_else(|| VaultError::CannotDecrypt {
                name: name.to_owned(),
            })
    }

    fn try_open(&self, name: &str, sealed: &str) -> Option<Secret> {
        let input = URL_SAFE_NO_PAD
            .decode(sealed.strip_prefix(FORMAT_PREFIX)?)
            .ok()?;
        let (nonce, ciphertext) = input.split_first_chunk::<NONCE_LEN>()?;
        let mut buffer = ciphertext.to_vec();
        let text = self
            .0
            .open_in_place(nonce.into(), Aad::from(name), &mut buffer)
            .ok()?;
        std::str::from_utf8(text).ok().map(Secret::new)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault")
    }
}

fn parse_key(text: &str) -> Option<[u8; KEY_LEN]> {
    let decode_hex = || -> Option<Vec<u8>> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect();
        let pairs = digits?;
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(high << 4 | low),
            _ => None,
        };
        pairs.chunks(2).map(byte).collect()
    };
    // 64 hex digits never decode to 32 bytes in base64, so the encoding is unambiguous.
    let candidates = [
        decode_hex(),
        STANDARD.decode(text).ok(),
        STANDARD_NO_PAD.decode(text).ok(),
        URL_SAFE_NO_PAD.decode(text).ok(),
    ];
    candidates
        .into_iter()
        .flatten()
        .find_map(|bytes| <[u8; KEY_LEN]>::try_from(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(byte: u8) -> Vault {
        Vault::new(&Secret::new(STANDARD.encode([byte; KEY_LEN]))).unwrap()
    }

    #[test]
    fn decryption_requires_same_key_and_name() {
        let sealed = vault(1).seal("T1", "xoxb-secret").unwrap();
        assert!(!sealed.contains("xoxb"));
        assert_eq!(
            vault(1).open("T1", &sealed).unwrap().expose(),
            "xoxb-secret"
        );
        assert_ne!(sealed, vault(1).seal("T1", "xoxb-secret").unwrap());
        let cannot_decrypt = |name: &str| {
            Err(VaultError::CannotDecrypt {
                name: name.to_owned(),
            })
        };
        assert_eq!(vault(1).open("T2", &sealed), cannot_decrypt("T2"));
        assert_eq!(vault(2).open("T1", &sealed), cannot_decrypt("T1"));
        let error = vault(2).open("T1", &sealed).unwrap_err().to_string();
        assert!(
            error.contains("`T1`") && error.contains("key file"),
            "{error}"
        );
    }

    #[test]
    fn modified_ciphertext_is_rejected() {
        let vault = vault(1);
        let sealed = vault.seal("T1", "xoxb-secret").unwrap();
        for position in 0..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(vault.open("T1", &changed).is_err(), "{position}");
        }
        for broken in ["", "v1.", "v1.AAAA", &sealed[3..], &sealed[..20]] {
            assert!(vault.open("T1", broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn key_must_be_32_bytes_in_base64_or_hex() {
        let sealed = vault(0xfb).seal("T1", "x").unwrap();
        let key = [0xfb; KEY_LEN];
        let hex = "fb".repeat(KEY_LEN);
        for good in [
            STANDARD.encode(key),
            STANDARD_NO_PAD.encode(key),
            URL_SAFE_NO_PAD.encode(key),
            hex.to_uppercase(),
            format!("  {hex}\n"),
        ] {
            let vault = Vault::new(&Secret::new(good)).unwrap();
            assert_eq!(vault.open("T1", &sealed).unwrap().expose(), "x");
        }
        for bad in [
            String::new(),
            "password".to_owned(),
            STANDARD.encode([1; 16]),
            STANDARD.encode([1; 33]),
            hex[1..].to_owned(),
            format!("{hex}ff"),
            "あ".repeat(32),
        ] {
            assert_eq!(
                Vault::new(&Secret::new(bad)).unwrap_err(),
                VaultError::InvalidKey
            );
        }
    }
}
