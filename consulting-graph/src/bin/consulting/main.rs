//! The consulting pipeline on the command line.

fn main() {}
