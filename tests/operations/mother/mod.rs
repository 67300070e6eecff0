//! Mothers' profiles.

mod update_profile;
