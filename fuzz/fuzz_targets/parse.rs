//! Fuzzes single documents.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| interzone_fuzz::check_document(bytes));
