//! Tests of the codecs with sample requests and with recorded HTTP interactions.

mod cassettes;
mod encode;
mod fuzz;
mod logprobs;
mod malformed_calls;
mod sample_requests;
