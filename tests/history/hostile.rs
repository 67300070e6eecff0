//! Many readers of a long history.
