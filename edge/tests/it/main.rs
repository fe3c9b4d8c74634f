//! The edge from outside: real sockets, real TLS, real clients. Nothing here looks inside; what needs
//! to is tested beside the code.

#[cfg(test)]
mod admission;
mod connections;
#[cfg(test)]
mod floods;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod handshakes;
#[cfg(test)]
mod heads;
#[cfg(test)]
mod house;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod stalls;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod trust;
