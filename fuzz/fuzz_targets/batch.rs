//! Any lines as the items of a batch.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| interzone_fuzz::check_batch(bytes));
