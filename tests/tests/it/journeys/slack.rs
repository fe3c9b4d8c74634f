//! People in Slack, the two zones, and an agent: the real binary twice, real HTTPS and real tokens between
//! them, and the playground in Slack's place, which breaks where it is told to; and once an emulator that
//! others wrote, so that the playground is not the only judge.

mod place;

mod asking;
mod emulator;
mod faults;
mod kills;
mod nodes;
mod refusals;
mod rotation;
