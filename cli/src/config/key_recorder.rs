//! Records the keys that the configuration readers read, and their types, so that the reference of all keys
//! is generated from the code. Only compiled in tests.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// Type of a table with arbitrary names.
pub(crate) const STRING_MAP: &str = "a table of strings";

thread_local! {
    static RECORDED_KEYS: RefCell<BTreeMap<String, &'static str>> = const { RefCell::new(BTreeMap::new()) };
}

/// Records a key and its expected type. The first record of a key wins, as it is the most specific.
pub(super) fn record(key: String, expected: &'static str) {
    RECORDED_KEYS.with_borrow_mut(|recorded| {
        recorded.entry(key).or_insert(expected);
    });
}

/// Returns the keys that this thread has recorded since the last call, with their types.
pub(crate) fn take_recorded() -> BTreeMap<String, &'static str> {
    RECORDED_KEYS.take()
}
