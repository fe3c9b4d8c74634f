//! Fuzzes batches: each line is an item.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| interzone_fuzz::check_batch(bytes));
