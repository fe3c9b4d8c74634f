//! SQLite: one file on one machine.
