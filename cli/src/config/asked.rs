//! Which keys the readers of the configuration ask for, and as what: so that the reference of all keys is
//! made of the code that reads them. It is there in tests alone, and decides nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// A table whose names are the operator's own.
pub(crate) const NAMED_STRINGS: &str = "names with a string each";

thread_local! {
    static ASKED: RefCell<BTreeMap<String, &'static str>> = const { RefCell::new(BTreeMap::new()) };
}

/// A key was asked for, and this is what it has to be. What was said of it first is more exact.
pub(super) fn note(key: String, expected: &'static str) {
    ASKED.with_borrow_mut(|asked| {
        asked.entry(key).or_insert(expected);
    });
}

/// All keys that this thread has asked for since the last time, with what each has to be.
pub(crate) fn taken() -> BTreeMap<String, &'static str> {
    ASKED.take()
}
