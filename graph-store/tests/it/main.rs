//! The storage as its users see it.

mod sqlite;
