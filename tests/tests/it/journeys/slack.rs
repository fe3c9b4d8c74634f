//! Slack end to end: both zones as the real binary, with HTTPS and tokens between them, an agent, and the playground in
//! Slack's place, which injects faults. One test uses a third-party Slack emulator, so that the playground is not the
//! only reference.

mod fixture;

mod answers;
mod crashes;
mod emulator;
mod faults;
mod nodes;
mod rejections;
mod token_rotation;
