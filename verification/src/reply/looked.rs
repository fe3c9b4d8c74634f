//! How much of a text is looked at, counted for the tests that hold it to a few times its length. Beside
//! tests nothing is counted, and nothing depends on it.

#[cfg(test)]
thread_local! {
    static BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts so many bytes, and the look itself.
pub(super) fn looked(bytes: usize) {
    #[cfg(test)]
    BYTES.set(BYTES.get() + bytes + 1);
    #[cfg(not(test))]
    let _ = bytes;
}

/// How many bytes some work looks at.
#[cfg(test)]
pub(super) fn looks_of<T>(work: impl FnOnce() -> T) -> usize {
    BYTES.set(0);
    work();
    BYTES.get()
}
