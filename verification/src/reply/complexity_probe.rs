//! Counter of scanned bytes, for tests that check linear running time.

thread_local! {
    static BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts a scan of this many bytes, plus one for the scan itself.
pub(super) fn count_scan(bytes: usize) {
    BYTES.set(BYTES.get() + bytes + 1);
}

/// Returns the number of bytes scanned by `work`.
pub(super) fn count_scanned_bytes<T>(work: impl FnOnce() -> T) -> usize {
    BYTES.set(0);
    work();
    BYTES.get()
}
