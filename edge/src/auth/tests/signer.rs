//! Test tokens, valid and forged, signed without the library that verifies them.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

pub(super) enum TestSigner {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl TestSigner {
    pub(super) fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    pub(super) fn ec() -> Self {
        Self::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    pub(super) fn ed() -> Self {
        Self::Ed(Ed25519KeyPair::generate().unwrap())
    }

    pub(super) fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::Ec(_) => "ES256",
            Self::Ed(_) => "EdDSA",
        }
    }

    pub(super) fn jwk(&self, kid: &str) -> Value {
        match self {
            Self::Rsa(pair) => {
                let key = pair.public_key();
                let n = encode(key.modulus().big_endian_without_leading_zero());
                let e = encode(key.exponent().big_endian_without_leading_zero());
                json!({"kty": "RSA", "kid": kid, "n": n, "e": e})
            }
            Self::Ec(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": encode(x), "y": encode(y)})
            }
            Self::Ed(pair) => {
                let x = encode(pair.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x})
            }
        }
    }

    /// Signs a token with the usual header.
    pub(super) fn token(&self, kid: &str, claims: &Value) -> String {
        let header = json!({"alg": self.algorithm(), "typ": "at+jwt", "kid": kid});
        self.sign(&header.to_string(), &claims.to_string())
    }

    /// Signs a token with exactly this header and these claims.
    pub(super) fn sign(&self, header: &str, claims: &str) -> String {
        let message = format!(
            "{}.{}",
            encode(header.as_bytes()),
            encode(claims.as_bytes())
        );
        let signature = match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let random = SystemRandom::new();
                pair.sign(
                    &RSA_PKCS1_SHA256,
                    &random,
                    message.as_bytes(),
                    &mut signature,
                )
                .unwrap();
                signature
            }
            Self::Ec(pair) => {
                let signature = pair.sign(&SystemRandom::new(), message.as_bytes());
                signature.unwrap().as_ref().to_vec()
            }
            Self::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", encode(&signature))
    }
}

pub(super) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
