//! Seals what is stored and must not be read: AES-256 in GCM, by the library that TLS uses. Each seal
//! names what it is for, so that one cannot be put in another's place. What is sealed is not known here.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use interzone_edge::Secret;
use std::fmt;

/// The first word of everything sealed, for the day on which there is another way to do it.
const FORM: &str = "v1.";
const KEY: usize = 32;

/// Why something could not be sealed or opened. It never tells what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// The key is none.
    #[error(
        "the key of the vault must be 32 random bytes in base64 or hex: make one with `openssl rand -base64 32`"
    )]
    BadKey,
    /// It was sealed with another key, for something else, or was changed since.
    #[error(
        "what is stored for `{name}` cannot be opened: give back the key file with which it was stored, or install the app there again"
    )]
    Closed {
        /// For what it was sealed.
        name: String,
    },
    /// The cryptography failed us.
    #[error("the cryptography of this machine does not work: nothing was stored")]
    Broken,
}

/// Seals and opens. The key cannot be printed.
pub struct Vault(RandomizedNonceKey);

impl Vault {
    /// Takes a key of 32 bytes, written in base64 or hex, with white space around it or not.
    ///
    /// # Errors
    /// It is not such a key.
    pub fn new(key: &Secret) -> Result<Self, VaultError> {
        let key = key_of(key.expose().trim()).ok_or(VaultError::BadKey)?;
        let key = RandomizedNonceKey::new(&AES_256_GCM, &key).map_err(|_| VaultError::BadKey)?;
        Ok(Self(key))
    }

    /// Seals `text` for `name`. Sealed twice, it looks different.
    ///
    /// # Errors
    /// The machine has no randomness.
    pub fn seal(&self, name: &str, text: &str) -> Result<String, VaultError> {
        let mut sealed = text.as_bytes().to_vec();
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(name), &mut sealed);
        let nonce = nonce.map_err(|_| VaultError::Broken)?;
        let mut whole = nonce.as_ref().to_vec();
        whole.extend_from_slice(&sealed);
        Ok(format!("{FORM}{}", URL_SAFE_NO_PAD.encode(whole)))
    }

    /// Opens what was sealed for `name`.
    ///
    /// # Errors
    /// It was sealed with another key, for another name, or was changed since.
    pub fn open(&self, name: &str, sealed: &str) -> Result<Secret, VaultError> {
        self.opened(name, sealed).ok_or_else(|| VaultError::Closed {
            name: name.to_owned(),
        })
    }

    fn opened(&self, name: &str, sealed: &str) -> Option<Secret> {
        let whole = URL_SAFE_NO_PAD.decode(sealed.strip_prefix(FORM)?).ok()?;
        let (nonce, rest) = whole.split_first_chunk::<NONCE_LEN>()?;
        let mut rest = rest.to_vec();
        let text = self
            .0
            .open_in_place(nonce.into(), Aad::from(name), &mut rest)
            .ok()?;
        std::str::from_utf8(text).ok().map(Secret::new)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault")
    }
}

fn key_of(text: &str) -> Option<[u8; KEY]> {
    let hex = || -> Option<Vec<u8>> {
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
    // No text of 64 digits is 32 bytes in base64, so none can be meant both ways.
    let ways = [
        hex(),
        STANDARD.decode(text).ok(),
        STANDARD_NO_PAD.decode(text).ok(),
        URL_SAFE_NO_PAD.decode(text).ok(),
    ];
    ways.into_iter()
        .flatten()
        .find_map(|bytes| <[u8; KEY]>::try_from(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(byte: u8) -> Vault {
        Vault::new(&Secret::new(STANDARD.encode([byte; KEY]))).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_with_its_key_and_its_name_alone() {
        let sealed = vault(1).seal("T1", "xoxb-secret").unwrap();
        assert!(!sealed.contains("xoxb"));
        assert_eq!(
            vault(1).open("T1", &sealed).unwrap().expose(),
            "xoxb-secret"
        );
        assert_ne!(sealed, vault(1).seal("T1", "xoxb-secret").unwrap());
        let closed = |name: &str| {
            Err(VaultError::Closed {
                name: name.to_owned(),
            })
        };
        assert_eq!(vault(1).open("T2", &sealed), closed("T2"));
        assert_eq!(vault(2).open("T1", &sealed), closed("T1"));
        let why = vault(2).open("T1", &sealed).unwrap_err().to_string();
        assert!(why.contains("`T1`") && why.contains("key file"), "{why}");
    }

    #[test]
    fn not_one_letter_may_be_changed() {
        let vault = vault(1);
        let sealed = vault.seal("T1", "xoxb-secret").unwrap();
        for at in 0..sealed.len() {
            let mut letters = sealed.clone().into_bytes();
            letters[at] = if letters[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(letters).unwrap();
            assert!(vault.open("T1", &changed).is_err(), "{at}");
        }
        for broken in ["", "v1.", "v1.AAAA", &sealed[3..], &sealed[..20]] {
            assert!(vault.open("T1", broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_key_is_32_bytes_in_base64_or_hex() {
        let sealed = vault(0xfb).seal("T1", "x").unwrap();
        let key = [0xfb; KEY];
        let hex = "fb".repeat(KEY);
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
                VaultError::BadKey
            );
        }
    }
}
