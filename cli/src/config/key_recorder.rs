//! Records the keys of all options structs and their types, from which tests generate the reference of all keys.

#[cfg(test)]
use std::cell::RefCell;
#[cfg(test)]
use std::collections::BTreeMap;

/// Type of a table with arbitrary names.
pub(crate) const STRING_MAP: &str = "a table of strings";
/// Type of a key that no table contained.
pub(crate) const UNKNOWN: &str = "";

#[cfg(test)]
thread_local! {
    static RECORDED_KEYS: RefCell<BTreeMap<String, String>> = const { RefCell::new(BTreeMap::new()) };
}

/// Does nothing outside tests.
#[cfg(not(test))]
pub(super) fn record(_: &str, _: &str) {}

/// Records a key and its type. The first known type wins, as it is the most specific.
#[cfg(test)]
pub(super) fn record(key: &str, expected: &str) {
    RECORDED_KEYS.with_borrow_mut(|recorded| {
        let kind = recorded.entry(key.to_owned()).or_default();
        if kind.is_empty() {
            expected.clone_into(kind);
        }
    });
}

/// Returns the keys that this thread has recorded since the last call, with their types.
#[cfg(test)]
pub(crate) fn take() -> BTreeMap<String, String> {
    RECORDED_KEYS.take()
}
