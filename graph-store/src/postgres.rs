//! Threads on a PostgreSQL server, shared by several machines.
