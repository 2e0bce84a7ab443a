//! Code that must compile without warnings. `tests/ui` contains code that must not compile.
//!
//! trybuild can test both, but then it builds each file separately, which takes minutes.

mod signatures;
mod states;
