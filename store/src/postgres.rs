//! PostgreSQL: any number of nodes.
