//! Tests of the playground over loopback: API, events, sockets, faults and page.

#[cfg(test)]
mod api;
#[cfg(test)]
mod events;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod files;
#[cfg(test)]
mod install;
#[cfg(test)]
mod page;
#[cfg(test)]
mod sockets;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod support;
