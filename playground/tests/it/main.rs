//! The playground from outside: its API, its events, its sockets, its faults and its page, over loopback.

#[cfg(test)]
mod api;
#[cfg(test)]
mod events;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod files;
#[cfg(test)]
mod house;
#[cfg(test)]
mod install;
#[cfg(test)]
mod page;
#[cfg(test)]
mod sockets;
#[cfg(test)]
mod streams;
