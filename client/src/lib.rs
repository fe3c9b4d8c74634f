//! The SDK: typed calls to agents over exchangeable transports.
//!
//! It knows how to reach a zone safely and how to speak its dialects; nothing of how a zone works
//! inside may enter.
