//! The end-to-end tests: one binary, real parts.

#[cfg(test)] // so that the lints know these files for tests
mod console;
#[cfg(test)]
mod hub;
#[cfg(test)]
mod journeys;
#[cfg(test)]
mod playground;
#[cfg(test)]
mod transports;
#[cfg(test)]
mod verification;
#[cfg(test)]
mod workers;
#[cfg(test)]
mod zone;
#[cfg(test)]
mod zone_contract;
