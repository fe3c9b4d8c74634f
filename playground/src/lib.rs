//! A Slack workspace on your own machine.
//!
//! The part of Slack's API that the Verification Zone uses, signed events, and a chat page. It reaches the
//! zone by HTTP alone, as Slack does: no type of a zone may enter here.
